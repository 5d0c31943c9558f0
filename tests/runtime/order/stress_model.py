"""The model beside the stress test's tensors: their contents, and the refusals.

A `Cell` is a tensor with its contents in NumPy, the borrows of built operations and the failures
that nothing has overwritten. A worker holds the locks of its cells from looking at the model to
telling it of the change, so the model is exact at every moment; the operations themselves run
whenever they like.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

import tilewright as tw
from tilewright import BorrowError, Mut, OutOfBoundsError, Ref, f32, i32
from tilewright.dims import B, M, N

SIZE, TILE = 64, 16
WHOLE, LOW, HIGH = slice(0, SIZE), slice(0, SIZE // 2), slice(SIZE // 2, SIZE)
PARTS = (WHOLE, WHOLE, LOW, HIGH)


@tw.kernel
def affine(z: Mut[f32, B], x: Ref[f32, N], a: f32, b: f32) -> None:
    z.store(x.load_like(z) * a + b)


@tw.kernel
def bump(z: Mut[f32, B], b: f32) -> None:
    z.store(z.load() + b)


@tw.kernel
def pick(z: Mut[f32, B], x: Ref[f32, N], ids: Ref[i32, M]) -> None:
    i = ids.partition(1)[z.index[0]].item()
    z.store(x.partition(B)[i])


def meet(one: slice, other: slice) -> bool:
    return one.start < other.stop and other.start < one.stop


def covers(one: slice, other: slice) -> bool:
    return one.start <= other.start and other.stop <= one.stop


class Held(NamedTuple):
    """The part of a cell that a built operation holds."""

    part: slice
    writes: bool


class Cell:
    """A tensor and all that is known of it."""

    def __init__(self, device: str, values: np.ndarray) -> None:
        self.device = device
        self.lock = threading.RLock()
        self.values = values
        self.tensor = tw.from_numpy(values, device=device)
        self.held: dict[object, list[Held]] = {}  # by operation
        self.graphs = 0  # that have its memory in their nodes
        self.wrong = np.zeros(SIZE, bool)  # comes from a failure: its readers are told
        self.doubtful: list[slice] = []  # written by a failed operation: its readers may be told

    def view(self, part: slice) -> tw.Tensor:
        return self.tensor if part is WHOLE else self.tensor[part]

    def conflicts(self, wanted: Held) -> bool:
        return any(
            meet(one.part, wanted.part) and (one.writes or wanted.writes)
            for held in self.held.values()
            for one in held
        )

    def must_fail(self, part: slice) -> bool:
        return bool(self.wrong[part].any())

    def may_fail(self, part: slice) -> bool:
        return any(meet(one, part) for one in self.doubtful)

    def write(self, part: slice, values: Any, *, must_fail: bool, may_fail: bool) -> None:
        self.values = self.values.copy()  # a comparison with the old ones may be under way
        self.values[part] = values
        self.wrong[part] = must_fail
        self.doubtful = [one for one in self.doubtful if not covers(part, one)]
        if may_fail:
            self.doubtful.append(part)

    def check(self, part: slice, read: Callable[[], np.ndarray]) -> None:
        """Read, and compare with the truth; a refusal must be right, and so must its absence."""
        conflict = self.conflicts(Held(part, False))
        try:
            found = read()
        except BorrowError:
            assert conflict, "a read was refused, and nothing holds what it reads"
        except OutOfBoundsError:
            assert self.may_fail(part), "a read was refused, and nothing has failed"
        else:
            assert not conflict, "a read was not refused, and something holds what it reads"
            assert not self.must_fail(part), "a failure was not told"
            assert found.tolist() == self.values[part].tolist(), "a wrong value"


class Where(NamedTuple):
    """A part of a cell."""

    cell: Cell
    part: slice

    @property
    def tensor(self) -> tw.Tensor:
        return self.cell.view(self.part)

    @property
    def values(self) -> np.ndarray:
        return self.cell.values[self.part]


@dataclass(frozen=True, eq=False)
class Step:
    """One launch: how it is built, and what it means."""

    z: Where
    x: Where | None
    build: Callable[[], tw.DeviceOp[Any]]
    mean: Callable[[], np.ndarray]  # the new contents of z
    fails: bool = False
    is_affine: bool = False

    @property
    def cells(self) -> list[Cell]:
        return [one.cell for one in (self.z, self.x) if one is not None]

    @property
    def reads(self) -> Where:
        return self.z if self.x is None else self.x

    def claims(self) -> list[tuple[Cell, Held]]:
        found = [(self.z.cell, Held(self.z.part, True))]
        if self.x is not None:
            found.append((self.x.cell, Held(self.x.part, False)))
        return found

    def apply(self) -> None:
        """It has been submitted: its turn comes after everything submitted before."""
        source = self.reads
        must = self.fails or source.cell.must_fail(source.part)
        may = self.fails or source.cell.may_fail(source.part)
        self.z.cell.write(self.z.part, self.mean(), must_fail=must, may_fail=may)


def affine_step(z: Where, x: Where, a: float, b: float) -> Step:
    return Step(
        z,
        x,
        lambda: affine(z.tensor.partition(TILE), x.tensor, a, b),
        lambda: x.values * np.float32(a) + np.float32(b),
        is_affine=True,
    )


def bump_step(z: Where, b: float) -> Step:
    return Step(
        z, None, lambda: bump(z.tensor.partition(TILE), b), lambda: z.values + np.float32(b)
    )


def pick_step(z: Where, x: Where, ids: tw.Tensor, places: list[int]) -> Step:
    """Tiles of x by number; one that there is not fails the launch."""

    def mean() -> np.ndarray:
        return x.values.reshape(-1, TILE)[np.clip(places, 0, SIZE // TILE - 1)].ravel()

    fails = max(places) >= SIZE // TILE
    return Step(z, x, lambda: pick(z.tensor.partition(TILE), x.tensor, ids), mean, fails)


@contextmanager
def locked(cells: Iterable[Cell]) -> Iterator[None]:
    """Their locks, in one order for all."""
    with ExitStack() as stack:
        for cell in sorted(set(cells), key=id):
            stack.enter_context(cell.lock)
        yield


@dataclass(eq=False)
class Recorded:
    """A graph and what its nodes mean."""

    graph: tw.Graph
    steps: list[Step]
    may_report: bool = False  # a replay may have failed: the next one says so


@dataclass(eq=False)
class Plan:
    """An operation and what it means: one launch, several in a row, or a graph's replay."""

    steps: list[Step]
    build: Callable[[], tw.DeviceOp[Any]]
    operation: tw.DeviceOp[Any] | None = None
    source: Recorded | None = None
    claimed: list[tuple[Cell, Held]] = field(default_factory=list)

    @property
    def cells(self) -> list[Cell]:
        return [cell for step in self.steps for cell in step.cells]

    def claims(self) -> list[tuple[Cell, Held]]:
        return [claim for step in self.steps for claim in step.claims()]

    def may_fail(self) -> bool:
        told_late = self.source is not None and self.source.may_report
        return told_late or any(s.reads.cell.may_fail(s.reads.part) for s in self.steps)

    def try_build(self) -> bool:
        """Build it, unless it is refused; then the refusal must be right."""
        conflict = any(cell.conflicts(held) for cell, held in self.claims())
        try:
            self.operation = self.build()
        except BorrowError:
            assert conflict, "refused, and nothing holds what it wants"
            return False
        except OutOfBoundsError:
            assert self.may_fail(), "refused, and nothing that it reads has failed"
            return False
        assert not conflict, "not refused, and something holds what it wants"
        self.claimed = self.claims()
        for cell, held in self.claimed:
            cell.held.setdefault(self, []).append(held)
        return True

    def release(self) -> None:
        """It is no longer built, one way or another."""
        for cell, _ in self.claimed:
            cell.held.pop(self, None)

    def submit(self, **given: Any) -> bool:
        """Submit it, unless something it reads has failed meanwhile."""
        assert self.operation is not None
        self.release()
        try:
            self.operation.submit(**given)
        except OutOfBoundsError:
            assert self.may_fail(), "refused, and nothing that it reads has failed"
            return False
        self.apply()
        return True

    def apply(self) -> None:
        if self.source is not None and self.may_fail():
            self.source.may_report = True
        for step in self.steps:
            step.apply()

    def told(self, error: OutOfBoundsError | None, *, may_fail: bool, must_fail: bool) -> None:
        """Compare how it ended with what had to be."""
        assert error is None or may_fail, "it says that it failed, and it cannot have"
        assert error is not None or not must_fail, "it failed, and does not say so"


def plan_of(step: Step) -> Plan:
    return Plan([step], step.build)
