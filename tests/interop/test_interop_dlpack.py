"""DLPack in both directions on the CPU: capsules of every version, holds, and who ends them."""

from __future__ import annotations

import ctypes
import gc
import re
import threading

import ml_dtypes
import numpy as np
import pytest
from interop_kernels import add, copy, numbers

import tilewright as tw
from tilewright import bf16, f32
from tilewright.dtypes import numpy_dtype
from tilewright.runtime.interop.dlpack import DLPACK_DTYPES, describe_capsule, look_into


def refuse(text: str, error: type[Exception] = tw.LaunchError):
    return pytest.raises(error, match=re.escape(text))


class Exporter:
    """An array that speaks DLPack and nothing else."""

    def __init__(self, array: np.ndarray, *, versioned: bool = True, place=(1, 0)) -> None:
        self.array = array
        self.versioned = versioned
        self.place = place

    def __dlpack_device__(self):
        return self.place

    def __dlpack__(self, *, stream=None, **options):
        assert stream is None
        if self.versioned:
            return self.array.__dlpack__(**options)
        if options:
            raise TypeError("unexpected keyword")
        return self.array.__dlpack__()


# --- import ---------------------------------------------------------------------------------------


def test_a_versioned_capsule_can_be_written():
    array = np.zeros(32, np.float32)
    copy(tw.partition(Exporter(array), 16), tw.ones((32,), f32)).sync()
    assert array.sum() == 32


def test_a_capsule_that_cannot_say_is_taken_as_read_only():
    array = numbers(32)
    assert (tw.from_dlpack(Exporter(array, versioned=False)).numpy() == array).all()
    with refuse("is read-only: pass it to a Ref", tw.BorrowError):
        copy(tw.partition(Exporter(array, versioned=False), 16), tw.ones((32,), f32))


def test_the_read_only_flag_is_kept():
    array = numbers(32)
    array.setflags(write=False)
    with refuse("is read-only: pass it to a Ref", tw.BorrowError):
        copy(tw.partition(Exporter(array), 16), tw.ones((32,), f32))


def test_strides_and_offsets():
    array = numbers(24 * 40).reshape(24, 40)
    for view in (array.T, array[3:19, 5:16], array[::2, ::3]):
        assert (tw.from_dlpack(Exporter(view)).numpy() == view).all()
    with refuse("runs backwards"):
        tw.from_dlpack(Exporter(array[::-1]))


def test_exporters_that_cannot():
    with refuse("lives on a device of DLPack's kind 7"):
        tw.from_dlpack(Exporter(numbers(4), place=(7, 0)))
    with refuse("holds elements for which there is no dtype (DLPack's code 5, 128 bits"):
        tw.from_dlpack(Exporter(np.zeros(4, np.complex128)))

    class Broken(Exporter):
        def __dlpack__(self, **_):
            raise BufferError("not today")

    with refuse("did not export its array: not today"):
        tw.from_dlpack(Broken(numbers(4)))

    class Wrong(Exporter):
        def __dlpack__(self, **_):
            return "no capsule"

    with refuse("was exported as something that cannot be read here: a capsule of DLPack"):
        tw.from_dlpack(Wrong(numbers(4)))


def test_what_stands_for_an_array_lies_nowhere():
    class Nowhere(Exporter):
        def __dlpack_device__(self):
            raise AttributeError("it has no place")

    with refuse("does not say where its array lies (it has no place): pass an array that has cont"):
        tw.from_dlpack(Nowhere(numbers(4)))
    jax = pytest.importorskip("jax", reason="needs JAX")
    with refuse("jax does not say where its array lies"):
        jax.jit(lambda x: tw.from_dlpack(x).numpy())(numbers(4))
    deleted = jax.numpy.ones(4)
    deleted.delete()
    with refuse("jax does not say where its array lies"):
        tw.from_dlpack(deleted)


def test_a_version_from_the_future_is_not_read():
    capsule = numbers(4).__dlpack__(max_version=(1, 0))
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    major = ctypes.c_uint32.from_address(get(capsule, b"dltensor_versioned"))
    assert look_into(capsule) is not None
    major.value = 2
    assert look_into(capsule) is None
    major.value = 1


