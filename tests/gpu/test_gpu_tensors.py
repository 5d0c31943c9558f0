"""Tensors that kernels make, copy and convert: on the GPU as on the CPU, to the bit if possible."""

import numpy as np
import pytest
from gpu_kernels import CPU, GPU

import tilewright as tw
from tilewright import bf16, bool_, f8e4m3fn, f8e5m2, f16, f32, f64, i8, i32, i64, u8, u16, u64
from tilewright.dtypes import numpy_dtype

pytestmark = pytest.mark.gpu

FLOATS = [f16, bf16, f32, f64]
NUMBERS = [i8, i32, i64, u8, u16, u64, f8e4m3fn, f8e5m2, *FLOATS]
LENGTH = 100_003

EXACT = {
    "arange": lambda device: tw.arange(LENGTH, device=device),
    "arange f16": lambda device: tw.arange(2049, f16, device=device),
    "eye": lambda device: tw.eye(300, 211, bool_, device=device),
    **{
        f"rand {dtype.label}": lambda device, dtype=dtype: tw.rand(
            (7, LENGTH // 7), dtype, seed=-3, offset=2**64 - 1000, device=device
        )
        for dtype in FLOATS
    },
}


@pytest.mark.parametrize("make", EXACT.values(), ids=EXACT)
def test_the_same_on_every_device(make):
    np.testing.assert_array_equal(make(GPU).numpy(), make(CPU).numpy())


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda dtype: dtype.label)
def test_nearly_the_same(dtype):
    eps = {f16: 2e-3, bf16: 1e-2, f32: 1e-5, f64: 1e-12}[dtype]
    for make in (
        lambda device: tw.randn(LENGTH, dtype, seed=4, device=device),
        lambda device: tw.linspace(-3, 8, LENGTH, dtype, device=device),
    ):
        got, wanted = (make(device).numpy().astype(np.float64) for device in (GPU, CPU))
        np.testing.assert_allclose(got, wanted, rtol=eps, atol=eps)


@pytest.mark.parametrize("source", NUMBERS, ids=lambda dtype: dtype.label)
def test_conversions(source):
    values = np.arange(3 * 64 * 5).reshape(3, 64, 5) % 100
    x = tw.from_numpy(values.astype(numpy_dtype(source)), device=GPU)
    y = tw.from_numpy(values.astype(numpy_dtype(source)), device=CPU)
    for dtype in (bool_, *NUMBERS):
        np.testing.assert_array_equal(x.astype(dtype).numpy(), y.astype(dtype).numpy())
    np.testing.assert_array_equal(x.T[:, ::3].astype(f32).numpy(), y.T[:, ::3].astype(f32).numpy())


@pytest.mark.parametrize("dtype", [u8, f16, i32, f64], ids=lambda dtype: dtype.label)
@pytest.mark.parametrize("rank", [1, 2, 3, 4, 5, 6])
def test_copies_and_fills(rank, dtype):
    shape = (6, 10, 4, 8, 6, 34)[-rank:]
    values = (np.arange(np.prod(shape)) % 251).reshape(shape).astype(numpy_dtype(dtype))
    x = tw.from_numpy(values, device=GPU)
    odd = (slice(1, None, 2),) * rank
    np.testing.assert_array_equal(x.T.clone().numpy(), values.T)
    np.testing.assert_array_equal(x[odd].clone().numpy(), values[odd])
    tw.copy(x[odd], x[(slice(None, None, 2),) * rank]).submit()
    values[odd] = values[(slice(None, None, 2),) * rank]
    tw.fill(x[..., :3], 7).submit()
    values[..., :3] = 7
    np.testing.assert_array_equal(x.numpy(), values)


def test_large_transposes():
    values = np.random.default_rng(0).normal(size=(3001, 2003)).astype(np.float32)
    x = tw.from_numpy(values, device=GPU)
    np.testing.assert_array_equal(x.T.clone().numpy(), values.T)
    np.testing.assert_array_equal(x[:, 5:].T.astype(f64).numpy(), values[:, 5:].T)
