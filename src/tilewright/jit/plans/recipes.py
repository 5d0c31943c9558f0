"""Recipes: the launch that a call of a function came to, for all calls like it.

A function of tensors checks its arguments, makes views of them, chooses a configuration, perhaps
makes an output, and launches a kernel. A view that reaches the same bytes is as good as the tensor
it was made of, so all of that comes to this: which tensors of the call are those of the launch, in
which order, which parts of them, and what is made for it. Nothing is decided here. What came to
anything but one launch of such tensors has no recipe: a chain may have a course (`courses`), and
everything else runs as it is written.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

from tilewright.frontend.source.captures import Captures
from tilewright.jit.plans.plan import PlannedLaunch, PreparedLaunch
from tilewright.runtime.devices.device import Device
from tilewright.runtime.memory.layout import Place
from tilewright.runtime.memory.moulds import Mould, find_mould
from tilewright.runtime.memory.spares import have_tensor
from tilewright.runtime.memory.tensor import Tensor
from tilewright.runtime.ops.newcomers import NewcomerOp
from tilewright.runtime.ops.operation import DeviceOp
from tilewright.runtime.ops.ready import ReadyOp

__all__ = [
    "SERIAL",
    "Again",
    "Choice",
    "Pick",
    "Recipe",
    "Remade",
    "Tensors",
    "choose",
    "find_launch",
    "find_recipe",
    "find_result",
    "share_memory",
]

# The tensors of a call, by parameter; None where an optional one was left out.
Tensors = tuple[Tensor | None, ...]
# Operations whose tensors have all their memory from us.
_OURS = (ReadyOp, NewcomerOp)
_PLACES = 64  # of what is made for one launch that are remembered
# The number of the place of a tensor.
SERIAL = attrgetter("serial")
# Some tensors among those of a call and those that were made for it.
Pick = Callable[[tuple[Any, ...]], Any]


class _Part(NamedTuple):
    """A view of a tensor, by its number, which does not reach all of its bytes."""

    number: int
    place: Place


class Choice(NamedTuple):
    """Which tensors a launch is for."""

    parts: tuple[_Part, ...]  # views, to be added to the tensors of the call
    chosen: Pick
    apart: tuple[tuple[int, int], ...]  # those of which one is written, and that are not one tensor

    def pick(self, tensors: tuple[Any, ...]) -> tuple[Any, ...]:
        """The tensors of the launch."""
        if self.parts:
            parts = [tensors[number].part(place) for number, place in self.parts]
            tensors = (*tensors, *parts)
        picked: tuple[Any, ...] = self.chosen(tensors)
        return picked

    def may_meet(self, picked: tuple[Any, ...]) -> bool:
        """Whether what is written may overlap anything else."""
        for one, other in self.apart:  # those that share memory have one list of borrows
            if picked[one].storage.borrows is picked[other].storage.borrows:
                return True
        return False


class Again:
    """A launch to be made again, for the very same handles or for any that are alike."""

    __slots__ = ("captures", "choice", "give", "pick", "ready")

    def __init__(self, ready: PlannedLaunch | PreparedLaunch, choice: Choice, give: Pick) -> None:
        captures = ready.plan.captures
        self.ready = ready
        self.captures: Captures | None = None if captures.are_fixed else captures
        self.choice = choice
        self.give = give  # the result
        self.pick = choice.pick if choice.parts else choice.chosen

    @property
    def is_current(self) -> bool:
        """Whether everything outside the kernel is still what it was."""
        return self.captures is None or self.captures.are_current()


class Recipe(Again):
    """The same for all calls whose tensors are alike and whose other arguments are the same."""

    __slots__ = ("is_for_all", "made", "numbers")

    def __init__(
        self,
        ready: PlannedLaunch | PreparedLaunch,
        choice: Choice,
        give: Pick,
        made: tuple[Mould, ...],
        *,
        is_for_all: bool,
    ) -> None:
        self.numbers = ready.numbers
        super().__init__(PlannedLaunch(ready.plan, self.numbers), choice, give)
        self.made = made
        self.is_for_all = is_for_all  # and not only for tensors that share memory as those did

    def for_tensors(self, tensors: Tensors) -> tuple[Any, ...] | None:
        """The tensors of the launch and its result; None where an output may overlap another."""
        tensors = (*tensors, *map(have_tensor, self.made))
        picked = self.pick(tensors)
        if self.choice.apart and self.choice.may_meet(picked):
            return None
        return picked, self.give(tensors)

    def prepared(self, tensors: Tensors) -> Again | None:
        """The launch for these very handles; None as long as one of them has no bytes."""
        picked = self.pick(tensors)
        if any(tensor.storage.is_lazy for tensor in picked):
            return None
        ready = PreparedLaunch(self.ready.plan, picked, self.numbers)
        return Again(ready, self.choice, self.give)


class Remade:
    """A recipe for the very same handles, and for tensors that are made for every launch.

    Those come back to the same places, too, once nobody has them (`spares`): then the launch is the
    same as before.
    """

    __slots__ = ("_prepared", "captures", "place", "recipe")

    def __init__(self, recipe: Recipe, place: Device) -> None:
        self.recipe = recipe
        self.captures = recipe.captures
        self.place = place  # where the function made new tensors
        self._prepared: dict[tuple[int, ...], PreparedLaunch] = {}

    def build(self, tensors: Tensors) -> ReadyOp[Any]:
        """The operation; two calls above is the user's."""
        recipe = self.recipe
        made = tuple(map(have_tensor, recipe.made))
        whole = (*tensors, *made)
        picked, result = recipe.pick(whole), recipe.give(whole)
        ready = self._prepared.get(tuple(map(SERIAL, made)))
        if ready is None:
            return self._build_first(made, picked, result)
        return ReadyOp().build(ready, picked, result, depth=3)

    def _build_first(
        self, made: tuple[Tensor, ...], picked: tuple[Any, ...], result: Any
    ) -> ReadyOp[Any]:
        """The operation, and the launch is prepared for the next one if there is memory."""
        recipe = self.recipe
        if any(tensor.storage.is_lazy for tensor in picked):
            return NewcomerOp().build(recipe.ready, picked, result, depth=4)
        if len(self._prepared) >= _PLACES:
            self._prepared.clear()
        ready = PreparedLaunch(recipe.ready.plan, picked, recipe.numbers)
        self._prepared[tuple(map(SERIAL, made))] = ready
        return ReadyOp().build(ready, picked, result, depth=4)


