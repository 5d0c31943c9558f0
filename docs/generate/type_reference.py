"""Pages about dtypes and their conversions, and about the Python that kernels are written in."""

from __future__ import annotations

import ast
from collections.abc import Iterable

import ml_dtypes
from page_text import page, prose, sentence, table

from tilewright.dtypes import DTYPES, IN_TILES_ONLY, DType, bool_, f8e8m0fnu, limits, numpy_dtype
from tilewright.frontend.builtins import sorting
from tilewright.frontend.calling.constant_functions import MATHEMATICS
from tilewright.frontend.control.statements import STATEMENTS
from tilewright.frontend.expressions.expressions import EXPRESSIONS
from tilewright.frontend.lowering import LARGEST_CONSTANT
from tilewright.frontend.operands.abilities import can_compute
from tilewright.frontend.signature.specialization import MAX_EXTENT, MAX_WHOLE_EXTENT
from tilewright.frontend.source.refusals import REFUSALS
from tilewright.ir.types import MAX_TILE_ELEMENTS
from tilewright.lang.tile import Tile

__all__ = ["dtypes_page", "subset_page"]

# Python's constructs as you write them, by their nodes in its syntax tree.
WRITTEN = {
    ast.AnnAssign: "`t: tw.Tile[f32] = …`", ast.Assert: "`assert n > 0, 'message'`",
    ast.Assign: "`a, b = t, u`", ast.AugAssign: "`total += t`", ast.Break: "`break`",
    ast.Continue: "`continue`", ast.Expr: "a call on a line of its own",
    ast.For: "`for k in range(n):`, over a walk, a tuple or `tw.static_range(n)`",
    ast.FunctionDef: "`def` inside a kernel; the function is inlined",
    ast.If: "`if` … `elif` … `else`; on a constant it selects code", ast.Pass: "`pass`",
    ast.Return: "`return`, of a value in functions that a kernel calls",
    ast.While: "`while` on a scalar condition", ast.With: "`with tw.unsafe('reason'):`",
    ast.Attribute: "`t.shape`", ast.BinOp: "`a + b` and every other operator",
    ast.BoolOp: "`a and b`, `a or b` of scalars", ast.Call: "`f(t, axis=1)`",
    ast.Compare: "`a < b`, `0 <= i < n`", ast.Constant: "`1`, `2.5`, `True`, `'text'`, `None`",
    ast.IfExp: "`a if n > 0 else b`", ast.JoinedStr: "`f'{n}'` of constants, and in `print`",
    ast.Lambda: "`lambda a, b: a + b`", ast.Name: "a name",
    ast.Subscript: "`p[i, k]`, `t[:, None]`", ast.Tuple: "`(a, b)`", ast.UnaryOp: "`-t`, `not n`",
}  # fmt: skip


def dtypes_page() -> str:
    """Every dtype, and the conversion between any two."""
    rows = [_row(dtype) for dtype in DTYPES]
    head = ("", *(dtype.label for dtype in DTYPES))
    matrix = [
        (f"**{source.label}**", *(_conversion(source, to) for to in DTYPES)) for source in DTYPES
    ]
    stored = "; ".join(f"{dtype.label}: {form}" for dtype, form in IN_TILES_ONLY.items())
    return page(
        "Dtypes",
        "A dtype is a class: `tw.f32`, or `from tilewright import f32`.",
        table(
            ("dtype", "meaning", "bits", "NumPy", "lowest", "highest", "arithmetic", "from"), rows
        ),
        f"Some dtypes exist in tiles only, and memory holds their numbers in another form: {stored}"
        ". The last column is the first target that has the dtype; none means every target.",
        "## Conversions",
        "Two dtypes never mix by themselves: `t.astype(dtype)` converts one of them.",
        prose(Tile.astype),
        "A row is the dtype converted from. `=` keeps every number; `~` rounds to nearest; `t` "
        "truncates towards zero and saturates; `w` keeps the low bits; `r` needs a `rounding=`; "
        "`b` is true for numbers other than zero.",
        table(head, matrix),
    )


