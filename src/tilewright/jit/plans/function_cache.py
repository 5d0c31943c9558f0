"""The function cache: the launches that a call of a function came to, for all calls like it.

A function of tensors checks its arguments, makes views of them, chooses a configuration, perhaps
makes outputs, and launches kernels. All of that comes to a list of launches, each a plan and the
tensors it is for: which of the call's, which parts of them, which that were made for it. The cache
decides nothing. A function that came to anything else runs as it is written.

An entry holds for tensors of equal specs that alias each other as those of its first call did: two
are the same, or share no byte. Then views of them overlap as the plans expect.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

from tilewright.jit.plans.call_reader import FIRST_HIT, FirstHit
from tilewright.jit.plans.config_override import CONFIG_OVERRIDE
from tilewright.jit.plans.plan import BoundLaunch, PlanLaunch
from tilewright.jit.plans.tables import BoundedTable
from tilewright.runtime.devices.context import INTERCEPTED
from tilewright.runtime.memory.layout import Place
from tilewright.runtime.memory.layout_templates import TensorTemplate, find_tensor_template
from tilewright.runtime.memory.regions import Region
from tilewright.runtime.memory.tensor import Tensor, new_output
from tilewright.runtime.ops.chain_steps import Given, How, Step
from tilewright.runtime.ops.launch import LaunchOp
from tilewright.runtime.ops.operation import Chain, DeviceOp
from tilewright.runtime.ops.sequence import Launch, build_sequence
from tilewright.runtime.ops.zip import Zip
from tilewright.runtime.order.borrow import uses_of

__all__ = ["Entry", "Tensors", "aliases", "find_entry", "observe"]

# The tensors of a call, by parameter; None where an optional one was left out.
Tensors = tuple[Tensor | None, ...]
# Some tensors among those of a call and those that were made for it.
Pick = Callable[[tuple[Any, ...]], Any]
_BOUND = 64  # launches of one step at certain addresses, in each of two generations
_SERIAL = attrgetter("serial")
_TIMELINE = attrgetter("storage.timeline")
_IS_ENDED = attrgetter("is_ended")


class _Part(NamedTuple):
    """A view of a tensor, by its number, which does not reach all of its bytes."""

    number: int
    place: Place


class _Choice(NamedTuple):
    """The tensors of a launch, among those of a call and those that were made for it."""

    parts: tuple[_Part, ...]  # views, to be added to them
    chosen: Pick

    def pick(self, tensors: tuple[Any, ...]) -> tuple[Any, ...]:
        """The tensors of the launch."""
        if self.parts:
            parts = [tensors[number].part(place) for number, place in self.parts]
            tensors = (*tensors, *parts)
        picked: tuple[Any, ...] = self.chosen(tensors)
        return picked

    def pick_arrays(self, arrays: tuple[Any, ...]) -> tuple[Any, ...]:
        """The torch tensors that wrappers among them stand for."""
        picked: tuple[Any, ...] = self.chosen((*arrays, *(arrays[n] for n, _ in self.parts)))
        return picked


class _Step:
    """One launch of an entry, for tensors of equal specs."""

    __slots__ = ("_bound", "captures", "choice", "work")

    def __init__(self, launch: PlanLaunch | BoundLaunch, choice: _Choice) -> None:
        captures = launch.plan.captures
        self.captures = None if captures.are_fixed else captures
        self.choice = choice
        self.work = PlanLaunch(launch.plan, launch.numbers)
        self._bound: BoundedTable[BoundLaunch | FirstHit] = BoundedTable(_BOUND)

    def bind(self, tensors: tuple[Any, ...]) -> PlanLaunch | BoundLaunch:
        """The launch, bound to its addresses if there was one there before."""
        key = tuple(map(_SERIAL, tensors))
        found = self._bound.get(key)
        if found.__class__ is BoundLaunch:
            return found
        if self._bound.find(key) is None:
            self._bound.put(key, FIRST_HIT)
            return self.work
        if any(tensor.storage.is_lazy for tensor in tensors):
            return self.work
        made = BoundLaunch(self.work.plan, tensors, self.work.numbers)
        self._bound.put(key, made)
        return made


class Entry:
    """All launches of a call, for others whose tensors have equal specs and aliases."""

    __slots__ = ("_aliases", "_give", "_held", "_made", "_present", "_steps")

    def __init__(
        self,
        steps: tuple[_Step, ...],
        made: tuple[TensorTemplate, ...],
        give: Pick,
        pattern: _Pattern,
    ) -> None:
        self._steps = steps
        self._made = made
        self._give = give
        self._held = pattern.held
        self._aliases = pattern.aliases
        self._present = pattern.present

    @property
    def is_current(self) -> bool:
        """Whether everything outside the kernels is still what it was."""
        for step in self._steps:
            if step.captures is not None and not step.captures.are_current():
                return False
        return True

    def build(
        self, tensors: Tensors, arrays: tuple[Any, ...], depth: int = 3
    ) -> DeviceOp[Any] | None:
        """The operation; None where the tensors alias each other in another way."""
        if not self._holds_for(tensors):
            return None
        known: tuple[Any, ...] = tensors
        if self._made:
            outputs = tuple(map(new_output, self._made))
            known = (*tensors, *outputs)
            arrays = (*arrays, *(None,) * len(outputs)) if arrays else arrays
        launches = []
        for step in self._steps:
            choice = step.choice
            picked = choice.pick(known)
            its_arrays = choice.pick_arrays(arrays) if arrays else ()
            launches.append(Launch(step.bind(picked), picked, its_arrays))
        result = self._give(self._results(known, arrays))
        if len(launches) > 1:
            return build_sequence(tuple(launches), self._held, result, depth + 1)
        work, picked, its_arrays = launches[0]
        uses = uses_of(picked, work.roles)
        return LaunchOp().build(work, picked, uses, result, its_arrays, depth + 1)

    def _holds_for(self, tensors: Tensors) -> bool:
        """Whether tensors alias each other as those of the first call did."""
        present = self._present
        if present.is_plain:
            timelines = set(map(_TIMELINE, present.pick(tensors)))
            # A range that has ended is in no group: its addresses are looked at.
            if len(timelines) == present.number and not any(map(_IS_ENDED, timelines)):
                return True
        return aliases(tensors) == self._aliases

    @staticmethod
    def _results(known: tuple[Any, ...], arrays: tuple[Any, ...]) -> tuple[Any, ...]:
        """The tensors as a caller sees them: an array that was passed is given back itself."""
        if not arrays:
            return known
        pairs = zip(known, arrays, strict=True)
        return tuple([tensor if array is None else array for tensor, array in pairs])


def aliases(tensors: Tensors) -> tuple[int, ...] | None:
    """For each tensor the first one that is the same; None if two overlap in another way."""
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


class _Present(NamedTuple):
    """The tensors of a call that are there: optional ones may be left out."""

    pick: Pick
    number: int
    is_plain: bool  # no two of them are the same


class _Pattern(NamedTuple):
    """What calls of an entry have in common besides specs."""

    aliases: tuple[int, ...]
    present: _Present
    held: int  # launches whose tensors it holds from the beginning


def _pattern_of(tensors: Tensors, alike: tuple[int, ...], held: int) -> _Pattern:
    places = [number for number, tensor in enumerate(tensors) if tensor is not None]
    is_plain = bool(places) and alike == tuple(range(len(tensors)))
    pick = _picking(places) if places else tuple
    return _Pattern(alike, _Present(pick, len(places), is_plain), held)


def find_entry(operation: DeviceOp[Any], tensors: Tensors, alike: tuple[int, ...]) -> Entry | None:
    """How the single launch of a call follows from its tensors; None if it does not."""
    known: list[Any] = list(tensors)
    launch = _find_launch(operation)
    if launch is None or not isinstance(operation, LaunchOp):
        return None
    give = _find_result(operation.result, known)
    choice = None if give is None else _choose(operation.tensors, known)
    if give is None or choice is None:
        return None
    made = _templates(known[len(tensors) :])
    return Entry((_Step(launch, choice),), made, give, _pattern_of(tensors, alike, 1))


def observe(
    operation: DeviceOp[Any],
    tensors: Tensors,
    alike: tuple[int, ...],
    keep: Callable[[Entry], None],
) -> None:
    """Have a chain say what it launches, to `keep`, when all of it has been put on a stream."""
    if type(operation) is not Chain:
        return
    (source,), todo = operation.parts(), operation.todo
    *steps, last = todo
    if not isinstance(last.function, Given) or any(step.how is not How.THEN for step in steps):
        return
    known: list[Any] = list(tensors)
    give = _find_result(last.function.result, known)
    if give is None or not steps:
        return
    held = len(tuple(source.parts())) if isinstance(source, Zip) else 1
    seen = _Observed(known, _pattern_of(tensors, alike, held), give, keep)
    if seen.add(source):
        todo[:] = [Step(How.THEN, seen.around(step.function)) for step in steps]
        todo += [Step(How.INSPECT, seen.finish), last]


class _Observed:
    """The launches of a chain so far."""

    def __init__(
        self, known: list[Any], pattern: _Pattern, give: Pick, keep: Callable[[Entry], None]
    ) -> None:
        self._known = known  # those that were given, the results, and intermediate ones
        self._pattern = pattern
        self._give = give
        self._keep = keep
        self._steps: list[_Step] = []
        self._is_spoilt = False

    def around(self, function: Callable[[Any], DeviceOp[Any]]) -> Callable[[Any], DeviceOp[Any]]:
        """A step whose operation is observed."""

        def step(result: Any) -> DeviceOp[Any]:
            operation = function(result)
            is_intercepted = INTERCEPTED.get() or CONFIG_OVERRIDE.get() is not None
            if is_intercepted or self._is_spoilt or not self.add(operation):
                self._is_spoilt = True
            return operation

        return step

    def add(self, operation: DeviceOp[Any]) -> bool:
        """Observe an operation; whether its launches can be made again."""
        parts = tuple(operation.parts()) if isinstance(operation, Zip) else (operation,)
        found = [self._step(part) for part in parts]
        steps = [step for step in found if step is not None]
        self._steps += steps
        return len(steps) == len(parts)

    def _step(self, operation: DeviceOp[Any]) -> _Step | None:
        launch = _find_launch(operation)
        if launch is None or not isinstance(operation, LaunchOp):
            return None
        choice = _choose(operation.tensors, self._known)
        return None if choice is None else _Step(launch, choice)

    def finish(self, _: object) -> None:
        """All of it has been put on a stream."""
        if not self._is_spoilt:
            made = _templates(self._known[len(self._pattern.aliases) :])
            self._keep(Entry(tuple(self._steps), made, self._give, self._pattern))


def _templates(made: list[Any]) -> tuple[TensorTemplate, ...]:
    return tuple(find_tensor_template(one.device, one.shape, one.dtype) for one in made)


def _find_launch(operation: DeviceOp[Any]) -> PlanLaunch | BoundLaunch | None:
    """The launch that an operation is, if it can be made again for other tensors."""
    work = operation.work if isinstance(operation, LaunchOp) else None
    if not isinstance(work, (PlanLaunch, BoundLaunch)):
        return None
    return None if work.plan.facts.may_fail or work.plan.is_wary else work


def _find_result(result: Any, known: list[Any]) -> Pick | None:
    """How to find the result of a call among tensors, to which it may add those made for it."""
    results = result if isinstance(result, tuple) else (result,)
    places = []
    for one in results:
        if not any(one is tensor for tensor in known):
            memory = [tensor.storage for tensor in known if tensor is not None]
            if not _is_made_for_it(one) or one.storage in memory:
                return None  # another handle on one of them is not made anew
            known.append(one)
        places.append(next(n for n, tensor in enumerate(known) if tensor is one))
    return _picking(places) if isinstance(result, tuple) else itemgetter(places[0])


def _choose(launched: tuple[Any, ...], known: list[Any]) -> _Choice | None:
    """How to find the tensors of a launch among those that are known; None if one is none of them.

    Tensors that were made for the launch are added to them.
    """
    memory = {tensor.storage for tensor in known if tensor is not None}
    for tensor in launched:
        if tensor.storage not in memory and _is_made_for_it(tensor):
            known.append(tensor)
            memory.add(tensor.storage)
    places = [place for tensor in launched if (place := _find(known, tensor)) is not None]
    if len(places) < len(launched):
        return None
    parts = tuple(place for place in places if isinstance(place, _Part))
    # Parts come last, behind tensors that later launches add.
    numbers = {part: number - len(parts) for number, part in enumerate(parts)}
    picked = [numbers[place] if isinstance(place, _Part) else place for place in places]
    return _Choice(parts, _picking(picked))


def _is_made_for_it(tensor: Any) -> bool:
    """Whether a tensor has new memory, all of which it reaches."""
    if type(tensor) is not Tensor or not tensor.storage.is_fresh:
        return False
    return tensor.offset == 0 and tensor.is_contiguous and tensor.nbytes == tensor.storage.nbytes


def _find(known: list[Any], launched: Any) -> int | _Part | None:
    """The tensor that reaches the same bytes, or else one of which it is a part."""
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
    """Whether all elements of a tensor are some of another's."""
    if tensor.dtype is not launched.dtype or tensor.storage is not launched.storage:
        return False
    inner: Region = launched.region
    outer: Region = tensor.region
    return outer.low <= inner.low and inner.high <= outer.high and outer.covers(inner)


def _picking(places: list[Any]) -> Pick:
    """Several at once, always as a tuple."""
    if len(places) == 1:
        (place,) = places
        return lambda known: (known[place],)
    return itemgetter(*places)
