"""Warnings about kernels: tiles that do not fit, untied extents, and reductions over padding.

The assembler decides whether tiles fit. Where it finds no place for a tile, the kernel is refused;
where it keeps tiles in memory that do not fit the registers (spills), the kernel runs, at a
fraction of its speed, and its first use warns. The cubin states the spills, so a kernel from the
disk cache warns as well.
"""

from __future__ import annotations

import warnings

from tilewright.check.errors.resources import TileDoesNotFit
from tilewright.diagnostics import compile_error
from tilewright.errors import (
    CompileError,
    ExtentWarning,
    PaddingWarning,
    PerformanceWarning,
    ToolchainError,
)
from tilewright.frontend.signature.signature import Signature
from tilewright.frontend.signature.specialization import describe
from tilewright.frontend.source.capture import SourceFunction
from tilewright.ir.architectures import find_architecture, has_clusters
from tilewright.jit.bind.binding import Binding
from tilewright.jit.compile.compiled import LaunchFacts, Request
from tilewright.jit.loader import Program, cuda_explain

__all__ = ["TOLERATED", "ExtentTeller", "SpillTeller", "refused_tile", "warn_of_padding"]


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


# --- extents and padding --------------------------------------------------------------------------


class ExtentTeller:
    """The warning of one kernel; its specialisations and its copies with other hints share it."""

    __slots__ = ("_has_told",)

    def __init__(self) -> None:
        self._has_told = False

    def tell(
        self, source: SourceFunction, signature: Signature, untied: tuple[tuple[str, str], ...]
    ) -> None:
        """Warn about untied outputs, and about untied inputs next to tied outputs."""
        if not untied or self._has_told:
            return
        written = {param.name for param in signature.cut_outputs}
        outputs = [(name, way_out) for name, way_out in untied if name in written]
        inputs = [(name, way_out) for name, way_out in untied if name not in written]
        texts = []
        if outputs:
            loss = "leave out the end of an input, or write more elements than it gives"
            texts.append(_told(outputs, "inputs", loss))
        if inputs:
            loss = "leave out the end of an input, or read padding behind it"
            texts.append(_told(inputs, "outputs", loss))
        text = f"kernel `{source.name}`: {'; '.join(texts)}"
        line = source.parameter(untied[0][0]).lineno
        warnings.warn_explicit(text, ExtentWarning, source.file.path, line)
        # Set last: a filter may raise the warning, and then the next launch raises it again.
        self._has_told = True


def _told(untied: list[tuple[str, str]], others: str, loss: str) -> str:
    names = ", ".join(f"`{name}`" for name, _ in untied)
    return (
        f"nothing ties the extents of {names} to those of its {others}, so a launch may {loss}, "
        f"and nothing tells; write {'; '.join(way_out for _, way_out in untied)}"
    )


def warn_of_padding(facts: LaunchFacts, binding: Binding) -> bool:
    """Warn about every reduction over padding, at its line; return whether there is one.

    A launch that warns gets no plan, so the next call with its key warns as well.
    """
    if not facts.padded or binding.blocks == 0:
        return False
    environment = binding.environment
    noticed = [note for note in facts.padded if not note.holds(environment)]
    for note in {(note.location, note.param, note.axis): note for note in noticed}.values():
        assert note.location is not None, "a warning has a line"
        span = note.location.span
        text = f"kernel `{facts.name}`: {note.describe(environment)}"
        warnings.warn_explicit(text, PaddingWarning, span.file.path, span.line)
    return bool(noticed)
