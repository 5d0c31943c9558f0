"""From checked IR to Tile IR: every pass once, in the one order that works.

The input is what the front end built and `check` left: internal ops may occur everywhere. The
output has none, and the entry has its parameters.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.ir.arguments import Argument
from tilewright.ir.function import Function, Module
from tilewright.passes.avoid_tma import avoid_tma
from tilewright.passes.bind_arguments import bind_arguments
from tilewright.passes.drop_dead_code import drop_dead_code
from tilewright.passes.drop_parameters import drop_parameters
from tilewright.passes.fuse_fma import fuse_fma
from tilewright.passes.lower_arithmetic import lower_arithmetic
from tilewright.passes.lower_assumptions import lower_assumptions
from tilewright.passes.lower_exits import lower_exits
from tilewright.passes.lower_records import lower_records
from tilewright.passes.lower_returns import lower_returns
from tilewright.passes.lower_walks import lower_walks
from tilewright.passes.merge_duplicates import merge_duplicates
from tilewright.passes.order_tokens import order_tokens
from tilewright.passes.place_checks import Site, place_checks
from tilewright.passes.report_form import ReportForm
from tilewright.passes.wait_for_grids import wait_for_grids

__all__ = ["Lowered", "lower_to_tile_ir"]


@dataclass(frozen=True)
class Lowered:
    """Pure Tile IR: the kernel, then the audit kernel if it has one; what they take; its checks."""

    module: Module
    arguments: tuple[Argument, ...]
    sites: tuple[Site, ...]


def lower_to_tile_ir(
    function: Function,
    arguments: tuple[Argument, ...],
    report: ReportForm,
    *,
    starts_early: bool = False,
) -> Lowered:
    """Lower a checked function. Both entries of the module take the same arguments, as needed.

    One that `starts_early` waits itself for what comes before it.
    """
    placed = place_checks(function, report)
    entries = [placed.function] if placed.audit is None else [placed.function, placed.audit]
    lowered = tuple(_lower(entry, arguments, starts_early) for entry in entries)
    lowered, arguments = drop_parameters(lowered, arguments)
    return Lowered(Module(lowered, name=function.name), arguments, placed.sites)


def _lower(function: Function, arguments: tuple[Argument, ...], starts_early: bool) -> Function:
    # While blocks and walks are still known as such: no sign is lost, no step seems to collide.
    function = lower_arithmetic(function)
    # Equal views become one value, and unused loads go, before anything is ordered.
    function = merge_duplicates(function)
    function = drop_dead_code(function)
    function = order_tokens(function)
    function = lower_walks(function)
    function = lower_exits(function)
    function = lower_returns(function)
    # Behind the ordering: a report waits for nothing and nothing waits for it.
    function = lower_records(function)
    # The last pass to name launch values has run.
    function = bind_arguments(function, arguments)
    function = fuse_fma(function)
    # What the passes left behind: tokens nobody waits for, fused products, repeated constants.
    function = merge_duplicates(function)
    function = drop_dead_code(function)
    # Behind both: a token that nobody waits for orders nothing.
    function = avoid_tma(function)
    if starts_early:  # behind that: the end of other grids is no order that control flow hands on
        function = wait_for_grids(function)
    # Last, since nothing uses what they become.
    return lower_assumptions(function)
