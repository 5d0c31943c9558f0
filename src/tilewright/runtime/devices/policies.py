"""Scheduling policies: the streams of awaited and scheduled operations.

Plain calls use the current stream of a device. An awaited operation takes the next stream of its
device's policy, so that independent operations overlap.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Protocol

from tilewright.errors import LaunchError
from tilewright.given import as_int, shown
from tilewright.runtime.devices.stream import Stream, check_device, check_stream

if TYPE_CHECKING:
    from tilewright.runtime.devices.device import Device

__all__ = ["RoundRobin", "SchedulingPolicy", "SingleStream", "ask_policy"]

_MOST_STREAMS = 1024  # of one policy


class SchedulingPolicy(Protocol):
    """Chooses the stream of an operation."""

    def next_stream(self) -> Stream:
        """The stream for the next operation. Any thread may call it."""


class RoundRobin:
    """Several streams of a device in turn."""

    def __init__(self, device: Device, streams: int = 4) -> None:
        try:
            number = as_int(streams)
        except TypeError:
            number = 0
        if number < 1:
            raise LaunchError(f"a policy needs a stream at least, not {shown(streams)}")
        if number > _MOST_STREAMS:
            raise LaunchError(
                f"a policy has {_MOST_STREAMS} streams at most, not {shown(streams)}: a device runs"
                " far fewer at once"
            )
        self._streams = tuple(check_device(device).new_stream() for _ in range(number))
        self._turns = itertools.count()

    def next_stream(self) -> Stream:
        """The next in turn."""
        return self._streams[next(self._turns) % len(self._streams)]


class SingleStream:
    """One stream for everything."""

    def __init__(self, stream: Stream) -> None:
        self._stream = check_stream(stream)

    def next_stream(self) -> Stream:
        """The only stream."""
        return self._stream


def ask_policy(policy: Any) -> Stream:
    """The next stream of a policy."""
    try:
        ask = getattr(policy, "next_stream", None)
    except Exception:  # noqa: BLE001 (of an object's own property)
        ask = None
    if not callable(ask):
        raise LaunchError(
            f"a policy gives streams by `next_stream()`, and {type(policy).__name__} has none:"
            " `tw.RoundRobin(device)` and `tw.SingleStream(stream)` are policies"
        )
    return check_stream(ask())
