"""Plans: all decisions about a launch except the addresses of its tensors.

A plan is valid for all calls with its spec key (`call_reader`): tensors with equal specs, and equal
constants and tilings. Each call fills in addresses and scalars, and evaluates the launch checks
that depend on scalars. A *bound* launch is a plan with fixed addresses and scalars, whose
parameters are packed; it refers to no tensor.
"""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, NamedTuple

from tilewright.dtypes import DType
from tilewright.frontend.source.captures import Captures
from tilewright.ir.launch_terms import (
    BaseAddress,
    PointerArgument,
    RecordAddress,
    ScalarArgument,
)
from tilewright.jit.bind.binding import Binding, LaunchEnvironment
from tilewright.jit.bind.scalars import Unfit, number_of
from tilewright.jit.compile.compiled import LaunchFacts
from tilewright.jit.compile.executable import Executable
from tilewright.jit.compile.failures import FailureReader
from tilewright.jit.loader import Program
from tilewright.jit.plans.bound_launch import RepeatedLaunch
from tilewright.runtime.devices.device import Device
from tilewright.runtime.devices.function import Filled, KernelFunction, ReadyCall
from tilewright.runtime.devices.stream import Stream
from tilewright.runtime.memory.tensor import Tensor
from tilewright.runtime.ops.work import OneNode, SharedWork
from tilewright.runtime.order.access import Handle
from tilewright.runtime.order.borrow import Role
from tilewright.runtime.order.failure import Check

if TYPE_CHECKING:
    from tilewright.check.launch import LaunchCheck

__all__ = ["BoundLaunch", "Number", "Plan", "PlanLaunch", "make_plan"]

# An argument of a kernel function.
Number = int | float
_ADDRESSES = (BaseAddress, PointerArgument)


class Plan(NamedTuple):
    """One launch, for all tensors with the same specs."""

    label: str
    device: Device
    roles: tuple[Role, ...]
    facts: LaunchFacts
    captures: Captures
    program: Future[Program]
    functions: tuple[KernelFunction, ...]
    grid: tuple[int, ...]
    descending: tuple[int, ...]  # grid axes that are traversed from their end
    blocks: int
    template: tuple[Number | None, ...]  # arguments; None for an address, a scalar or the record
    addresses: tuple[Filled, ...]
    scalars: tuple[tuple[int, int], ...]  # positions and numbers of scalars
    dtypes: tuple[type[DType], ...]  # of the scalars
    checks: tuple[LaunchCheck, ...]  # those that depend on scalars
    names: tuple[str, ...]  # of the tensors
    scalar_names: tuple[str, ...]
    is_wary: bool  # elements of an output may overlap one another
    foreign: tuple[int, ...]  # numbers of the tensors that are arrays of other libraries
    written: tuple[int, ...]  # those of them that are written

    def numbers(self, scalars: tuple[Any, ...]) -> tuple[Number, ...] | None:
        """Convert the scalars of a call; None if one does not fit its dtype."""
        try:
            return tuple(map(number_of, scalars, self.dtypes))
        except Unfit:
            return None

    def still_holds(self, tensors: tuple[Tensor, ...], numbers: tuple[Number, ...]) -> bool:
        """Whether the launch checks that depend on scalars hold for these."""
        checks = self.checks
        if not self.blocks:
            checks = tuple(check for check in checks if not check.needs_blocks)
        return not checks or self.all_hold(checks, tensors, numbers, self.grid, self.blocks)

    def all_hold(
        self,
        checks: tuple[LaunchCheck, ...],
        tensors: tuple[Tensor, ...],
        numbers: tuple[Number, ...],
        grid: tuple[int, ...],
        blocks: int,
    ) -> bool:
        """Whether launch checks hold for these tensors, scalars and grid."""
        scalars = dict(zip(self.scalar_names, numbers, strict=False))
        named = dict(zip(self.names, tensors, strict=True))
        environment = LaunchEnvironment(named, scalars, grid, blocks)
        return all(check.holds(environment) for check in checks)

    def arguments(
        self, tensors: tuple[Handle, ...], numbers: tuple[Number, ...]
    ) -> tuple[Number | None, ...]:
        """The arguments of the kernel function; None for the record. All memory is allocated."""
        filled = list(self.template)
        for position, number in self.addresses:
            filled[position] = tensors[number].address
        for position, number in self.scalars:
            filled[position] = numbers[number]
        return tuple(filled)

    def new_reader(self) -> FailureReader | None:
        """A reader with a new failure record; None if the kernel cannot fail."""
        if not self.facts.may_fail:
            return None
        record = self.device.new_record()
        return FailureReader(self.label, self.grid, self.descending, self.facts.sites, record)


