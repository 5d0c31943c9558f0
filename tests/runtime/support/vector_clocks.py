"""A GPU on paper that keeps vector clocks: which work is known to come before which.

A clock says how much of each stream comes before a point. An event carries the clock of its
stream, a wait takes it over, and so does the host when it has waited. Two pieces of work that touch
the same element, one of them writing, must be in order; a wait must order some work that was not in
order before. Only calls of the driver are looked at: nothing here knows how the runtime decides.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from runtime_doubles import RecordingDriver

from tilewright.runtime.memory.regions import Region

Clock = Counter  # how much of each stream


class Touch(NamedTuple):
    """Elements of one storage, by its address, that a piece of work reads or writes."""

    address: int
    elements: frozenset[int]
    region: Region  # the same, as the runtime describes it
    writes: bool

    def meets(self, other: Touch) -> bool:
        """Whether the two conflict, as far as the runtime can tell apart what they touch."""
        same = self.address == other.address and (self.writes or other.writes)
        return same and self.region.overlaps(other.region)


def touch(tensor, *, writes):
    """The elements of a tensor as a use; its bytes are allocated."""
    reach = np.zeros(tensor.shape, np.int64) + tensor.offset
    for axis, (extent, stride) in enumerate(zip(tensor.shape, tensor.strides, strict=True)):
        steps = np.arange(extent) * stride
        reach += steps.reshape((-1,) + (1,) * (tensor.ndim - axis - 1))
    elements = frozenset(reach.ravel().tolist())
    return Touch(tensor.storage.address, elements, tensor.region, writes)


@dataclass(frozen=True, slots=True, eq=False)
class Act:
    """A piece of work on a stream: the how-manieth it is there, and all that comes before it."""

    name: str
    stream: object
    tick: int
    clock: Clock
    touches: tuple[Touch, ...]

    def comes_before(self, clock: Clock) -> bool:
        return clock[self.stream] >= self.tick


class _Wait(NamedTuple):
    source: object
    known: Clock  # the clock before, without it


@dataclass
class _Memory:
    """The last accesses of each element of a storage: all earlier ones come before them."""

    writers: dict[int, Act] = field(default_factory=dict)
    readers: defaultdict[int, dict[object, Act]] = field(default_factory=lambda: defaultdict(dict))

    def before(self, touch: Touch):
        for element in touch.elements:
            if element in self.writers:
                yield self.writers[element]
            if touch.writes:
                yield from self.readers[element].values()

    def add(self, touch: Touch, act: Act) -> None:
        for element in touch.elements:
            if touch.writes:
                self.writers[element] = act
                self.readers[element].clear()
            else:
                self.readers[element][act.stream] = act


class ClockedDriver(RecordingDriver):
    """One GPU on paper, with a clock for each stream and for the host."""

    INITIAL = frozenset({"allocate", "fill", "copy_in"})
    looks_at_waits = True

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)
        self.subject: tuple = ()  # (tensor, whether it is written) of what is being submitted
        self.acts: defaultdict[object, list[Act]] = defaultdict(list)
        self.waits_put = 0
        self.naive_waits = 0  # one for each other stream with earlier work in conflict
        self.problems: list[str] = []
        self._clocks: defaultdict[object, Clock] = defaultdict(Clock)
        self._host = Clock()  # completed work, by all that is known
        self._seen = Clock()  # completed work, by answers of the driver
        self._events: dict[int, Clock] = {}
        self._pending: defaultdict[object, list[_Wait]] = defaultdict(list)
        self._memories: defaultdict[int, _Memory] = defaultdict(_Memory)
        self._sizes: dict[int, int] = {}
        self._address = 0

    # Calls that order.

    def record_event(self, event, stream):
        super().record_event(event, stream)
        self._events[event.number] = Clock(self._clocks[stream])

    def wait_event(self, stream, event):
        super().wait_event(stream, event)
        self.waits_put += 1
        self._pending[stream].append(_Wait(event.at[0], self._clocks[stream] | self._seen))
        self._clocks[stream] |= self._events[event.number]

    def synchronize_stream(self, stream):
        super().synchronize_stream(stream)
        self._see(stream)

    def query_stream(self, stream):
        is_empty = super().query_stream(stream)
        if is_empty:
            self._see(stream)
        return is_empty

    def query_event(self, event):
        has_passed = super().query_event(event)
        if has_passed:
            self._see(event.at[0], self._events[event.number])
        return has_passed

    def _see(self, stream, clock=None):
        """Note completed work there: all of it, if no earlier point is given."""
        reached = self._clocks[stream] if clock is None else clock
        self._host |= reached
        self._seen[stream] = max(self._seen[stream], reached[stream])

    # Calls that are ordered.

    def allocate(self, nbytes, pool, stream):
        self._address = self._next
        self._sizes[self._next] = nbytes
        return super().allocate(nbytes, pool, stream)

    def free(self, address, stream):
        self._address = address
        super().free(address, stream)

    def fill(self, address, pattern, repeats, stream):
        self._address = address
        super().fill(address, pattern, repeats, stream)

    def copy_in(self, address, source, nbytes, stream):
        self._address = address
        super().copy_in(address, source, nbytes, stream)

    def _put(self, stream, name, task=None, after=None):
        super()._put(stream, name, task, after)
        if name == "wait":
            return
        clock = self._clocks[stream]
        clock[stream] += 1
        act = Act(name, stream, clock[stream], clock | self._host, self._touched(name))
        self._check_order(act)
        # Waits may stand before the first contents of another tensor.
        if name not in self.INITIAL and self.looks_at_waits:
            self._check_waits(act)
        self.acts[stream].append(act)
        for one in act.touches:
            self._memories[one.address].add(one, act)

    def _touched(self, name: str) -> tuple[Touch, ...]:
        if name in self.INITIAL or name == "free":
            nbytes = self._sizes[self._address]
            elements = frozenset(range(-(-nbytes // 4)))
            return (Touch(self._address, elements, Region.whole(nbytes), True),)
        return tuple(touch(tensor, writes=writes) for tensor, writes in self.subject)

    def _check_order(self, act: Act) -> None:
        others = set()
        for one in act.touches:
            for earlier in self._memories[one.address].before(one):
                if earlier.stream is not act.stream:
                    others.add(earlier.stream)
                if not earlier.comes_before(act.clock):
                    self.problems.append(
                        f"{act.name} {act.tick} on {act.stream} is not ordered behind"
                        f" {earlier.name} {earlier.tick} on {earlier.stream}"
                    )
        self.naive_waits += len(others)

    def _check_waits(self, act: Act) -> None:
        for wait in self._pending.pop(act.stream, ()):
            candidates = self.acts[wait.source][wait.known[wait.source] :]
            if not any(mine.meets(its) for one in candidates for its in one.touches
                       for mine in act.touches):  # fmt: skip
                self.problems.append(
                    f"{act.name} {act.tick} on {act.stream} waits for {wait.source} in vain"
                )
