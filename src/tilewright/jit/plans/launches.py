"""The launch cache of one kernel: bound launches, plans and polymorphic plans.

A *bound* launch is found by the addresses and specs of its tensors and by its scalars; its grid and
packed parameters are fixed. A *plan* is found by the specs alone; addresses and scalars are filled
in. A *polymorphic* plan fits calls that differ in extents. A miss takes the cold path. No table
skips a refusal or a warning: a launch that was refused, warned about or intercepted is not in it.
Tables are bounded and keep no tensor alive.
"""

from __future__ import annotations

import inspect
from typing import Any

from tilewright.errors import LaunchError
from tilewright.frontend.signature.signature import Signature
from tilewright.jit.bind.binding import Binding
from tilewright.jit.plans.call_reader import (
    FIRST_HIT,
    MANY,
    Call,
    CallTables,
    FirstHit,
    Readers,
    make_readers,
)
from tilewright.jit.plans.plan import BoundLaunch, Plan, PlanLaunch
from tilewright.jit.plans.polymorphic import PolymorphicPlan, polymorphic_key
from tilewright.jit.plans.tables import BoundedTable
from tilewright.runtime.devices.context import INTERCEPTED
from tilewright.runtime.interop.imports import as_tensor
from tilewright.runtime.interop.passed import wrapped
from tilewright.runtime.memory.partition import HostPartition, PersistentPartition
from tilewright.runtime.memory.tensor import Tensor
from tilewright.runtime.ops.launch import LaunchOp
from tilewright.runtime.order.access import Access, check_accesses
from tilewright.runtime.order.borrow import uses_of

__all__ = ["Launches"]

_PLANNED = 128  # plans of a kernel, in each of two generations


_CUT = (HostPartition, PersistentPartition)
_OURS = frozenset({Tensor, HostPartition, PersistentPartition, bool, int, float, type})


