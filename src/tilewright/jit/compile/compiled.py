"""A compiled kernel as data: Tile IR with the facts that launches need.

The module is separate from the compiler, which is loaded at the first call of a kernel.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from tilewright.analysis.pressure import Pressure
from tilewright.check.placement import Placement
from tilewright.frontend.signature.signature import Signature
from tilewright.frontend.signature.specialization import Specialization
from tilewright.frontend.source.capture import SourceFunction
from tilewright.frontend.source.captures import Captures
from tilewright.ir.arguments import Argument
from tilewright.ir.function import EntryHints
from tilewright.ir.inspections import Observer
from tilewright.jit.loader import bytecode
from tilewright.passes.report_form import ReportForm
from tilewright.runtime.devices.context import INTERCEPTED, ContextFlag, Setting

if TYPE_CHECKING:
    from tilewright.bytecode.encode import Encoded
    from tilewright.check.launch import LaunchCheck
    from tilewright.check.ledger import Ledger
    from tilewright.check.padded_reduction import PaddedReduction
    from tilewright.ir.check_sites import Site
    from tilewright.ir.function import Module

__all__ = [
    "CompiledKernel",
    "LaunchFacts",
    "Options",
    "Request",
    "chosen_placement",
    "force_checks",
]


@dataclass(frozen=True)
class Options:
    """The options of the decorator."""

    deny_checks: bool = False
    unsafe: bool = False  # takes pointers, and is launched by `.unsafe(…)`
    report: ReportForm | None = None  # how a failed check is reported; None: the cheapest form


@dataclass(frozen=True, eq=False)
class Request:
    """The input of a compilation."""

    source: SourceFunction
    signature: Signature
    specialization: Specialization
    options: Options
    placement: Placement
    observer: Observer | None = None  # of the named tiles of each block, on the CPU


@dataclass(frozen=True, eq=False)
class LaunchFacts:
    """The facts about a compiled kernel that launches need beside its code."""

    name: str
    entries: tuple[str, ...]  # in execution order
    arguments: tuple[Argument, ...]
    launch_checks: tuple[LaunchCheck, ...]
    sites: tuple[Site, ...]  # by the site number of a failure record
    written_whole: frozenset[str]  # outputs of which every element is written, and none read
    padded: tuple[PaddedReduction, ...] = ()  # reductions whose value padding would change
    untied: tuple[tuple[str, str], ...] = ()  # untied parameters, each with the way out
    waits_for_grids: bool = False  # so its blocks may start before its dependencies have completed
    hints: EntryHints = field(default_factory=EntryHints)  # the author's, and those chosen for it
    pressure: Pressure = field(default_factory=Pressure)  # of its tiles, an estimate

    @property
    def may_fail(self) -> bool:
        """Whether launches need a failure record."""
        return bool(self.sites)


@dataclass(frozen=True, eq=False)
class CompiledKernel:
    """The Tile IR of a kernel with its facts."""

    specialization: Specialization
    module: Module  # the kernel, and its audit kernel if it has one
    facts: LaunchFacts
    ledger: Ledger
    captures: Captures  # values from outside the kernel

    @cached_property
    def bytecode(self) -> Encoded:
        """The module as Tile IR bytecode, in the oldest version that holds it."""
        return bytecode.encode_in_oldest(self.module)

    @property
    def content(self) -> bytes:
        """The bytecode without source locations, which determines the cubin."""
        return bytecode.encode_in_oldest(self.module, locations=False).data


# The placement of a context. A kernel with all checks is slower and no safer than one whose checks
# were proved: tests compare both.
_OVERRIDE: ContextFlag[Placement] = ContextFlag("tilewright_placement")


def force_checks() -> Setting[None]:
    """Keep every check in the kernels that are called inside the context."""
    return Setting(None, (_OVERRIDE, Placement.ALL_IN_KERNEL), (INTERCEPTED, True))


def chosen_placement() -> Placement:
    """The placement of checks for a call in this context."""
    return _OVERRIDE.get() or Placement.EARLIEST
