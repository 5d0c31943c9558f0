"""Copies and fills between tensors of one device, as operations.

What lies in one piece on both sides is copied as bytes; anything else goes through a kernel of the
library, along as few axes as the strides allow and, unless numbers are converted, as bits: so every
dtype is copied on every device, and NaNs keep theirs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilewright.dtypes import DType, u8, u16, u32, u64
from tilewright.errors import LaunchError
from tilewright.runtime.access import Access, Mode
from tilewright.runtime.deferring import defer
from tilewright.runtime.indexing import Layout
from tilewright.runtime.library import load_copying
from tilewright.runtime.memory_dtypes import check_roundable, element_bytes
from tilewright.runtime.operation import DeviceOp
from tilewright.runtime.storage import Storage
from tilewright.runtime.stream import Stream
from tilewright.runtime.work import WorkOp

if TYPE_CHECKING:
    from tilewright.runtime.tensor import Tensor

__all__ = ["convert", "copy", "fill"]

_BITS: dict[int, type[DType]] = {1: u8, 2: u16, 4: u32, 8: u64}  # by bytes
_MAX_RANK = 6  # of a kernel
_LONGEST = 1 << 30  # elements of an axis that is put together from several


def copy(dst: Tensor | DeviceOp[Tensor], src: Tensor | DeviceOp[Tensor]) -> DeviceOp[Tensor]:
    """Copy the elements of one tensor into another of the same shape and dtype.

    Gives `dst`. Both may be views with any strides; they must not overlap. Either may be the result
    of an operation, which runs first.
    """
    if isinstance(dst, DeviceOp) or isinstance(src, DeviceOp):
        return defer("copy", {"dst": dst, "src": src}, lambda given: copy(*given))
    _check_pair(dst, src)
    if dst.dtype is not src.dtype:
        raise LaunchError(
            f"tw.copy does not convert {src.dtype.label} to {dst.dtype.label}: copy"
            f" `src.astype({dst.dtype.__name__})`, or compute it in a kernel that stores to `dst`"
        )
    if _lie_alike(dst, src):
        work = _CopyBytes(dst.storage, dst.byte_offset, src.storage, src.byte_offset, dst.nbytes)
        accesses = Access(dst, Mode.WRITE, "dst"), Access(src, Mode.READ, "src")
        return WorkOp("copy", dst.device, accesses, work, dst)
    bits = _BITS[dst.itemsize]
    return _by_kernel(dst, src, bits, bits)


def convert(dst: Tensor, src: Tensor) -> DeviceOp[Tensor]:
    """As `copy`, into a tensor of another dtype."""
    _check_pair(dst, src)
    check_roundable(dst.dtype)
    return _by_kernel(dst, src, dst.dtype, src.dtype)


def fill(dst: Tensor | DeviceOp[Tensor], value: Any) -> DeviceOp[Tensor]:
    """Store one value in every element of a tensor or a view; gives the tensor.

    Either may be the result of an operation, which runs first.
    """
    if isinstance(dst, DeviceOp) or isinstance(value, DeviceOp):
        return defer("fill", {"dst": dst, "value": value}, lambda given: fill(*given))
    _check_tensor(dst)
    pattern = element_bytes(value, dst.dtype)
    if dst.region.dense:
        work = _FillBytes(dst.storage, dst.region.low, pattern, dst.size)
        return WorkOp("fill", dst.device, (Access(dst, Mode.WRITE, "dst"),), work, dst)
    (layout,) = _merged(dst.layout)
    bits = dst.handle(layout, _BITS[dst.itemsize])
    return _giving(load_copying().repeat(bits, int.from_bytes(pattern, "little")), dst)


@dataclass(frozen=True, slots=True)
class _CopyBytes:
    target: Storage
    target_offset: int
    source: Storage
    source_offset: int
    nbytes: int

    def enqueue(self, stream: Stream) -> None:
        if self.nbytes:
            to, from_ = self.target.allocation, self.source.allocation
            stream.queue.copy(to, self.target_offset, from_, self.source_offset, self.nbytes)


@dataclass(frozen=True, slots=True)
class _FillBytes:
    storage: Storage
    offset: int
    pattern: bytes
    repeats: int

    def enqueue(self, stream: Stream) -> None:
        if self.repeats:
            allocation = self.storage.allocation
            stream.queue.fill(allocation, self.pattern, self.repeats, self.offset)


def _by_kernel(dst: Tensor, src: Tensor, to: type[DType], from_: type[DType]) -> DeviceOp[Tensor]:
    into, out_of = _merged(dst.layout, src.layout)
    operation = load_copying().convert(dst.handle(into, to), src.handle(out_of, from_))
    return _giving(operation, dst)


def _giving(operation: DeviceOp[Any], result: Tensor) -> DeviceOp[Tensor]:
    assert isinstance(operation, WorkOp), "a launch has work of its own"
    return operation.giving(result)


# --- what fits ------------------------------------------------------------------------------------


def _check_tensor(tensor: Any) -> None:
    # A moved handle answers to nothing, and says so.
    if not hasattr(type(tensor), "hand_over"):
        raise LaunchError(
            f"elements are copied between tensors, and {type(tensor).__name__} is none:"
            " `tw.from_numpy` makes one of an array"
        )


def _check_pair(dst: Tensor, src: Tensor) -> None:
    _check_tensor(dst)
    _check_tensor(src)
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
    """The same elements along fewer axes, the same for all; the last is the first one's fastest."""
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
