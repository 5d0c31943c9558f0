"""The compiler: one specialisation of a kernel, from its AST to Tile IR with launch checks.

The compiler is a pure function: it needs no device, and its output depends on its input alone.
"""

from __future__ import annotations

from functools import partial

from tilewright.bytecode.encode import encode_in_oldest
from tilewright.check.bounds import settle_checks
from tilewright.check.errors.bounds import CheckDenied, violation_problem
from tilewright.check.ledger import Ledger
from tilewright.check.padding import padded_reductions
from tilewright.check.placement import Placement
from tilewright.check.walks import check_walks
from tilewright.deep_calls import MOST_CALLS, with_room
from tilewright.diagnostics import Problem, compile_error
from tilewright.errors import CompileError
from tilewright.frontend.kernel import lower_kernel
from tilewright.frontend.signature.signature import Signature
from tilewright.frontend.signature.specialization import (
    Specialization,
    arguments_of,
    describe,
    record_argument,
)
from tilewright.frontend.source.capture import SourceFunction
from tilewright.ir.function import Function
from tilewright.ir.ops.reduction import MmaF, MmaFScaled, MmaI
from tilewright.ir.rewrite import has_any
from tilewright.ir.verify.verifier import verify
from tilewright.jit.bind.coverage import whole_outputs
from tilewright.jit.bind.untied_extents import untied_extents
from tilewright.jit.compile.compiled import CompiledKernel, Options
from tilewright.jit.compile.reporting import cheapest_report
from tilewright.lang.hints import starts_kernels_early
from tilewright.passes.hoist_checks import hoist_checks
from tilewright.passes.pipeline import lower_to_tile_ir
from tilewright.passes.place_checks import has_residual_checks

__all__ = ["compile_kernel"]

_PRODUCTS = (MmaF, MmaFScaled, MmaI)


def compile_kernel(
    source: SourceFunction,
    signature: Signature,
    specialization: Specialization,
    options: Options,
    placement: Placement,
) -> CompiledKernel:
    """Compile one specialisation; raises `CompileError` with all problems."""
    try:
        return with_room(partial(_compiled, source, signature, specialization, options, placement))
    except RecursionError:
        raise CompileError(
            f"kernel `{signature.kernel}` nests expressions, branches or calls too deep: compiling "
            f"it takes more than {MOST_CALLS} calls inside each other; give parts of it names, or "
            "turn repeated code into a loop"
        ) from None


def _compiled(
    source: SourceFunction,
    signature: Signature,
    specialization: Specialization,
    options: Options,
    placement: Placement,
) -> CompiledKernel:
    function, captures = lower_kernel(source, signature, specialization)
    settled = settle_checks(function, placement)
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
    hoisted = hoist_checks(settled.function)
    report = options.report or cheapest_report(hoisted)
    early = _starts_early(hoisted, specialization)
    lowered = lower_to_tile_ir(hoisted, arguments, report, starts_early=early)
    target = specialization.target if specialization.target.startswith("sm_") else "sm_120"
    verify(lowered.module, target)
    return CompiledKernel(
        name=signature.kernel,
        specialization=specialization,
        module=lowered.module,
        arguments=lowered.arguments,
        launch_checks=settled.launch_checks,
        ledger=settled.ledger,
        sites=lowered.sites,
        written_whole=whole_outputs(function, signature, specialization),
        padded=padded_reductions(function),
        untied=untied_extents(function, source, signature, specialization, settled.launch_checks),
        captures=captures,
        encoder=encode_in_oldest,
    )


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
    return not has_any(function, _PRODUCTS) if wanted is None else wanted
