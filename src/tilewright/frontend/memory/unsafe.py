"""`with tw.unsafe("why this is sound"):`, the block that allows unchecked operations.

The block is lexical: it belongs to the frame of one function, so neither a helper called from it
nor the code after it is inside. Operations that need one call `require_unsafe`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

from tilewright.check.errors.syntax import Unsupported
from tilewright.check.errors.unsafety import NoReason, OutsideUnsafe
from tilewright.frontend.calling.arguments import Arguments
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.operands.operands import BuiltinOperand
from tilewright.frontend.source.capture import SourceFunction, lookup
from tilewright.lang.unsafe import unsafe
from tilewright.source import Span

__all__ = [
    "UnsafeBlock",
    "reason_of",
    "refuse_expression",
    "require_unsafe",
    "unsafe_blocks",
]


def require_unsafe(
    lo: Lowering, node: ast.AST, what: str, why: str = "nothing checks it", instead: str = ""
) -> None:
    """Refuse an unsafe operation outside an unsafe block."""
    if lo.frame.unsafe_reason is None:
        lo.reject(OutsideUnsafe, node, what, why, instead)


def reason_of(lo: Lowering, node: ast.With) -> str:
    """The reason of an unsafe block, in its author's words."""
    head = node.items[0].context_expr
    function = head.func if isinstance(head, ast.Call) else head
    callee = lo.expression(function)
    if len(node.items) > 1 or not (isinstance(callee, BuiltinOperand) and callee.builtin is unsafe):
        _refuse_with(lo, node)
    if not isinstance(head, ast.Call):
        lo.reject(NoReason, head, "the function itself")
    if node.items[0].optional_vars is not None:
        way_out = 'write `with tw.unsafe("…"):`'
        lo.reject(Unsupported, node.items[0].optional_vars, "a name for an unsafe block", way_out)
    reason = _written_reason(head)
    if reason is None:
        lo.reject(NoReason, head, _given(head))
    return reason


def refuse_expression(lo: Lowering, call: Arguments) -> NoReturn:
    """Refuse `tw.unsafe(…)` anywhere but in the head of a `with`."""
    way_out = 'it is the head of a block: `with tw.unsafe("why this is sound"):`'
    lo.reject(Unsupported, call.node, "`tw.unsafe(…)` as an expression", way_out)


def _refuse_with(lo: Lowering, node: ast.With) -> NoReturn:
    way_out = 'the only block of this kind is `with tw.unsafe("why this is sound"):`'
    lo.reject(Unsupported, node.items[0].context_expr, "`with`", way_out)


def _written_reason(call: ast.Call) -> str | None:
    """The reason, if it is the only argument and a string literal that is not empty."""
    given = [*call.args, *(word.value for word in call.keywords if word.arg == "reason")]
    if len(given) != 1 or len(call.args) + len(call.keywords) != 1:
        return None
    [node] = given
    text = node.value if isinstance(node, ast.Constant) else None
    return text if isinstance(text, str) and text.strip() else None


def _given(call: ast.Call) -> str:
    count = len(call.args) + len(call.keywords)
    if count != 1:
        return f"a call with {count} arguments"
    [node] = [*call.args, *(word.value for word in call.keywords)]
    if isinstance(node, ast.Constant):
        return "an empty string" if isinstance(node.value, str) else repr(node.value)
    return f"`{ast.unparse(node)}`"


# --- the report -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class UnsafeBlock:
    """An unsafe block, its location, and its author's reason."""

    function: str
    span: Span
    reason: str


def unsafe_blocks(source: SourceFunction) -> Iterator[UnsafeBlock]:
    """Every unsafe block of a function, in source order, compiled or not."""
    for node in ast.walk(source.node):
        if not isinstance(node, ast.With):
            continue
        head = node.items[0].context_expr
        if isinstance(head, ast.Call) and _meant(source, head.func) is unsafe:
            reason = _written_reason(head) or ""
            yield UnsafeBlock(source.name, Span.of(source.file, head), reason)


def _meant(source: SourceFunction, node: ast.expr) -> Any:
    """The object of a dotted name in a function; None for other expressions."""
    if isinstance(node, ast.Attribute):
        return getattr(_meant(source, node.value), node.attr, None)
    try:
        return lookup(source.plain(), node.id) if isinstance(node, ast.Name) else None
    except NameError:
        return None
