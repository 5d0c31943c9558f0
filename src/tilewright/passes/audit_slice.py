"""The audit kernel: the slice of a kernel that computes its checked indices.

    before                                  after: NAME_audit
    %i = load ids[…]                        %i = load ids[…]
    %j = …clamp %i…                         record (%i is outside), …
    %t = load x[%j]
    store %t, z[…]
    record (%i is outside), …

Launched with the same grid just before the kernel itself, it reports the failures of that kernel,
which only clamps. The report is its only write. Needs `place_checks`.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.ir.function import Function
from tilewright.ir.op import Effect, Op
from tilewright.ir.ops.internal import RecordFailure
from tilewright.ir.rewrite import Rewriter, definitions
from tilewright.passes.drop_dead_code import drop_dead_code
from tilewright.passes.memory_roots import ANYWHERE, MemoryRoots

__all__ = ["audit_slice"]


def audit_slice(function: Function) -> Function | None:
    """The slice of a function for its records, or None if it depends on its own writes."""
    stripped = drop_dead_code(_Stripping().function(function))
    if _depends_on_writes(stripped, function):
        return None
    # The hints are for the tiles of the kernel, of which the audit has none.
    return replace(stripped, name=f"{function.name}_audit", hints=None)


class _Stripping(Rewriter):
    """Removes ops with visible effects, except the reports."""

    def visit(self, op: Op) -> None:
        """Keep an op without visible effects, and every record."""
        is_seen = op.effect in (Effect.WRITE, Effect.OBSERVE)
        if not is_seen or isinstance(op, RecordFailure):
            super().visit(op)


def _depends_on_writes(stripped: Function, whole: Function) -> bool:
    """Whether a removed op feeds a remaining one, by a value or through memory."""
    roots = MemoryRoots(definitions(whole))
    writes = [op for op in whole.walk() if op.effect is Effect.WRITE]
    written = frozenset().union(*map(roots.of, writes))
    left_out = {value for op in writes for value in op.results}
    reads = MemoryRoots(definitions(stripped))
    for op in stripped.walk():
        read = reads.of(op)
        if read & written or (written and ANYWHERE in read) or (read and ANYWHERE in written):
            return True
        if not left_out.isdisjoint(op.operands):
            return True
    return False
