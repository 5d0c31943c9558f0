"""Random launches with others in the middle of them, against vector clocks.

A finaliser or a signal handler comes somewhere in a change and makes a change of its own. In a
critical section that is refused and nothing has changed; elsewhere it runs as a whole. In the end
everything that conflicts is ordered and nothing is held.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import wraps
from typing import Any

import pytest
from collector_points import Points
from launch_program import Launches
from order_program import COUNT, EACH, SEED

import tilewright as tw
from tilewright.errors import BorrowError, LaunchError
from tilewright.runtime.ops.lifecycle import State

pytestmark = pytest.mark.usefixtures("no_tileiras")

MIDDLE = re.compile(r"cuda:0 is in the middle of (.+?), which this call has interrupted")
# Of steps of a chain and of blocks that record a graph, also for finalisers that run inside.
RULES = ("this is a step of", "a graph is being recorded already", "would run now, and uses")
# Of an operation that a nested call has run or closed before the interrupted call did.
MEANWHILE = ("was submitted already", "was closed")


class InTurn:
    """Uses of several launches, as their turn comes."""

    def __init__(self, subjects: Iterable[list]) -> None:
        self._left = iter(subjects)

    def __iter__(self) -> Iterator:
        return iter(next(self._left))


def unless_refused(change: Callable[[Any], None]) -> Callable[[Any], None]:
    """The same change, which does nothing if an operation that is kept stands against it."""

    @wraps(change)
    def tried(program: Any) -> None:
        with suppress(BorrowError):
            change(program)

    return tried


class Nested(Launches):
    """The same program, in which a change may come in the middle of another."""

    WEIGHTS = Launches.WEIGHTS | {"in_between": 60, "submit_kept": 10, "end": 0}
    OUTER = ("again", "submit", "chain", "replay", "read", "wait", "submit_kept", "close_kept",
             "zip", "record", "update")  # fmt: skip
    INNER = ("again", "submit", "replay", "read", "submit_kept", "close_kept", "zip", "wait",
             "record", "update", "synchronize")  # fmt: skip
    # Points that a change has at most, about, so that one of them is taken.
    FAR = 500

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.driver.looks_at_waits = False  # a nested call may have waited for everything
        self.kept: list[tuple[tw.DeviceOp, list]] = []
        self.met = self.refused = 0
        self.interrupted: set[str] = set()  # operations in the middle of which a call came

    def let_go(self) -> None:
        for operation, _ in self.kept:
            operation.close()
        self.kept.clear()
        self.driver.subject = ()  # of one that was refused
        super().let_go()
        gc.collect()
        self.settle()

    again = unless_refused(Launches.again)
    submit = unless_refused(Launches.submit)
    chain = unless_refused(Launches.chain)
    replay = unless_refused(Launches.replay)
    in_turns = unless_refused(Launches.in_turns)
    read = unless_refused(Launches.read)
    record = unless_refused(Launches.record)
    update = unless_refused(Launches.update)

    def zip(self) -> None:
        """Two launches that are built before either is submitted."""
        parts: list[tuple[tw.DeviceOp, list]] = []
        try:
            parts += (self.build() for _ in range(2))
        except BorrowError:
            for operation, _ in parts:
                operation.close()
            return
        operations, subjects = zip(*parts, strict=True)
        self.driver.subject = InTurn(subjects)
        tw.zip(*operations).submit(self.stream())
        self.driver.subject = ()
        self.submissions += 2

    def submit_kept(self) -> None:
        """One that was built before; or another is built, to be kept."""
        kept = [one for one in self.kept if one[0].state is State.BUILT]
        if kept:
            try:
                self.put(*kept[-1])
            except LaunchError as error:
                if not any(rule in str(error) for rule in MEANWHILE):
                    raise
                self.driver.subject = ()
        elif self.draw.random() < 0.5:
            with suppress(BorrowError):
                self.kept.append(self.build())

    def close_kept(self) -> None:
        for operation, _ in self.kept:
            operation.close()

    def in_between(self) -> None:
        outer, inner = self.draw.choice(self.OUTER), self.draw.choice(self.INNER)
        points = Points(self.draw.randrange(self.FAR), lambda: self.nested(inner))
        with points:
            getattr(self, outer)()
        self.met += points.where is not None
        self.close_kept()
        self.kept.clear()
        self.settle()
        assert self.device.busy is None
        for views in self.roots:
            assert views[0].storage.timeline.borrows() == (), (outer, inner, points.where)

    def settle(self) -> None:
        """Let go of operations that exceptions have kept."""
        gc.collect(1)
        with self.device.lock:
            self.device.settle_deferred()

    def nested(self, name: str) -> None:
        subject, last, submissions = self.driver.subject, self.last, self.submissions
        before = self.state()
        try:
            getattr(self, name)()
        except LaunchError as error:
            found = MIDDLE.match(str(error))
            if found is not None:
                self.refused += 1
                self.interrupted.add(found[1])
                assert self.state() == before, f"{name} changed something though it was refused"
            elif not any(rule in str(error) for rule in RULES):
                raise
            self.submissions = submissions
        self.driver.subject, self.last = subject, last

    def state(self) -> list:
        """The whole order of work: clocks, uses, borrows, graphs, operations, driver calls."""
        found: list = [self.device.busy, len(self.driver.log), len(self.graphs)]
        for stream in self.device.streams:
            found.append((stream.issued, stream.queue.marked, dict(stream.waited)))
        for views in self.roots:
            timeline = views[0].storage.timeline
            uses = [(id(use), id(use.stream), use.count, use.writes) for use in timeline.uses]
            found.append((uses, timeline.borrows(), timeline.stream, tuple(timeline.graphs)))
        for graph, nodes in self.graphs:
            access = graph._built.access
            stamp = access.stamp and (access.stamp.stream, access.stamp.count)
            changing = {*access.dirty}, {*access.direct}
            found.append((tuple(access.holders), changing, stamp, len(nodes)))
        return [*found, [operation.state for operation, _ in self.kept]]


def test_what_is_in_conflict_is_ordered_whatever_comes_in_between(record_property):
    submissions = met = refused = 0
    interrupted: set[str] = set()
    for number in range(COUNT // 4 // EACH):
        seed = SEED * 1_000_003 + number
        program = Nested(seed)
        try:
            program.run(EACH)
        except BaseException as error:
            error.add_note(f"Nested({seed})")
            raise
        submissions += program.submissions
        met += program.met
        refused += program.refused
        interrupted |= program.interrupted
    summary = f"{submissions:,} launches, {met:,} with another in between, {refused:,} refused"
    record_property("nested", summary)
    print(f"\nseed {SEED}: {summary}")  # noqa: T201 (for `make model`)
    assert met > submissions // 50
    assert 0 < refused < met
    assert {"shift", "grow", "graph replay"} <= interrupted
