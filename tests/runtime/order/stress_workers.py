"""Threads and tasks of the stress test: random changes of cells, each one checked."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from stress_model import (
    HIGH,
    LOW,
    PARTS,
    SIZE,
    TILE,
    WHOLE,
    Cell,
    Plan,
    Recorded,
    Where,
    affine_step,
    bump,
    bump_step,
    locked,
    pick_step,
    plan_of,
)

import tilewright as tw
from tilewright import BorrowError, MovedError, OutOfBoundsError

TILES = SIZE // TILE


class Deliberate(Exception):
    """Raised by a step of a chain."""


@dataclass
class World:
    """State that all workers share."""

    devices: tuple[str, ...]
    cells: dict[str, list[Cell]]  # of several workers, by device
    streams: dict[str, list[tw.Stream]]
    happened: list[str] = field(default_factory=list)

    def counts(self) -> dict[str, int]:
        return dict(Counter(self.happened))


class Worker:
    """One thread or task with cells of its own; `act` makes one random change."""

    CHANGES = {
        "submit": 30, "sync": 10, "keep": 6, "run_kept": 14, "close_kept": 3, "drop": 3, "read": 12,
        "chain": 6, "broken_chain": 3, "zipped": 4, "shared": 3, "record": 2, "replay": 14,
        "update": 5, "forget": 1, "move": 3, "renew": 4, "clone": 3, "temporary": 4, "refused": 4,
        "wait": 3,
    }  # fmt: skip

    def __init__(self, world: World, name: str, seed: int) -> None:
        self.world = world
        self.name = name
        self.draw = random.Random(f"{seed} {name}")
        self.device = self.draw.choice(world.devices)
        self.own = [Cell(self.device, self.numbers()) for _ in range(3)]
        self.ids = [
            (places, tw.from_numpy(np.array(places, np.int32), device=self.device))
            for places in ([0, 1, 2, 3], [3, 0, 2, 1], [0, TILES + 5, 1, 2])
        ]
        self.kept: list[Plan] = []
        self.graphs: list[Recorded] = []
        self.done = 0

    def numbers(self) -> np.ndarray:
        return np.array([self.draw.randrange(100) for _ in range(SIZE)], np.float32)

    def act(self) -> None:
        (change,) = self.draw.choices(tuple(self.CHANGES), tuple(self.CHANGES.values()))
        self.done += 1
        try:
            getattr(self, change)()
        except BaseException as error:
            error.add_note(f"in {self.name}, change {self.done}: {change}")
            raise

    def end(self) -> None:
        """Give everything back."""
        for plan in self.kept:
            with locked(plan.cells):
                plan.release()
                plan.operation.close()
        self.kept.clear()
        for cell in self.own:
            with cell.lock:
                cell.check(WHOLE, cell.tensor.numpy)
        self.graphs.clear()
        self.own.clear()
        self.ids.clear()

    # --- choosing ---

    def cell(self) -> Cell:
        return self.draw.choice(self.own + self.world.cells[self.device])

    def where(self, part: slice | None = None) -> Where:
        return Where(self.cell(), part or self.draw.choice(PARTS))

    def stream(self) -> tw.Stream | None:
        return self.draw.choice([None, *self.world.streams[self.device]])

    def step(self, choose: Callable[[], Cell] | None = None) -> Any:
        """A random launch; `choose` picks its cells."""
        choose = choose or self.cell
        z, part = choose(), self.draw.choice(PARTS)
        number = float(self.draw.randrange(-9, 10))
        kind = self.draw.randrange(10)
        if kind < 3:
            return bump_step(Where(z, part), number)
        x = choose()
        if kind < 5 and x is not z:
            places, ids = self.draw.choice(self.ids)
            return pick_step(Where(z, WHOLE), Where(x, WHOLE), ids, places)
        if x is z:  # an output may not overlap an input
            return affine_step(Where(z, LOW), Where(z, HIGH), -1.0, number)
        factor = self.draw.choice((0.0, 1.0, -1.0))
        return affine_step(Where(z, part), Where(x, part), factor, number)

    def own_cell(self) -> Cell:
        return self.draw.choice(self.own)

    def builds(self, plan: Plan) -> bool:
        done = plan.try_build()
        self.world.happened.append("built" if done else "refused")
        return done

    def puts(self, plan: Plan) -> bool:
        done = plan.submit(stream=self.stream())
        self.world.happened.append("submitted" if done else "refused")
        self.world.happened += ["failing"] * sum(step.fails for step in plan.steps if done)
        return done

    # --- one operation ---

    def submit(self) -> None:
        plan = plan_of(self.step())
        with locked(plan.cells):
            if self.builds(plan):
                self.puts(plan)

    def sync(self) -> None:
        plan = plan_of(self.step())
        with locked(plan.cells):
            if self.builds(plan):
                self.finish(plan, lambda: plan.operation.sync())

    def finish(self, plan: Plan, end: Callable[[], object]) -> None:
        """Submit, and compare how it ended."""
        (step,) = plan.steps
        source = step.reads
        may = step.fails or source.cell.may_fail(source.part)
        must = step.fails or source.cell.must_fail(source.part)
        if self.puts(plan):
            error = None
            try:
                end()
            except OutOfBoundsError as caught:
                error = caught
            plan.told(error, may_fail=may, must_fail=must)

    def keep(self) -> None:
        if len(self.kept) < 2:
            plan = plan_of(self.step())
            with locked(plan.cells):
                if self.builds(plan):
                    self.kept.append(plan)

    def run_kept(self) -> None:
        if self.kept:
            plan = self.kept.pop(self.draw.randrange(len(self.kept)))
            with locked(plan.cells):
                self.puts(plan)

    def close_kept(self) -> None:
        if self.kept:
            plan = self.kept.pop()
            with locked(plan.cells):
                plan.release()
                plan.operation.close()

    def drop(self) -> None:
        """Dropped without being run: it warns, and gives its borrows back."""
        plan = plan_of(self.step())
        with locked(plan.cells):
            if self.builds(plan):
                plan.release()
                self.world.happened.append("dropped")
                plan.operation = None

    def refused(self) -> None:
        """Refusals in every state of the tensors."""
        where = self.where()
        with locked([where.cell]):
            with pytest.raises(BorrowError, match="also read by it"):
                affine_step(where, where, 1.0, 1.0).build()
            with pytest.raises(tw.LaunchError, match="has rank 1; the tensor has rank 2"):
                bump(where.tensor.reshape(2, -1).partition(1, TILE), 1.0)

    def temporary(self) -> None:
        """A tensor that is dropped in flight."""
        x = self.where(WHOLE)
        z = Where(Cell(self.device, self.numbers()), WHOLE)
        plan = plan_of(affine_step(z, x, 1.0, 1.0))
        with locked(plan.cells):
            if self.builds(plan):
                self.puts(plan)

    # --- several operations ---

    def chain(self) -> None:
        first, second = self.step(self.own_cell), self.step(self.own_cell)
        plan = Plan([first, second], lambda: first.build().then(lambda _: second.build()))
        plan.claims = first.claims  # the rest is built when the first has been submitted
        with locked(plan.cells):
            if any(cell.held for cell in plan.cells) or plan.may_fail() or first.fails:
                return
            if self.builds(plan):
                self.puts(plan)

    def broken_chain(self) -> None:
        """A chain whose step raises: earlier steps have run, and nothing is held."""
        step = self.step(self.own_cell)

        def fail(_: object) -> Any:
            raise Deliberate

        plan = Plan([step], lambda: step.build().then(fail))
        with locked(plan.cells):
            if plan.may_fail() or not self.builds(plan):
                return
            plan.release()
            with pytest.raises(Deliberate):
                plan.operation.submit(self.stream())
            plan.apply()

    def zipped(self) -> None:
        one, other = self.own[0], self.own[1]
        first = bump_step(Where(one, self.draw.choice(PARTS)), 2.0)
        second = bump_step(Where(other, self.draw.choice(PARTS)), 3.0)
        plan = Plan([first, second], lambda: _zip(first, second))
        with locked(plan.cells):
            if not plan.may_fail() and self.builds(plan):
                self.puts(plan)

    def shared(self) -> None:
        step = bump_step(Where(self.own_cell(), WHOLE), 1.0)
        plan = Plan([step], lambda: step.build().shared())
        with locked(plan.cells):
            if not plan.may_fail() and self.builds(plan) and self.puts(plan):
                assert plan.operation.sync() is plan.operation.sync()

    # --- graphs ---

    def record(self) -> None:
        steps = [self.step(self.own_cell) for _ in range(self.draw.randint(1, 3))]
        cells = [cell for step in steps for cell in step.cells]
        if len(self.graphs) == 2 or any(step.fails for step in steps):
            return
        with locked(cells):
            if any(cell.held for cell in cells) or any(cell.doubtful for cell in cells):
                return
            with tw.graph() as g:
                for step in steps:
                    g.record(step.build())
            for cell in set(cells):
                cell.graphs += 1
            self.graphs.append(Recorded(g, steps))

    def replay(self) -> None:
        if not self.graphs:
            return
        made = self.draw.choice(self.graphs)
        plan = Plan(list(made.steps), made.graph.launch, source=made)
        with locked(plan.cells):
            if self.builds(plan):
                if self.draw.random() < 0.2 and len(self.kept) < 2:
                    self.kept.append(plan)
                else:
                    self.puts(plan)

    def update(self) -> None:
        if not self.graphs:
            return
        made = self.draw.choice(self.graphs)
        number = self.draw.randrange(len(made.steps))
        old = made.steps[number]
        if not old.is_affine:
            return
        step = affine_step(old.z, old.x, 1.0, float(self.draw.randrange(9)))
        with locked(cell for one in made.steps for cell in one.cells):
            plan = plan_of(step)
            if not self.builds(plan):
                return
            plan.release()
            is_held = any(one.source is made for one in self.kept)
            try:
                made.graph.update(plan.operation, node=number)
            except BorrowError:
                assert is_held, "an update was refused, and no replay is built"
                return
            assert not is_held, "an update was not refused, and a replay is built"
            made.steps[number] = step

    def forget(self) -> None:
        if self.graphs:
            made = self.graphs.pop()
            with locked(cell for step in made.steps for cell in step.cells):
                for cell in {cell for step in made.steps for cell in step.cells}:
                    cell.graphs -= 1
                del made

    # --- tensors ---

    def read(self) -> None:
        where = self.where()
        with locked([where.cell]):
            where.cell.check(where.part, where.tensor.numpy)

    def clone(self) -> None:
        where = self.where(WHOLE)
        with locked([where.cell]):
            where.cell.check(WHOLE, lambda: where.tensor.clone().numpy())

    def wait(self) -> None:
        where = self.where(WHOLE)
        with locked([where.cell]):
            try:
                where.tensor.wait()
            except OutOfBoundsError:
                assert where.cell.may_fail(WHOLE)
            else:
                assert not where.cell.must_fail(WHOLE)

    def move(self) -> None:
        cell = self.cell()
        with locked([cell]):
            old = cell.tensor
            try:
                cell.tensor = tw.move(old)
            except BorrowError:
                assert cell.held, "a move was refused, and nothing holds the tensor"
            else:
                assert not cell.held, "a move was not refused, and something holds the tensor"
                with pytest.raises(MovedError):
                    old.numpy()

    def renew(self) -> None:
        """Another tensor; the old one goes, perhaps in flight."""
        cell = self.cell()
        with locked([cell]):
            if not cell.held and not cell.graphs:
                cell.tensor = tw.from_numpy(self.numbers(), device=self.device)
                cell.write(WHOLE, cell.tensor.numpy(), must_fail=False, may_fail=False)


def _zip(first: Any, second: Any) -> tw.DeviceOp[Any]:
    one = first.build()
    try:
        return tw.zip(one, second.build())
    except BaseException:
        one.close()
        raise
