"""Rules of ops on operands and attributes: one row for each op class.

An op obeys the rows of its own class and of every base class, so that a family states its rules
once. Result types are not here: the declaration's type rule states them, and the verifier compares.
The rules are those of NVIDIA's reader (tests compare the two), and one more: `inbounds` on a padded
view, which the reader accepts and on which tileiras then fails silently.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tilewright.dtypes import Element
from tilewright.ir.attributes import Overflow, Rounding, Signedness
from tilewright.ir.op import Op
from tilewright.ir.ops import control, elementwise, shape
from tilewright.ir.ops.elementwise import (
    CmpF,
    CmpI,
    DivF,
    DivI,
    Exp,
    Fma,
    NegI,
    Select,
    Sqrt,
    Tanh,
)  # fmt: skip
from tilewright.ir.ops.families import Binary, ComparisonOp
from tilewright.ir.print_formats import is_format, split_format
from tilewright.ir.types import PtrType, TileType
from tilewright.ir.verify.access import tokens
from tilewright.ir.verify.promises import promise_problems
from tilewright.ir.verify.rules import (
    ANY_ELEMENT,
    BASE_FLOATS,
    BYTES,
    INTEGER,
    INTEGERS,
    NUMBER,
    NUMBERS,
    TRUTH,
    Rule,
    TileClass,
    alike,
    allowed,
    same_element,
    same_rank,
    same_shape,
    tiles,
    when,
)

__all__ = ["ELEMENTWISE_RULES", "SHAPE_RULES"]

_R = Rounding
_BASE_FLOAT = TileClass(BASE_FLOATS)
_PACKABLE = TileClass(NUMBERS | {Element.I4})
_SMALL_INT = TileClass(INTEGERS - {Element.I64})
_SCALAR_I32 = TileClass(frozenset({Element.I32}), rank=0)

_IEEE = allowed("rounding_mode", _R.NEAREST_EVEN, _R.ZERO, _R.NEGATIVE_INF, _R.POSITIVE_INF)


def _element(op: Op) -> Element | PtrType:
    held = op.results[0].type
    assert isinstance(held, TileType)
    return held.element


def _f32_only(mode: Rounding) -> Rule:
    name = mode.name.lower()
    return when(
        lambda op: op.rounding_mode is mode and _element(op) is not Element.F32,
        f"rounding {name} is for f32 only",
    )


_FLUSH = when(
    lambda op: op.flush_to_zero and _element(op) is not Element.F32,
    "`flush_to_zero` is for f32 only",
)
_ONLY_APPROX = (allowed("rounding_mode", _R.FULL, _R.APPROX), _f32_only(_R.APPROX))


def _rows(kind: TileClass, names: str, *ops: type[Op]) -> dict[type[Op], tuple[Rule, ...]]:
    return {op: (tiles(kind, *names.split()),) for op in ops}


_E = elementwise
# By op class, families included.
ELEMENTWISE_RULES: dict[type[Op], tuple[Rule, ...]] = {
    Binary: (alike("lhs", "rhs"),),
    ComparisonOp: (alike("lhs", "rhs"),),
    **_rows(
        _BASE_FLOAT, "source",
        _E.AbsF, _E.Ceil, _E.Cos, _E.Cosh, _E.Floor, _E.Log, _E.Log2, _E.NegF, _E.Sin, _E.Sinh,
        _E.Tan,
    ),
    **_rows(INTEGER, "source", _E.AbsI),
    **_rows(_BASE_FLOAT, "lhs", _E.RemF),
    **_rows(
        INTEGER, "lhs", _E.AddI, _E.SubI, _E.MulI, _E.ShLI, _E.ShRI, _E.MaxI, _E.MinI, _E.RemI,
        _E.AndI, _E.OrI, _E.XOrI,
    ),
    **{
        op: (tiles(_BASE_FLOAT, "lhs"), _IEEE, _FLUSH) for op in (_E.AddF, _E.SubF, _E.MulF)
    },
    **{op: (tiles(_BASE_FLOAT, "lhs"), _FLUSH) for op in (_E.MaxF, _E.MinF)},
    **{op: (tiles(_BASE_FLOAT, "source"), _FLUSH) for op in (_E.Exp2, _E.Rsqrt)},
    **{op: (tiles(_BASE_FLOAT, "source"), *_ONLY_APPROX) for op in (Exp, Tanh)},
    Sqrt: (
        tiles(_BASE_FLOAT, "source"),
        allowed(
            "rounding_mode", _R.NEAREST_EVEN, _R.ZERO, _R.NEGATIVE_INF, _R.POSITIVE_INF, _R.APPROX
        ),
        _f32_only(_R.APPROX),
        _FLUSH,
    ),
    DivF: (
        tiles(_BASE_FLOAT, "lhs"),
        allowed(
            "rounding_mode",
            _R.NEAREST_EVEN, _R.ZERO, _R.NEGATIVE_INF, _R.POSITIVE_INF, _R.APPROX, _R.FULL,
        ),
        _f32_only(_R.APPROX),
        _f32_only(_R.FULL),
        _FLUSH,
    ),
    Fma: (tiles(_BASE_FLOAT, "lhs"), alike("lhs", "rhs", "acc"), _IEEE, _FLUSH),
    _E.Pow: (tiles(_BASE_FLOAT, "source"), alike("source", "exponent")),
    _E.FPowI: (
        tiles(_BASE_FLOAT, "source"),
        tiles(_SMALL_INT, "exponent"),
        same_shape("source", "exponent"),
    ),
    _E.Atan2: (tiles(_BASE_FLOAT, "x"), alike("x", "y")),
    _E.MulHiI: (tiles(INTEGER, "x"), alike("x", "y")),
    NegI: (tiles(INTEGER, "source"), allowed("overflow", Overflow.NONE, Overflow.NSW, Overflow.NW)),
    DivI: (
        tiles(INTEGER, "lhs"),
        allowed("rounding", _R.ZERO, _R.NEGATIVE_INF, _R.POSITIVE_INF),
        when(
            lambda op: op.signedness is Signedness.UNSIGNED and op.rounding is _R.NEGATIVE_INF,
            "an unsigned quotient is rounded down by rounding it to zero",
        ),
    ),
    CmpF: (tiles(_BASE_FLOAT, "lhs"),),
    CmpI: (tiles(INTEGER, "lhs"),),
    Select: (
        tiles(TRUTH, "cond"),
        tiles(ANY_ELEMENT, "val_if_true"),
        alike("val_if_true", "val_if_false"),
        same_shape("cond", "val_if_true"),
        when(lambda op: _element(op) is Element.F4E2M1FN, "4-bit elements cannot be selected"),
    ),
}  # fmt: skip


def _broadcastable(op: shape.Broadcast) -> Iterator[str]:
    before, after = op.source.type, op.to
    assert isinstance(before, TileType)
    if before.rank != after.rank:
        return
    if any(a not in (1, b) for a, b in zip(before.shape, after.shape, strict=True)):
        yield f"only axes of extent one can be repeated, but {before} becomes {after}"


def _permutation(op: shape.Permute) -> Iterator[str]:
    assert isinstance(op.source.type, TileType)
    if sorted(op.permutation) != list(range(op.source.type.rank)):
        yield f"`permutation` {op.permutation} does not permute {op.source.type.rank} axes"
    if op.source.type.rank < 2:
        yield "a tile of rank below 2 has no axes to permute"


def _concatenation(op: shape.Cat) -> Iterator[str]:
    lhs, rhs = op.lhs.type, op.rhs.type
    assert isinstance(lhs, TileType)
    assert isinstance(rhs, TileType)
    if not 0 <= op.dim < lhs.rank:
        yield f"{lhs} has no axis {op.dim}"
    others = [axis for axis in range(min(lhs.rank, rhs.rank)) if axis != op.dim]
    if any(lhs.shape[axis] != rhs.shape[axis] for axis in others):
        yield f"the tiles must agree but on axis {op.dim}, and are {lhs} and {rhs}"


def _parts(op: shape.Extract) -> Iterator[str]:
    whole, part = op.source.type, op.to
    assert isinstance(whole, TileType)
    if len(op.indices) != whole.rank:
        yield f"{whole.rank} indices are needed, but there are {len(op.indices)}"
    yield from _divides(part, whole)


def _divides(part: TileType, whole: TileType) -> Iterator[str]:
    if whole.rank == part.rank and any(
        a % b for a, b in zip(whole.shape, part.shape, strict=True) if b > 0
    ):
        yield f"{part} does not divide {whole}"


def _constant_size(op: shape.Constant) -> Iterator[str]:
    given = np.shape(op.value)
    if given not in ((), op.to.shape):
        yield f"a value of shape {given} does not fill {op.to}"


def _constant_fits(op: shape.Constant) -> Iterator[str]:
    """Bits are unsigned, so a number fits if its signed or its unsigned reading does."""
    element = op.to.element
    if not isinstance(element, Element) or not element.is_integer:
        return
    ends = (op.value,) if np.ndim(op.value) == 0 else (np.min(op.value), np.max(op.value))
    low, high = -(1 << (element.bits - 1)), (1 << element.bits) - 1
    for number in ends:
        if not low <= number <= high or number != int(number):
            yield f"{number} does not fit {element}"


def _counting(op: shape.Iota) -> Iterator[str]:
    if op.to.rank != 1:
        yield f"the result must have one axis, but is {op.to}"
    elif isinstance(op.to.element, Element) and op.to.size > 1 << op.to.element.bits:
        yield f"{op.to.element} cannot count to {op.to.size}"


def _packed(op: shape.Pack | shape.Unpack) -> Iterator[str]:
    """Both tiles have rank 1 and one size in bytes, and elements that are not bytes already."""
    before, after = op.source.type, op.to
    assert isinstance(before, TileType)
    assert isinstance(before.element, Element)
    assert isinstance(after.element, Element)
    if (before.rank, after.rank) != (1, 1):
        yield f"both tiles must have one axis, but are {before} and {after}"
    if before.element.bits == after.element.bits:
        yield f"elements of {before.element.bits} bits need no packing"
    if before.size * before.element.bits != after.size * after.element.bits:
        yield f"{before} and {after} do not have the same number of whole bytes"


def _insertion(op: shape.Insert) -> Iterator[str]:
    part, whole = op.source.type, op.destination.type
    assert isinstance(part, TileType)
    assert isinstance(whole, TileType)
    if len(op.indices) != whole.rank:
        yield f"{whole.rank} indices are needed, but there are {len(op.indices)}"
    yield from _divides(part, whole)


def _format(op: control.Print) -> Iterator[str]:
    """The format is valid for `printf`, with one conversion for every tile."""
    if not is_format(op.str):
        yield f"{op.str!r} holds a `%` that nothing ends"
        return
    places = len(split_format(op.str)[0])
    if places != len(op.args):
        yield f"{op.str!r} has a place for {places}, but {len(op.args)} are printed"


# By op class.
SHAPE_RULES: dict[type[Op], tuple[Rule, ...]] = {
    shape.Constant: (tiles(NUMBER, "result"), _constant_size, _constant_fits),
    shape.Iota: (tiles(INTEGER, "result"), _counting),
    shape.Broadcast: (
        tiles(ANY_ELEMENT, "source"),
        same_rank("source", "result"),
        same_element("source", "result"),
        _broadcastable,
    ),
    shape.Reshape: (
        tiles(ANY_ELEMENT, "source"),
        same_element("source", "result"),
        when(
            lambda op: op.source.type.size != op.to.size,
            "the number of elements must stay the same",
        ),
    ),
    shape.Permute: (tiles(ANY_ELEMENT, "source"), _permutation),
    shape.Cat: (
        tiles(ANY_ELEMENT, "lhs", "rhs"),
        same_rank("lhs", "rhs"),
        same_element("lhs", "rhs"),
        _concatenation,
    ),
    shape.Extract: (
        tiles(ANY_ELEMENT, "source"),
        tiles(_SCALAR_I32, "indices"),
        same_rank("source", "result"),
        same_element("source", "result"),
        _parts,
    ),
    shape.Insert: (
        tiles(ANY_ELEMENT, "source", "destination"),
        tiles(_SCALAR_I32, "indices"),
        same_rank("source", "destination"),
        same_element("source", "destination"),
        _insertion,
    ),
    shape.Pack: (tiles(_PACKABLE, "source"), tiles(BYTES, "result"), _packed),
    shape.Unpack: (tiles(BYTES, "source"), tiles(_PACKABLE, "result"), _packed),
    control.Assume: (promise_problems,),
    control.Assert: (tiles(TRUTH, "condition"),),
    control.Print: (tiles(ANY_ELEMENT, "args"), tokens("token"), _format),
}
