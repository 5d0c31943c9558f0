"""Clocks: that of the device, read by its stream, held or not, and that of the host.

The device's is the default on a GPU. The stream is held while the host fills it, so that host time
never shows; what waits for the device itself cannot be held and is timed without. The host's clock
is the default on the CPU, where anything can be timed, NumPy included. None is for the host's own
cost of a launch: see `host_cost`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from tilewright.bench.subjects import Subject, drain
from tilewright.runtime.stream import Stream

__all__ = ["Clock", "DeviceClock", "EagerClock", "HostClock", "clock_of"]

_PATIENCE = 0.25  # seconds to fill a stream, after which the host is thought to wait for the device

Before = Callable[[], object]


class Clock(Protocol):
    """Something that times runs."""

    def measure(
        self, subject: Subject, before: Before, repetitions: int, batch: int
    ) -> list[float]:
        """Seconds of one run for each repetition, the mean of a batch; `before` is not counted."""


class HostClock:
    """From the call until the device has finished it."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def measure(
        self, subject: Subject, before: Before, repetitions: int, batch: int
    ) -> list[float]:
        """One repetition after the other, each waited for."""
        found = []
        for repetition in range(repetitions):
            before()
            drain(self._stream)
            start = time.perf_counter()
            for step in range(batch):
                subject.put(repetition * batch + step)
            drain(self._stream)
            found.append((time.perf_counter() - start) / batch)
        return found


class DeviceClock:
    """Between two stamps on the stream, which the device itself makes."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def measure(
        self, subject: Subject, before: Before, repetitions: int, batch: int
    ) -> list[float]:
        """As many repetitions at a time as a stream takes while it is held."""
        found: list[float] = []
        while len(found) < repetitions:
            room = subject.room
            group = max(1, min(repetitions - len(found), room // batch))
            holding = group * batch <= room
            laps = self._laps(
                subject, before, range(len(found), len(found) + group), batch, holding
            )
            if laps is None:
                subject.needs_more_room()
            else:
                found += laps
        return found

    def _laps(
        self, subject: Subject, before: Before, repetitions: range, batch: int, holding: bool
    ) -> list[float] | None:
        """None if the stream had to be let go before all was put on it."""
        pairs = []
        with self._held(holding) as gave_up:
            for repetition in repetitions:
                before()
                start = self._stream.stamp()
                for step in range(batch):
                    subject.put(repetition * batch + step)
                pairs.append((start, self._stream.stamp()))
        self._stream.sync()
        if gave_up.is_set():
            return None
        return [end.seconds_since(start) / batch for start, end in pairs]

    @contextmanager
    def _held(self, holding: bool) -> Iterator[threading.Event]:
        """Hold the stream, but not for ever: the host may come to wait for it."""
        gave_up = threading.Event()
        if not holding:
            yield gave_up
            return
        hold = self._stream.hold()

        def give_up() -> None:
            gave_up.set()
            hold.release()

        watch = threading.Timer(_PATIENCE, give_up)
        watch.start()
        try:
            yield gave_up
        finally:
            watch.cancel()
            hold.release()


class EagerClock:
    """Between two stamps on a stream that nobody holds, around each repetition.

    Where the device waits for the host, the host's time shows, as it does for one who launches one
    piece of work after the other.
    """

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def measure(
        self, subject: Subject, before: Before, repetitions: int, batch: int
    ) -> list[float]:
        """All repetitions in one go, waited for at the end."""
        pairs = []
        for repetition in range(repetitions):
            before()
            start = self._stream.stamp()
            for step in range(batch):
                subject.put(repetition * batch + step)
            pairs.append((start, self._stream.stamp()))
        self._stream.sync()
        return [end.seconds_since(start) / batch for start, end in pairs]


_CLOCKS: dict[str, Callable[[Stream], Clock]] = {"cuda": DeviceClock, "cpu": HostClock}


def clock_of(stream: Stream) -> Clock:
    """The clock that fits the device of a stream."""
    return _CLOCKS[stream.device.kind](stream)
