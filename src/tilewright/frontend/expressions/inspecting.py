"""Inspections: `breakpoint()` in a kernel, and the named tiles that an observer gets.

Both exist on the CPU alone. Names of tensors, pieces and partitions are shown as text: a block has
no array for them until it loads a tile.
"""

from __future__ import annotations

import ast
from typing import Any

from tilewright.check.errors.syntax import BadCall, Unsupported
from tilewright.dtypes import DType, i32
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.operands.operands import (
    DTypeOperand,
    Minted,
    Operand,
    RecordOperand,
    Static,
    TileOperand,
    TupleOperand,
)
from tilewright.ir.inspections import InspectedNames
from tilewright.ir.op import Value
from tilewright.ir.ops.internal import BlockInspection

__all__ = ["breakpoint_call", "inspect_name"]

_SHOWN = (TileOperand, TupleOperand, RecordOperand)
_GPU = "sm_"  # how the targets of GPUs begin


def breakpoint_call(lo: Lowering, node: ast.Call) -> Operand:
    """`breakpoint()`: the debugger stops there in every block that reaches it."""
    if node.args or node.keywords:
        lo.reject(BadCall, node, "breakpoint", "it takes no arguments in a kernel")
    if lo.specialization.target.startswith(_GPU):
        what = f"`breakpoint()` on a GPU ({lo.specialization.target})"
        way_out = 'a debugger stops blocks on the CPU: run the launch under `tw.device("cpu")`'
        lo.reject(Unsupported, node, what, way_out)
    _inspect(lo, node, {name: one for name, one in lo.frame.scope.items() if name.isidentifier()})
    return Static(None)


def inspect_name(lo: Lowering, node: ast.expr, name: str, operand: Operand) -> None:
    """Show a name that was bound to the observer of the kernel, if there is one."""
    if lo.observer is None or lo.specialization.target.startswith(_GPU):
        return
    is_own = not lo.frame.calls  # and no helper's
    if is_own and isinstance(operand, _SHOWN):
        _inspect(lo, node, {name: operand})


def _inspect(lo: Lowering, node: ast.expr, scope: dict[str, Operand]) -> None:
    values: list[Value] = list(lo.grid.index)
    dtypes: list[type[DType]] = [i32] * len(values)

    def entry(operand: Operand) -> Any:
        match operand:
            case TileOperand(value=value, dtype=dtype):
                values.append(value)
                dtypes.append(dtype)
                return len(values) - 1
            case Static(value=value, member=member):
                return InspectedNames.Fixed(value if member is None else member)
            case DTypeOperand(dtype=dtype):
                return InspectedNames.Fixed(dtype)
            case TupleOperand(items=items) | RecordOperand(items=items) | Minted(coordinates=items):
                return tuple([entry(item) for item in items])
        return InspectedNames.Fixed(_InKernel(str(operand)))

    rank, names = len(values), tuple([(name, entry(one)) for name, one in scope.items()])
    span = lo.span(node)
    shown = InspectedNames(
        lo.signature.kernel, span, _line_behind(lo, span.line), rank, tuple(dtypes), names,
        lo.observer,
    )  # fmt: skip
    lo.builder.add(BlockInspection(args=tuple(values), shown=shown))


def _line_behind(lo: Lowering, line: int) -> int:
    """The line of the statement that follows a line in the source; the line itself at the end."""
    nodes = (one for one in ast.walk(lo.frame.source.node) if isinstance(one, ast.stmt))
    return min((one.lineno for one in nodes if one.lineno > line), default=line)


class _InKernel:
    """An object that exists only while a kernel is compiled, as a debugger shows it."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return f"<{self._text}>"
