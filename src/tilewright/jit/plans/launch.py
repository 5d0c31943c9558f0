"""The operation of a call on the cold path: launch checks first, the assembler in parallel.

When the operation exists, the front end has run and all launch checks hold. The assembler runs in
the background, and the submission of the operation waits for it.
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
    """Evaluate every launch check for this call.

    Raises `LaunchError` for a failed check. False means that only guarded checks failed: the launch
    needs the variant with these checks in the kernel. Without blocks only requirements are checked.
    """
    environment = LaunchEnvironment(binding)
    asked = [check for check in facts.launch_checks if binding.blocks or not check.needs_blocks]
    failed = [check for check in asked if not check.holds(environment)]
    for check in failed:
        if not check.guarded:
            raise LaunchError(f"kernel `{facts.name}`: {check.explain(environment)}")
    return not failed


def refuse_guarded(facts: LaunchFacts, binding: Binding) -> LaunchError:
    """Refuse a launch that needs a check in a kernel with `deny_checks`."""
    environment = LaunchEnvironment(binding)
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
    work = KernelWork(executable, binding, accesses, reader, remember)
    return make_operation(facts.name, binding.device, accesses, work, result, failure=reader)


def _mode(facts: LaunchFacts, binding: Binding, output: str) -> Mode:
    """The access mode of an output; without blocks its old contents stay."""
    is_whole = binding.blocks > 0 and output in facts.written_whole
    return Mode.WRITE if is_whole else Mode.UPDATE


class KernelWork:
    """The work of one launch on the cold path."""

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
        """Enqueue the launch; the device's lock is held and all memory is allocated."""
        self.repeated().enqueue(stream)
        if self._remember is not None:
            made = (self._executable, self._functions)
            self._remember(make_plan(*made, self._binding, self._roles))

    def repeated(self) -> RepeatedLaunch:
        """This launch as the node of a graph; all memory is allocated."""
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
