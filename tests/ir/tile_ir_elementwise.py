"""Cases of the ops on elements and shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from tile_ir_programs import Case, Entry, tile

from tilewright.dtypes import Element
from tilewright.ir.attributes import Ordering, Overflow, Predicate, Rounding, Signedness
from tilewright.ir.op import FieldKind, Op
from tilewright.ir.ops import elementwise, memory, shape
from tilewright.ir.types import TileType

E = Element
_UNSIGNED = Signedness.UNSIGNED
_R = Rounding


def _elementwise(
    op: type[Op],
    element: E,
    label: str = "",
    shape: tuple[int, ...] = (4, 8),
    version: tuple[int, int] = (13, 1),
    **attributes: object,
) -> Case:
    """All operands are tiles of one type."""
    operands = [f.name for f in op.fields if f.kind is FieldKind.OPERAND]

    def build(entry: Entry) -> Op:
        values = {name: entry.given(TileType(element, shape)) for name in operands}
        return entry.add(op(**values, **attributes))

    return Case(op, label, build, version=version)


def _power(entry: Entry) -> Op:
    source, exponent = entry.given(tile(E.F32, 8)), entry.given(tile(E.I16, 8))
    return entry.add(elementwise.FPowI(source=source, exponent=exponent))


def _conversion(
    op: type[Op],
    before: E,
    after: E,
    label: str = "",
    oldest: int = 80,
    version: tuple[int, int] = (13, 1),
    **attributes: object,
) -> Case:

    def build(entry: Entry) -> Op:
        source = entry.given(tile(before, 4, 8))
        return entry.add(op(source=source, to=tile(after, 4, 8), **attributes))

    return Case(op, label, build, oldest, version)


def float_cases() -> Iterator[Case]:
    e = elementwise
    for op in (e.AbsF, e.Ceil, e.Cos, e.Cosh, e.Floor, e.Log, e.Log2, e.NegF, e.Sin, e.Sinh, e.Tan):
        yield _elementwise(op, E.F32)
    for op in (e.Exp2, e.Rsqrt):
        yield _elementwise(op, E.F16)
        yield _elementwise(op, E.F32, "flushed", flush_to_zero=True)
    for op in (e.Exp, e.Tanh):
        yield _elementwise(op, E.F64 if op is e.Exp else E.BF16)
        version = (13, 3) if op is e.Exp else (13, 2)
        yield _elementwise(op, E.F32, "approx", version=version, rounding_mode=_R.APPROX)
    yield _elementwise(e.Sqrt, E.F64)
    yield _elementwise(e.Sqrt, E.F32, "approx", rounding_mode=_R.APPROX, flush_to_zero=True)
    for op in (e.AddF, e.SubF, e.MulF, e.Fma):
        yield _elementwise(op, E.F16)
        yield _elementwise(op, E.F32, "cut", rounding_mode=_R.ZERO, flush_to_zero=True)
    yield _elementwise(e.DivF, E.F32, "full", rounding_mode=_R.FULL)
    yield _elementwise(e.DivF, E.F32, "up", rounding_mode=_R.POSITIVE_INF, flush_to_zero=True)
    for op in (e.MaxF, e.MinF):
        yield _elementwise(op, E.F32, "both", propagate_nan=True, flush_to_zero=True)
        yield _elementwise(op, E.F16)
    for op in (e.Pow, e.RemF):
        yield _elementwise(op, E.F32)
    yield _elementwise(e.Atan2, E.F32, version=(13, 2))
    yield Case(e.FPowI, "", _power, version=(13, 4))
    for ordering in Ordering:
        yield _elementwise(
            e.CmpF, E.F32, ordering.name, comparison_predicate=Predicate.LESS_THAN,
            comparison_ordering=ordering,
        )  # fmt: skip


def integer_cases() -> Iterator[Case]:
    e = elementwise
    for op in (e.AbsI, e.AndI, e.OrI, e.XOrI, e.MulHiI):
        yield _elementwise(op, E.I32)
    yield _elementwise(e.AndI, E.I1, "truth")
    yield _elementwise(e.NegI, E.I8)
    yield _elementwise(e.NegI, E.I64, "promised", version=(13, 2), overflow=Overflow.NSW)
    for op, promise in zip(
        (e.AddI, e.SubI, e.MulI, e.ShLI), (Overflow.NW, *Overflow), strict=False
    ):
        yield _elementwise(op, E.I16)
        yield _elementwise(op, E.I32, "promised", (), overflow=promise)
    for op in (e.MaxI, e.MinI, e.RemI, e.ShRI):
        yield _elementwise(op, E.I32)
        yield _elementwise(op, E.I64, "unsigned", signedness=_UNSIGNED)
    yield _elementwise(e.DivI, E.I32, rounding=_R.NEGATIVE_INF)
    yield _elementwise(e.DivI, E.I32, "unsigned", signedness=_UNSIGNED)
    yield _elementwise(e.DivI, E.I32, "up", rounding=_R.POSITIVE_INF)
    yield _elementwise(e.DivI, E.I32, "unsigned_up", signedness=_UNSIGNED, rounding=_R.POSITIVE_INF)
    for predicate in Predicate:
        yield _elementwise(e.CmpI, E.I32, predicate.name, comparison_predicate=predicate)


def conversion_cases() -> Iterator[Case]:
    e = elementwise
    yield _conversion(e.Bitcast, E.F32, E.I32)
    yield _conversion(e.ExtI, E.I8, E.I32)
    yield _conversion(e.ExtI, E.I4, E.I8, "four", version=(13, 3), signedness=_UNSIGNED)
    yield _conversion(e.TruncI, E.I64, E.I32, overflow=Overflow.NUW)
    yield _conversion(e.TruncI, E.I8, E.I4, "four", version=(13, 3))
    for after, oldest in ((E.BF16, 80), (E.TF32, 80), (E.F8E4M3FN, 90), (E.F8E5M2, 90)):
        yield _conversion(e.FToF, E.F32, after, after.name, oldest)
    yield _conversion(e.FToF, E.F32, E.F4E2M1FN, "f4", 100, (13, 3))
    yield _conversion(
        e.FToF, E.F32, E.F8E8M0FNU, "scale", 100, (13, 2), rounding_mode=_R.POSITIVE_INF
    )
    yield _conversion(e.FToF, E.F32, E.TF32, "away", version=(13, 4), rounding_mode=_R.NEAREST_AWAY)
    yield Case(e.FToF, "unsigned", _to_unsigned_scale, 107, (13, 4), newest=107)
    yield _conversion(e.IToF, E.I32, E.F32)
    yield _conversion(e.IToF, E.I64, E.F16, "unsigned", signedness=_UNSIGNED)
    yield _conversion(e.FToI, E.F32, E.I32)
    yield _conversion(
        e.FToI, E.F16, E.I8, "saturating", version=(13, 4), saturating=True, signedness=_UNSIGNED
    )
    yield Case(elementwise.Select, "", _select)
    yield Case(elementwise.Select, "pointers", _select_pointers)


def _to_unsigned_scale(entry: Entry) -> Op:
    source = entry.given(tile(E.F32, 4, 8))
    return entry.add(elementwise.FToF(source=source, to=tile(E.FNV8E5M3FNU, 4, 8)))


def _select(entry: Entry) -> Op:
    left, right = (entry.given(tile(E.F32, 8)) for _ in range(2))
    return entry.add(
        elementwise.Select(cond=entry.given(tile(E.I1, 8)), val_if_true=left, val_if_false=right)
    )


def _select_pointers(entry: Entry) -> Op:
    left, right = (entry.pointers(E.F32, (8,)) for _ in range(2))
    chosen = elementwise.Select(
        cond=entry.given(tile(E.I1, 8)), val_if_true=left, val_if_false=right
    )
    return entry.add(memory.LoadPtr(source=entry.add(chosen).result))


def shape_cases() -> Iterator[Case]:
    s = shape
    source = tile(E.F32, 4, 8)
    numbers = np.arange(8, dtype=np.int32)
    yield Case(s.Constant, "", lambda n: n.add(s.Constant(value=1.5, to=source)))
    yield Case(s.Constant, "listed", lambda n: n.add(s.Constant(value=numbers, to=tile(E.I32, 8))))
    yield Case(s.Constant, "truth", lambda n: n.add(s.Constant(value=True, to=tile(E.I1, 8))))
    yield Case(s.Iota, "", lambda n: n.add(s.Iota(to=tile(E.I32, 16))))
    yield Case(
        s.Broadcast, "",
        lambda n: n.add(s.Broadcast(source=n.given(tile(E.F32, 1, 8)), to=source)),
    )  # fmt: skip
    yield Case(
        s.Reshape, "", lambda n: n.add(s.Reshape(source=n.given(source), to=tile(E.F32, 2, 16)))
    )
    yield Case(
        s.Permute, "", lambda n: n.add(s.Permute(source=n.given(source), permutation=(1, 0)))
    )
    yield Case(s.Cat, "", lambda n: n.add(s.Cat(lhs=n.given(source), rhs=n.given(source), dim=1)))
    yield Case(
        s.Extract, "",
        lambda n: n.add(
            s.Extract(source=n.given(source), indices=(n.index(), n.index()), to=tile(E.F32, 2, 8))
        ),
    )  # fmt: skip
    yield Case(
        s.Insert, "",
        lambda n: n.add(
            s.Insert(
                source=n.given(tile(E.F32, 2, 8)), destination=n.given(source),
                indices=(n.index(), n.index()),
            )
        ),
        version=(13, 4),
    )  # fmt: skip
    for before, after, oldest in (
        (tile(E.I4, 8), tile(E.I8, 4), 80), (tile(E.I1, 16), tile(E.I8, 2), 80),
        (tile(E.F32, 4), tile(E.I8, 16), 80), (tile(E.F4E2M1FN, 8), tile(E.I8, 4), 100),
        (tile(E.I64, 4), tile(E.I8, 32), 80),
    ):  # fmt: skip
        assert isinstance(before.element, E)
        yield Case(s.Pack, before.element.name, _pack(before, after), oldest, (13, 3))
        yield Case(s.Unpack, before.element.name, _unpack(after, before), oldest, (13, 3))


def _pack(before: TileType, after: TileType) -> Callable[[Entry], Op]:
    return lambda n: n.add(shape.Pack(source=n.given(before), to=after))


def _unpack(before: TileType, after: TileType) -> Callable[[Entry], Op]:
    return lambda n: n.add(shape.Unpack(source=n.given(before), to=after))
