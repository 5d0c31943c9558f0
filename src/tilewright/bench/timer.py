"""`do_bench`: the time of one subject, and the `Timer` that comparisons share.

The first run compiles and is never counted. The subject then runs until the GPU's clocks have
ramped up; each figure is the mean of as many runs as the clock's resolution needs. With `flush`
every run starts with a cold cache, and each figure is a single run.
"""

from __future__ import annotations

import math
import time

from tilewright.bench.clocks import Clock, clock_of
from tilewright.bench.subjects import Run, Subject, drain, on_stream
from tilewright.bench.timing import Effort, Timing
from tilewright.dtypes import u8
from tilewright.runtime.devices.device import current_device
from tilewright.runtime.devices.stream import Stream
from tilewright.runtime.memory.creation import empty
from tilewright.runtime.memory.tensor import Tensor
from tilewright.runtime.ops.copies import fill

__all__ = ["Timer", "do_bench"]

_LARGER_THAN_CACHES = {"cuda": 256 << 20, "cpu": 64 << 20}  # bytes
_LARGEST_BATCH = 100


class Timer:
    """Times subjects on one stream."""

    def __init__(
        self,
        stream: Stream | None = None,
        effort: Effort | None = None,
        *,
        flush: bool = False,
        clock: Clock | None = None,
    ) -> None:
        self.stream = stream or current_device().stream
        self.effort = effort or Effort()
        self._clock = clock or clock_of(self.stream)
        self._flushed: Tensor | None = None
        if flush:
            device = self.stream.device
            self._flushed = empty((_LARGER_THAN_CACHES[device.kind],), u8, device=device)

    def first_runs(self, run: Run) -> Subject:
        """Run a callable for the first times; return a subject with its approximate, cold time."""
        subject = Subject(run)
        with on_stream(self.stream):
            for number in range(subject.turns):  # compiles, which would outlast a hold
                subject.put(number)
            drain(self.stream)
            subject.seconds = min(self._clock.measure(subject, _nothing, 2, 1))
        return subject

    def warm(self, subject: Subject) -> int:
        """Run a subject until it is warm; return the number of runs for one figure."""
        with on_stream(self.stream):
            self._warm_up(subject)
        if self._flushed is not None or subject.seconds <= 0:
            return 1
        return max(1, min(_LARGEST_BATCH, math.ceil(self.effort.shortest / subject.seconds)))

    def prepare(self, run: Run) -> tuple[Subject, int]:
        """Run a callable until it is warm; return its subject and the runs for one figure."""
        subject = self.first_runs(run)
        return subject, self.warm(subject)

    def measure(self, subject: Subject, batch: int) -> Timing:
        """Time a prepared subject."""
        figures = self.effort.figures(subject.seconds * batch)
        with on_stream(self.stream):
            found = self._clock.measure(subject, self._flush, figures, batch)
        return Timing(tuple(found), batch)

    def time(self, run: Run) -> Timing:
        """Prepare and time."""
        return self.measure(*self.prepare(run))

    def _warm_up(self, subject: Subject) -> None:
        warmup, seconds = self.effort.warmup, max(subject.seconds, 1e-6)
        end = time.perf_counter() + warmup
        at_once = max(1, min(_LARGEST_BATCH, int(warmup / seconds) // 4))
        while time.perf_counter() < end:
            for number in range(at_once):
                subject.put(number)
                if time.perf_counter() >= end:  # a slow launch needs no more runs
                    break
            drain(self.stream)

    def _flush(self) -> None:
        if self._flushed is not None:
            fill(self._flushed, 0).submit(self.stream)


def _nothing() -> None:
    """Do nothing, before a run with a warm cache."""


def do_bench(
    run: Run, *, stream: Stream | None = None, effort: Effort | None = None, flush: bool = False
) -> Timing:
    """Time a callable, or several that take turns, on a stream; by default on the current one.

    An operation that the callable builds is submitted. `flush` clears the device's cache before
    each run; rotating over buffers larger than the cache is the alternative, and times batches.
    """
    return Timer(stream, effort, flush=flush).time(run)
