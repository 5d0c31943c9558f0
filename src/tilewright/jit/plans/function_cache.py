"""The function cache: the launches of a function's call, reused by calls with the same key.

A function of tensors checks its arguments, makes views of them, chooses a configuration, may make
outputs, and launches kernels. Its cache entry is the list of launches, each a plan with a map from
the tensors of the call, their parts and the new outputs to those of the launch. The cache makes no
decision: a function with any other effect runs as it is written.

An entry is valid for tensors with equal specs and the aliasing of its first call: two tensors are
equal, or share no byte. Views of them then overlap as the plans expect.
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

# The tensors of a call, by parameter; None for an omitted optional one.
Tensors = tuple[Tensor | None, ...]
# Selects tensors among those of a call and its new outputs.
Pick = Callable[[tuple[Any, ...]], Any]
_BOUND = 64  # bound launches of one step, in each of two generations
_SERIAL = attrgetter("serial")
_TIMELINE = attrgetter("storage.timeline")
_IS_ENDED = attrgetter("is_ended")


class _Part(NamedTuple):
    """A view of part of a tensor, by the number of the tensor."""

    number: int
    place: Place


class _Choice(NamedTuple):
    """The map from the tensors of a call and its new outputs to those of a launch."""

    parts: tuple[_Part, ...]  # views, which are appended to the tensors
    chosen: Pick

    def pick(self, tensors: tuple[Any, ...]) -> tuple[Any, ...]:
        """The tensors of the launch."""
        if self.parts:
            parts = [tensors[number].part(place) for number, place in self.parts]
            tensors = (*tensors, *parts)
        picked: tuple[Any, ...] = self.chosen(tensors)
        return picked

    def pick_arrays(self, arrays: tuple[Any, ...]) -> tuple[Any, ...]:
        """The torch tensors behind the wrappers of the launch."""
        picked: tuple[Any, ...] = self.chosen((*arrays, *(arrays[n] for n, _ in self.parts)))
        return picked


class _Step:
    """One launch of an entry, with its table of bound launches."""

    __slots__ = ("_bound", "captures", "choice", "work")

    def __init__(self, launch: PlanLaunch | BoundLaunch, choice: _Choice) -> None:
        captures = launch.plan.captures
        self.captures = None if captures.are_fixed else captures
        self.choice = choice
        self.work = PlanLaunch(launch.plan, launch.numbers)
        self._bound: BoundedTable[BoundLaunch | FirstHit] = BoundedTable(_BOUND)

    def bind(self, tensors: tuple[Any, ...]) -> PlanLaunch | BoundLaunch:
        """The launch, bound at the second hit of its addresses."""
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
    """All launches of a call, valid for tensors with equal specs and aliasing."""

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
        """Whether the captures of all kernels are unchanged."""
        for step in self._steps:
            if step.captures is not None and not step.captures.are_current():
                return False
        return True

    def build(
        self, tensors: Tensors, arrays: tuple[Any, ...], depth: int = 3
    ) -> DeviceOp[Any] | None:
        """Build the operation; None for tensors with another aliasing."""
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
        """Whether tensors have the aliasing of the first call."""
        present = self._present
        if present.is_plain:
            timelines = set(map(_TIMELINE, present.pick(tensors)))
            # The timeline of an ended range says nothing about overlaps: compare addresses then.
            if len(timelines) == present.number and not any(map(_IS_ENDED, timelines)):
                return True
        return aliases(tensors) == self._aliases

    @staticmethod
    def _results(known: tuple[Any, ...], arrays: tuple[Any, ...]) -> tuple[Any, ...]:
        """The tensors as results: a torch tensor in place of its wrapper."""
        if not arrays:
            return known
        pairs = zip(known, arrays, strict=True)
        return tuple([tensor if array is None else array for tensor, array in pairs])


def aliases(tensors: Tensors) -> tuple[int, ...] | None:
    """For each tensor the number of the first equal one; None if unequal tensors overlap."""
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
    """The tensors of a call without omitted optional ones."""

    pick: Pick
    number: int
    is_plain: bool  # no two are equal


class _Pattern(NamedTuple):
    """The properties of an entry's calls beside the specs."""

    aliases: tuple[int, ...]
    present: _Present
    held: int  # launches whose tensors the operation borrows when it is built


def _pattern_of(tensors: Tensors, alike: tuple[int, ...], held: int) -> _Pattern:
    places = [number for number, tensor in enumerate(tensors) if tensor is not None]
    is_plain = bool(places) and alike == tuple(range(len(tensors)))
    pick = _picking(places) if places else tuple
    return _Pattern(alike, _Present(pick, len(places), is_plain), held)


def find_entry(operation: DeviceOp[Any], tensors: Tensors, alike: tuple[int, ...]) -> Entry | None:
    """The entry of a call with a single launch; None if the launch cannot be reused."""
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
    """Record the launches of a chain, and pass the entry to `keep` once all are enqueued."""
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
    """The recorded launches of a chain."""

    def __init__(
        self, known: list[Any], pattern: _Pattern, give: Pick, keep: Callable[[Entry], None]
    ) -> None:
        self._known = known  # tensors of the call, results and intermediate tensors
        self._pattern = pattern
        self._give = give
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
        choice = _choose(operation.tensors, self._known)
        return None if choice is None else _Step(launch, choice)

    def finish(self, _: object) -> None:
        """Make the entry, once all launches are enqueued."""
        if not self._is_spoilt:
            made = _templates(self._known[len(self._pattern.aliases) :])
            self._keep(Entry(tuple(self._steps), made, self._give, self._pattern))


def _templates(made: list[Any]) -> tuple[TensorTemplate, ...]:
    return tuple(find_tensor_template(one.device, one.shape, one.dtype) for one in made)


def _find_launch(operation: DeviceOp[Any]) -> PlanLaunch | BoundLaunch | None:
    """The launch of an operation, if it can be reused for other tensors."""
    work = operation.work if isinstance(operation, LaunchOp) else None
    if not isinstance(work, (PlanLaunch, BoundLaunch)):
        return None
    return None if work.plan.facts.may_fail or work.plan.is_wary else work


def _find_result(result: Any, known: list[Any]) -> Pick | None:
    """The map from known tensors to the result of a call; new outputs are appended to them."""
    results = result if isinstance(result, tuple) else (result,)
    places = []
    for one in results:
        if not any(one is tensor for tensor in known):
            memory = [tensor.storage for tensor in known if tensor is not None]
            if not _is_made_for_it(one) or one.storage in memory:
                return None  # a new view of a known tensor cannot be recreated
            known.append(one)
        places.append(next(n for n, tensor in enumerate(known) if tensor is one))
    return _picking(places) if isinstance(result, tuple) else itemgetter(places[0])


def _choose(launched: tuple[Any, ...], known: list[Any]) -> _Choice | None:
    """The map from known tensors to those of a launch; None if one does not follow from them.

    Tensors made for the launch are appended to the known ones.
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
    # Parts have negative numbers, because later launches append tensors before them.
    numbers = {part: number - len(parts) for number, part in enumerate(parts)}
    picked = [numbers[place] if isinstance(place, _Part) else place for place in places]
    return _Choice(parts, _picking(picked))


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


def _picking(places: list[Any]) -> Pick:
    """Select several items, always as a tuple."""
    if len(places) == 1:
        (place,) = places
        return lambda known: (known[place],)
    return itemgetter(*places)
