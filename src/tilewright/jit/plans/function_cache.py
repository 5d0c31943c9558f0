"""The function cache: the launches of a function's call, reused by calls with the same key.

A function of tensors checks its arguments, makes views of them, chooses a configuration, may make
outputs, and launches kernels. Its cache entry is the list of launches, each a plan with a map from
the tensors of the call, their parts and the new outputs to those of the launch. The cache makes no
decision: a function with any other effect runs as it is written.

An entry is valid for tensors with equal specs and the aliasing of its first call: two tensors are
equal, or share no byte. Views of them then overlap as the plans expect.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

from tilewright.frontend.source.captures import Captures
from tilewright.jit.plans.call_reader import FIRST_HIT, FirstHit
from tilewright.jit.plans.config_override import CONFIG_OVERRIDE
from tilewright.jit.plans.plan import BoundLaunch, PlanLaunch
from tilewright.jit.plans.tables import BoundedTable
from tilewright.native import in_c, know_objects, slots_in_c
from tilewright.runtime.devices.context import INTERCEPTED
from tilewright.runtime.devices.stream import Stream
from tilewright.runtime.memory.layout import Place
from tilewright.runtime.memory.layout_templates import TensorTemplate, find_tensor_template
from tilewright.runtime.memory.regions import Region
from tilewright.runtime.memory.tensor import Tensor, make_use, tensor_of
from tilewright.runtime.ops.chain import Chain, Zip
from tilewright.runtime.ops.chain_steps import Given, How, Step
from tilewright.runtime.ops.copies import FillWork
from tilewright.runtime.ops.launch import LaunchOp
from tilewright.runtime.ops.operation import DeviceOp
from tilewright.runtime.ops.sequence import SequenceWork
from tilewright.runtime.ops.work import LaunchWork, NodeWork
from tilewright.runtime.order.timeline import Use
from tilewright.runtime.text_functions import define

__all__ = ["Entry", "Tensors", "aliases", "find_entry", "observe"]

# The tensors of a call, by parameter; None for an omitted optional one.
Tensors = tuple[Tensor | None, ...]
# Selects tensors among those of a call and its new outputs.
Pick = Callable[[tuple[Any, ...]], Any]
_BOUND = 1024  # addresses with bound launches of one entry, in each of two generations
_SERIAL = attrgetter("serial")
_TIMELINE = attrgetter("storage.timeline")
_IS_ENDED = attrgetter("is_ended")


class _Part(NamedTuple):
    """A view of part of a tensor, by the number of the tensor."""

    number: int
    place: Place


# Makes the tensors of a launch, their uses, and the torch tensors behind wrappers.
_Select = Callable[
    [tuple[Any, ...], tuple[Any, ...]],
    tuple[tuple[Tensor, ...], tuple[Use, ...], tuple[Any, ...]],
]
_SELECT = """def select(known, arrays):
    {assignments}
    return ({tensors}), ({uses}), ({arrays}) if arrays else ()