def make_plan(
    executable: Executable,
    functions: tuple[KernelFunction, ...],
    binding: Binding,
    roles: tuple[Role, ...],
) -> Plan:
    """The plan of a bound and checked call."""
    facts, environment = executable.facts, binding.environment
    tensors = {name: number for number, name in enumerate(binding.tensors)}
    scalars = {param.name: number for number, param in enumerate(binding.signature.scalars)}
    pairs = tuple(zip(binding.tensors.values(), roles, strict=True))
    template: list[Number | None] = []
    addresses, places = [], []
    for position, argument in enumerate(facts.arguments):
        term = argument.term
        if isinstance(term, _ADDRESSES):
            addresses.append(Filled(position, tensors[term.param]))
        elif isinstance(term, ScalarArgument):
            places.append((position, scalars[term.param]))
        is_open = isinstance(term, (*_ADDRESSES, ScalarArgument, RecordAddress))
        template.append(None if is_open else environment[term])
    return Plan(
        label=facts.name,
        device=binding.device,
        roles=roles,
        facts=facts,
        captures=executable.captures,
        program=executable.program,
        functions=functions,
        grid=binding.grid,
        descending=binding.descending,
        blocks=binding.blocks,
        template=tuple(template),
        addresses=tuple(addresses),
        scalars=tuple(places),
        dtypes=tuple(binding.dtype(param.dtype) for param in binding.signature.scalars),
        checks=_depending(facts),
        names=tuple(binding.tensors),
        scalar_names=tuple(scalars),
        is_wary=any(_is_wary(*pair) for pair in pairs),
        foreign=tuple(n for n, (one, _) in enumerate(pairs) if not one.spec.is_owned),
        written=tuple(
            n for n, (one, role) in enumerate(pairs) if role.mode.writes and not one.spec.is_owned
        ),
    )


def _is_wary(tensor: Tensor, role: Role) -> bool:
    return role.mode.writes and not tensor.spec.is_disjoint


def _depending(facts: LaunchFacts) -> tuple[LaunchCheck, ...]:
    """The launch checks that depend on scalars; for padding, the cold path warns."""
    return tuple(
        check
        for check in (*facts.launch_checks, *facts.padded)
        if any(isinstance(term, ScalarArgument) for term in check.deciding_terms)
    )


class _PlanWork(SharedWork, OneNode):
    """The part of a launch that its plan decides."""

    __slots__ = ("plan",)

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.label, self.device, self.roles = plan.label, plan.device, plan.roles
        self.foreign, self.written = plan.foreign, plan.written
        self.plan = plan

    @property
    def programs(self) -> tuple[Future[Any], ...]:
        """The program of the launch."""
        return (self.plan.program,)


