"""Clocks: the device's, read by its stream, held or not, and the host's.

The device's clock is the default on a GPU. The stream is held while the host fills it, so that host
time is never included; a run that waits for the device cannot be held, and is timed without a hold.
The host's clock is the default on the CPU and times any callable, NumPy included. `host_cost`
measures the host's own cost of a launch.
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

_PATIENCE = 0.25  # seconds to fill a stream, after which the host is assumed to wait for the device

Before = Callable[[], object]


class Clock(Protocol):
    """A clock that times runs."""

    def measure(
        self, subject: Subject, before: Before, repetitions: int, batch: int
    ) -> list[float]:
        """Return the mean seconds of a run for each repetition; `before` is not counted."""


@dataclass(frozen=True)
class HostClock:
    """Measures from the call until the device has completed it."""

    stream: Stream

    def measure(
        self, subject: Subject, before: Before, repetitions: int, batch: int
    ) -> list[float]:
        """Time one repetition after the other, waiting for each."""
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
    """Measures between two stamps on a stream that is not held, around each repetition.

    Where the device waits for the host, host time is included, as in a program that launches one
    kernel after the other.
    """

    stream: Stream

    def measure(
        self, subject: Subject, before: Before, repetitions: int, batch: int
    ) -> list[float]:
        """Enqueue all repetitions, then wait for them."""
        laps = _stamped(self.stream, subject, before, range(repetitions), batch)
        self.stream.sync()
        return laps()


@dataclass(frozen=True)
class DeviceClock:
    """Measures between two stamps on the stream, made by the device itself."""

    stream: Stream

    def measure(
        self, subject: Subject, before: Before, repetitions: int, batch: int
    ) -> list[float]:
        """Time as many repetitions at once as a held stream takes."""
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
        """Hold the stream for a limited time, since the host may wait for it."""
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
    """Enqueue repetitions, each between two stamps; return their times once they are done."""
    pairs = []
    for repetition in repetitions:
        before()
        start = stream.stamp()
        subject.put_batch(repetition, batch)
        pairs.append((start, stream.stamp()))
    return lambda: [end.seconds_since(start) / batch for start, end in pairs]


_CLOCKS: dict[str, Callable[[Stream], Clock]] = {"cuda": DeviceClock, "cpu": HostClock}


def clock_of(stream: Stream) -> Clock:
    """Return the clock for the device of a stream."""
    return _CLOCKS[stream.device.kind](stream)
