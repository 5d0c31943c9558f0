"""Arrays of any library that exports them by DLPack: JAX, CuPy and others."""

from __future__ import annotations

from typing import Any

from tilewright.dtypes import numpy_dtype
from tilewright.errors import LaunchError
from tilewright.given import as_ints
from tilewright.runtime.devices.device import Device
from tilewright.runtime.devices.stream import Stream
from tilewright.runtime.interop.array import ForeignArray, find_form, refuse
from tilewright.runtime.interop.dlpack import (
    CPU,
    CUDA,
    CUDA_HOST,
    CUDA_MANAGED,
    VERSION,
    CapsuleTensor,
    look_into,
)
from tilewright.runtime.interop.foreign import Producer

__all__ = ["library_of", "read_exported"]

# Devices of ours for kinds of memory; pinned host memory belongs to the host.
_KINDS = {CPU: "cpu", CUDA_HOST: "cpu", CUDA: "cuda", CUDA_MANAGED: "cuda"}


class _Exporter(Producer):
    """Keeps the capsule, which keeps the memory, and the array, which may own more."""

    def __init__(self, array: Any, capsule: Any, *, read_only: bool) -> None:
        super().__init__(array, read_only=read_only)
        self.library = library_of(array)
        self._capsule = capsule


def read_exported(array: Any) -> ForeignArray:
    """Read an array by its DLPack export."""
    device = _device(array, *_place(array))
    ready = None if device.kind == "cpu" else device.stream
    capsule = _export(array, ready)
    said = look_into(capsule)
    if said is None:
        raise LaunchError(
            f"an array of {library_of(array)} was exported as something that cannot be read here:"
            f" a capsule of DLPack, version {VERSION[0]} or before, can. Copy the array with"
            " tw.from_numpy"
        )
    if _device(array, said.kind, said.number) is not device:
        raise LaunchError(
            f"an array of {library_of(array)} said that it lives on {device.name}, and its capsule"
            " says otherwise"
        )
    return _described(array, capsule, said, device)._replace(ready=ready)


def library_of(array: Any) -> str:
    """The library that an array belongs to, by the name of its package."""
    return str(type(array).__module__).partition(".")[0].removesuffix("lib")


def _described(array: Any, capsule: Any, said: CapsuleTensor, device: Device) -> ForeignArray:
    producer = _Exporter(array, capsule, read_only=said.read_only)
    if said.dtype is None:
        code, bits, lanes = said.dtype_code
        raise refuse(
            producer.library, said.shape,
            f"holds elements for which there is no dtype (DLPack's code {code}, {bits} bits,"
            f" {lanes} lanes)",
        )  # fmt: skip
    itemsize = numpy_dtype(said.dtype).itemsize
    strides = tuple(stride * itemsize for stride in said.strides)
    form = find_form(producer.library, said.dtype, said.shape, strides)
    return ForeignArray(producer, device, form, said.address)


def _place(array: Any) -> tuple[int, int]:
    """The device of an array: DLPack's kind of device, and its number."""
    try:
        kind, number = as_ints(array.__dlpack_device__())
    except Exception as error:  # a tracer, or a deleted array, has no device
        raise LaunchError(
            f"{library_of(array)} does not say where its array lies ({error}): pass an array that"
            " has contents, outside of traced or compiled code"
        ) from error
    return kind, number


def _export(array: Any, ready: Stream | None) -> Any:
    """A capsule, ready for work on one of our streams."""
    asked = {} if ready is None else {"stream": ready.queue.number}
    try:
        try:
            return array.__dlpack__(max_version=VERSION, **asked)
        except TypeError:  # an exporter without versions
            return array.__dlpack__(**asked)
    except Exception as error:  # of another library: any exception is possible
        raise LaunchError(f"{library_of(array)} did not export its array: {error}") from error


def _device(array: Any, kind: int, number: int) -> Device:
    found = _KINDS.get(kind)
    if found is None:
        raise LaunchError(
            f"an array of {library_of(array)} lives on a device of DLPack's kind {kind}, where"
            " kernels do not run: move it to the host or to a CUDA GPU"
        )
    if number < 0:
        raise LaunchError(
            f"an array of {library_of(array)} lives on device {number} of DLPack's kind {kind}, and"
            " devices count from 0"
        )
    return Device(found if found == "cpu" else f"{found}:{number}")