"""


def _make_select(places: tuple[int | _Part, ...], writes: tuple[bool, ...]) -> _Select:
    """Generate the map from the tensors of a call and its new outputs to those of a launch."""
    names: dict[str, Any] = {"_use": make_use}
    tensors, uses, arrays, assignments = [], [], [], []
    for at, (place, is_written) in enumerate(zip(places, writes, strict=True)):
        name, number = f"t{at}", place.number if isinstance(place, _Part) else place
        part = f".part(place{at})" if isinstance(place, _Part) else ""
        if isinstance(place, _Part):
            names[f"place{at}"] = place.place
        tensors.append(name)
        arrays.append(f"arrays[{number}]")
        assignments.append(f"{name} = known[{number}]{part}")
        slot = "_writing" if is_written else "_reading"
        uses.append(f"{name}.{slot} or _use({name}, {is_written})")
    text = _SELECT.format(
        assignments="; ".join(assignments),
        tensors="".join(f"{one}, " for one in tensors),
        uses="".join(f"{one}, " for one in uses),
        arrays="".join(f"{one}, " for one in arrays),
    )
    made: _Select = define(text, "the tensors of a launch", names)["select"]
    return made


# The work of an operation that fits other tensors with the same specs.
_Reused = PlanLaunch | BoundLaunch | FillWork


class _Step:
    """One launch of an entry, or a fill."""

    __slots__ = ("captures", "places", "work")

    captures: Captures | None  # None if all are constant
    work: PlanLaunch | FillWork

    def __init__(
        self, work: PlanLaunch | BoundLaunch | FillWork, places: list[int | _Part]
    ) -> None:
        self.places = places
        if isinstance(work, FillWork):
            self.work, self.captures = work, None
        else:
            self.work = PlanLaunch(work.plan, work.numbers)
            self.captures = None if work.plan.captures.are_fixed else work.plan.captures

    def bind(self, tensors: tuple[Tensor, ...]) -> BoundLaunch | FillWork:
        """The launch with the addresses of its tensors."""
        if isinstance(self.work, FillWork):
            return self.work
        return BoundLaunch(self.work.plan, tensors, self.work.numbers)


def _includes(place: int | _Part, other: int | _Part) -> bool:
    """Whether the second of two tensors of a call is the first one, or a part of it."""
    return place == other or (isinstance(other, _Part) and other.number == place)


class _StepList:
    """The launches of an entry, and the map from the tensors of a call to theirs."""

    __slots__ = ("_steps", "_written", "held", "places", "select", "work", "writes")

    def __init__(self, steps: tuple[_Step, ...], held: int) -> None:
        self._steps = steps
        # The number of tensors that a sequence holds before it is submitted: of its first step.
        self.held = sum(len(step.places) for step in steps[:held])
        self.places = places = tuple([place for step in steps for place in step.places])
        roles = [role for step in steps for role in step.work.roles]
        self.writes = tuple([role.mode.writes for role in roles])
        self.select = _make_select(places, self.writes)
        pairs = itertools.combinations(enumerate(places), 2)
        self._written = [(a, b) for (a, first), (b, later) in pairs if _includes(first, later)]
        self.work = self._joined([step.work for step in steps])

    def bind(self, known: tuple[Any, ...]) -> LaunchWork | None:
        """The launches with the addresses of their tensors; None if one is not known."""
        tensors, _, _ = self.select(known, ())
        if any(tensor.storage.is_lazy for tensor in tensors):
            return None
        left = iter(tensors)
        return self._joined(
            [step.bind(tuple(itertools.islice(left, len(step.places)))) for step in self._steps]
        )

    def _joined(self, works: Sequence[NodeWork]) -> LaunchWork:
        if len(works) == 1:
            return works[0]
        return SequenceWork(tuple(works), self._written)


@slots_in_c
class Entry:
    """All launches of a call, valid for tensors with equal specs and aliasing.

    The launches are bound at the second hit of the addresses of all tensors. Equal addresses and
    specs have equal aliasing.
    """

    __slots__ = (
        "_give", "_pattern", "_present", "_steps", "bound", "captures", "given", "held", "made",
        "places", "present", "writes",
    )  # fmt: skip

    captures: tuple[Captures, ...]  # of kernels whose captures are not constant
    given: int | tuple[int, ...]  # numbers of the results among the tensors and new outputs
    present: tuple[int, ...]  # numbers of all but omitted optional tensors
    places: tuple[int | _Part, ...]  # the tensors of all launches
    writes: tuple[bool, ...]  # whether each is written
    held: int  # the number of them that the operation holds before it is submitted

    def __init__(
        self,
        steps: tuple[_Step, ...],
        made: tuple[TensorTemplate, ...],
        given: int | tuple[int, ...],
        pattern: _Pattern,
    ) -> None:
        self.captures = tuple(step.captures for step in steps if step.captures is not None)
        self._steps = _StepList(steps, pattern.held)
        self.places, self.writes = self._steps.places, self._steps.writes
        self.held = self._steps.held
        self.made = made
        self.given, self._give = given, _picking(given)
        self._pattern = pattern
        self.present, self._present = pattern.present, _picking(pattern.present)
        self.bound: BoundedTable[LaunchWork | FirstHit] = BoundedTable(_BOUND)

    @property
    def is_current(self) -> bool:
        """Whether the captures of all kernels are unchanged."""
        return all(captures.are_current() for captures in self.captures)

    @in_c("Entry.build")
    def build(
        self, tensors: Tensors, arrays: tuple[Any, ...], depth: int = 3
    ) -> DeviceOp[Any] | None:
        """Build the operation; None for tensors with another aliasing."""
        known: tuple[Any, ...] = tensors
        if self.made:
            stream = _torch_stream(tensors, arrays) if arrays else None
            outputs = tuple(
                map(tensor_of, self.made, itertools.repeat(None), itertools.repeat(stream))
            )
            known = (*tensors, *outputs)
        return self.build_known(tensors, known, arrays, depth + 1)

    def build_known(
        self, tensors: Tensors, known: tuple[Any, ...], arrays: tuple[Any, ...], depth: int
    ) -> DeviceOp[Any] | None:
        """The same with `known`, which has new outputs behind the tensors of the call."""
        if arrays:
            arrays = (*arrays, *(None,) * len(self.made))
        key = tuple(map(_SERIAL, self._present(known)))
        work: Any = self.bound.get(key)
        if work is None or work is FIRST_HIT:
            work = self._work(key, tensors, known)
            if work is None:
                return None
        result = self._give(known)
        if arrays:  # a torch tensor is the result in place of its wrapper
            theirs = self._give(arrays)
            if theirs.__class__ is tuple:
                result = tuple(map(_first_of, theirs, result))
            elif theirs is not None:
                result = theirs
        picked, uses, its_arrays = self._steps.select(known, arrays)
        held = self._steps.held
        if held == len(uses):
            return LaunchOp().build(work, picked, uses, result, its_arrays, depth + 1)
        made = LaunchOp().build(work, picked, uses[:held], result, its_arrays, depth + 1)
        return made.with_later(uses)

    def _work(
        self, key: tuple[int, ...], tensors: Tensors, known: tuple[Any, ...]
    ) -> LaunchWork | None:
        """The launches for addresses that are not bound yet; None for another aliasing."""
        found = self.bound.find(key)
        if found is not None and not isinstance(found, FirstHit):
            return found
        if aliases(tensors) != self._pattern.aliases:
            return None
        if found is None:
            self.bound.put(key, FIRST_HIT)
            return self._steps.work
        work = self._steps.bind(known)
        if work is None:
            return self._steps.work
        self.bound.put(key, work)
        return work


def _torch_stream(tensors: Tensors, arrays: tuple[Any, ...]) -> Stream | None:
    """The current stream of torch, on which a call with its tensors runs."""
    for tensor, array in zip(tensors, arrays, strict=True):
        if array is not None and tensor is not None:
            storage: Any = tensor.storage
            stream: Stream | None = storage.producer.current_stream(tensor.device)
            return stream
    return None


def _first_of(array: Any, tensor: Any) -> Any:
    return tensor if array is None else array


def aliases(tensors: Tensors) -> tuple[int, ...] | None:
    """For each tensor the number of the first equal one; None if unequal tensors overlap."""
    present = [tensor for tensor in tensors if tensor is not None]
    timelines = set(map(_TIMELINE, present))
    # The timeline of an ended range says nothing about overlaps.
    if len(timelines) == len(present) and not any(map(_IS_ENDED, timelines)):
        return tuple(range(len(tensors)))
    found: list[int] = []
    for number, tensor in enumerate(tensors):
        first = number
        for other in range(number):
            before = tensors[other]
            if tensor is None or before is None:
                continue
            if not tensor.storage.shares_memory(before.storage):
                continue
            if tensor.byte_offset == before.byte_offset and tensor.spec is before.spec:
                first = other
                break
            if tensor.region.overlaps(before.region):
                return None
        found.append(first)
    return tuple(found)


class _Pattern(NamedTuple):
    """The properties of an entry's calls beside the specs."""

    aliases: tuple[int, ...]
    present: tuple[int, ...]  # all tensors of a call and its new outputs, by their numbers
    held: int  # launches whose tensors the operation borrows when it is built


