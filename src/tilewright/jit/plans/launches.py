"""The launches of one kernel that were made before, so that the next one like them is quick.

There are three ways to a launch. *Prepared*: the same handles, or others alike at the same places,
and the same scalars; function, grid and packed parameters are found under one key. *Planned*: other
handles, alike in all that anything was decided by; addresses and scalars are filled in. *Cold*:
everything is looked at. The first two decide nothing, they remember what the third has decided: a
launch that was refused, warned of or made under other circumstances is never found here. Tables are
bounded and keep no tensor alive.
"""

from __future__ import annotations

import inspect
from typing import Any

from tilewright.errors import LaunchError
from tilewright.frontend.signature.signature import Signature
from tilewright.jit.bind.binding import Binding
from tilewright.jit.plans.call_reader import MANY, SEEN, Call, Known, Readers, Seen, make_readers
from tilewright.jit.plans.plan import HostedLaunch, Plan, PlannedLaunch, PreparedLaunch
from tilewright.jit.plans.polymorphic import Family, kin_of
from tilewright.jit.plans.tables import Table
from tilewright.runtime.devices.context import UNUSUAL
from tilewright.runtime.interop.imports import adopted
from tilewright.runtime.memory.partition import Partition, PersistentPartition
from tilewright.runtime.memory.tensor import Tensor
from tilewright.runtime.ops.guests import GuestOp, check_written
from tilewright.runtime.ops.ready import ReadyOp
from tilewright.runtime.order.access import Access, check_accesses

__all__ = ["Launches"]

_PLANNED = 128  # in each of two generations


_CUT = (Partition, PersistentPartition)
_OURS = frozenset({Tensor, Partition, PersistentPartition, bool, int, float, type})


