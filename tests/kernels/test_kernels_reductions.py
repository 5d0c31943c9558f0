"""Reductions, running sums, argmax and top-k beside NumPy."""

import numpy as np
import pytest
from library_cases import FLOATS, check, name_of, normal

import tilewright as tw
from tilewright import f32, i32, kernels
from tilewright.kernels.reference import memory_bound as reference
from tilewright.kernels.rows import reductions

# Of one axis, along each of three, in one step and in two (several spans, several blocks).
CASES = (((7,), 0), ((3, 5, 11), 0), ((3, 5, 11), 1), ((3, 5, 11), -1), ((2, 70001), None))
KINDS = ("sum", "mean", "max", "min")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("shape", "axis"), CASES)
def test_every_kind(kind, shape, axis):
    x = normal(shape, np.float32, shift=1)
    found = getattr(kernels, kind)(tw.from_numpy(x), axis).sync()
    check(found, reference.reduce(kind, x, axis), np.float32, terms=16)


@pytest.mark.parametrize("dtype", [*FLOATS, np.int8, np.uint32, np.int64], ids=name_of)
@pytest.mark.parametrize("kind", ["sum", "max"])
def test_every_dtype(kind, dtype):
    x = normal((5, 300, 3), np.float64, scale=9, shift=20).astype(dtype)
    for axis in (1, -1):
        found = getattr(kernels, kind)(tw.from_numpy(x), axis, keepdims=True).sync()
        expected = reference.reduce(kind, x, axis, keepdims=True)
        if dtype in FLOATS:
            check(found, expected, dtype, terms=16)
        else:
            np.testing.assert_array_equal(found.numpy(), expected)
            assert found.numpy().dtype == expected.dtype


@pytest.mark.parametrize("dtype", [np.int8, np.uint32], ids=name_of)
def test_integers_at_the_edge_of_a_tile(dtype):
    """What lies behind the edge is neither the highest nor the lowest."""
    x = np.full((3, 7), 100, dtype)
    for kind in ("max", "min"):
        assert getattr(kernels, kind)(tw.from_numpy(x), 1).sync().numpy().tolist() == [100] * 3
        assert getattr(kernels, kind)(tw.from_numpy(x), 0).sync().numpy().tolist() == [100] * 7


@pytest.mark.parametrize("kind", KINDS)
def test_everything_row_by_row(kind, monkeypatch):
    """Where elements are too many for one row, or do not lie in one."""
    x = normal((6, 40), np.float32, shift=1)
    columns = getattr(kernels, kind)(tw.from_numpy(x)[:, 3:30]).sync()
    check(columns, reference.reduce(kind, x[:, 3:30]), np.float32, terms=16)
    monkeypatch.setattr(reductions, "LONGEST", 100)
    found = getattr(kernels, kind)(tw.from_numpy(x), keepdims=True).sync()
    check(found, reference.reduce(kind, x, keepdims=True), np.float32, terms=16)


def test_a_nan_wins():
    x = normal((3, 40), np.float32)
    x[1, 7] = np.nan
    for kind in ("max", "min"):
        found = getattr(kernels, kind)(tw.from_numpy(x), 1).sync().numpy()
        np.testing.assert_array_equal(found, getattr(x, kind)(axis=1))


def test_empty():
    x = tw.zeros((0, 3), f32)
    assert kernels.sum(x, 0).sync().numpy().tolist() == [0.0] * 3
    assert np.isnan(kernels.mean(x, 0).sync().numpy()).all()
    assert kernels.max(x, 1).sync().shape == (0,)
    assert kernels.sum(x).sync().numpy() == 0
    with pytest.raises(tw.LaunchError, match="max along an empty axis: there is no max"):
        kernels.max(x, 0)
    assert kernels.cumsum(x).sync().shape == (0, 3)


def test_sums_of_narrow_floats_are_wide():
    x = np.full((3, 5000), 0.1, np.float16)
    check(kernels.sum(tw.from_numpy(x), 1).sync(), reference.reduce("sum", x, 1), np.float16)


@pytest.mark.parametrize(
    ("shape", "axis"),
    [((7,), 0), ((3, 5, 11), 0), ((3, 50, 2), 1), ((3, 50, 21), -1), ((1, 20001), 1)],
)
def test_cumsum(shape, axis):
    x = normal(shape, np.float32)
    found = kernels.cumsum(tw.from_numpy(x), axis).sync()
    check(found, reference.cumsum(x, axis), np.float32, terms=32, scale=np.sqrt(x.size))


