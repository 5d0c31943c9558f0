"""Host cost of work, apart from the device: many steps in a row on one stream.

Each way has two figures: until the last step has returned, which is the host's own cost while the
stream has room, and until the device is done. Ways to do the same alternate, as in `paired`; the
preparation of a way is not timed.
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

# Prepares a number of steps, and returns a function that runs them all.
Prepare: TypeAlias = "Callable[[int], Callable[[], object]]"


@dataclass(frozen=True)
class HostCost:
    """Seconds for each step, one figure for each turn."""

    queued: Timing
    done: Timing

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {"queued": self.queued.to_json(), "done": self.done.to_json()}


class BrokenWay(TilewrightError):
    """A way raised: its name, with its exception as the cause."""

    def __init__(self, name: str, error: Exception) -> None:
        super().__init__(f"{name} could not be timed: {type(error).__name__}: {error}")
        self.name = name


def each(step: Callable[[], object]) -> Prepare:
    """Return the same call for every step, without preparation."""

    def prepare(count: int) -> Callable[[], object]:
        def run() -> None:
            for _ in range(count):
                step()

        return run

    return prepare


def host_costs(
    ways: Mapping[str, Prepare], *, count: int = 1000, turns: int = 9, stream: Stream | None = None
) -> dict[str, HostCost]:
    """Time the ways in turn; `count` stays below the steps that fill a stream."""
    if count < 1 or turns < 1:
        raise ValueError(
            f"at least one step and one turn are needed, not count={count} and turns={turns}"
        )
    chosen = stream or current_device().stream
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    with on_stream(chosen), _without_old_garbage():
        for turn in range(-1, turns):  # turn -1 compiles and is not counted
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
    """Limit garbage collections to objects of the ways, not of the whole process."""
    had_frozen = gc.get_freeze_count() > 0
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        if not had_frozen:  # objects frozen by other code stay frozen
            gc.unfreeze()


def _times(run: Callable[[], object], stream: Stream) -> tuple[float, float]:
    gc.collect()  # garbage of the way before is not charged to this one
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