def test_the_array_lives_as_long_as_the_tensor():
    array = np.zeros(8, np.float32)
    tensor = tw.from_dlpack(Exporter(array))
    dropped = threading.Event()

    class Base:
        def __init__(self) -> None:
            self.__array_interface__ = array.__array_interface__

        def __del__(self) -> None:
            dropped.set()

    tensor = tw.from_dlpack(Exporter(np.asarray(Base())))
    gc.collect()
    assert not dropped.is_set()
    tensor.numpy()
    del tensor
    gc.collect()
    tw.synchronize()
    assert dropped.is_set()


def test_jax_arrays_are_read():
    jax = pytest.importorskip("jax", reason="needs JAX")
    x = jax.numpy.arange(32, dtype=jax.numpy.float32)
    z = np.zeros(32, np.float32)
    copy(tw.partition(z, 16), x).sync()
    assert (z == np.arange(32)).all()
    half = jax.numpy.ones(8, jax.numpy.bfloat16)
    assert tw.from_dlpack(half).dtype is bf16
    with refuse("the array of jax is read-only", tw.BorrowError):
        copy(tw.partition(x, 16), z)


# --- export ---------------------------------------------------------------------------------------


def test_numpy_sees_the_memory():
    x = tw.from_numpy(numbers(12)).reshape(3, 4)
    array = np.from_dlpack(x)
    assert (array == numbers(12).reshape(3, 4)).all()
    assert array.flags.writeable
    array += 1
    with refuse(
        "an export, built at ",
        tw.BorrowError,
    ):
        x.numpy()
    del array
    assert (x.numpy() == numbers(12).reshape(3, 4) + 1).all()


def test_an_export_is_exclusive():
    x, z = tw.from_numpy(numbers(64)), tw.zeros((64,), f32)
    array = np.from_dlpack(x[:32])
    with refuse("holds x for writing and is in use: drop the array", tw.BorrowError):
        copy(z.partition(16), x)
    with refuse("is in use: drop the array", tw.BorrowError):
        np.from_dlpack(x[31:33])
    with refuse("is in use: drop the array", tw.BorrowError):
        tw.move(x)
    copy(z[32:].partition(16), x[32:]).sync()
    del array
    copy(z.partition(16), x).sync()
    assert (z.numpy() == numbers(64)).all()


def test_a_shared_export_lets_others_read():
    x, z = tw.from_numpy(numbers(64)), tw.zeros((64,), f32)
    array = np.from_dlpack(x.export(read_only=True))
    assert not array.flags.writeable
    copy(z.partition(16), x).sync()
    with refuse("holds z for reading and is in use", tw.BorrowError):
        copy(x.partition(16), z)
    del array
    copy(x.partition(16), z).sync()


def test_an_export_waits_for_its_writers_and_readers():
    x, z = tw.zeros((64,), f32), tw.zeros((64,), f32)
    add(x.partition(16), tw.ones((64,), f32), tw.ones((64,), f32)).submit()
    copy(z.partition(16), x).submit(tw.Device("cpu").new_stream())
    array = np.from_dlpack(x)
    assert (array == 2).all()
    array[:] = 7
    assert (z.numpy() == 2).all()


def test_a_built_operation_stands_in_the_way():
    x = tw.zeros((64,), f32)
    operation = copy(x.partition(16), tw.ones((64,), f32))
    with refuse("has not been run", tw.BorrowError):
        np.from_dlpack(x)
    operation.sync()
    assert np.from_dlpack(x).sum() == 64


def test_capsules_that_nobody_takes_give_the_hold_back():
    x = tw.zeros((8,), f32)
    for _ in range(100):
        capsule = x.__dlpack__(max_version=(1, 1))
        del capsule
    x.numpy()
    with refuse("lives on cpu and is not copied elsewhere", BufferError):
        x.__dlpack__(dl_device=(2, 0))
    with pytest.raises(BufferError):
        x.export(read_only=True).__dlpack__()  # an old consumer could not be told
    x.numpy()


def test_a_copy_holds_nothing():
    x = tw.from_numpy(numbers(8))
    array = np.from_dlpack(x, copy=True)
    array[:] = 0
    assert x.numpy().sum() == 28


