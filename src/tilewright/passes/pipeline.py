"""The pipeline from checked IR to Tile IR: the passes in their only valid order.

The input is the IR of the front end after `check`: internal ops may occur everywhere. The output
has none, and its entry has parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tilewright.ir.arguments import Argument
from tilewright.ir.check_sites import Site
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
from tilewright.passes.place_checks import place_checks
from tilewright.passes.report_form import ReportForm
from tilewright.passes.wait_for_grids import wait_for_grids

__all__ = ["Lowered", "Watch", "lower_to_tile_ir"]

# Sees the function behind a pass, by its name, and gives it back.
Watch = Callable[[str, Function], Function]


def _unwatched(_: str, function: Function) -> Function:
    return function


@dataclass(frozen=True)
class Lowered:
    """Pure Tile IR: the kernel, then its audit kernel if any; their arguments; the checks."""

    module: Module
    arguments: tuple[Argument, ...]
    sites: tuple[Site, ...]


def lower_to_tile_ir(
    function: Function,
    arguments: tuple[Argument, ...],
    report: ReportForm,
    *,
    starts_early: bool = False,
    fuses: bool = True,
    watch: Watch = _unwatched,
) -> Lowered:
    """Lower a checked function. Both entries of the module take the same arguments.

    A kernel that `starts_early` waits itself for the grids before it. A product and its sum are
    fused where the target has an instruction for both; without one, exact rounding is costly.
    """
    placed = place_checks(function, report)
    entries = [placed.function] if placed.audit is None else [placed.function, placed.audit]
    lowered = tuple(_lower(entry, arguments, starts_early, fuses, watch) for entry in entries)
    lowered, arguments = drop_parameters(lowered, arguments)
    return Lowered(Module(lowered, name=function.name), arguments, placed.sites)


def _lower(
    function: Function,
    arguments: tuple[Argument, ...],
    starts_early: bool,
    fuses: bool,
    watch: Watch,
) -> Function:
    function = watch("place_checks", function)
    # While block indices and walks are still ops: their signs and disjoint steps are known.
    function = watch("lower_arithmetic", lower_arithmetic(function))
    # Equal views become one value, and dead loads are removed, before accesses are ordered.
    function = watch("merge_duplicates", merge_duplicates(function))
    function = watch("drop_dead_code", drop_dead_code(function))
    function = watch("order_tokens", order_tokens(function))
    function = watch("lower_walks", lower_walks(function))
    function = watch("lower_exits", lower_exits(function))
    function = watch("lower_returns", lower_returns(function))
    # After the ordering: a report has no order with other accesses.
    function = watch("lower_records", lower_records(function))
    # The last pass that adds launch values has run.
    function = watch("bind_arguments", bind_arguments(function, arguments))
    if fuses:
        function = watch("fuse_fma", fuse_fma(function))
    # Dead code of the passes: unused tokens, fused products, repeated constants.
    function = watch("merge_duplicates", merge_duplicates(function))
    function = watch("drop_dead_code", drop_dead_code(function))
    # After both: an unused token orders nothing.
    function = watch("avoid_tma", avoid_tma(function))
    if starts_early:  # after that: the grid-wait token never flows through control flow
        function = watch("wait_for_grids", wait_for_grids(function))
    # Last, since the results have no uses.
    return watch("lower_assumptions", lower_assumptions(function))