class PlanLaunch(_PlanWork):
    """The launch of a plan, for one call; for all calls if the kernel has no scalars or record."""

    __slots__ = ("_calls", "_is_first", "_reader", "is_plain", "is_whole", "launch", "numbers")

    check: Check | None
    launch: ReadyCall

    def __init__(
        self,
        plan: Plan,
        numbers: tuple[Number, ...] = (),
        reader: FailureReader | None = None,
    ) -> None:
        super().__init__(plan)
        self.launch = self._launch
        # Whether only addresses are to be filled in.
        self.is_whole = not plan.facts.may_fail and (bool(numbers) or not plan.scalars)
        self._is_first = True
        is_wary = plan.is_wary or bool(plan.checks)
        # Whether, besides, the only check is that outputs share no memory.
        self.is_plain = self.is_whole and plan.captures.are_fixed and not is_wary
        self.check = self._reader = reader
        self.numbers = numbers  # scalars

    def _launch(self, stream: Stream, tensors: tuple[Handle, ...]) -> None:
        """Enqueue the launch, with its parameters in a buffer shared by all launches."""
        if self._reader is not None:
            self.work_on(tensors).enqueue(stream)
            return
        plan = self.plan
        if self.is_whole and not self._is_first:
            self._settle_down()
            self.launch(stream, tensors)
            return
        self._is_first = False
        arguments: Any = plan.arguments(tensors, self.numbers)
        memories = tuple([tensor.storage for tensor in tensors])
        for function in plan.functions:
            function.launch(stream, plan.blocks, arguments, memories)

    def _settle_down(self) -> None:
        """Give the launch a parameter buffer of its own, at its second use."""
        plan = self.plan
        known = [0 if one is None else one for one in plan.template]
        for position, number in plan.scalars:
            known[position] = self.numbers[number]
        passed = tuple(known)
        filled = [one.prepare_for(plan.blocks, passed, plan.addresses) for one in plan.functions]
        self._calls = tuple(filled)
        self.launch = filled[0] if len(filled) == 1 else self._launch_all

    def _launch_all(self, stream: Stream, tensors: tuple[Handle, ...]) -> None:
        for call in self._calls:
            call(stream, tensors)

    def work_on(self, tensors: tuple[Handle, ...]) -> _PlanNode:
        """The launch as the node of a graph."""
        return _PlanNode(self.plan, self.numbers, self._reader, tensors)

    def let_go(self) -> None:
        """Drop the failure record of this call, which its outcome keeps."""
        self.check = self._reader = None


class _PlanNode(NamedTuple):
    """A plan with its tensors, whose memory may not be allocated yet."""

    plan: Plan
    numbers: tuple[Number, ...]
    reader: FailureReader | None
    tensors: tuple[Handle, ...]

    def enqueue(self, stream: Stream) -> None:
        """Enqueue the launch; the device's lock is held and all memory is allocated."""
        self.repeated().enqueue(stream)

    def repeated(self) -> RepeatedLaunch:
        """The launch with its addresses; all memory is allocated."""
        plan = self.plan
        return RepeatedLaunch(
            plan.functions,
            plan.device,
            plan.blocks,
            plan.arguments(self.tensors, self.numbers),
            tuple(tensor.storage for tensor in self.tensors),
            self.reader,
        )


class BoundLaunch(_PlanWork):
    """A plan with fixed addresses and scalars; it keeps no tensor alive."""

    __slots__ = ("_arguments", "_calls", "captures", "launch")

    captures: Captures | None  # None if all are constant
    launch: ReadyCall

    def __init__(
        self, plan: Plan, tensors: tuple[Handle, ...], numbers: tuple[Number, ...]
    ) -> None:
        super().__init__(plan)
        arguments = tuple([one for one in plan.arguments(tensors, numbers) if one is not None])
        assert len(arguments) == len(plan.template), "a launch with a failure record is never bound"
        self.captures = None if plan.captures.are_fixed else plan.captures
        self._arguments = arguments
        self._calls = tuple(one.prepare(plan.blocks, arguments) for one in plan.functions)
        self.launch = self._calls[0] if len(self._calls) == 1 else self._launch_all

    @property
    def numbers(self) -> tuple[Number, ...]:
        """The scalars; 0 for a scalar that the kernel does not use."""
        passed = {number: self._arguments[position] for position, number in self.plan.scalars}
        return tuple(passed.get(number, 0) for number in range(len(self.plan.dtypes)))

    @property
    def is_current(self) -> bool:
        """Whether the captures of the kernel are unchanged."""
        return self.captures is None or self.captures.are_current()

    def _launch_all(self, stream: Stream, tensors: tuple[Handle, ...]) -> None:
        for call in self._calls:
            call(stream, tensors)

    def work_on(self, tensors: tuple[Handle, ...]) -> RepeatedLaunch:
        """The launch as the node of a graph."""
        plan = self.plan
        memories = tuple(tensor.storage for tensor in tensors)
        return RepeatedLaunch(
            plan.functions, plan.device, plan.blocks, self._arguments, memories, None
        )
