"""The operation of a call on the cold path: launch checks first, the assembler in parallel.

When the operation exists, the front end has run and all launch checks hold. The assembler runs in
the background, and the submission of the operation waits for it. A call with operations among its
arguments is a chain that runs them, and then launches.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from tilewright.dtypes import AnyDType
from tilewright.errors import LaunchError
from tilewright.frontend.signature.signature import GroupParam, ScalarParam, Signature
from tilewright.jit.bind.binding import Binding, bind_arguments
from tilewright.jit.bind.launch import check_devices
from tilewright.jit.compile.compiled import LaunchFacts
from tilewright.jit.compile.executable import Executable
from tilewright.jit.compile.failures import FailureReader
from tilewright.jit.loader import Program
from tilewright.jit.plans.bound_launch import RepeatedLaunch
from tilewright.jit.plans.plan import Plan, PlanLaunch, make_plan
from tilewright.runtime.devices.stream import Stream
from tilewright.runtime.ops.deferring import defer
from tilewright.runtime.ops.launch import LaunchOp, make_operation
from tilewright.runtime.ops.operation import DeviceOp
from tilewright.runtime.order.access import Access, Mode
from tilewright.runtime.order.borrow import Role

__all__ = ["build_launch", "check_launch", "launch_later", "refuse_guarded"]


def check_launch(facts: LaunchFacts, binding: Binding) -> bool:
    """Evaluate every launch check for this call.

    Raises `LaunchError` for a failed check. False means that only guarded checks failed: the launch
    needs the variant with these checks in the kernel. Without blocks only requirements are checked.
    """
    environment = binding.environment
    asked = [check for check in facts.launch_checks if binding.blocks or not check.needs_blocks]
    failed = [check for check in asked if not check.holds(environment)]
    for check in failed:
        if not check.guarded:
            raise LaunchError(f"kernel `{facts.name}`: {check.explain(environment)}")
    return not failed


def refuse_guarded(facts: LaunchFacts, binding: Binding) -> LaunchError:
    """Refuse a launch that needs a check in a kernel with `deny_checks`."""
    environment = binding.environment
    check = next(c for c in facts.launch_checks if not c.holds(environment))
    return LaunchError(
        f"kernel `{facts.name}` allows no checks inside (deny_checks), and this launch would "
        f"need one: {check.explain(environment)}"
    )


# Caches the plan of a launch.
Remember = Callable[[Plan], None]


def build_launch(
    executable: Executable,
    binding: Binding,
    result: tuple[Any, ...],
    remember: Remember | None = None,
) -> LaunchOp[tuple[Any, ...]]:
    """Build the operation of a call, which borrows its tensors."""
    facts, written = executable.facts, binding.written
    accesses = tuple(
        Access(tensor, _mode(facts, binding, name) if name in written else Mode.READ, name)
        for name, tensor in binding.tensors.items()
    )
    reader = None
    if facts.may_fail:
        record = binding.device.new_record()
        reader = FailureReader(facts.name, binding.grid, binding.descending, facts.sites, record)
    roles = tuple(Role(mode, name) for _, mode, name in accesses)
    work = KernelWork(executable, binding, roles, reader, remember)
    return make_operation(facts.name, binding.device, accesses, work, result, failure=reader)


def _mode(facts: LaunchFacts, binding: Binding, output: str) -> Mode:
    """The access mode of an output; without blocks its old contents stay."""
    is_whole = binding.blocks > 0 and output in facts.written_whole
    return Mode.WRITE if is_whole else Mode.UPDATE


@dataclass(slots=True, eq=False)
class KernelWork:
    """The work of one launch on the cold path."""

    executable: Executable
    binding: Binding
    roles: tuple[Role, ...]
    reader: FailureReader | None
    remember: Remember | None
    plan: Plan | None = None

    @property
    def program(self) -> Future[Program]:
        """The program, which may still be in the assembler."""
        return self.executable.program

    def compile(self) -> None:
        """Wait for the assembler, load the kernel, and make the plan."""
        program, device = self.program.result(), self.binding.device
        self.executable.teller.tell(self.executable.facts, program)
        entries = self.executable.facts.entries if device.backend.can_run else ()
        functions = tuple(program.function(entry, device) for entry in entries)
        self.plan = make_plan(self.executable, functions, self.binding, self.roles)

    def enqueue(self, stream: Stream) -> None:
        """Enqueue the launch; the device's lock is held and all memory is allocated."""
        self.repeated().enqueue(stream)
        if self.remember is not None and self.plan is not None:
            self.remember(self.plan)

    def repeated(self) -> RepeatedLaunch:
        """This launch as the node of a graph; all memory is allocated."""
        assert self.plan is not None, "a launch is compiled before it is enqueued"
        binding = self.binding
        numbers = tuple(binding.scalars[param.name] for param in binding.signature.scalars)
        launch = PlanLaunch(self.plan, numbers, self.reader)
        return launch.work_on(tuple(binding.tensors.values())).repeated()


def launch_later(
    signature: Signature,
    call: inspect.BoundArguments,
    launch: Callable[[inspect.BoundArguments], DeviceOp[tuple[Any, ...]]],
) -> DeviceOp[tuple[Any, ...]]:
    """Build the chain of the operations among the arguments and of the kernel on their results.

    The other arguments are bound at the call, so a wrong kind, rank, dtype or device is refused
    there. Dims, the grid and overlaps need all arguments and are checked when the operations have
    run: then `launch` builds the launch.
    """
    waiting = {name: v for name, v in call.arguments.items() if isinstance(v, DeviceOp)}

    def build(values: tuple[Any, ...]) -> DeviceOp[tuple[Any, ...]]:
        call.arguments = dict(zip(call.arguments, values, strict=True))
        return launch(call)

    _check_known(signature, call, waiting)
    groups = [param.name for param in signature.params if isinstance(param, GroupParam)]
    count = len(call.arguments)
    return defer(signature.kernel, call.arguments, build, count=count, tuples=groups)


def _check_known(
    signature: Signature, call: inspect.BoundArguments, waiting: dict[str, DeviceOp[Any]]
) -> None:
    """Refuse arguments that are wrong for every result of the operations."""
    binding = Binding(signature)
    values: tuple[Any, ...] = (*signature.tensors, *signature.pointers, *signature.constants)
    bind_arguments(binding, (param for param in values if param.name not in waiting), call)
    known = (param for param in signature.numbers if _is_typed(binding, param))
    bind_arguments(binding, (param for param in known if param.name not in waiting), call)
    check_devices(binding)
    for name, operation in waiting.items():
        if binding.tensors and operation.device is not binding.device:
            first = next(iter(binding.tensors))
            raise binding.refused(
                name,
                f"comes from an operation on {operation.device.name}, but `{first}` lives on "
                f"{binding.device.name}: all tensors of a launch must be on one device",
            )


def _is_typed(binding: Binding, number: ScalarParam | GroupParam) -> bool:
    """Whether the dtype is known without the results of the operations."""
    dtypes = (binding.dtype(leaf.dtype) for leaf in number.leaves())
    return not any(issubclass(dtype, AnyDType) for dtype in dtypes)
