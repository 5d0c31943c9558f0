"""Notes of finalisers that cannot be settled yet, and come back when a stream has got there."""

from __future__ import annotations

from tilewright.runtime.devices.device import Device, Note

__all__ = ["Postponed"]


class Postponed:
    """Leaves its note again when a stream lets go of it: `stream.keep(Postponed(device, note))`."""

    __slots__ = ("_device", "_note")

    def __init__(self, device: Device, note: Note) -> None:
        self._device = device
        self._note = note

    def __del__(self) -> None:
        # No lock and no driver here: a stream may be dropped anywhere.
        self._device.notes.append(self._note)
