"""Courses: several launches, one behind the other, that a call of a function came to.

A function that launches more than once gives a chain. What its later steps launch shows when they
run, so it is noted then, for the next call like it: that has the same launches, of its own tensors
and of others that are made for it, results and what lies between. A step whose launches cannot be
made again, or that launches otherwise than in a chain, leaves no course (`recipes` says what can).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from tilewright.jit.choices import FORCED
from tilewright.jit.plans import PlannedLaunch
from tilewright.jit.recipes import (
    Choice,
    Pick,
    Tensors,
    choose,
    find_launch,
    find_result,
    share_memory,
)
from tilewright.runtime.chain_steps import Given, How, Step
from tilewright.runtime.moulds import Mould, find_mould
from tilewright.runtime.newcomers import NewcomerOp
from tilewright.runtime.operation import Chain, DeviceOp
from tilewright.runtime.ready import ReadyOp
from tilewright.runtime.surroundings import UNUSUAL
from tilewright.runtime.tensor import cast_tensor
from tilewright.runtime.zipping import Zip, zip_operations

__all__ = ["Course", "note_course"]


class _Launch(NamedTuple):
    """One launch."""

    ready: PlannedLaunch
    choice: Choice


class _Stage(NamedTuple):
    """What runs at the same time, as far as anybody knows."""

    launches: tuple[_Launch, ...]
    is_zip: bool

    def build(self, picked: tuple[tuple[Any, ...], ...], _: object = None) -> DeviceOp[Any]:
        """The operation, for the tensors of each launch."""
        pairs = zip(self.launches, picked, strict=True)
        built = [
            NewcomerOp[Any]().build(one.ready, tensors, None, depth=2) for one, tensors in pairs
        ]
        return zip_operations(*built) if self.is_zip else built[0]


class Course(NamedTuple):
    """All launches of a call, for others like it."""

    stages: tuple[_Stage, ...]
    made: tuple[Mould, ...]
    give: Pick

    def build(self, tensors: Tensors) -> DeviceOp[Any] | None:
        """The chain; None where an output may overlap another tensor."""
        known = (*tensors, *[cast_tensor(mould) for mould in self.made])
        picked = []
        for stage in self.stages:
            chosen = tuple([one.choice.pick(known) for one in stage.launches])
            for one, tensors_of_it in zip(stage.launches, chosen, strict=True):
                if one.choice.may_meet(tensors_of_it):
                    return None
            picked.append(chosen)
        steps = [
            Step(How.THEN, partial(stage.build, chosen))
            for stage, chosen in zip(self.stages[1:], picked[1:], strict=True)
        ]
        first = self.stages[0].build(picked[0])
        first.take()
        return Chain(first, [*steps, Step(How.MAP, Given(self.give(known)))])


def note_course(operation: DeviceOp[Any], tensors: Tensors, keep: Callable[[Course], None]) -> None:
    """Have a chain note what it launches, for `keep`, when all of it has been put on a stream."""
    if type(operation) is not Chain or share_memory(tensors):
        return
    (source,), todo = operation.parts(), operation.todo
    *steps, last = todo
    if not isinstance(last.function, Given) or any(step.how is not How.THEN for step in steps):
        return
    known: list[Any] = list(tensors)
    give = find_result(last.function.result, known)
    if give is None or not steps:
        return
    notes = _Notes(known, len(tensors), give, keep)
    if notes.add(source):
        todo[:] = [Step(How.THEN, notes.around(step.function)) for step in steps]
        todo += [Step(How.INSPECT, notes.finish), last]


class _Notes:
    """What was launched so far."""

    def __init__(
        self, known: list[Any], given: int, give: Pick, keep: Callable[[Course], None]
    ) -> None:
        self._known = known  # those that were given, the results, and what was made in between
        self._given = given
        self._give = give
        self._keep = keep
        self._stages: list[_Stage] = []
        self._is_spoilt = False

    def around(self, function: Callable[[Any], DeviceOp[Any]]) -> Callable[[Any], DeviceOp[Any]]:
        """A step that is noted."""

        def step(result: Any) -> DeviceOp[Any]:
            operation = function(result)
            is_unusual = UNUSUAL.get() or FORCED.get() is not None
            if is_unusual or self._is_spoilt or not self.add(operation):
                self._is_spoilt = True
            return operation

        return step

    def add(self, operation: DeviceOp[Any]) -> bool:
        """Note a stage; whether it can be made again."""
        is_zip = type(operation) is Zip
        parts = tuple(operation.parts()) if isinstance(operation, Zip) else (operation,)
        launches = [self._launch(part) for part in parts]
        found = tuple(launch for launch in launches if launch is not None)
        if len(found) < len(parts):
            return False
        self._stages.append(_Stage(found, is_zip))
        return True

    def _launch(self, operation: DeviceOp[Any]) -> _Launch | None:
        ready = find_launch(operation)
        if ready is None or not isinstance(operation, ReadyOp):
            return None
        choice = choose(operation.claim[1], ready, self._known, given=self._given)
        # Steps run later, when nobody asks what has changed outside their kernels.
        if choice is None or not ready.plan.captures.are_fixed:
            return None
        return _Launch(PlannedLaunch(ready.plan, ready.numbers), choice)

    def finish(self, _: object) -> None:
        """All of it has been put on a stream."""
        if not self._is_spoilt:
            of_its_own = self._known[self._given :]
            made = tuple(find_mould(one.device, one.shape, one.dtype) for one in of_its_own)
            self._keep(Course(tuple(self._stages), made, self._give))
