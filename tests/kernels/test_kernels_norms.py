"""Norms and their gradients beside float64."""

import numpy as np
import pytest
from library_cases import ROWS_AND_DTYPES, check, normal

import tilewright as tw
from tilewright import f16, f32, kernels
from tilewright.kernels.reference import memory_bound as reference


def arrays(shape, dtype):
    """Rows away from zero, others beside them, weights and biases."""
    x, y = normal(shape, dtype, scale=2, shift=3), normal(shape, dtype, seed=1)
    weight, bias = normal((2, shape[-1]), dtype, seed=2)
    return x, y, weight, bias


@pytest.mark.parametrize(("shape", "dtype"), ROWS_AND_DTYPES)
def test_rms_norm(shape, dtype):
    x, _, weight, _ = arrays(shape, dtype)
    found = kernels.rms_norm(tw.from_numpy(x), tw.from_numpy(weight), eps=1e-3).sync()
    check(found, reference.rms_norm(x, weight, 1e-3), dtype, terms=4)


@pytest.mark.parametrize(("shape", "dtype"), ROWS_AND_DTYPES)
def test_layer_norm(shape, dtype):
    given = x, _, weight, bias = arrays(shape, dtype)
    x, _, w, b = map(tw.from_numpy, given)
    found = kernels.layer_norm(x, w, b, eps=1e-3).sync()
    check(found, reference.layer_norm(given[0], weight, bias, 1e-3), dtype, terms=32)


@pytest.mark.parametrize(("shape", "dtype"), [*ROWS_AND_DTYPES[:3], *ROWS_AND_DTYPES[5:]])
def test_add_rms_norm(shape, dtype):
    x, y, weight, _ = arrays(shape, dtype)
    found, total = kernels.add_rms_norm(*map(tw.from_numpy, (x, y, weight))).sync()
    expected, expected_total = reference.add_rms_norm(x, y, weight)
    np.testing.assert_array_equal(total.numpy(), expected_total)
    check(found, expected, dtype, terms=4)


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((1100, 33), np.float32), ((0, 8), np.float32), *ROWS_AND_DTYPES[5:]],
)
def test_gradients(shape, dtype):
    x, dz, weight, _ = arrays(shape, dtype)
    given = [tw.from_numpy(array) for array in (dz, x, weight)]
    found = kernels.rms_norm_gradient(*given, eps=1e-3).sync()
    for one, expected in zip(found, reference.rms_norm_gradient(dz, x, weight, 1e-3), strict=True):
        check(one, expected, dtype, terms=64)
    found = kernels.layer_norm_gradient(*given, eps=1e-3).sync()
    wanted = reference.layer_norm_gradient(dz, x, weight, 1e-3)
    for one, expected in zip(found, wanted, strict=True):
        check(one, expected, dtype, terms=64)


def test_the_variance_of_rows_far_from_zero():
    """Differences from the mean are squared, not the elements themselves."""
    for columns in (1000, 9001):
        x = normal((2, columns), np.float32, shift=1000)
        one, zero = np.ones(columns, np.float32), np.zeros(columns, np.float32)
        found = kernels.layer_norm(*map(tw.from_numpy, (x, one, zero))).sync()
        np.testing.assert_allclose(found.numpy(), reference.layer_norm(x, one, zero), atol=5e-4)


def test_outputs_of_ones_own():
    x, y, weight, _ = arrays((4, 40), np.float32)
    out = tw.zeros((4, 40), f32), tw.zeros((4, 40), f32)
    found = kernels.add_rms_norm(*map(tw.from_numpy, (x, y, weight)), out=out).sync()
    assert found == out
    np.testing.assert_array_equal(out[1].numpy(), x + y)


def _x():
    return tw.zeros((4, 8), f32)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: kernels.rms_norm(_x(), tw.zeros(7, f32)),
            r"`weight` of rms_norm has shape \(7,\), .*ask for \(8,\)",
        ),
        (
            lambda: kernels.rms_norm(_x(), tw.zeros(8, f16)),
            r"`weight` of rms_norm is one of f32, not f16: convert, `weight.astype\(f32\)`",
        ),
        (lambda: kernels.rms_norm(_x(), tw.zeros(8, f32), eps=-1), "-1 is below 0"),
        (lambda: kernels.rms_norm(_x(), tw.zeros(8, f32), eps=float("nan")), "nan is below 0"),
        (
            lambda: kernels.layer_norm(_x(), tw.zeros(8, f32), tw.zeros(8, f32, device="cpu:1")),
            "`bias` of layer_norm lives on cpu:1 and `x` on cpu",
        ),
        (
            lambda: kernels.add_rms_norm(_x(), tw.zeros((4, 9), f32), tw.zeros(8, f32)),
            r"`y` of add_rms_norm has shape \(4, 9\)",
        ),
        (
            lambda: kernels.layer_norm_gradient(tw.zeros((3, 8), f32), _x(), tw.zeros(8, f32)),
            r"`dz` of layer_norm_gradient has shape \(3, 8\)",
        ),
    ],
)
def test_refused(call, message):
    with pytest.raises(tw.LaunchError, match=message):
        call()
