"""Quantisation against float64, also of zeros, infinities, NaN and extremes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright as tw
from tilewright import bf16, f8e4m3fn, f8e5m2, f32, i32
from tilewright.kernels import quantise, scaled_matmul
from tilewright.kernels.reference import products as reference

KINDS = ("tensor", "row", "part", "block")
GREATEST = {f8e4m3fn: 448.0, f8e5m2: 57344.0}
ROUNDING = {f8e4m3fn: (2.0**-4, 2.0**-10), f8e5m2: (2.0**-3, 2.0**-17)}  # relative, absolute


def check(x, kind, dtype=f8e4m3fn, **options):
    q, scales = quantise(tw.from_numpy(x), kind, dtype=dtype, **options).sync()
    wanted, of = reference.quantise(x, kind, greatest=GREATEST[dtype])
    assert (q.dtype, q.shape, scales.dtype) == (dtype, x.shape, f32)
    assert np.allclose(scales.numpy().reshape(of.shape), of, rtol=1e-6, atol=0)
    found = q.numpy().astype(np.float64)
    relative, absolute = ROUNDING[dtype]
    assert (np.isnan(found) == np.isnan(wanted)).all()
    off = abs(found - wanted)[~np.isnan(wanted)]
    assert (off <= (relative * abs(wanted) + absolute)[~np.isnan(wanted)]).all()
    return q, scales


@settings(max_examples=15, deadline=None)
@given(
    st.tuples(st.integers(1, 300), st.integers(1, 400)), st.sampled_from(KINDS),
    st.sampled_from([*GREATEST]), st.integers(0, 99),
)  # fmt: skip
def test_any_shape(shape, kind, dtype, seed):
    random = np.random.default_rng(seed)
    sizes = np.exp2(random.uniform(-120, 120, (shape[0], 1)))
    check((random.standard_normal(shape) * sizes).astype(np.float32), kind, dtype)


@pytest.mark.parametrize("kind", KINDS)
def test_elements_that_no_scale_fits(kind):
    x = np.ones((5, 300), np.float32)
    x[0] = 0
    x[1, :3] = np.inf, -np.inf, np.nan
    x[2] = np.inf
    x[3] = 2.0**-149
    x[4] = 3e38
    q, scales = check(x, kind)
    assert (q.numpy()[2] == 448).all()
    assert q.numpy()[1, 1] == -448
    assert (scales.numpy() >= 2.0**-126).all()
    assert kind == "tensor" or kind == "block" or scales.numpy()[0, 0] == 1


def test_more_axes_strides_and_outputs():
    x = np.random.default_rng(0).standard_normal((2, 3, 260)).astype(np.float32)
    _, scales = check(x, "row")
    assert scales.shape == (2, 3, 1)
    _, scales = check(x, "part")
    assert scales.shape == (2, 3, 3)
    wide = tw.from_numpy(x.reshape(6, 260)).T  # along the other axis
    q, scales = tw.empty((260, 6), f8e4m3fn), tw.empty((260, 1), f32)
    assert quantise(wide, out=(q, scales)).sync() == (q, scales)
    wanted, _ = quantise(wide.clone()).sync()
    assert (q.numpy() == wanted.numpy()).all()


def test_a_given_scale():
    x = tw.from_numpy(np.array([[1.0, 1000.0, -3.0]], np.float32)).astype(bf16)
    scale = tw.full((1,), 2.0, f32)
    q, same = quantise(x, "tensor", scale=scale).sync()
    assert same is scale
    assert q.numpy().astype(float).tolist() == [[0.5, 448.0, -1.5]]


def test_an_empty_tensor():
    for kind in KINDS:
        q, scales = quantise(tw.zeros((0, 40), f32), kind).sync()
        assert q.shape == (0, 40)
        assert scales.dtype is f32


@pytest.mark.parametrize("kinds", [("tensor", "tensor"), ("row", "row"), ("part", "block")])
def test_products_of_quantised_factors_are_near(kinds):
    random = np.random.default_rng(1)
    x, w = (random.standard_normal(shape).astype(np.float32) for shape in ((30, 500), (200, 500)))
    a, of_a = quantise(tw.from_numpy(x), kinds[0]).sync()
    b, of_b = quantise(tw.from_numpy(w), kinds[1]).sync()
    found = scaled_matmul(a, b, of_a, of_b, transpose_b=True, out_dtype=f32).sync().numpy()
    assert np.linalg.norm(found - x @ w.T) < 0.05 * np.linalg.norm(x @ w.T)


def test_refusals():
    x = tw.ones((4, 200), f32)
    with pytest.raises(tw.LaunchError, match=r"`kind` of quantise is one of 'tensor', .* 'rows'"):
        quantise(x, "rows")
    with pytest.raises(tw.LaunchError, match="`dtype` of quantise is f8e4m3fn or f8e5m2, not i32"):
        quantise(x, dtype=i32)
    with pytest.raises(tw.LaunchError, match='`scale` of quantise is for kind "tensor"'):
        quantise(x, "row", scale=tw.ones(1, f32))
    with pytest.raises(tw.LaunchError, match="`x` of quantise is one of f16, bf16, f32, not i32"):
        quantise(x.astype(i32))
    with pytest.raises(tw.LaunchError, match=r"`scale` of quantise has shape \(2,\)"):
        quantise(x, "tensor", scale=tw.ones(2, f32))
