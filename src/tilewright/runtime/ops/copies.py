"""Fills and copies of tensors, and bytes from and to the host.

Contiguous elements are copied as bytes; `runtime` does no more than this with contents. Other
layouts are copied by a kernel of the library, along as few axes as the strides allow and, unless
numbers are converted, as bits: so every dtype is copied on every device, and NaNs keep their bits.

A stream keeps host buffers until the copy has completed. They are pinned if that lets the caller
continue (`backend.stage`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

import numpy as np

from tilewright.dtypes import DType, u8, u16, u32, u64
from tilewright.errors import LaunchError
from tilewright.runtime.devices.backend import Bytes
from tilewright.runtime.devices.device import Device
from tilewright.runtime.devices.stream import Stream
from tilewright.runtime.loading import LazyModule
from tilewright.runtime.memory.dtypes import check_roundable, element_bytes
from tilewright.runtime.memory.layout import Layout
from tilewright.runtime.memory.partition import tensor_maker
from tilewright.runtime.memory.storage import Storage
from tilewright.runtime.ops.deferring import defer
from tilewright.runtime.ops.inside_chains import refuse_waiting
from tilewright.runtime.ops.launch import LaunchOp, make_operation
from tilewright.runtime.ops.operation import DeviceOp
from tilewright.runtime.ops.work import OneNode
from tilewright.runtime.order.access import Access, Handle, Mode, check_accesses
from tilewright.runtime.order.borrow import Role, uses_of
from tilewright.runtime.order.critical import critical
from tilewright.runtime.order.failure import Check

if TYPE_CHECKING:
    from tilewright.runtime.memory.tensor import Tensor

__all__ = ["Fill", "FillWork", "Upload", "convert", "copy", "download", "fill", "host_bytes"]


_BITS: dict[int, type[DType]] = {1: u8, 2: u16, 4: u32, 8: u64}  # by bytes
_MAX_RANK = 6  # of a kernel's tensors
_LONGEST = 1 << 30  # elements of an axis merged from several
# Kernels are layers above this one: `convert(dst, src)` copies each element in the dtype of `dst`,
# `repeat(dst, value)` stores an unsigned integer in each.
_kernels = LazyModule("tilewright.kernels.elements.copying")


class Exported(Protocol):
    """An array of another library, recognised by its protocol."""

    @property
    def __dlpack__(self) -> Callable[..., Any]:
        """The method that gives a capsule."""


A = TypeVar("A", bound=Exported)


@overload
def copy(
    dst: Tensor | DeviceOp[Tensor], src: Tensor | DeviceOp[Tensor] | Exported
) -> DeviceOp[Tensor]: ...
@overload
def copy(dst: A, src: Tensor | DeviceOp[Tensor] | Exported) -> DeviceOp[A]: ...
def copy(dst: Any, src: Any) -> DeviceOp[Any]:
    """Copy the elements of one tensor into another of the same shape and dtype.

    Gives `dst`. Both may be views with any strides; they must not overlap. Either may be an array
    of another library on that device, or the result of an operation, which runs first.
    """
    if isinstance(dst, DeviceOp) or isinstance(src, DeviceOp):
        return defer("copy", {"dst": dst, "src": src}, lambda given: copy(*given))
    into = _as_tensor(dst)
    made = _copy(into, _as_tensor(src))
    return made if into is dst else made.giving(dst)


def _copy(dst: Tensor, src: Tensor) -> LaunchOp[Tensor]:
    _check_pair(dst, src)
    if dst.dtype is not src.dtype:
        raise LaunchError(
            f"tw.copy does not convert {src.dtype.label} to {dst.dtype.label}: copy"
            f" `src.astype({dst.dtype.__name__})`, or compute it in a kernel that stores to `dst`"
        )
    if _lie_alike(dst, src):
        work = _CopyBytes(dst.storage, dst.byte_offset, src.storage, src.byte_offset, dst.nbytes)
        accesses = Access(dst, Mode.WRITE, "dst"), Access(src, Mode.READ, "src")
        return make_operation("copy", dst.device, accesses, work, dst)
    bits = _BITS[dst.itemsize]
    return _by_kernel(dst, src, bits, bits)


def convert(dst: Tensor, src: Tensor) -> DeviceOp[Tensor]:
    """Copy the elements of a tensor into one of another dtype."""
    _check_pair(dst, src)
    check_roundable(dst.dtype)
    return _by_kernel(dst, src, dst.dtype, src.dtype)


@overload
def fill(dst: Tensor | DeviceOp[Tensor], value: Any) -> DeviceOp[Tensor]: ...
@overload
def fill(dst: A, value: Any) -> DeviceOp[A]: ...
def fill(dst: Any, value: Any) -> DeviceOp[Any]:
    """Store one value in every element of a tensor, a view or an array; gives `dst`.

    Either argument may be the result of an operation, which runs first.
    """
    if isinstance(dst, DeviceOp) or isinstance(value, DeviceOp):
        return defer("fill", {"dst": dst, "value": value}, lambda given: fill(*given))
    into = _as_tensor(dst)
    made = _fill(into, value)
    return made if into is dst else made.giving(dst)


def _fill(dst: Tensor, value: Any) -> LaunchOp[Tensor]:
    pattern = element_bytes(value, dst.dtype)
    if dst.region.dense:
        work = FillWork(dst, pattern)
        check_accesses((Access(dst, *work.roles[0]),), work.label, dst.device)
        return LaunchOp().build(work, (dst,), uses_of((dst,), work.roles), dst)
    (layout,) = _merged(dst.layout)
    bits = dst.handle(layout, _BITS[dst.itemsize])
    return _giving(_kernels.repeat(bits, int.from_bytes(pattern, "little")), dst)


@dataclass(frozen=True, slots=True)
class _CopyBytes:
    target: Storage
    target_offset: int
    source: Storage
    source_offset: int
    nbytes: int

    def enqueue(self, stream: Stream) -> None:
        if self.nbytes:
            to, from_ = self.target, self.source
            start, source = to.place(self.target_offset), from_.place(self.source_offset)
            stream.queue.copy(to.allocation, start, from_.allocation, source, self.nbytes)


class FillWork(OneNode):
    """One value in every element of a tensor, or of others with its spec."""

    __slots__ = ("_count", "_pattern", "caller", "device", "foreign", "written")

    label = "fill"
    roles: tuple[Role, ...] = (Role(Mode.WRITE, "dst"),)
    check: Check | None = None
    is_compiled = True
    programs = ()

    def __init__(self, dst: Tensor, pattern: bytes) -> None:
        self.device = dst.device
        self.caller: CodeType | None = None
        self.foreign: tuple[int, ...] = () if dst.storage.owns_bytes else (0,)
        self.written: tuple[int, ...] = self.foreign
        self._pattern = pattern
        self._count = dst.size

    def launch(self, stream: Stream, tensors: tuple[Handle, ...], /) -> None:
        """Fill a tensor."""
        self.work_on(tensors).enqueue(stream)

    def work_on(self, tensors: tuple[Handle, ...], /) -> _FillBytes:
        """The work on a tensor, whose storage it keeps."""
        (dst,) = tensors
        return _FillBytes(dst.storage, dst.region.low, self._pattern, self._count)

    def compile(self) -> None:
        """Do nothing: there is no program."""

    def let_go(self) -> None:
        """Do nothing: no state belongs to a single operation."""


@dataclass(frozen=True, slots=True)
class _FillBytes:
    storage: Storage
    offset: int
    pattern: bytes
    repeats: int

    def enqueue(self, stream: Stream) -> None:
        if self.repeats:
            start = self.storage.place(self.offset)
            stream.queue.fill(self.storage.allocation, self.pattern, self.repeats, start)


def _by_kernel(dst: Tensor, src: Tensor, to: type[DType], from_: type[DType]) -> LaunchOp[Tensor]:
    into, out_of = _merged(dst.layout, src.layout)
    return _giving(_kernels.convert(dst.handle(into, to), src.handle(out_of, from_)), dst)


def _giving(operation: DeviceOp[Any], result: Tensor) -> LaunchOp[Tensor]:
    assert isinstance(operation, LaunchOp), "a launch has work of its own"
    return operation.giving(result)


# --- checks --------------------------------------------------------------------------------------


def _as_tensor(given: Any) -> Tensor:
    found: Tensor | None = tensor_maker.make(given)
    if found is None:
        raise LaunchError(
            "elements are copied between tensors and arrays, and an object of type"
            f" {type(given).__name__} is none: `tw.from_numpy` copies objects that NumPy reads"
        )
    return found


def _check_pair(dst: Tensor, src: Tensor) -> None:
    if dst.device is not src.device:
        raise LaunchError(
            f"`src` is on {src.device.name} and `dst` on {dst.device.name}: go through the host,"
            " `tw.from_numpy(src.numpy(), device=…)`"
        )
    if dst.shape != src.shape:
        raise LaunchError(
            f"`src` has shape {src.shape} and `dst` has shape {dst.shape}: a copy has an element"
            " for each, and repeats none"
        )


def _lie_alike(dst: Tensor, src: Tensor) -> bool:
    """Whether both are the same elements in the same order, without gaps."""
    if dst.is_contiguous and src.is_contiguous:
        return True
    return dst.region.dense and src.region.dense and dst.strides == src.strides


def _merged(*layouts: Layout) -> tuple[Layout, ...]:
    """The layouts with axes merged alike; the last axis is the fastest of the first layout."""
    columns = zip(layouts[0].shape, *(layout.strides for layout in layouts), strict=True)
    axes = sorted((column for column in columns if column[0] != 1), key=_by_stride, reverse=True)
    merged: list[tuple[int, ...]] = []
    for extent, *strides in axes:
        outer = merged[-1] if merged else ()
        spans = tuple(stride * extent for stride in strides)
        if outer and outer[1:] == spans and outer[0] * extent <= _LONGEST:
            merged[-1] = (outer[0] * extent, *strides)
        else:
            merged.append((extent, *strides))
    if len(merged) > _MAX_RANK:
        raise LaunchError(
            f"a view of shape {layouts[0].shape} has {len(merged)} axes that cannot be put"
            f" together, and a kernel has at most {_MAX_RANK}: copy it in parts"
        )
    shape, *strides_of = zip(*(merged or [(1, *(1 for _ in layouts))]), strict=True)
    return tuple(
        Layout(shape, strides, layout.offset)
        for strides, layout in zip(strides_of, layouts, strict=True)
    )


def _by_stride(axis: tuple[int, ...]) -> tuple[int, ...]:
    return axis[1:]


# --- from and to the host -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Fill:
    """Initialiser: one element, repeated."""

    pattern: bytes

    def __call__(self, storage: Storage, stream: Stream) -> None:
        """Put the fill on the stream."""
        repeats = storage.nbytes // len(self.pattern)
        if repeats:
            stream.queue.fill(storage.allocation, self.pattern, repeats)


@dataclass(frozen=True, slots=True)
class Upload:
    """Initialiser: bytes copied when the tensor was made."""

    source: Bytes

    def __call__(self, storage: Storage, stream: Stream) -> None:
        """Put the copy on the stream."""
        if storage.nbytes:
            stream.keep(self.source)
            stream.queue.upload(storage.allocation, self.source)


@dataclass(frozen=True, slots=True)
class _Download:
    storage: Storage
    offset: int
    target: Bytes

    def enqueue(self, stream: Stream) -> None:
        if self.target.size:
            stream.keep(self.target)
            start = self.storage.place(self.offset)
            stream.queue.download(self.storage.allocation, start, self.target)


def host_bytes(device: Device, nbytes: int) -> Bytes:
    """Host memory for contents that are uploaded to a device."""
    staged = _staged(device, nbytes)
    return np.empty(nbytes, np.uint8) if staged is None else staged


def _staged(device: Device, nbytes: int) -> Bytes | None:
    if device.forked or not device.backend.needs_staging:
        return None
    return device.backend.stage(nbytes)


def download(tensor: Handle, label: str) -> Bytes:
    """The bytes of a tensor's region, after all submitted writers."""
    refuse_waiting(label)
    storage, region = tensor.storage, tensor.region
    device, nbytes = storage.device, region.high - region.low
    stream = _nearest_stream(tensor)  # first: a call in the middle of another is refused here
    staged = _staged(device, nbytes)
    if staged is None and device.backend.needs_staging:
        # The copy blocks this thread under the device's lock, so wait for earlier work without it.
        stream.wait(stream.issued)
    target = np.empty(nbytes, np.uint8) if staged is None else staged
    work = _Download(storage, region.low, target)
    operation = make_operation(label, device, (Access(tensor, Mode.READ),), work, target)
    done = operation.sync_on(stream)
    return done if staged is None else done.copy()


def _nearest_stream(tensor: Handle) -> Stream:
    """The stream of the last writers, where no wait is needed; the current one if they differ."""
    storage = tensor.storage
    fences = critical(
        storage.device, "numpy()", storage.timeline.points, tensor.region, writes=False
    )
    streams = {fence.stream for fence in fences}
    return streams.pop() if len(streams) == 1 else storage.device.stream