class Launches:
    """What is remembered of the calls of one kernel with one set of hints."""

    __slots__ = ("_families", "_like", "_parameters", "_plans", "_prepared", "_same", "call")

    def __init__(self, signature: Signature, call: inspect.Signature) -> None:
        self._prepared: Table[PreparedLaunch | Seen] = Table(MANY)
        self._plans: Table[PlannedLaunch] = Table(_PLANNED)
        self._families: Table[Family] = Table(_PLANNED)
        self._parameters = call
        nothing = Readers(None, _nothing, _nothing)
        known = Known(self._prepared, self._plans, self._planned)
        readers = make_readers(signature, call, known) or nothing
        # The kernel's `__call__`, which finds what was launched before, if anything can be found.
        self.call, self._same, self._like = readers

    def again(
        self, grid: tuple[int, ...] | None, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> ReadyOp[tuple[Any, ...]] | None:
        """The operation for a call that was made before; None if somebody has to look at it."""
        if UNUSUAL.get():
            return None
        try:
            found = self._same(*args, **kwargs)
        except TypeError:  # the arguments do not fit
            return None
        if found is None:
            return self._adopted(grid, args, kwargs)
        same, tensors, result = found
        if grid is not None:
            same = (grid, same)
        prepared = self._prepared.find(same)
        if isinstance(prepared, PreparedLaunch) and prepared.is_current:
            return _built(prepared, tensors, result)
        like, call = self._like(*args, **kwargs)
        planned = self._plans.find((grid, like)) or self._stretched(grid, like, call)
        return None if planned is None else self._planned(planned, same, call)

    def _stretched(
        self, grid: tuple[int, ...] | None, like: tuple[Any, ...], call: Call
    ) -> PlannedLaunch | None:
        """A plan for a call that differs from one that was made before in extents."""
        family = self._families.find((grid, kin_of(like)))
        if family is None:
            return None
        plan = family.plan_for(grid, call[0], call[2])
        if plan is None:
            return None
        made = PlannedLaunch(plan)
        self._plans.put((grid, like), made)
        return made

    def _adopted(
        self, grid: tuple[int, ...] | None, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> ReadyOp[tuple[Any, ...]] | None:
        """The same for a call with arrays of other libraries, whose handles are always new."""
        given: dict[int, Any] = {}
        try:
            found = self._like(
                *(_adopt(value, given) for value in args),
                **{name: _adopt(value, given) for name, value in kwargs.items()},
            )
        except LaunchError:  # an array that cannot be taken: the long way says which, and why
            return None
        if found is None or not given:
            return None
        like, (tensors, scalars, result, apart) = found
        planned = self._plans.find((grid, like)) or self._stretched(grid, *found)
        if planned is None:
            return None
        result = tuple(given.get(id(value), value) for value in result)
        return self._planned(planned, None, (tensors, scalars, result, apart))

    def _planned(
        self, ready: PlannedLaunch, same: tuple[Any, ...] | None, call: Call
    ) -> ReadyOp[tuple[Any, ...]] | None:
        """The operation for a call like one that was made before; `same` is the key by handles."""
        tensors, scalars, result, apart = call
        plan = ready.plan
        if UNUSUAL.get() or not plan.captures.are_current():
            return None
        numbers = plan.numbers(scalars) if scalars else ()
        if numbers is None or (plan.checks and not plan.still_holds(tensors, numbers)):
            return None
        if plan.is_wary or not apart:
            accesses = (Access(t, *role) for t, role in zip(tensors, plan.roles, strict=True))
            check_accesses(tuple(accesses), plan.label, plan.device)
        if same is not None:
            if self._prepared.find(same) is None:
                self._prepared.put(same, SEEN)
            elif _may_be_prepared(plan, tensors):
                kind = PreparedLaunch if plan.guests is None else HostedLaunch
                prepared = kind(plan, tensors, numbers)
                self._prepared.put(same, prepared)
                return _built(prepared, tensors, result)
        if ready.is_whole:
            return _built(ready, tensors, result)
        once = PlannedLaunch(plan, numbers, plan.new_reader())
        return _built(once, tensors, result)

    def key(
        self, grid: tuple[int, ...] | None, binding: Binding, call: inspect.BoundArguments
    ) -> tuple[Any, ...] | None:
        """The key under which a plan for a call is kept; None if there is none."""
        if UNUSUAL.get():
            return None
        ours = {
            name: value if isinstance(value, _CUT) else binding.tensors.get(name, value)
            for name, value in call.arguments.items()
        }
        bound = inspect.BoundArguments(call.signature, ours)
        found = self._like(*bound.args, **bound.kwargs)
        return None if found is None else (grid, found[0])

    def keep(self, key: tuple[Any, ...], binding: Binding, plan: Plan) -> None:
        """Remember how a launch was made."""
        self._plans.put(key, PlannedLaunch(plan))
        grid, like = key
        if plan.blocks:  # where none runs, less is decided
            self._families.put((grid, kin_of(like)), Family(plan, binding, self._parameters))


def _nothing(*_: Any, **__: Any) -> None:
    """The reader of a kernel that has none."""


def _adopt(value: Any, given: dict[int, Any]) -> Any:
    """A tensor on the memory of an array; `given` then has the array. Anything else as it is."""
    if type(value) in _OURS:
        return value
    tensor = adopted(value)
    if tensor is None or tensor is value:
        return value
    given[id(tensor)] = value
    return tensor


def _may_be_prepared(plan: Plan, tensors: tuple[Tensor, ...]) -> bool:
    """Whether a launch of these handles is the same every time."""
    if plan.facts.may_fail:
        return False
    return not any(tensor.storage.is_lazy for tensor in tensors)


def _built(
    ready: PlannedLaunch | PreparedLaunch, tensors: tuple[Tensor, ...], result: tuple[Any, ...]
) -> ReadyOp[Any]:
    """The operation for a launch."""
    if ready.guests is None:
        return ReadyOp[Any]().build(ready, tensors, result, depth=4)
    check_written(ready, tensors)
    return GuestOp[Any]().build(ready, tensors, result, depth=4)
