"""The review of one kernel by `tilewright check`: unsafe code with its reasons, and checks left.

Unsafe blocks are found in the source of the kernel and of every inlined function, so a branch that
this specialisation does not take is included. Possible failures of unsafe code are searched for by
`witness`, not here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tilewright.check.ledger import LedgerEntry
from tilewright.cli.options import target_here
from tilewright.errors import CompileError, LaunchError
from tilewright.external import ExternalKernel
from tilewright.frontend.memory.unsafe import UnsafeBlock, unsafe_blocks
from tilewright.frontend.signature.samples import (
    cut_by_segments,
    sample_specialization,
    sampled_constants,
)
from tilewright.frontend.signature.specialization import Specialization
from tilewright.frontend.source.capture import capture
from tilewright.jit.compile.compiled import CompiledKernel
from tilewright.kernel import Kernel

__all__ = ["ExternalReview", "Review", "has_unsafe_blocks", "review"]


@dataclass(frozen=True)
class Review:
    """Review of one kernel; `left_out`: why it was not compiled, `refused`: why it cannot be."""

    kernel: Kernel
    path: Path
    blocks: tuple[UnsafeBlock, ...]
    checks: tuple[LedgerEntry, ...] = ()  # left in the kernel
    samples: Mapping[str, int] = field(default_factory=dict)  # constants that a launch infers
    left_out: str = ""
    refused: str = ""

    @property
    def is_unsafe(self) -> bool:
        """Whether the kernel is unsafe, or contains unsafe code."""
        return self.kernel.options.unsafe or bool(self.blocks)

    @property
    def is_compiled(self) -> bool:
        """Whether the review is complete."""
        return not self.left_out and not self.refused

    @property
    def verdict(self) -> str:
        """The verdict in a word or two; a kernel that was not compiled is unknown."""
        if self.kernel.options.unsafe:
            return "unsafe kernel"
        if self.blocks:
            return "unsafe"
        return "safe" if self.is_compiled else "refused" if self.refused else "not compiled"

    def to_json(self) -> dict[str, Any]:
        """The review as plain data."""
        return {
            "kernel": self.kernel.__name__,
            "file": str(self.path),
            "line": self.kernel.source.node.lineno,
            "verdict": self.verdict,
            "compiled": self.is_compiled,
            "unsafe_kernel": self.kernel.options.unsafe,
            "unsafe_blocks": [
                {"function": block.function, "location": str(block.span), "reason": block.reason}
                for block in self.blocks
            ],
            "checks_in_kernel": [
                {
                    "location": None if entry.location is None else str(entry.location),
                    "subject": entry.subject,
                    "axis": entry.axis,
                    "reason": entry.reason,
                }
                for entry in self.checks
            ],
            "samples": dict(self.samples),
            "left_out": self.left_out or None,
            "refused": self.refused or None,
        }


@dataclass(frozen=True)
class ExternalReview:
    """A kernel of another compiler; its declaration is the only information."""

    kernel: ExternalKernel
    path: Path

    def to_json(self) -> dict[str, Any]:
        """The review as plain data."""
        return {
            "kernel": self.kernel.__name__,
            "file": str(self.path),
            "line": self.kernel.site.line,
            "reason": self.kernel.reason,
        }


def review(kernel: Kernel, path: Path, target: str | None, chosen: Mapping[str, Any]) -> Review:
    """Review one kernel, compiled for the usual case with the chosen settings."""
    own = tuple(unsafe_blocks(kernel.source))
    samples = sampled_constants(kernel.signature, chosen)
    try:
        wanted = target or target_here()
        usual = sample_specialization(kernel.signature, wanted, chosen, kernel.hints.of(wanted))
        compiled = _compiled(kernel, usual)
    except LaunchError as error:
        return Review(kernel, path, own, left_out=str(error))
    except CompileError as error:
        return Review(kernel, path, own, samples=samples, refused=str(error))
    inlined = tuple(_inlined_blocks(compiled))
    return Review(kernel, path, (*own, *inlined), tuple(compiled.ledger.in_kernel), samples)


def _compiled(kernel: Kernel, usual: Specialization) -> CompiledKernel:
    """The kernel in its usual case; one that is refused may be a kernel of ragged rows."""
    try:
        return kernel.specialized(usual)
    except CompileError:
        for segmented in cut_by_segments(kernel.signature, usual):
            with suppress(CompileError):
                return kernel.specialized(segmented)
        raise


def has_unsafe_blocks(kernel: Kernel, compiled: CompiledKernel) -> bool:
    """Whether a kernel, or a function inlined into it, contains unsafe code."""
    return any(unsafe_blocks(kernel.source)) or any(_inlined_blocks(compiled))


def _inlined_blocks(compiled: CompiledKernel) -> Iterator[UnsafeBlock]:
    for function in compiled.captures.helpers():
        yield from unsafe_blocks(capture(function))
