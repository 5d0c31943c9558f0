"""The cores of the process, shared between the kernels that run at the same time.

Each stream runs one kernel at a time, on at least one thread; helping threads are granted as long
as cores are left. A thread without a core of its own must be waited for: a short kernel leaves the
cores of other processes to them, a long one competes for its share. A BLAS with threads of its own
splits a product evenly and waits for the slowest part: `are_free` tells whether it has all cores.
"""

from __future__ import annotations

import os
from pathlib import Path
from time import monotonic

from tilewright.runtime.devices.process import ForkedLock, in_children, usable_cores

__all__ = ["CORES", "Cores", "busy_seconds"]

_STATISTICS = Path("/proc/stat")  # of Linux; elsewhere other processes are not seen
_SECONDS = 0.25  # between two looks at other processes


class Cores:
    """The threads of this process that run blocks, and the cores that other processes use."""

    def __init__(self) -> None:
        self._lock = ForkedLock()
        self._taken = 0
        self._others = 0.0
        self._seen = (0.0, 0.0)  # time of the last look, and seconds of others until then
        in_children(self._begin)

    def _begin(self) -> None:
        self._taken = 0  # a forked child has none of the threads

    def take(self, wanted: int, *, is_long: bool = False) -> int:
        """Return the number of threads granted, at least one; `give_back` ends their use.

        A long use also has the cores that other processes use.
        """
        with self._lock:
            self._look()
            granted = 1
            if wanted > 1:
                cores = usable_cores() if is_long else self._left()
                granted = max(1, min(wanted, cores - self._taken))
            self._taken += granted
            return granted

    def give_back(self, granted: int) -> None:
        """End the use of some threads."""
        with self._lock:
            self._taken = max(self._taken - granted, 0)

    def are_free(self) -> bool:
        """Whether no other kernel and no other process uses a core."""
        with self._lock:
            return self._taken <= 1 and self._left() == usable_cores()

    def _left(self) -> int:
        """Return the number of cores that other processes leave, rounded."""
        self._look()
        return usable_cores() - round(self._others)

    def _look(self) -> None:
        """Measure the cores that other processes use, once in a while."""
        now = monotonic()
        then, before = self._seen
        if now - then > _SECONDS:
            cpu = os.times()
            seconds = busy_seconds() - cpu.user - cpu.system
            self._others = max(seconds - before, 0.0) / (now - then) if then else 0.0
            self._seen = (now, seconds)


def busy_seconds(statistics: Path = _STATISTICS) -> float:
    """Return the seconds for which the cores of this process have been busy, with any process."""
    try:
        lines = statistics.read_text().splitlines()
        usable = {f"cpu{number}" for number in os.sched_getaffinity(0)}
        ticks = os.sysconf("SC_CLK_TCK")
    except (AttributeError, OSError, ValueError):
        return 0.0
    busy = 0
    for name, *counts in (line.split() for line in lines if line):
        if name in usable:
            user, nice, system, _idle, _waiting, *interrupts = map(int, counts[:7])
            busy += user + nice + system + sum(interrupts)
    return busy / ticks


# The cores of this process.
CORES = Cores()