def _pattern_of(known: list[Any], alike: tuple[int, ...], held: int) -> _Pattern:
    return _Pattern(alike, tuple(n for n, one in enumerate(known) if one is not None), held)


def find_entry(operation: DeviceOp[Any], tensors: Tensors, alike: tuple[int, ...]) -> Entry | None:
    """The entry of a call with a single launch; None if the launch cannot be reused."""
    known: list[Any] = list(tensors)
    launch = _find_launch(operation)
    if launch is None or not isinstance(operation, LaunchOp):
        return None
    given = _find_result(operation.result, known)
    places = None if given is None else _find_all(operation.tensors, known)
    if given is None or places is None:
        return None
    made = _templates(known[len(tensors) :])
    return Entry((_Step(launch, places),), made, given, _pattern_of(known, alike, 1))


def observe(
    operation: DeviceOp[Any],
    tensors: Tensors,
    alike: tuple[int, ...],
    keep: Callable[[Entry], None],
) -> None:
    """Record the launches of a chain, and pass the entry to `keep` once all are enqueued."""
    if type(operation) is not Chain:
        return
    (source,), todo = operation.parts(), operation.todo
    *steps, last = todo
    if not isinstance(last.function, Given) or any(step.how is not How.THEN for step in steps):
        return
    known: list[Any] = list(tensors)
    given = _find_result(last.function.result, known)
    if given is None or not steps:
        return
    held = len(tuple(source.parts())) if isinstance(source, Zip) else 1
    seen = _Observed(known, alike, held, given, keep)
    if seen.add(source):
        todo[:] = [Step(How.THEN, seen.around(step.function)) for step in steps]
        todo += [Step(How.INSPECT, seen.finish), last]


