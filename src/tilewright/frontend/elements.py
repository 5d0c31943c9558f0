"""Single elements of a tensor, named by index tiles: their addresses, and which of them exist.

What lies outside the tensor, also by a negative index, is masked instead of checked: its address is
never looked at. Offsets are computed in 64 bits, since those of a large tensor need them.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import reduce

from tilewright.check.errors.types import IndexCount, WrongOperand
from tilewright.dtypes import Element, bool_, i32, i64
from tilewright.frontend.arguments import Place
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.operands import Operand, Static, TensorOperand, TileOperand
from tilewright.frontend.tensors import extent_of
from tilewright.frontend.tiles import as_tile, broadcast_to, convert
from tilewright.ir.attributes import Predicate, Signedness
from tilewright.ir.launch_terms import BaseAddress, Stride
from tilewright.ir.op import Value
from tilewright.ir.ops.elementwise import AddI, AndI, CmpI, ExtI, MulI, Select
from tilewright.ir.ops.internal import LaunchValue
from tilewright.ir.ops.memory import Offset
from tilewright.ir.ops.shape import Broadcast, Reshape
from tilewright.ir.types import PtrType, TensorViewType, TileType, scalar

__all__ = ["Elements", "elements_at", "index_tiles", "mask_tile"]


@dataclass(frozen=True, eq=False)
class Elements:
    """Elements of a tensor: pointers of one shape, and which of them may be used."""

    pointers: Value
    inside: Value | None  # None: all of them


def index_tiles(
    lo: Lowering, node: ast.AST, tensor: TensorOperand, places: tuple[Place, ...]
) -> tuple[TileOperand, ...]:
    """One integer tile or scalar for each axis, as wide as a comparison with the extent needs."""
    if len(places) != tensor.rank:
        lo.reject(IndexCount, node, f"`{tensor.name}`", tensor.rank, len(places))
    return tuple(_index_tile(lo, *place) for place in places)


def _index_tile(lo: Lowering, node: ast.AST, operand: Operand) -> TileOperand:
    tile = as_tile(lo, node, operand)
    if not tile.dtype.element.is_integer or tile.dtype is bool_:
        got = operand if isinstance(operand, Static) else tile
        lo.reject(WrongOperand, node, "an index is an integer", f"this is {got}")
    is_narrow = tile.dtype.element.bits < Element.I32.bits
    return convert(lo, tile, i32) if is_narrow else tile


def mask_tile(lo: Lowering, node: ast.AST, operand: Operand) -> TileOperand | None:
    """The mask of an access, or None if it has none."""
    if isinstance(operand, Static) and operand.value is None:
        return None
    mask = as_tile(lo, node, operand)
    if mask.dtype is not bool_:
        got = operand if isinstance(operand, Static) else mask
        lo.reject(
            WrongOperand, node, "a mask holds truth values", f"this is {got}",
            "compare first: `mask=t != 0`",
        )  # fmt: skip
    return mask


def elements_at(
    lo: Lowering,
    tensor: TensorOperand,
    indices: tuple[TileOperand, ...],
    mask: TileOperand | None,
    shape: tuple[int, ...],
) -> Elements:
    """The elements at indices that broadcast to `shape`, as does the mask."""
    add = lo.builder.add
    conditions = [] if mask is None else [broadcast_to(lo, mask, shape).value]
    offset: Value | None = None
    for axis, index in enumerate(indices):
        inside = _is_inside(lo, tensor, axis, index)
        conditions.append(broadcast_to(lo, inside, shape).value)
        step = broadcast_to(lo, _step(lo, tensor, axis, index, inside.value), shape).value
        offset = step if offset is None else add(AddI(lhs=offset, rhs=step)).result
    base = _base_pointers(lo, tensor, shape)
    pointers = base if offset is None else add(Offset(ptr=base, offset=offset)).result
    if not conditions:
        return Elements(pointers, None)
    return Elements(pointers, reduce(lambda a, b: add(AndI(lhs=a, rhs=b)).result, conditions))


def _is_inside(lo: Lowering, tensor: TensorOperand, axis: int, index: TileOperand) -> TileOperand:
    """Whether each index lies in its axis: read as unsigned, a negative one is very large."""
    extent = _extent(lo, tensor, axis)
    if index.dtype.element is Element.I64:
        extent = convert(lo, extent, i64)
    limit = broadcast_to(lo, extent, index.shape).value
    comparison = CmpI(
        lhs=index.value, rhs=limit, comparison_predicate=Predicate.LESS_THAN,
        signedness=Signedness.UNSIGNED, dtype=bool_,
    )  # fmt: skip
    return TileOperand(lo.builder.add(comparison).result, bool_)


def _extent(lo: Lowering, tensor: TensorOperand, axis: int) -> TileOperand:
    return as_tile(lo, ast.Pass(), extent_of(lo, tensor, axis), i32)


def _step(
    lo: Lowering, tensor: TensorOperand, axis: int, index: TileOperand, inside: Value
) -> TileOperand:
    """How far an index leads from the first element of its axis; one outside leads nowhere."""
    add = lo.builder.add
    zero = lo.builder.constant(0, index.dtype.element, index.shape)
    safe = add(Select(cond=inside, val_if_true=index.value, val_if_false=zero)).result
    wide = safe
    if index.dtype.element is not Element.I64:
        to = TileType(Element.I64, index.shape)
        wide = add(ExtI(source=safe, to=to, signedness=Signedness.UNSIGNED)).result
    assert isinstance(tensor.view.type, TensorViewType)
    if tensor.view.type.strides[axis] == 1:
        return TileOperand(wide, i64)
    stride = broadcast_to(lo, _stride(lo, tensor, axis), index.shape).value
    return TileOperand(add(MulI(lhs=wide, rhs=stride)).result, i64)


def _stride(lo: Lowering, tensor: TensorOperand, axis: int) -> TileOperand:
    term = Stride(tensor.name, axis)
    if tensor.spec.wide:
        return TileOperand(lo.launch_value(term, Element.I64), i64)
    return convert(lo, TileOperand(lo.launch_value(term), i32), i64)


def _base_pointers(lo: Lowering, tensor: TensorOperand, shape: tuple[int, ...]) -> Value:
    """The address of the first element, in every place of a tile."""
    kind = PtrType(tensor.spec.dtype.element)
    address = LaunchValue(term=BaseAddress(tensor.name), to=scalar(kind))
    pointer = lo.builder.add(address).result
    if not shape:
        return pointer
    ones = Reshape(source=pointer, to=TileType(kind, (1,) * len(shape)))
    one = lo.builder.add(ones).result
    return lo.builder.add(Broadcast(source=one, to=TileType(kind, shape))).result
