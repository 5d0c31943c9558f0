"""Tiles that do not fit their target: a refusal, or a warning of slow code.

The assembler decides. Where it finds no place for a tile, the kernel is refused; where it keeps
tiles in memory that do not fit the registers (spills), the kernel runs, at a fraction of its speed,
and its first use warns. The cubin states the spills, so a kernel from the disk cache warns as well.
"""

from __future__ import annotations

import warnings

from tilewright.check.errors.resources import TileDoesNotFit
from tilewright.diagnostics import compile_error
from tilewright.errors import CompileError, PerformanceWarning, ToolchainError
from tilewright.frontend.signature.specialization import describe
from tilewright.ir.architectures import find_architecture, has_clusters
from tilewright.jit.compile.compiled import LaunchFacts, Request
from tilewright.jit.loader import Program, cuda_explain

__all__ = ["TOLERATED", "SpillTeller", "refused_tile"]

_WARP = 32  # threads
_FEW_WARPS, _MANY_WARPS = 4, 8
_REGISTER_BYTES = 255 * 4  # of a thread
TOLERATED = 128  # bytes of a thread in memory that cost little: addresses, arguments of `print`
_OURS = "tilewright."  # modules whose kernels are tuned, by measurements


def refused_tile(error: ToolchainError, request: Request) -> CompileError | None:
    """The refusal of a kernel whose largest tile has no place; None for any other failure."""
    if not isinstance(error, cuda_explain.AssemblyError):
        return None
    tile, target = error.large_tile, request.specialization.target
    if tile is None or tile.location is None:
        return None
    problem = TileDoesNotFit(
        tile.location.span, str(tile), tile.nbytes, target, cuda_explain.memory_of(target),
        calls=tile.location.calls,
    )  # fmt: skip
    return compile_error([problem], describe(request.signature, request.specialization))


class SpillTeller:
    """The warning of one specialisation, given once."""

    __slots__ = ("_has_told", "_request")

    def __init__(self, request: Request) -> None:
        self._request = request
        self._has_told = request.source.function.__module__.startswith(_OURS)

    def tell(self, facts: LaunchFacts, program: Program) -> None:
        """Warn if an entry spills, at the line where most tiles are held."""
        if self._has_told:
            return
        try:
            spilled = max((one.stack_bytes for one in program.resources()), default=0)
        except ToolchainError:  # of code in another form, which states no resources
            spilled = 0
        if spilled > TOLERATED:
            source = self._request.source
            at = facts.pressure.location
            path, line = source.file.path, source.node.lineno
            if at is not None:
                path, line = at.span.file.path, at.span.line
            text = spill_text(self._request, facts, spilled)
            warnings.warn_explicit(text, PerformanceWarning, path, line)
        # Set last: a filter may raise the warning, and then the next use raises it again.
        self._has_told = True


def spill_text(request: Request, facts: LaunchFacts, spilled: int) -> str:
    """Describe the bytes that a kernel spills, those that it holds, and the way out."""
    hints, target = facts.hints, request.specialization.target
    warps, ctas = hints.num_worker_warps or _FEW_WARPS, hints.num_ctas or 1
    threads = warps * _WARP * ctas
    ways = ["choose smaller tiles"]
    if warps < _MANY_WARPS:
        ways.append(f"give the hint num_worker_warps={_MANY_WARPS}")
    if has_clusters(target) and ctas == 1:
        ways.append("give the hint num_ctas=2")
    return (
        f"{describe(request.signature, request.specialization)} keeps {spilled:,} bytes of each "
        "thread in memory instead of registers (spills), which may cost most of its speed: here it "
        f"holds {4 * facts.pressure.words:,} bytes of tiles at once, and the registers of its "
        f"{threads} threads have {threads * _REGISTER_BYTES:,}{_staged_text(facts, target)}; "
        f"{', or '.join(ways)}"
    )


def _staged_text(facts: LaunchFacts, target: str) -> str:
    """Describe the shared memory that one round of a loop needs, if it is more than there is."""
    known = find_architecture(target)
    staged = facts.pressure.round_bytes
    if known is None or staged <= known.block_shared_memory:
        return ""
    return (
        f"; a round of its loop loads {staged:,} bytes, and a block has "
        f"{known.block_shared_memory:,} of shared memory"
    )
