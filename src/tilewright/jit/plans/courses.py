"""Courses: several launches, one behind the other, that a call of a function came to.

A function that launches more than once gives a chain. What its later steps launch shows when they
run, so it is noted then, for the next call like it: that has the same launches, of its own tensors
and of others that are made for it, results and what lies between. A step whose launches cannot be
made again, or that launches otherwise than in a chain, leaves no course (`recipes` says what can).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

from tilewright.jit.plans.call_reader import SEEN, Seen
from tilewright.jit.plans.choices import FORCED
from tilewright.jit.plans.plan import PlannedLaunch, PreparedLaunch
from tilewright.jit.plans.recipes import (
    SERIAL,
    Choice,
    Pick,
    Tensors,
    choose,
    find_launch,
    find_result,
    share_memory,
)
from tilewright.jit.plans.tables import Table
from tilewright.runtime.devices.context import UNUSUAL
from tilewright.runtime.memory.moulds import Mould, find_mould
from tilewright.runtime.memory.spares import have_tensor
from tilewright.runtime.ops.chain_steps import Given, How, Step
from tilewright.runtime.ops.newcomers import NewcomerOp
from tilewright.runtime.ops.operation import Chain, DeviceOp
from tilewright.runtime.ops.ready import ReadyOp
from tilewright.runtime.ops.series import Launched, Series
from tilewright.runtime.ops.zip import Zip, zip_operations

__all__ = ["Course", "note_course"]

_PREPARED = 64  # launches of one step for certain tensors, in each of two generations


class _Launch(NamedTuple):
    """One launch."""

    ready: PlannedLaunch
    choice: Choice
    prepared: Table[PreparedLaunch | Seen]  # for tensors that were launched before, by their places

    def for_tensors(self, tensors: tuple[Any, ...]) -> PlannedLaunch | PreparedLaunch:
        """The launch, prepared if there was one of these tensors before."""
        places = tuple(map(SERIAL, tensors))
        found = self.prepared.find(places)
        if found.__class__ is PreparedLaunch:
            return found
        if found is None or any(tensor.storage.is_lazy for tensor in tensors):
            self.prepared.put(places, SEEN)
            return self.ready
        made = PreparedLaunch(self.ready.plan, tensors, self.ready.numbers)
        self.prepared.put(places, made)
        return made

    def build(self, tensors: tuple[Any, ...]) -> ReadyOp[Any]:
        """The operation."""
        ready = self.for_tensors(tensors)
        kind = ReadyOp if isinstance(ready, PreparedLaunch) else NewcomerOp
        return kind().build(ready, tensors, None, depth=3)


class _Stage(NamedTuple):
    """What runs at the same time, as far as anybody knows."""

    launches: tuple[_Launch, ...]
    is_zip: bool

    def build(self, picked: Iterable[tuple[Any, ...]], _: object = None) -> DeviceOp[Any]:
        """The operation, for the tensors of each launch."""
        built: list[DeviceOp[Any]] = []
        try:
            for one, tensors in zip(self.launches, picked, strict=False):
                built.append(one.build(tensors))
        except BaseException:
            for operation in built:
                operation.close()
            raise
        return zip_operations(*built) if self.is_zip else built[0]


class Course(NamedTuple):
    """All launches of a call, for others like it."""

    stages: tuple[_Stage, ...]
    made: tuple[Mould, ...]
    give: Pick

    def build(self, tensors: Tensors) -> DeviceOp[Any] | None:
        """The chain; None where an output may overlap another tensor."""
        known = (*tensors, *map(have_tensor, self.made))
        picked: list[tuple[Any, ...]] = []
        launches: list[Launched] = []
        for stage in self.stages:
            for one in stage.launches:
                chosen = one.choice.pick(known)
                if one.choice.may_meet(chosen):
                    return None
                picked.append(chosen)
                ready = one.for_tensors(chosen)
                if isinstance(ready, PreparedLaunch):
                    launches.append((ready, chosen))
        steps, result = partial(self._steps, picked, known), self.give(known)
        first = self.stages[0]
        if first.is_zip or len(launches) < len(picked):
            source = first.build(iter(picked))
            source.take()
            return Chain(source, steps())
        source = ReadyOp().build(launches[0][0], picked[0], None, depth=3)
        return Series(source, launches, steps, result)

    def _steps(self, picked: list[tuple[Any, ...]], known: tuple[Any, ...]) -> list[Step]:
        """What follows the first stage."""
        rest = iter(picked)
        steps = []
        for stage in self.stages:
            its_own = tuple(islice(rest, len(stage.launches)))
            steps.append(Step(How.THEN, partial(stage.build, its_own)))
        return [*steps[1:], Step(How.MAP, Given(self.give(known)))]


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
        return _Launch(PlannedLaunch(ready.plan, ready.numbers), choice, Table(_PREPARED))

    def finish(self, _: object) -> None:
        """All of it has been put on a stream."""
        if not self._is_spoilt:
            of_its_own = self._known[self._given :]
            made = tuple(find_mould(one.device, one.shape, one.dtype) for one in of_its_own)
            self._keep(Course(tuple(self._stages), made, self._give))