class _Observed:
    """The recorded launches of a chain."""

    def __init__(
        self,
        known: list[Any],
        alike: tuple[int, ...],
        held: int,
        given: int | tuple[int, ...],
        keep: Callable[[Entry], None],
    ) -> None:
        self._known = known  # tensors of the call, results and intermediate tensors
        self._aliases = alike
        self._held = held
        self._given = given
        self._keep = keep
        self._steps: list[_Step] = []
        self._is_spoilt = False

    def around(self, function: Callable[[Any], DeviceOp[Any]]) -> Callable[[Any], DeviceOp[Any]]:
        """Wrap a step so that its operation is recorded."""

        def step(result: Any) -> DeviceOp[Any]:
            operation = function(result)
            is_intercepted = INTERCEPTED.get() or CONFIG_OVERRIDE.get() is not None
            if is_intercepted or self._is_spoilt or not self.add(operation):
                self._is_spoilt = True
            return operation

        return step

    def add(self, operation: DeviceOp[Any]) -> bool:
        """Record an operation; return whether its launches can be reused."""
        parts = tuple(operation.parts()) if isinstance(operation, Zip) else (operation,)
        found = [self._step(part) for part in parts]
        steps = [step for step in found if step is not None]
        self._steps += steps
        return len(steps) == len(parts)

    def _step(self, operation: DeviceOp[Any]) -> _Step | None:
        launch = _find_launch(operation)
        if launch is None or not isinstance(operation, LaunchOp):
            return None
        places = _find_all(operation.tensors, self._known)
        return None if places is None else _Step(launch, places)

    def finish(self, _: object) -> None:
        """Make the entry, once all launches are enqueued."""
        if not self._is_spoilt:
            pattern = _pattern_of(self._known, self._aliases, self._held)
            made = _templates(self._known[len(self._aliases) :])
            self._keep(Entry(tuple(self._steps), made, self._given, pattern))


def _templates(made: list[Any]) -> tuple[TensorTemplate, ...]:
    return tuple(find_tensor_template(one.device, one.shape, one.dtype) for one in made)


def _find_launch(operation: DeviceOp[Any]) -> _Reused | None:
    """The launch of an operation, if it can be reused for other tensors."""
    work = operation.work if isinstance(operation, LaunchOp) else None
    if isinstance(work, FillWork):
        return work
    if not isinstance(work, (PlanLaunch, BoundLaunch)):
        return None
    return None if work.plan.facts.may_fail or work.plan.is_wary else work


def _find_result(result: Any, known: list[Any]) -> int | tuple[int, ...] | None:
    """The numbers of a call's results among the known tensors; new outputs are appended to them."""
    results = result if isinstance(result, tuple) else (result,)
    places = []
    for one in results:
        if not any(one is tensor for tensor in known):
            memory = [tensor.storage for tensor in known if tensor is not None]
            if not _is_made_for_it(one) or one.storage in memory:
                return None  # a new view of a known tensor cannot be recreated
            known.append(one)
        places.append(next(n for n, tensor in enumerate(known) if tensor is one))
    return tuple(places) if isinstance(result, tuple) else places[0]


def _find_all(launched: tuple[Any, ...], known: list[Any]) -> list[int | _Part] | None:
    """The places of a launch's tensors among the known ones; None if one does not follow from them.

    Tensors made for the launch are appended to the known ones.
    """
    memory = {tensor.storage for tensor in known if tensor is not None}
    for tensor in launched:
        if tensor.storage not in memory and _is_made_for_it(tensor):
            known.append(tensor)
            memory.add(tensor.storage)
    places = [place for tensor in launched if (place := _find(known, tensor)) is not None]
    return places if len(places) == len(launched) else None


def _is_made_for_it(tensor: Any) -> bool:
    """Whether a tensor covers the whole of a new storage."""
    if type(tensor) is not Tensor or not tensor.storage.is_fresh:
        return False
    return tensor.offset == 0 and tensor.is_contiguous and tensor.nbytes == tensor.storage.nbytes


def _find(known: list[Any], launched: Any) -> int | _Part | None:
    """The number of the known tensor with the same bytes, or a part of a known tensor."""
    found: int | _Part | None = None
    for number, tensor in enumerate(known):
        if tensor is None or not tensor.storage.shares_memory(launched.storage):
            continue
        if tensor.byte_offset == launched.byte_offset and tensor.region == launched.region:
            return number
        if found is None and _is_part(launched, tensor):
            ahead = launched.offset - tensor.offset
            found = _Part(number, Place(launched.shape, launched.strides, ahead))
    return found


def _is_part(launched: Any, tensor: Any) -> bool:
    """Whether all elements of a launched tensor belong to another tensor."""
    if tensor.dtype is not launched.dtype or tensor.storage is not launched.storage:
        return False
    inner: Region = launched.region
    outer: Region = tensor.region
    return outer.low <= inner.low and inner.high <= outer.high and outer.covers(inner)


def _picking(places: int | tuple[int, ...]) -> Pick:
    """Select one item, or several, always as a tuple."""
    if isinstance(places, int):
        return itemgetter(places)
    if len(places) > 1:
        return itemgetter(*places)
    return lambda known: tuple([known[place] for place in places])


know_objects({"FIRST_HIT": FIRST_HIT})
