"""What work costs the host, apart from the device: many steps in a row on one stream.

Two figures each: until the last step has returned, which is the host's own cost while the stream
has room, and until the device is done. Ways to do the same take turns, as in `paired`; what a way
prepares is built before its timer starts.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

from tilewright.bench.subjects import drain, on_stream
from tilewright.bench.timing import Timing
from tilewright.errors import TilewrightError
from tilewright.runtime.devices.device import current_device
from tilewright.runtime.devices.stream import Stream

__all__ = ["BrokenWay", "HostCost", "Prepare", "each", "host_costs"]

# Builds what is needed for so many steps, and gives what does them all.
Prepare: TypeAlias = "Callable[[int], Callable[[], object]]"


@dataclass(frozen=True)
class HostCost:
    """Seconds a step, one figure a turn."""

    queued: Timing
    done: Timing

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {"queued": self.queued.to_json(), "done": self.done.to_json()}


class BrokenWay(TilewrightError):
    """A way that raised: which one it was, and its exception as the cause."""

    def __init__(self, name: str, error: Exception) -> None:
        super().__init__(f"{name} could not be timed: {type(error).__name__}: {error}")
        self.name = name


def each(step: Callable[[], object]) -> Prepare:
    """The same call for every step, with nothing to prepare."""

    def prepare(count: int) -> Callable[[], object]:
        def run() -> None:
            for _ in range(count):
                step()

        return run

    return prepare


def host_costs(
    ways: Mapping[str, Prepare], *, count: int = 1000, turns: int = 9, stream: Stream | None = None
) -> dict[str, HostCost]:
    """Time each way in turn; `count` stays below what a stream takes before the host must wait."""
    if count < 1 or turns < 1:
        raise ValueError(
            f"at least one step and one turn are needed, not count={count} and turns={turns}"
        )
    chosen = stream or current_device().stream
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    with on_stream(chosen), _without_old_garbage():
        for turn in range(-1, turns):  # the first one compiles and is not counted
            for name, prepare in ways.items():
                try:
                    times = _times(prepare(count), chosen)
                except Exception as error:
                    raise BrokenWay(name, error) from error
                if turn >= 0:
                    found[name].append(times)
    return {name: _cost(times, count) for name, times in found.items()}


@contextmanager
def _without_old_garbage() -> Iterator[None]:
    """Collections look at what the ways make, not at all that lives as long as the process."""
    had_frozen = gc.get_freeze_count() > 0
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        if not had_frozen:  # what somebody else has set aside stays there
            gc.unfreeze()


def _times(run: Callable[[], object], stream: Stream) -> tuple[float, float]:
    gc.collect()  # what the way before has left is not this one's to clear away
    stream.device.synchronize()
    drain(stream)
    start = time.perf_counter()
    run()
    returned = time.perf_counter()
    drain(stream)
    return returned - start, time.perf_counter() - start


def _cost(times: list[tuple[float, float]], count: int) -> HostCost:
    queued, done = zip(*times, strict=True)
    return HostCost(Timing(queued).per(count), Timing(done).per(count))