@pytest.mark.parametrize("dtype", [*FLOATS, np.int8, np.uint16], ids=name_of)
def test_cumsum_of_every_dtype(dtype):
    x = normal((3, 100), np.float64, scale=3, shift=5).astype(dtype)
    found, expected = kernels.cumsum(tw.from_numpy(x)).sync(), reference.cumsum(x)
    if dtype in FLOATS:
        check(found, expected, dtype, terms=16)
    else:
        np.testing.assert_array_equal(found.numpy(), expected)


@pytest.mark.parametrize("dtype", FLOATS[:3], ids=name_of)
@pytest.mark.parametrize("shape", [(3, 1), (2, 3, 57), (1, 30011)])
def test_argmax_and_top_k(shape, dtype):
    x = np.round(normal(shape, np.float64, scale=20)).astype(dtype)  # with equals
    x[..., 0] = -np.inf
    if shape[-1] == 57:
        x[0, 1, 40], x[0, 2] = np.nan, -np.inf
    found = kernels.argmax(tw.from_numpy(x)).sync().numpy()
    np.testing.assert_array_equal(found, reference.argmax(x))
    for k in (1, 5):
        if k > shape[-1]:
            continue
        values, places = kernels.top_k(tw.from_numpy(x), k).sync()
        expected_values, expected_places = reference.top_k(x, k)
        np.testing.assert_array_equal(places.numpy(), expected_places)
        found = values.numpy().astype(np.float64)  # of bf16 NumPy does not know that NaNs are equal
        np.testing.assert_array_equal(found, expected_values.astype(np.float64))


def test_all_of_a_row_in_order():
    x = normal((2, 200), np.float32)
    values, _ = kernels.top_k(tw.from_numpy(x), 200).sync()
    np.testing.assert_array_equal(values.numpy(), -np.sort(-x, axis=-1))


def _x():
    return tw.zeros((4, 8), f32)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: kernels.sum(_x(), 2), r"sum along axis 2, and a tensor of shape \(4, 8\) has 2"),
        (lambda: kernels.mean(tw.zeros(3, i32)), "`x` of mean is one of f16, bf16, f32, f64, not"),
        (lambda: kernels.argmax(tw.zeros((3, 0), f32)), "argmax along an empty axis"),
        (lambda: kernels.top_k(_x(), 9), "1 to 256 elements, at most the 8 that there are, not 9"),
        (lambda: kernels.top_k(_x(), 0), "not 0"),
        (lambda: kernels.cumsum(_x(), -3), "cumsum along axis -3"),
        (lambda: kernels.sum(_x(), 0, out=tw.zeros(4, f32)), r"`out` of sum has shape \(4,\)"),
    ],
)
def test_refused(call, message):
    with pytest.raises(tw.LaunchError, match=message):
        call()


class TestManySmallMatrices:
    """Along their columns, where a tile has room for many of them."""

    @pytest.mark.parametrize(
        ("name", "dtype"),
        [(name, dtype) for name in KINDS for dtype in (np.float32, np.float16)]
        + [(name, np.int8) for name in KINDS if name != "mean"],
    )
    def test_reduced(self, name, dtype):
        x = (np.random.default_rng(0).integers(-9, 9, (300, 5, 3)) + 20).astype(dtype)
        found = getattr(kernels, name)(tw.from_numpy(x), 1).sync().numpy()
        np.testing.assert_allclose(found, reference.reduce(name, x, 1), rtol=1e-3)

    def test_into_rows_that_lie_apart(self):
        x = normal((300, 5, 3), np.float32)
        out = tw.zeros((300, 4), tw.f32)
        kernels.max(tw.from_numpy(x), 1, out=out[:, :3]).sync()
        np.testing.assert_array_equal(out.numpy()[:, :3], x.max(axis=1))
        assert not out.numpy()[:, 3].any()

    def test_running_sums(self):
        x = normal((300, 70, 3), np.float32)
        found = kernels.cumsum(tw.from_numpy(x), 1).sync()
        check(found, reference.cumsum(x, 1), np.float32, terms=70)

    def test_transposed(self):
        x = normal((300, 5, 3), np.float32)
        np.testing.assert_array_equal(
            kernels.transpose(tw.from_numpy(x)).sync().numpy(), x.swapaxes(1, 2)
        )
