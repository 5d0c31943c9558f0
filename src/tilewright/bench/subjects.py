"""Subjects of a timing: one or several callables, run on a stream in turn.

Any callable is allowed: it may build or submit one of our operations, call torch or a Triton
kernel, or launch through the driver or a graph. Torch's current stream is ours during a timing, so
all work that follows it is on the timed stream.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from tilewright.runtime.devices.stream import Stream
from tilewright.runtime.ops.lifecycle import State
from tilewright.runtime.ops.operation import DeviceOp

__all__ = ["Run", "Subject", "drain", "on_stream"]

# A callable to time; several alternate, which defeats caches.
Run: TypeAlias = "Callable[[], object] | Sequence[Callable[[], object]]"

_ROOM = 128  # runs: a stream takes about a thousand launches before the host must wait
_LESS = 8


class Subject:
    """Callables that alternate, and the number of runs that a held stream takes."""

    def __init__(self, run: Run) -> None:
        self._runs = tuple(run) if isinstance(run, Sequence) else (run,)
        if not self._runs:
            raise ValueError("there is nothing to time: the sequence of callables is empty")
        for one in self._runs:
            if not callable(one):
                raise TypeError(
                    f"a callable is timed, and {type(one).__name__} is none: write `lambda: …`, so"
                    " that every repetition builds its own operation"
                )
        self.room = _ROOM
        self.seconds = 0.0  # approximate time of one run, once it is known

    @property
    def turns(self) -> int:
        """Number of callables that alternate."""
        return len(self._runs)

    def put(self, number: int) -> None:
        """Enqueue one run on the current stream."""
        made = self._runs[number % len(self._runs)]()
        if isinstance(made, DeviceOp) and made.state is State.BUILT:
            made.submit()

    def put_batch(self, repetition: int, batch: int) -> None:
        """Enqueue the runs of one repetition on the current stream; callables alternate."""
        for step in range(batch):
            self.put(repetition * batch + step)

    def needs_more_room(self) -> None:
        """Lower the runs put on a held stream, which did not take them; finally use no hold."""
        self.room //= _LESS


def drain(stream: Stream) -> None:
    """Wait for all work on a stream, uncounted work of other libraries included."""
    with stream.device.lock:
        stream.advance()
    stream.sync()


@contextmanager
def on_stream(stream: Stream) -> Iterator[None]:
    """Make a stream the current one, for torch as well where it is loaded."""
    torch: Any = sys.modules.get("torch")
    with stream.device.using(stream):
        if torch is None or not stream.queue.number or not torch.cuda.is_available():
            yield
            return
        theirs = torch.cuda.ExternalStream(stream.queue.number, device=stream.device.ordinal)
        with torch.cuda.stream(theirs):
            yield
