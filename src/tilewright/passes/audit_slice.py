"""The part of a kernel that computes its checked indices, as a kernel of its own.

    before                                  after: NAME_audit
    %i = load ids[…]                        %i = load ids[…]
    %j = …clamp %i…                         record (%i is outside), …
    %t = load x[%j]
    store %t, z[…]
    record (%i is outside), …

Launched with the same grid just before the kernel itself, it reports what that kernel would have
to report, and the kernel only clamps. It writes nothing but its report. Needs `place_checks`.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.ir.function import Function
from tilewright.ir.op import Effect, Op
from tilewright.ir.ops.internal import Record
from tilewright.ir.rewrite import Rewriter, definitions
from tilewright.passes.drop_dead_code import drop_dead_code
from tilewright.passes.memory_roots import ANYWHERE, MemoryRoots

__all__ = ["audit_slice"]


def audit_slice(function: Function) -> Function | None:
    """What a function computes for its records, or None if that depends on its own writes."""
    stripped = drop_dead_code(_Stripping().function(function))
    if _depends_on_writes(stripped, function):
        return None
    # The hints are for the kernel's tiles, of which the audit has none.
    return replace(stripped, name=f"{function.name}_audit", hints=None)


class _Stripping(Rewriter):
    """Leaves out what can be seen from outside, but the reports."""

    def visit(self, op: Op) -> None:
        """Keep an op that is not seen, and every record."""
        is_seen = op.effect in (Effect.WRITE, Effect.OBSERVE)
        if not is_seen or isinstance(op, Record):
            super().visit(op)


def _depends_on_writes(stripped: Function, whole: Function) -> bool:
    """Whether something left out feeds what is left, by a value or through memory."""
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
