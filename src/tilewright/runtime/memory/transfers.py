"""Filling, uploading and downloading contiguous bytes.

`runtime` does no more than this with contents; every other operation on a tensor is a kernel. A
stream keeps host buffers until the copy has completed. They are pinned if that lets the caller
continue (`backend.stage`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tilewright.runtime.devices.backend import Bytes
from tilewright.runtime.devices.device import Device
from tilewright.runtime.devices.stream import Stream
from tilewright.runtime.memory.storage import Storage
from tilewright.runtime.ops.inside_chains import refuse_waiting
from tilewright.runtime.ops.launch import make_operation
from tilewright.runtime.order.access import Access, Handle, Mode
from tilewright.runtime.order.critical import critical

__all__ = ["Fill", "Upload", "download", "host_bytes"]


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
    done = operation.submit(stream).sync()
    return done if staged is None else done.copy()


def _nearest_stream(tensor: Handle) -> Stream:
    """The stream of the last writers, where no wait is needed; the current one if they differ."""
    storage = tensor.storage
    fences = critical(
        storage.device, "numpy()", storage.timeline.points, tensor.region, writes=False
    )
    streams = {fence.stream for fence in fences}
    return streams.pop() if len(streams) == 1 else storage.device.stream
