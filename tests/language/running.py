"""Runs a function of tiles on the CPU device: the same function can be given NumPy arrays.

A kernel is built around the function, which is captured and inlined like any helper, so what is
tested and what it is compared with are one piece of source.
"""

from collections.abc import Callable

import numpy as np

import tilewright as tw
from tilewright import AnyDType, Mut, Ref, i32
from tilewright.dims import B, N

LENGTH = 64  # elements of the arrays below: two pieces


class TX(AnyDType): ...


class TY(AnyDType): ...


class TZ(AnyDType): ...


def numpy_of(dtype: type[tw.DType]) -> np.dtype:
    found = dtype.element.numpy
    return found if dtype.signed or found.kind != "i" else np.dtype(f"u{found.name}")


def run(kernel, out: tuple[tuple[int, ...], type[tw.DType]], tile, *arguments, **constants):
    """Launch a kernel with one output, poisoned before, and give back what it wrote."""
    shape, dtype = out
    z = tw.full(shape, 1 if dtype is tw.bool_ else 77, dtype)
    pieces = z.partition(*((tile,) if isinstance(tile, int) else tile))
    tensors = [tw.from_numpy(a) if isinstance(a, np.ndarray) else a for a in arguments]
    kernel(pieces, *tensors, **constants).sync()
    return z.numpy()


def apply_unary(function: Callable, x: np.ndarray, dtype: type[tw.DType]) -> np.ndarray:
    @tw.kernel
    def unary(z: Mut[TZ, B], x: Ref[TX, N]) -> None:
        z.store(function(x.load_like(z)))

    return run(unary, (x.shape, dtype), 32, x)


def apply_binary(
    function: Callable, x: np.ndarray, y: np.ndarray, dtype: type[tw.DType]
) -> np.ndarray:
    @tw.kernel
    def binary(z: Mut[TZ, B], x: Ref[TX, N], y: Ref[TY, N]) -> None:
        z.store(function(x.load_like(z), y.load_like(z)))

    return run(binary, (x.shape, dtype), 32, x, y)


def floats(dtype: type[tw.DType], seed: int = 0, size: int = LENGTH) -> np.ndarray:
    """Ordinary numbers of both signs."""
    generator = np.random.default_rng(seed)
    return generator.uniform(-4, 4, size).astype(numpy_of(dtype))


def special_floats(dtype: type[tw.DType]) -> np.ndarray:
    """Numbers with all that is special among them, repeated to two pieces."""
    some = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, np.inf, -np.inf, np.nan, 3.75, -7.0, 100.0]
    return np.resize(np.array(some, numpy_of(dtype)), LENGTH)


def integers(seed: int = 0, low: int = -100, high: int = 100) -> np.ndarray:
    return np.random.default_rng(seed).integers(low, high, LENGTH, dtype=np.int32)


def assert_same(got: np.ndarray, wanted: np.ndarray) -> None:
    """Equal element by element; NaN equals NaN, and zeros of both signs are equal."""
    assert got.dtype == wanted.dtype
    got_bits, wanted_bits = (a.astype(np.float64) if a.dtype.kind not in "ib" else a
                             for a in (got, wanted))  # fmt: skip
    np.testing.assert_array_equal(got_bits, wanted_bits)


NUMBERS = (-3, 0, 1, 2, 5, 9, 40)


def agrees(function, numbers=NUMBERS):
    """Assert that a function of one scalar gives the same in a kernel as called by Python."""

    @tw.kernel
    def inlined(z: Mut[i32, B], n: i32) -> None:
        z.store(tw.full((B,), function(n), i32))

    for n in numbers:
        got = run(inlined, ((4,), i32), 4, n)
        assert (got == function(n)).all(), (n, got[0], function(n))
