"""What is timed: one or several callables, put on a stream in turn.

A callable of any kind will do: one that builds or submits an operation of ours, a torch function, a
Triton kernel, a launch by the driver, the launch of a graph. Torch's current stream is ours while
anything runs here, so everything that follows it is on the stream that is timed.
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

# Something to time; several take turns, which keeps a cache from serving them.
Run: TypeAlias = "Callable[[], object] | Sequence[Callable[[], object]]"

_ROOM = 128  # runs: a stream takes about a thousand launches before the host has to wait
_LESS = 8


class Subject:
    """Callables in turn, and how many of them a held stream takes."""

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
        self.seconds = 0.0  # that one run takes, about, as soon as that is known

    @property
    def turns(self) -> int:
        """How many callables take turns."""
        return len(self._runs)

    def put(self, number: int) -> None:
        """Put one run on the current stream."""
        made = self._runs[number % len(self._runs)]()
        if isinstance(made, DeviceOp) and made.state is State.BUILT:
            made.submit()

    def put_batch(self, repetition: int, batch: int) -> None:
        """Put the runs of one repetition on the current stream: those of all take turns."""
        for step in range(batch):
            self.put(repetition * batch + step)

    def needs_more_room(self) -> None:
        """A held stream did not take it: next time it gets less, in the end no hold at all."""
        self.room //= _LESS


def drain(stream: Stream) -> None:
    """Wait for everything on a stream, also for what others have put there uncounted."""
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
