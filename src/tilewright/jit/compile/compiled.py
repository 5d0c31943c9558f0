"""A compiled kernel as data: Tile IR with everything a launch needs to know about it.

Apart from the compiler, which is loaded only when the first kernel is called.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from tilewright.check.placement import Placement
from tilewright.frontend.signature.signature import Signature
from tilewright.frontend.signature.specialization import Specialization
from tilewright.frontend.source.capture import SourceFunction
from tilewright.frontend.source.captures import Captures
from tilewright.ir.arguments import Argument
from tilewright.ir.function import Module
from tilewright.passes.report_form import ReportForm
from tilewright.passes.wait_for_grids import waits_for_grids

if TYPE_CHECKING:
    from tilewright.bytecode.encode import Encoded
    from tilewright.check.launch import LaunchCheck
    from tilewright.check.ledger import Ledger
    from tilewright.check.padding import PaddedReduction
    from tilewright.passes.place_checks import Site

__all__ = ["CompiledKernel", "LaunchFacts", "Options", "Request"]


@dataclass(frozen=True)
class Options:
    """What the decorator says about compilation."""

    deny_checks: bool = False
    unsafe: bool = False  # takes pointers, and is launched as such
    report: ReportForm | None = None  # how a failed check is reported; None: what suits the kernel


@dataclass(frozen=True, eq=False)
class Request:
    """What is to be compiled."""

    source: SourceFunction
    signature: Signature
    specialization: Specialization
    options: Options
    placement: Placement


@dataclass(frozen=True, eq=False)
class LaunchFacts:
    """What a launch needs to know about a compiled kernel, beside the code itself."""

    name: str
    entries: tuple[str, ...]  # in the order in which they run
    arguments: tuple[Argument, ...]
    launch_checks: tuple[LaunchCheck, ...]
    sites: tuple[Site, ...]  # what a failure record's site number means
    written_whole: frozenset[str]  # outputs of which every element is written, and none read
    padded: tuple[PaddedReduction, ...] = ()  # reductions that would notice padding
    untied: tuple[tuple[str, str], ...] = ()  # untied parameters; what to write
    waits_for_grids: bool = False  # so it may start before what it depends on has ended

    @property
    def may_fail(self) -> bool:
        """Whether launches need a failure record."""
        return bool(self.sites)


@dataclass(frozen=True, eq=False)
class CompiledKernel:
    """Tile IR with everything a launch needs to know about it."""

    name: str
    specialization: Specialization
    module: Module  # the kernel, and its audit kernel if it has one
    arguments: tuple[Argument, ...]
    launch_checks: tuple[LaunchCheck, ...]
    ledger: Ledger
    sites: tuple[Site, ...]  # what a failure record's site number means
    written_whole: frozenset[str]  # outputs of which every element is written, and none read
    padded: tuple[PaddedReduction, ...]  # reductions that would notice padding
    untied: tuple[tuple[str, str], ...]  # untied parameters; what to write
    captures: Captures  # what it found outside itself
    encoder: Callable[..., Encoded]

    @cached_property
    def facts(self) -> LaunchFacts:
        """What a launch needs of it."""
        # The audit kernel, behind the kernel in the module, runs first: the outputs it would
        # read are still those that the kernel will see.
        entries = tuple(function.name for function in reversed(self.module.functions))
        return LaunchFacts(
            self.name,
            entries,
            self.arguments,
            self.launch_checks,
            self.sites,
            self.written_whole,
            self.padded,
            self.untied,
            waits_for_grids(self.module),
        )

    @cached_property
    def bytecode(self) -> Encoded:
        """The module as Tile IR bytecode, in the oldest version that holds it."""
        return self.encoder(self.module)

    @property
    def content(self) -> bytes:
        """The bytecode without places in the source: what the code is made of."""
        return self.encoder(self.module, locations=False).data