def find_recipe(operation: DeviceOp[Any], tensors: Tensors) -> Recipe | None:
    """How the operation of a call follows from its tensors; None if it does not."""
    ready = find_launch(operation)
    if ready is None or not isinstance(operation, ReadyOp):
        return None
    known: list[Any] = list(tensors)
    give = find_result(operation.result, known)
    if give is None:
        return None
    choice = choose(operation.claim[1], ready, known, given=len(tensors))
    if choice is None:
        return None
    made = tuple(find_mould(one.device, one.shape, one.dtype) for one in known[len(tensors) :])
    return Recipe(ready, choice, give, made, is_for_all=not share_memory(tensors))


def find_launch(operation: DeviceOp[Any]) -> PlannedLaunch | PreparedLaunch | None:
    """The launch that an operation is, if it is one that can be made again for other tensors."""
    if type(operation) not in _OURS or not isinstance(operation, ReadyOp):
        return None
    ready = operation.claim[0]
    if not isinstance(ready, (PlannedLaunch, PreparedLaunch)):
        return None
    plan = ready.plan
    return None if plan.facts.may_fail or plan.is_wary or plan.guests is not None else ready


def find_result(result: Any, known: list[Any]) -> Pick | None:
    """How to find the result of a call among tensors, to which it may add what was made for it."""
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


def choose(
    launched: tuple[Any, ...],
    ready: PlannedLaunch | PreparedLaunch,
    known: list[Any],
    *,
    given: int,
) -> Choice | None:
    """How to find the tensors of a launch among those that are known; None if one is none of them.

    Behind the first ones, which were given, all have memory of their own, and meet nobody. What was
    made for the launch is added to them.
    """
    memory = {tensor.storage for tensor in known if tensor is not None}
    for tensor in launched:
        if tensor.storage not in memory and _is_made_for_it(tensor):
            known.append(tensor)
            memory.add(tensor.storage)
    found = [_find(known, tensor) for tensor in launched]
    places = [place for place in found if place is not None]
    if len(places) < len(launched):
        return None
    parts = tuple(place for place in places if isinstance(place, _Part))
    # Parts come last, behind whatever else a course will make.
    numbers = {part: number - len(parts) for number, part in enumerate(parts)}
    picked = [numbers[place] if isinstance(place, _Part) else place for place in places]
    # Parts of one tensor lie to each other as those did that were looked at.
    wholes = [place.number if isinstance(place, _Part) else place for place in places]
    writes = [role.mode.writes for role in ready.plan.roles]
    apart = tuple(
        (one, other)
        for one, other in combinations(range(len(writes)), 2)
        if (writes[one] or writes[other]) and wholes[one] != wholes[other]
        if max(wholes[one], wholes[other]) < given
    )
    return Choice(parts, _picking(picked), apart)


def _is_made_for_it(tensor: Any) -> bool:
    """Whether nobody has used the memory of a tensor, all of which it reaches."""
    if type(tensor) is not Tensor or not tensor.storage.is_fresh:
        return False
    return tensor.offset == 0 and tensor.is_contiguous and tensor.nbytes == tensor.storage.nbytes


def _find(known: list[Any], launched: Any) -> int | _Part | None:
    """The tensor that reaches the same bytes, or else one that a part of is meant."""
    found: int | _Part | None = None
    for number, tensor in enumerate(known):
        if tensor is None or tensor.storage is not launched.storage:
            continue
        if tensor.byte_offset == launched.byte_offset and tensor.region == launched.region:
            return number
        if found is None and tensor.dtype is launched.dtype:
            ahead = launched.offset - tensor.offset
            found = _Part(number, Place(launched.shape, launched.strides, ahead))
    return found


def share_memory(tensors: Tensors) -> bool:
    """Whether one tensor of a call could be taken for another, by its bytes."""
    given = [tensor for tensor in tensors if tensor is not None]
    return len({id(tensor.storage.borrows) for tensor in given}) < len(given)


def _picking(places: list[Any]) -> Pick:
    """Several at once, always as a tuple."""
    if len(places) == 1:
        (place,) = places
        return lambda known: (known[place],)
    return itemgetter(*places)
