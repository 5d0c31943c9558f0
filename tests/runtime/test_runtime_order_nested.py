"""Random launches with others in the middle of them, against vector clocks.

The collector runs somewhere in a change, or a signal handler does, and what it runs makes a change
of its own. Whatever both were, all that is in conflict is ordered, nobody holds anything behind
them, and what the leases of graphs count on is so.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import wraps
from typing import Any

import pytest
from collector_points import Points
from test_runtime_order_launches import Launches
from test_runtime_order_model import COUNT, EACH, SEED

import tilewright as tw
from tilewright.backends.cuda import program as assembler
from tilewright.errors import BorrowError, LaunchError


class InTurn:
    """What each of several launches touches, as their turn comes."""

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
    OUTER = ("again", "submit", "chain", "replay", "read", "wait", "submit_kept", "zip")
    INNER = ("again", "submit", "replay", "read", "submit_kept", "zip", "synchronize")
    # Points of the changes that were come by at most, so that one of them is taken.
    FAR = 300

    def __init__(self, seed: int, *, of_signals: bool) -> None:
        super().__init__(seed)
        self.driver.looks_at_waits = False  # who comes in between may have waited for all there is
        self.of_signals = of_signals
        self.kept: list[tuple[tw.DeviceOp, list]] = []
        self.met = self.refused = 0

    def let_go(self) -> None:
        for operation, _ in self.kept:
            operation.close()
        self.kept.clear()
        self.driver.subject = ()  # of one that was refused
        super().let_go()
        self.settle()

    again = unless_refused(Launches.again)
    submit = unless_refused(Launches.submit)
    chain = unless_refused(Launches.chain)
    replay = unless_refused(Launches.replay)
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
        """One that was built before; then another is built, to be kept."""
        if self.kept:
            self.put(*self.kept.pop())
        elif self.draw.random() < 0.5:
            with suppress(BorrowError):
                self.kept.append(self.build())

    def in_between(self) -> None:
        outer, inner = self.draw.choice(self.OUTER), self.draw.choice(self.INNER)
        points = Points(
            self.draw.randrange(self.FAR), lambda: self.nested(inner), of_signals=self.of_signals
        )
        with points:
            getattr(self, outer)()
        self.met += points.where is not None
        while self.kept:
            self.kept.pop()[0].close()
        if self.device.told or self.device.latest is not None:
            self.settle()
        assert not self.device.told
        assert self.device.latest is None

    def settle(self) -> None:
        """Let go of what was refused, which its exception has kept."""
        gc.collect()
        with self.device.lock:
            self.device.settle_deferred()

    def nested(self, name: str) -> None:
        subject, last = self.driver.subject, self.last
        try:
            getattr(self, name)()
        except LaunchError as error:
            if "this is a step of" in str(error):
                pass  # of a chain, where nobody may wait
            elif self.of_signals and "in the middle of another call" in str(error):
                self.refused += 1
            else:
                raise
        self.driver.subject, self.last = subject, last


@pytest.fixture(autouse=True)
def no_tileiras(monkeypatch):
    monkeypatch.setattr(assembler, "assemble", lambda *_: b"cubin")


@pytest.mark.parametrize("of_signals", [False, True], ids=["collector", "signals"])
def test_what_is_in_conflict_is_ordered_whatever_comes_in_between(of_signals, record_property):
    submissions = met = refused = 0
    for number in range(COUNT // 8 // EACH):
        seed = SEED * 1_000_003 + number
        program = Nested(seed, of_signals=of_signals)
        try:
            program.run(EACH)
        except BaseException as error:
            error.add_note(f"Nested({seed}, of_signals={of_signals})")
            raise
        submissions += program.submissions
        met += program.met
        refused += program.refused
    summary = f"{submissions:,} launches, {met:,} with another in between, {refused:,} refused"
    record_property("nested", summary)
    print(f"\nseed {SEED}: {summary}")  # noqa: T201 (for those who run `make model`)
    assert met > submissions // 50
    assert (refused > 0) == of_signals
