"""Exports: a tensor's memory lent to another library, and the borrow that goes with it.

The borrow is exclusive, since another library's use of an array is not observable; `read_only=True`
makes it shared, trusting the consumer. It ends when the consumer has dropped its array and the
export has no references; then all work on the consumer's stream so far is ordered before our next
operation on the memory. Finalisers only append to the deferred queue.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Protocol

import numpy as np

from tilewright.dtypes import DType, numpy_dtype
from tilewright.errors import BorrowError, LaunchError
from tilewright.runtime.devices.device import LEGACY_STREAM, Device
from tilewright.runtime.devices.stream import Stream
from tilewright.runtime.interop.dlpack import CPU, CUDA, describe_capsule
from tilewright.runtime.ops.call_site import site_outside
from tilewright.runtime.ops.inside_chains import refuse_waiting
from tilewright.runtime.ops.refusals import OnlyOne
from tilewright.runtime.order.access import Handle, Mode
from tilewright.runtime.order.borrow import Borrow, BorrowedWork, Role, uses_of
from tilewright.runtime.order.critical import critical
from tilewright.runtime.order.deferred import DeferredCall

__all__ = ["Export", "Exportable", "Exporting", "place_of"]

# Packages whose frames may request an export.
_CONSUMERS = frozenset({"cupy", "jax", "numpy", "tensorflow", "torch"})
_NO_MEMORY = "a tensor without memory (tw.meta) cannot be exported"


class Exportable(Handle, Protocol):
    """The part of a tensor that an export needs."""

    @property
    def dtype(self) -> type[DType]:
        """The type of its elements."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents."""

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""


class Exporting:
    """The export methods of a tensor."""

    __slots__ = ()

    def export(self: Exportable, *, read_only: bool = False) -> Export:
        """The memory for another library, held as long as the export or an array made of it exists.

        The hold is exclusive; `read_only=True` makes it shared, trusting the consumer, since some
        libraries write regardless. The export has `__cuda_array_interface__`.
        """
        return Export(self, read_only=read_only)

    def __dlpack__(self: Exportable, **options: Any) -> Any:
        """A capsule, with an exclusive hold until the consumer has dropped its array."""
        read_only = self.storage.why_not_written() is not None
        return Export(self, read_only=read_only).__dlpack__(**options)

    def __dlpack_device__(self: Exportable) -> tuple[int, int]:
        """The device of the memory, in DLPack's numbers."""
        return place_of(self.storage.device)


class _Hold(Borrow):
    """The borrow of an export."""

    __slots__ = ()

    state = "is in use: drop the array that was made of it"