@pytest.mark.parametrize("dtype", DLPACK_DTYPES)
def test_every_dtype_makes_the_round_trip(dtype):
    x = tw.from_numpy(np.array([0, 1, 2, 1], np.float32).astype(numpy_dtype(dtype)))
    said = look_into(x.__dlpack__(max_version=(1, 1)))
    assert said is not None
    assert said.dtype is dtype
    assert (said.shape, said.read_only) == ((4,), False)
    exported = x.export()
    y = tw.from_dlpack(exported)
    assert y.dtype is dtype
    assert y.numpy().tobytes() == np.array([0, 1, 2, 1]).astype(numpy_dtype(dtype)).tobytes()


def test_an_imported_export_can_be_written_by_kernels():
    x = tw.zeros((32,), f32)
    y = tw.from_dlpack(x.export())
    copy(y.partition(16), tw.ones((32,), f32)).submit()
    with refuse("is in use: drop the array", tw.BorrowError):
        x.numpy()
    del y
    tw.synchronize()
    assert x.numpy().sum() == 32


def test_read_only_memory_is_exported_as_such():
    array = numbers(8)
    array.setflags(write=False)
    x = tw.from_dlpack(array)
    assert not np.from_dlpack(x).flags.writeable
    with refuse("It is exported by t.export(read_only=True)", tw.BorrowError):
        x.export()


def test_strided_views_and_scalars():
    x = tw.from_numpy(numbers(24).reshape(4, 6))
    assert (np.from_dlpack(x[1:3, 2:5]) == numbers(24).reshape(4, 6)[1:3, 2:5]).all()
    assert np.from_dlpack(x[2, 3]).item() == 15
    assert np.from_dlpack(x[2:2]).shape == (0, 6)


def test_there_is_no_cuda_array_interface_on_the_cpu():
    x = tw.zeros((8,), f32)
    assert not hasattr(x, "__cuda_array_interface__")
    assert not hasattr(x.export(), "__cuda_array_interface__")
    with refuse("(tw.meta) cannot be exported"):
        tw.meta((8,), f32).export()


def test_a_moved_tensor_is_not_exported():
    x = tw.zeros((8,), f32)
    y = tw.move(x)
    with pytest.raises(tw.MovedError):
        np.from_dlpack(x)
    assert np.from_dlpack(y).sum() == 0


def test_exports_dropped_on_other_threads():
    x = tw.zeros((64,), f32)
    parts = [np.from_dlpack(x[at : at + 8]) for at in range(0, 64, 8)]
    threads = [threading.Thread(target=parts.pop) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert x.numpy().sum() == 0


def test_capsules_of_ours_say_what_numpy_cannot():
    capsule = describe_capsule(np.zeros(4, np.uint16).__dlpack__(), bf16, 2, 3)
    said = look_into(capsule)
    assert said is not None
    assert (said.kind, said.number, said.dtype) == (2, 3, bf16)


def test_torch_round_trips():
    torch = pytest.importorskip("torch", reason="needs torch")
    x = tw.from_numpy(numbers(16).astype(ml_dtypes.bfloat16))
    t = torch.from_dlpack(x)
    assert t.dtype is torch.bfloat16
    t += 1
    with refuse("is in use", tw.BorrowError):
        x.numpy()
    z = torch.zeros(16, dtype=torch.bfloat16)
    copy(tw.partition(z, 16), t).sync()
    assert torch.equal(z, t)
    del t, z
    assert (x.numpy().astype(np.float32) == numbers(16) + 1).all()
    eight = tw.from_numpy(np.ones(8, ml_dtypes.float8_e4m3fn))
    assert torch.from_dlpack(eight).dtype is torch.float8_e4m3fn


@pytest.mark.parametrize("kind", [np.float32, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn])
def test_jax_takes_an_export(kind):
    jax = pytest.importorskip("jax", reason="needs JAX")
    values = numbers(8).astype(kind)
    x = tw.from_numpy(values)
    array = jax.dlpack.from_dlpack(x)
    assert array.dtype == values.dtype
    assert np.asarray(array).tobytes() == values.tobytes()
    assert tw.from_dlpack(array).numpy().tobytes() == values.tobytes()
    del array
    tw.synchronize()  # the tensor on JAX's array has been dropped, too
    gc.collect()
    assert x.numpy().tobytes() == values.tobytes()