class Launches:
    """The launch cache of one kernel with one set of hints."""

    __slots__ = ("_bound", "_like", "_parameters", "_plans", "_polymorphic", "_same", "call")

    def __init__(self, signature: Signature, call: inspect.Signature) -> None:
        self._bound: BoundedTable[BoundLaunch | FirstHit] = BoundedTable(MANY)
        self._plans: BoundedTable[PlanLaunch] = BoundedTable(_PLANNED)
        self._polymorphic: BoundedTable[PolymorphicPlan] = BoundedTable(_PLANNED)
        self._parameters = call
        nothing = Readers(None, _nothing, _nothing)
        known = CallTables(self._bound, self._plans, self._planned)
        readers = make_readers(signature, call, known) or nothing
        # `call` is the kernel's `__call__`, if there are readers for its parameters.
        self.call, self._same, self._like = readers

    def again(
        self, grid: tuple[int, ...] | None, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> LaunchOp[tuple[Any, ...]] | None:
        """Build the operation of a cached call; None for a miss."""
        if INTERCEPTED.get():
            return None
        try:
            found = self._same(*args, **kwargs)
        except TypeError:  # the arguments do not match the parameters
            return None
        if found is None:
            return self._adopted(grid, args, kwargs)
        same = found[0] if grid is None else (grid, found[0])
        like, call = self._like(*args, **kwargs)
        bound = self._bound.find(same)
        if isinstance(bound, BoundLaunch) and bound.is_current:
            return _built(bound, call)
        planned = self._plans.find((grid, like)) or self._stretched(grid, like, call)
        return None if planned is None else self._planned(planned, same, call)

    def _stretched(
        self, grid: tuple[int, ...] | None, like: tuple[Any, ...], call: Call
    ) -> PlanLaunch | None:
        """The plan of a call that differs from a planned one in extents alone."""
        polymorphic = self._polymorphic.find((grid, polymorphic_key(like)))
        if polymorphic is None:
            return None
        plan = polymorphic.plan_for(grid, call[0], call[2])
        if plan is None:
            return None
        made = PlanLaunch(plan)
        self._plans.put((grid, like), made)
        return made

    def _adopted(
        self, grid: tuple[int, ...] | None, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> LaunchOp[tuple[Any, ...]] | None:
        """Build the operation of a call with arrays of other libraries, whose handles are new."""
        given: dict[int, Any] = {}
        try:
            found = self._like(
                *(_adopt(value, given) for value in args),
                **{name: _adopt(value, given) for name, value in kwargs.items()},
            )
        except LaunchError:  # a refused array; the cold path raises it with the argument's name
            return None
        if found is None or not given:
            return None
        like, (tensors, scalars, result, apart, arrays) = found
        planned = self._plans.find((grid, like)) or self._stretched(grid, *found)
        if planned is None:
            return None
        result = tuple(given.get(id(value), value) for value in result)
        arrays = tuple(
            [
                one if one is not None else _array_of(tensor, given)
                for tensor, one in zip(tensors, arrays, strict=True)
            ]
        )
        return self._planned(planned, None, (tensors, scalars, result, apart, arrays))

    def _planned(
        self, ready: PlanLaunch, same: tuple[Any, ...] | None, call: Call
    ) -> LaunchOp[tuple[Any, ...]] | None:
        """Build the operation of a planned call; `same` is its address key."""
        tensors, scalars, _, apart, _ = call
        plan = ready.plan
        if INTERCEPTED.get() or not plan.captures.are_current():
            return None
        numbers = plan.numbers(scalars) if scalars else ()
        if numbers is None or (plan.checks and not plan.still_holds(tensors, numbers)):
            return None
        if plan.is_wary or not apart:
            accesses = (Access(t, *role) for t, role in zip(tensors, plan.roles, strict=True))
            check_accesses(tuple(accesses), plan.label, plan.device)
        if same is not None:
            if self._bound.find(same) is None:
                self._bound.put(same, FIRST_HIT)
            elif _may_be_bound(plan, tensors):
                bound = BoundLaunch(plan, tensors, numbers)
                self._bound.put(same, bound)
                return _built(bound, call)
        if ready.is_whole:
            return _built(ready, call)
        return _built(PlanLaunch(plan, numbers, plan.new_reader()), call)

    def key(
        self, grid: tuple[int, ...] | None, binding: Binding, call: inspect.BoundArguments
    ) -> tuple[Any, ...] | None:
        """The key of a call's plan; None for a call that must not be cached."""
        if INTERCEPTED.get():
            return None
        ours = {
            name: value if isinstance(value, _CUT) else binding.tensors.get(name, value)
            for name, value in call.arguments.items()
        }
        bound = inspect.BoundArguments(call.signature, ours)
        found = self._like(*bound.args, **bound.kwargs)
        return None if found is None else (grid, found[0])

    def keep(self, key: tuple[Any, ...], binding: Binding, plan: Plan) -> None:
        """Cache the plan of a launch."""
        self._plans.put(key, PlanLaunch(plan))
        grid, like = key
        if plan.blocks:  # without blocks fewer checks were evaluated
            self._polymorphic.put(
                (grid, polymorphic_key(like)), PolymorphicPlan(plan, binding, self._parameters)
            )


def _nothing(*_: Any, **__: Any) -> None:
    """The reader of a kernel that has none."""


def _adopt(value: Any, given: dict[int, Any]) -> Any:
    """The wrapper of an array, which is added to `given`; any other object itself."""
    if type(value) in _OURS:
        return value
    tensor = wrapped(value)
    if tensor is None or given.get(id(tensor), value) is not value:  # two arrays with one wrapper
        tensor = as_tensor(value)
    if tensor is None or tensor is value:
        return value
    given[id(tensor)] = value
    return tensor


def _array_of(tensor: Tensor, given: dict[int, Any]) -> Any:
    """The torch tensor behind a wrapper."""
    storage: Any = tensor.storage
    return given.get(id(tensor)) if not storage.owns_bytes and not storage.is_counted else None


def _may_be_bound(plan: Plan, tensors: tuple[Tensor, ...]) -> bool:
    """Whether launches at these addresses have the same parameters every time."""
    if plan.facts.may_fail:
        return False
    return not any(tensor.storage.is_lazy for tensor in tensors)


def _built(work: PlanLaunch | BoundLaunch, call: Call) -> LaunchOp[Any]:
    """Build the operation of a launch."""
    tensors, _, result, _, arrays = call
    uses = uses_of(tensors, work.roles)
    return LaunchOp().build(work, tensors, uses, result, arrays, 4)
