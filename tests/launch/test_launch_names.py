"""Parameters may have any name: also those of the functions that read calls, and of builtins."""

import numpy as np
import pytest

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import B, N

LENGTH = 32


@tw.kernel
def builtin(z: Mut[f32, B], len: Ref[f32, N], id: Ref[f32, N]) -> None:
    z.store(len.load_like(z) + id.load_like(z))


@tw.kernel
def of_reading(z: Mut[f32, B], _was: Ref[f32, N], _guard: Ref[f32, N]) -> None:
    z.store(_was.load_like(z) + _guard.load_like(z))


@tw.kernel
def of_handles(z: Mut[f32, B], x: Ref[f32, N], _of_x: Ref[f32, N]) -> None:
    z.store(x.load_like(z) + _of_x.load_like(z))


@tw.function
def function(tuple: tuple[tw.Tensor, tw.Tensor], len: tw.Tensor) -> tw.DeviceOp[tw.Tensor]:
    return builtin(len.partition(LENGTH), *tuple).giving(len)


def drawn(count, make):
    values = np.random.default_rng(3).standard_normal((count, LENGTH), "f4")
    return values, [make(row) for row in values]


def as_torch(row):
    return pytest.importorskip("torch", reason="needs torch").from_numpy(row.copy())


KERNELS = {"builtins": builtin, "of reading": of_reading, "of handles": of_handles}
ARRAYS = {"ours": tw.from_numpy, "numpy": np.copy, "torch": as_torch}


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("kind", ARRAYS)
def test_a_kernel(name, kind):
    """Called with the same arrays, and with new ones."""
    kernel = KERNELS[name]
    values, (*arrays, z) = drawn(5, ARRAYS[kind])
    for first, second in ((0, 1), (0, 1), (0, 1), (2, 3), (1, 3)):
        kernel(tw.partition(z, LENGTH), arrays[first], arrays[second]).sync()
        found = z if isinstance(z, np.ndarray) else z.numpy()
        np.testing.assert_array_equal(found, values[first] + values[second])


def test_a_function():
    values, (*arrays, z) = drawn(5, tw.from_numpy)
    for first, second in ((0, 1), (0, 1), (0, 1), (2, 3), (1, 3)):
        function((arrays[first], arrays[second]), z).sync()
        np.testing.assert_array_equal(z.numpy(), values[first] + values[second])
