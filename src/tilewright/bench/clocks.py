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
from dataclasses import dataclass
from typing import Protocol

from tilewright.bench.subjects import Subject, drain
from tilewright.runtime.devices.stream import Stream

__all__ = ["Clock", "DeviceClock", "EagerClock", "HostClock", "clock_of"]

_PATIENCE = 0.25  # seconds to fill a stream, after which the host is thought to wait for the device

Before = Callable[[], object]


class Clock(Protocol):
    """Something that times runs."""

    def measure(
        self, subject: Subject, before: Before, repetitions: int, batch: int
    ) -> list[float]:
        """Seconds of one run for each repetition, the mean of a batch; `before` is not counted."""


@dataclass(frozen=True)
class HostClock:
    """From the call until the device has finished it."""

    stream: Stream

    def measure(
        self, subject: Subject, before: Before, repetitions: int, batch: int
    ) -> list[float]:
        """One repetition after the other, each waited for."""
        found = []
        for repetition in range(repetitions):
            before()
            drain(self.stream)
            start = time.perf_counter()
            subject.put_batch(repetition, batch)
            drain(self.stream)
            found.append((time.perf_counter() - start) / batch)
        return found


@dataclass(frozen=True)
class EagerClock:
    """Between two stamps on a stream that nobody holds, around each repetition.

    Where the device waits for the host, the host's time shows, as it does for one who launches one
    piece of work after the other.
    """

    stream: Stream

    def measure(
        self, subject: Subject, before: Before, repetitions: int, batch: int
    ) -> list[float]:
        """All repetitions in one go, waited for at the end."""
        laps = _stamped(self.stream, subject, before, range(repetitions), batch)
        self.stream.sync()
        return laps()


@dataclass(frozen=True)
class DeviceClock:
    """Between two stamps on the stream, which the device itself makes."""

    stream: Stream

    def measure(
        self, subject: Subject, before: Before, repetitions: int, batch: int
    ) -> list[float]:
        """As many repetitions at a time as a stream takes while it is held."""
        found: list[float] = []
        while len(found) < repetitions:
            room = subject.room
            group = max(1, min(repetitions - len(found), room // batch))
            numbers = range(len(found), len(found) + group)
            with self._held(group * batch <= room) as gave_up:
                laps = _stamped(self.stream, subject, before, numbers, batch)
            self.stream.sync()
            if gave_up.is_set():
                subject.needs_more_room()
            else:
                found += laps()
        return found

    @contextmanager
    def _held(self, holding: bool) -> Iterator[threading.Event]:
        """Hold the stream, but not for ever: the host may come to wait for it."""
        gave_up = threading.Event()
        if not holding:
            yield gave_up
            return
        hold = self.stream.hold()

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


def _stamped(
    stream: Stream, subject: Subject, before: Before, repetitions: range, batch: int
) -> Callable[[], list[float]]:
    """Put repetitions on a stream, each between two stamps: their times, once it is done."""
    pairs = []
    for repetition in repetitions:
        before()
        start = stream.stamp()
        subject.put_batch(repetition, batch)
        pairs.append((start, stream.stamp()))
    return lambda: [end.seconds_since(start) / batch for start, end in pairs]


_CLOCKS: dict[str, Callable[[Stream], Clock]] = {"cuda": DeviceClock, "cpu": HostClock}


def clock_of(stream: Stream) -> Clock:
    """The clock that fits the device of a stream."""
    return _CLOCKS[stream.device.kind](stream)
