"""A launch with its arguments resolved, which goes to a stream once or as a node of a graph.

The launch keeps storages, not handles: a handle may be moved away while the graph lives. Only the
failure record changes between replays.
"""

from __future__ import annotations

from tilewright.jit.compile.failures import FailureReader
from tilewright.runtime.devices.device import Device
from tilewright.runtime.devices.function import KernelFunction, Memory
from tilewright.runtime.devices.stream import Stream

__all__ = ["RepeatedLaunch"]


class RepeatedLaunch:
    """A launch that can be enqueued any number of times."""

    __slots__ = ("_arguments", "_blocks", "_device", "_reader", "_storages", "kind")

    def __init__(
        self,
        functions: tuple[KernelFunction, ...],
        device: Device,
        blocks: int,
        arguments: tuple[int | float | None, ...],
        storages: tuple[Memory, ...],
        reader: FailureReader | None,
    ) -> None:
        self.kind = functions
        self._device = device
        self._blocks = blocks
        self._arguments = arguments  # None for the address of the record
        self._storages = storages
        self._reader = reader

    def repeated(self) -> RepeatedLaunch:
        """This launch itself, as the node of a graph."""
        return self

    def enqueue(self, stream: Stream) -> None:
        """Enqueue the launch; the device's lock is held."""
        memories, where = self._storages, 0
        if self._reader is not None:
            memories, where = (*memories, self._reader.record), self._reader.record.address
        arguments = tuple(where if one is None else one for one in self._arguments)
        for function in self.kind:
            function.launch(stream, self._blocks, arguments, memories)

    def renew(self) -> FailureReader:
        """Replace the failure record."""
        assert self._reader is not None, "only a launch with checks reports"
        self._reader = self._reader.with_record(self._device.new_record())
        return self._reader
