"""The operation that a call builds: launch checks now, tileiras in a worker, the launch later.

The front end has run and every check has passed when the operation exists; assembling starts in
the background then and is waited for when the operation is submitted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.errors import LaunchError
from tilewright.ir.launch_terms import RecordAddress
from tilewright.jit.bind.binding import Binding
from tilewright.jit.bind.environment import LaunchEnvironment, launch_number
from tilewright.jit.compile.compiled import LaunchFacts
from tilewright.jit.compile.executable import Executable
from tilewright.jit.compile.failures import FailureReader
from tilewright.jit.plans.bound_launch import RepeatedLaunch
from tilewright.jit.plans.plan import Plan, make_plan
from tilewright.runtime.devices.function import KernelFunction
from tilewright.runtime.devices.stream import Stream
from tilewright.runtime.ops.launch import LaunchOp, make_operation
from tilewright.runtime.order.access import Access, Mode
from tilewright.runtime.order.borrow import Role

__all__ = ["build_launch", "check_launch", "refuse_guarded"]


def check_launch(facts: LaunchFacts, binding: Binding) -> bool:
    """Evaluate every launch check with the numbers of this call.

    Raises `LaunchError` for one that fails; False says that only guarded ones failed, so that the
    variant with the check in the kernel has to run. Where no block runs, requirements are left.
    """
    environment = LaunchEnvironment(binding)
    asked = [check for check in facts.launch_checks if binding.blocks or not check.needs_blocks]
    failed = [check for check in asked if not check.holds(environment)]
    for check in failed:
        if not check.guarded:
            raise LaunchError(f"kernel `{facts.name}`: {check.explain(environment)}")
    return not failed


def refuse_guarded(facts: LaunchFacts, binding: Binding) -> LaunchError:
    """The refusal of a launch that would need a check in a kernel that allows none."""
    environment = LaunchEnvironment(binding)
    check = next(c for c in facts.launch_checks if not c.holds(environment))
    return LaunchError(
        f"kernel `{facts.name}` allows no checks inside (deny_checks), and this launch would "
        f"need one: {check.explain(environment)}"
    )


# Keeps what was decided about a launch.
Remember = Callable[[Plan], None]


def build_launch(
    executable: Executable,
    binding: Binding,
    result: tuple[Any, ...],
    remember: Remember | None = None,
) -> LaunchOp[tuple[Any, ...]]:
    """The operation for one call; it holds its borrows from here on."""
    facts, written = executable.facts, binding.written
    accesses = tuple(
        Access(tensor, _mode(facts, binding, name) if name in written else Mode.READ, name)
        for name, tensor in binding.tensors.items()
    )
    reader = None
    if facts.may_fail:
        record = binding.device.new_record()
        reader = FailureReader(facts.name, binding.grid, binding.descending, facts.sites, record)
    work = KernelWork(executable, binding, accesses, reader, remember)
    return make_operation(facts.name, binding.device, accesses, work, result, failure=reader)


def _mode(facts: LaunchFacts, binding: Binding, output: str) -> Mode:
    """What happens to an output; where no block runs, its old contents stay."""
    is_whole = binding.blocks > 0 and output in facts.written_whole
    return Mode.WRITE if is_whole else Mode.UPDATE


class KernelWork:
    """One launch, waiting to be put on a stream."""

    __slots__ = (
        "_binding", "_executable", "_functions", "_reader", "_remember", "_roles", "program",
    )  # fmt: skip

    def __init__(
        self,
        executable: Executable,
        binding: Binding,
        accesses: tuple[Access, ...],
        reader: FailureReader | None,
        remember: Remember | None,
    ) -> None:
        self._executable = executable
        self.program = executable.program
        self._binding = binding
        self._roles = tuple(Role(mode, name) for _, mode, name in accesses)
        self._reader = reader
        self._remember = remember
        self._functions: tuple[KernelFunction, ...] = ()

    def compile(self) -> None:
        """Wait for the assembler and load the kernel."""
        program, device = self.program.result(), self._binding.device
        entries = self._executable.facts.entries if device.backend.can_run else ()
        self._functions = tuple(program.function(entry, device) for entry in entries)

    def enqueue(self, stream: Stream) -> None:
        """Put the launch on a stream. The device's lock is held and all bytes are allocated."""
        self.repeated().enqueue(stream)
        if self._remember is not None:
            made = (self._executable, self._functions)
            self._remember(make_plan(*made, self._binding, self._roles))

    def repeated(self) -> RepeatedLaunch:
        """This launch as a node of a graph. The bytes of all tensors are allocated."""
        binding = self._binding
        terms = (argument.term for argument in self._executable.facts.arguments)
        arguments = tuple(
            None if isinstance(term, RecordAddress) else launch_number(binding, term)
            for term in terms
        )
        storages = tuple(tensor.storage for tensor in binding.tensors.values())
        return RepeatedLaunch(
            self._functions, binding.device, binding.blocks, arguments, storages, self._reader
        )