class Export(OnlyOne):
    """A tensor's memory for other libraries: `torch.from_dlpack(t.export())`, `cupy.asarray(…)`."""

    not_copied = "an export holds its tensor and is not copied: make another, `t.export(…)`"
    not_pickled = "an export is memory of this process and is not pickled: send `t.numpy()`"

    __slots__ = ("__weakref__", "_holder", "_streams", "read_only", "tensor")

    def __init__(self, tensor: Exportable, *, read_only: bool) -> None:
        device = tensor.storage.device
        if not device.backend.can_run:
            raise LaunchError(_NO_MEMORY)
        self.tensor = tensor
        self.read_only = read_only  # whether the consumer has promised not to write
        self._streams: set[Stream] = set()
        try:
            self._take()
            if device.kind == "cpu":
                self._wait()
        except BaseException:
            self._give_back()  # now, and not when the traceback is dropped
            raise

    def _give_back(self) -> None:
        holder: _Hold | None = getattr(self, "_holder", None)
        if holder is not None:
            with self.device.lock:
                holder.release()

    def _take(self) -> None:
        storage, region = self.tensor.storage, self.tensor.region
        reason = None if self.read_only else storage.why_not_written()
        if reason is not None:
            raise BorrowError(f"{reason}. It is exported by t.export(read_only=True)")
        storage.check_there()
        device, timeline = storage.device, storage.timeline
        with device.lock:
            device.check_open()
            device.settle_deferred()
            critical(device, "an export", timeline.upstream, region)
            roles = (Role(Mode.READ if self.read_only else Mode.UPDATE, ""),)
            site = site_outside(_CONSUMERS)
            uses, work = uses_of((self.tensor,), roles), BorrowedWork("an export", roles)
            self._holder = _Hold.of(work, (self.tensor,), uses, site)
            critical(device, "an export", self._holder.acquire, device)
            storage.lend()
            storage.materialise(device.stream)

    def _wait(self) -> None:
        """Wait on the host for all uses of the memory, and raise their failure."""
        refuse_waiting("an export")
        device, timeline = self.device, self.tensor.storage.timeline
        region, writes = self.tensor.region, not self.read_only
        for fence in critical(device, "an export", timeline.points, region, writes=writes):
            fence.stream.wait(fence.count)
        critical(device, "an export", timeline.upstream, region)

    @property
    def device(self) -> Device:
        """The device of the memory."""
        return self.tensor.storage.device

    def __dlpack_device__(self) -> tuple[int, int]:
        """The device of the memory, in DLPack's numbers."""
        return place_of(self.device)

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A capsule. On a GPU the consumer's stream waits for the operations on the memory."""
        place = self.__dlpack_device__()
        if dl_device is not None and tuple(map(int, dl_device)) != place:
            raise BufferError(f"the tensor lives on {self.device.name} and is not copied elsewhere")
        if self.device.kind != "cpu":
            if copy:
                raise BufferError("a tensor on a GPU is exported without a copy: copy the array")
            self._order(stream)
        window = np.asarray(_Window(self))
        if copy:
            window = window.copy()
        return describe_capsule(_capsule(window, max_version), self.tensor.dtype, *place)

    def _order(self, number: int | None) -> None:
        if number == -1:  # the consumer orders its work itself, or uses our stream
            return
        device = self.device
        with device.lock:
            device.check_open()
            theirs = device.adopt_stream(LEGACY_STREAM if number is None else number)
            if theirs.queue.is_capturing():
                raise BufferError("nothing is exported to a stream on which a graph is recorded")
            self._order_behind(theirs)
            self._streams.add(theirs)

    def _order_behind(self, stream: Stream) -> None:
        """Make a stream wait for the operations on the memory."""
        timeline, region = self.tensor.storage.timeline, self.tensor.region
        writes = not self.read_only
        critical(self.device, "an export", timeline.order, stream, region, writes=writes)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Version 3; it has no deleter, so the caller has to keep the export."""
        device, tensor = self.device, self.tensor
        if device.kind != "cuda":
            raise AttributeError(f"a tensor on {device.name} has no CUDA array interface")
        with device.lock:
            device.check_open()
            ours = device.stream
            self._order_behind(ours)
        interface = {**_interface(tensor, self.read_only), "stream": ours.queue.number}
        kind = numpy_dtype(tensor.dtype)
        # NumPy's own; bf16 and f8, which have no type code there, are exported as bits.
        if kind.isbuiltin == 1:
            interface["typestr"] = kind.str
        return interface

    def __del__(self) -> None:
        # No lock and no driver call: a deleter may run this on any thread.
        holder = getattr(self, "_holder", None)
        if holder is not None:
            self.device.deferred.append(
                DeferredCall(partial(_return, holder, tuple(self._streams)))
            )

    def __repr__(self) -> str:
        how = "for reading" if self.read_only else "whole"
        return f"<{self.tensor!r}, exported {how} at {self._holder.site}>"


def place_of(device: Device) -> tuple[int, int]:
    """A device in DLPack's numbers."""
    if not device.backend.can_run:
        raise LaunchError(_NO_MEMORY)
    return (CPU, 0) if device.kind == "cpu" else (CUDA, device.ordinal)


class _Window:
    """The elements as bits, for NumPy; keeps the export."""

    def __init__(self, export: Export) -> None:
        self._export = export
        self.__array_interface__ = _interface(export.tensor, export.read_only)


def _interface(tensor: Exportable, read_only: bool) -> dict[str, Any]:
    """The common part of the array interfaces of NumPy and CUDA; elements are passed as bits."""
    itemsize = tensor.itemsize
    return {
        "version": 3,
        "typestr": f"|u{itemsize}" if itemsize == 1 else f"<u{itemsize}",
        "shape": tensor.shape,
        "strides": tuple(stride * itemsize for stride in tensor.strides),
        "data": (tensor.address, read_only),
    }


def _capsule(window: np.ndarray[Any, Any], max_version: tuple[int, int] | None) -> Any:
    if max_version is None:
        return window.__dlpack__()
    try:
        return window.__dlpack__(max_version=max_version)
    except TypeError:  # NumPy before 2.1 has no versions
        return window.__dlpack__()


def _return(holder: Borrow, streams: tuple[Stream, ...]) -> None:
    """End the borrow of a dropped export, ordered after the work on its consumer's streams."""
    for stream in streams:
        for use in holder.uses:
            timeline = use.timeline.last()
            if use.writes:
                timeline.come_after(use.region, stream)
            else:
                timeline.record(use, stream, stream.advance(), None)
    holder.release()
