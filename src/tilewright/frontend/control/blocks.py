"""`with`: the unsafe block is the only context manager of kernels."""

from __future__ import annotations

import ast

from tilewright.frontend.control.sequences import statements
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.memory.unsafe import reason_of

__all__ = ["with_statement"]


def with_statement(lo: Lowering, node: ast.With) -> None:
    """Lower the one context manager that kernels have."""
    reason = reason_of(lo, node)
    outer, lo.frame.unsafe_reason = lo.frame.unsafe_reason, reason
    try:
        statements(lo, node.body)
    finally:
        lo.frame.unsafe_reason = outer
