"""Rules of the matrix products: one row for each op class."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.dtypes import Element
from tilewright.ir.op import Op
from tilewright.ir.ops.reduction import MmaF, MmaFScaled, MmaI
from tilewright.ir.types import TileType
from tilewright.ir.verify.rules import (
    BYTES,
    NUMBER,
    Rule,
    TileClass,
    same_element,
    same_rank,
    tiles,
)

__all__ = ["MATRIX_RULES", "SCALE_GROUPS"]

_E = Element
_SUMS = TileClass(frozenset({_E.I32}))
_SINGLE = TileClass(frozenset({_E.F32}))

# Accumulator elements by the element of the factors.
_PRODUCTS: dict[Element, tuple[Element, ...]] = {
    _E.F8E4M3FN: (_E.F16, _E.F32),
    _E.F8E5M2: (_E.F16, _E.F32),
    _E.F16: (_E.F16, _E.F32),
    _E.BF16: (_E.F32,),
    _E.TF32: (_E.F32,),
    _E.F32: (_E.F32,),
    _E.F64: (_E.F64,),
}

# Legal numbers of elements that share a scale, by the element and its scale.
SCALE_GROUPS: dict[tuple[Element, Element], tuple[int, ...]] = {
    (_E.F8E4M3FN, _E.F8E8M0FNU): (32,),
    (_E.F8E5M2, _E.F8E8M0FNU): (32,),
    (_E.F4E2M1FN, _E.F8E8M0FNU): (16, 32),
    (_E.F4E2M1FN, _E.FNV8E5M3FNU): (16, 32),
    (_E.F4E2M1FN, _E.F8E4M3FN): (16,),
}


def _float_product(op: MmaF) -> Iterator[str]:
    lhs, acc = op.lhs.type, op.acc.type
    assert isinstance(lhs, TileType)
    assert isinstance(acc, TileType)
    sums = _PRODUCTS.get(lhs.element, ()) if isinstance(lhs.element, Element) else ()
    if acc.element not in sums:
        options = " or ".join(element.spelling for element in sums) or "nothing"
        yield f"products of {lhs.element} are summed in {options}, not in {acc.element}"


def _product_shapes(op: MmaF | MmaI | MmaFScaled) -> Iterator[str]:
    shapes = [value.type.shape for value in (op.lhs, op.rhs, op.acc)]  # type: ignore[union-attr]
    lhs, rhs, acc = shapes
    if len({len(shape) for shape in shapes}) != 1 or len(lhs) not in (2, 3):
        yield "the operands must all have rank 2, or all rank 3"
        return
    batch = [shape[:-2] for shape in shapes]
    wanted = (lhs[-2], rhs[-1])
    if len(set(batch)) > 1 or lhs[-1] != rhs[-2] or acc[-2:] != wanted:
        yield f"{op.lhs.type} times {op.rhs.type} does not give {op.acc.type}"


def _scales(op: MmaFScaled) -> Iterator[str]:
    """The scales fit the operands: by element, and one for each group along the contracted axis."""
    lhs, rhs, left, right = (value.type for value in (op.lhs, op.rhs, op.lhs_scale, op.rhs_scale))
    assert isinstance(lhs, TileType)
    assert isinstance(rhs, TileType)
    assert isinstance(left, TileType)
    assert isinstance(right, TileType)
    groups = SCALE_GROUPS.get((lhs.element, left.element), ())  # type: ignore[arg-type]
    if not groups:
        yield f"{left.element} cannot scale {lhs.element}"
        return
    fitting = (
        left.shape == (*lhs.shape[:-1], lhs.shape[-1] // group)
        and right.shape == (*rhs.shape[:-2], rhs.shape[-2] // group, rhs.shape[-1])
        for group in groups
    )
    if not any(fitting):
        options = " or ".join(map(str, groups))
        yield (
            f"{options} elements of {lhs} and {rhs} share a scale, "
            f"but the scales are {left} and {right}"
        )


# By op class.
MATRIX_RULES: dict[type[Op], tuple[Rule, ...]] = {
    MmaF: (
        tiles(NUMBER, "lhs", "rhs", "acc"),
        same_rank("lhs", "rhs", "acc"),
        same_element("lhs", "rhs"),
        _float_product,
        _product_shapes,
    ),
    MmaI: (tiles(BYTES, "lhs", "rhs"), tiles(_SUMS, "acc"), _product_shapes),
    MmaFScaled: (
        tiles(NUMBER, "lhs", "rhs", "lhs_scale", "rhs_scale"),
        tiles(_SINGLE, "acc"),
        same_rank("lhs", "rhs", "acc", "lhs_scale", "rhs_scale"),
        same_element("lhs", "rhs"),
        same_element("lhs_scale", "rhs_scale"),
        _product_shapes,
        _scales,
    ),
}