def _row(dtype: type[DType]) -> tuple[str, ...]:
    low, high = limits(dtype) if dtype is not bool_ else (0, 1)
    if dtype is f8e8m0fnu:
        low = _least(dtype)  # it has no sign
    first = dtype.element.value.first_target
    return (
        f"`{dtype.label}`", sentence(dtype).rstrip("."), str(dtype.element.bits),
        f"`{numpy_dtype(dtype).name}`", _number(low), _number(high),
        "yes" if can_compute(dtype) else "no", f"sm_{first}" if first > _OLDEST else "",
    )  # fmt: skip


_OLDEST = min(dtype.element.value.first_target for dtype in DTYPES)


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def _conversion(source: type[DType], to: type[DType]) -> str:
    if source is to:
        return ""
    if to is bool_:
        return "b"
    if to is f8e8m0fnu:
        return "r"
    is_float = source.element.is_float, to.element.is_float
    if is_float == (True, False):
        return "t"
    if is_float == (False, False):
        return "=" if _holds_range(to, source) else "w"
    return "=" if _holds_range(to, source) and _digits(to) >= _digits(source) else "~"


def _holds_range(to: type[DType], source: type[DType]) -> bool:
    """Whether every number of one dtype lies between the ends of the other."""
    low, high = (0, 1) if source is bool_ else limits(source)
    if to.element.is_float and source.element.is_float and _least(to) > _least(source):
        return False
    return limits(to)[0] <= low and high <= limits(to)[1]


def _least(dtype: type[DType]) -> float:
    """The smallest positive number of a float."""
    facts = ml_dtypes.finfo(dtype.element.numpy)
    return float(getattr(facts, "smallest_subnormal", facts.tiny))


def _digits(dtype: type[DType]) -> int:
    """Bits of precision: of a float its mantissa with the leading one, of an integer all."""
    if dtype.element.is_float:
        return 11 if dtype.label == "tf32" else int(ml_dtypes.finfo(dtype.element.numpy).nmant) + 1
    return 1 if dtype is bool_ else dtype.element.bits - bool(dtype.signed)


def _written(nodes: Iterable[type[ast.AST]]) -> str:
    return "\n".join(f"- {WRITTEN[node]}" for node in nodes)


def subset_page() -> str:
    """The Python of kernels: supported and refused constructs, and the limits of sizes."""
    constants = ", ".join(f"`math.{function.__name__}`" for function in MATHEMATICS)
    limits_of = [
        ("elements of a tile", f"{MAX_TILE_ELEMENTS:,}, each extent a power of two"),
        ("extent of an axis of a tensor", f"{MAX_EXTENT:,}"),
        ("extent of an axis that the kernel itself cuts into tiles", f"{MAX_WHOLE_EXTENT:,}"),
        ("elements along the axis of `tw.sort`, `tw.argsort`, `tw.top_k`", f"{sorting._MOST:,}"),  # noqa: SLF001
        ("bits of a constant integer", f"{LARGEST_CONSTANT:,}"),
    ]
    refused = [(name, way_out) for name, way_out in dict.fromkeys(REFUSALS.values())]
    return page(
        "The Python of kernels",
        "A kernel is written in a part of Python. Its meaning is Python's own; values are tiles "
        "and scalars.",
        "## Statements",
        _written(STATEMENTS),
        "## Expressions",
        _written(EXPRESSIONS),
        "## Constants",
        "Names from outside a kernel are constants. Expressions of constants are computed when the "
        "kernel is compiled, "
        f"by operators, Python's own functions of numbers, and these: {constants}.",
        "## Refused",
        "Each of these is an [`error[syntax]`](errors.md#syntax), with the way out beside it.",
        table(("construct", "instead"), refused),
        "## Limits",
        table(("", "at most"), limits_of),
    )
