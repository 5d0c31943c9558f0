"""The compiler: one specialisation of a kernel, from its AST to Tile IR with launch checks.

The compiler is a pure function: it needs no device, and its output depends on its input alone.
"""

from __future__ import annotations

from functools import partial

from tilewright.analysis.pressure import PRODUCTS, register_pressure
from tilewright.check.bounds import settle_checks
from tilewright.check.errors.bounds import CheckDenied, violation_problem
from tilewright.check.ledger import Ledger
from tilewright.check.padding import padded_reductions
from tilewright.check.walks import check_walks
from tilewright.deep_calls import MOST_CALLS, with_room
from tilewright.diagnostics import Problem, compile_error
from tilewright.errors import CompileError, InternalError, TilewrightError
from tilewright.frontend.kernel import lower_kernel
from tilewright.frontend.signature.coverage import whole_outputs
from tilewright.frontend.signature.specialization import (
    Specialization,
    arguments_of,
    describe,
    record_argument,
)
from tilewright.frontend.signature.untied_extents import untied_extents
from tilewright.ir.function import EntryHints, Function
from tilewright.ir.ops.internal import BoundsCheck, DivisorCheck
from tilewright.ir.ops.reduction import MmaF, MmaI
from tilewright.ir.rewrite import has_any, is_loop
from tilewright.ir.verify.verifier import verify
from tilewright.jit.compile.compiled import CompiledKernel, LaunchFacts, Request
from tilewright.jit.compile.dumping import open_dump
from tilewright.jit.loader import bundles
from tilewright.lang.hints import starts_kernels_early
from tilewright.passes.choose_hints import choose_hints
from tilewright.passes.hoist_checks import hoist_checks
from tilewright.passes.pipeline import lower_to_tile_ir
from tilewright.passes.place_checks import has_residual_checks
from tilewright.passes.report_form import ReportForm
from tilewright.passes.wait_for_grids import waits_for_grids

__all__ = ["compile_kernel"]


def compile_kernel(request: Request) -> CompiledKernel:
    """Compile one specialisation; raises `CompileError` with all problems."""
    try:
        return with_room(partial(_compiled, request))
    except RecursionError:
        raise CompileError(
            f"kernel `{request.signature.kernel}` nests expressions, branches or calls too deep: "
            f"compiling it takes more than {MOST_CALLS} calls inside each other; give parts of it "
            "names, or turn repeated code into a loop"
        ) from None
    except InternalError as error:
        bundles.write_bundle(request, bundles.FRONT_END, error)
        raise
    except TilewrightError:
        raise
    except Exception as error:  # a bug of ours, since a refusal is an error of ours
        bundles.write_bundle(request, bundles.FRONT_END, error)
        raise


def _compiled(request: Request) -> CompiledKernel:
    signature, specialization = request.signature, request.specialization
    options, placement = request.options, request.placement
    dump = open_dump(request)
    dump.begin(request)
    function, captures = lower_kernel(request.source, signature, specialization, request.observer)
    settled = settle_checks(dump.after("lowered", function), placement)
    problems = [
        *check_walks(function, [param.name for param in signature.outputs]),
        *map(violation_problem, settled.violations),
        *(_denied(settled.ledger) if options.deny_checks and placement.may_deny else ()),
    ]
    if problems:
        raise compile_error(problems, describe(signature, specialization))
    arguments = arguments_of(signature, specialization)
    if has_residual_checks(settled.function):
        arguments = (*arguments, record_argument())
    hoisted = choose_hints(hoist_checks(settled.function), specialization.target)
    report = options.report or _cheapest_report(hoisted)
    early = _starts_early(hoisted, specialization)
    is_gpu = specialization.target.startswith("sm_")
    lowered = lower_to_tile_ir(
        dump.after("hoist_checks", hoisted),
        arguments,
        report,
        starts_early=early,
        fuses=is_gpu,
        watch=dump.after,
    )
    target = specialization.target if is_gpu else "sm_120"
    verify(lowered.module, target)
    facts = LaunchFacts(
        name=signature.kernel,
        # The audit kernel, behind the kernel in the module, runs first: the outputs it would
        # read are still those that the kernel will see.
        entries=tuple(one.name for one in reversed(lowered.module.functions)),
        arguments=lowered.arguments,
        launch_checks=settled.launch_checks,
        sites=lowered.sites,
        written_whole=whole_outputs(function, signature, specialization),
        padded=padded_reductions(function, settled.flow),
        untied=untied_extents(
            function, request.source, signature, specialization, settled.launch_checks
        ),
        waits_for_grids=waits_for_grids(lowered.module),
        hints=EntryHints.held_by(hoisted.hints),
        pressure=register_pressure(hoisted),
    )
    compiled = CompiledKernel(specialization, lowered.module, facts, settled.ledger, captures)
    dump.end(compiled)
    return compiled


def _denied(ledger: Ledger) -> list[Problem]:
    """The remaining checks of a kernel with `deny_checks`, as problems."""
    return [
        CheckDenied(
            entry.location.span, entry.subject, entry.axis, entry.reason, calls=entry.location.calls
        )
        for entry in ledger.in_kernel
        if entry.location is not None
    ]


def _starts_early(function: Function, specialization: Specialization) -> bool:
    """Whether blocks may start before the grids that they depend on have completed.

    tileiras schedules loops of matrix products differently in a kernel that waits, and sometimes
    worse: such a kernel starts early only if its hint asks for it.
    """
    if not starts_kernels_early(specialization.target):
        return False
    wanted = specialization.hints.starts_early
    return not has_any(function, PRODUCTS) if wanted is None else wanted


def _cheapest_report(function: Function) -> ReportForm:
    """The form of report that is close to the best: an audit for checked loops of matrix products.

    `benchmarks/paper/checks.py` (docs/benchmarks.md) measures that clamping an index costs nothing,
    and that reporting may. If a loop of matrix products fills the registers, the state of a report
    spills and can halve the speed, while an audit kernel, which computes only the checked indices,
    costs a few per cent. If registers are free, carrying the first failure to the end costs little
    and needs no second launch.
    """
    for loop in filter(is_loop, function.walk()):
        inside = list(loop.walk())
        if any(isinstance(op, MmaF | MmaI) for op in inside) and any(
            isinstance(op, BoundsCheck | DivisorCheck) for op in inside
        ):
            return ReportForm.AUDIT
    return ReportForm.AT_END
