"""Single elements of a tensor by index tiles: their addresses, and a mask of the valid ones.

An element outside the tensor, also by a negative index, is masked instead of checked: its address
is never used. No intermediate wraps: an index is compared with its axis in its own width, and the
offset from the first element is computed in 64 bits, unless the specialisation has the fact that
every offset of the tensor fits 31.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import partial, reduce

from tilewright.check.errors.types import IndexCount, WrongOperand
from tilewright.dtypes import bool_, i32, i64
from tilewright.frontend.calling.arguments import Place
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.memory.tensors import extent_of
from tilewright.frontend.operands.indices import integer_tile
from tilewright.frontend.operands.operands import Operand, Static, TensorOperand, TileOperand
from tilewright.frontend.operands.tiles import as_tile, broadcast_shape, broadcast_to, convert
from tilewright.ir.attributes import Predicate, Signedness
from tilewright.ir.launch_terms import Stride
from tilewright.ir.op import Value
from tilewright.ir.ops.elementwise import AddI, AndI, CmpI, MulI, Select
from tilewright.ir.ops.memory import Offset
from tilewright.ir.ops.shape import Broadcast, Reshape
from tilewright.ir.types import PtrType, TileType

__all__ = ["Elements", "elements_at", "index_tiles", "mask_tile"]


@dataclass(frozen=True, eq=False)
class Elements:
    """Elements of a tensor: pointers of one shape, and a mask of the valid ones."""

    pointers: Value
    inside: Value | None  # None: all of them


def index_tiles(
    lo: Lowering, node: ast.AST, tensor: TensorOperand, places: tuple[Place, ...]
) -> tuple[TileOperand, ...]:
    """One integer tile or scalar for each axis, as wide as a comparison with the extent needs."""
    if len(places) != tensor.rank:
        lo.reject(IndexCount, node, f"`{tensor.name}`", tensor.rank, len(places))
    return tuple(integer_tile(lo, *place) for place in places)


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
    conditions = [] if mask is None else [mask]
    conditions += [_is_inside(lo, tensor, axis, index) for axis, index in enumerate(indices)]
    indices = (*(TileOperand(place, i32) for place in tensor.leading), *indices)
    pointers = _base_pointers(lo, tensor, shape)
    inside = None
    if conditions:
        inside = broadcast_to(lo, reduce(partial(_joined, lo, AndI), conditions), shape).value
    if not indices:
        return Elements(pointers, inside)
    offset = broadcast_to(lo, _distance(lo, tensor, indices), shape)
    if offset.dtype is i64 and inside is not None:
        # An address far outside the allocation must not even be computed.
        near = lo.builder.constant(0, i64.element, shape)
        near_or_inside = Select(cond=inside, val_if_true=offset.value, val_if_false=near)
        offset = TileOperand(lo.builder.add(near_or_inside).result, i64)
    return Elements(lo.builder.add(Offset(ptr=pointers, offset=offset.value)).result, inside)


def _is_inside(lo: Lowering, tensor: TensorOperand, axis: int, index: TileOperand) -> TileOperand:
    """Whether each index lies in its axis: read as unsigned, a negative one is very large."""
    extent = as_tile(lo, ast.Pass(), extent_of(lo, tensor, axis), i32)
    comparison = CmpI(
        lhs=index.value,
        rhs=broadcast_to(lo, convert(lo, extent, index.dtype), index.shape).value,
        comparison_predicate=Predicate.LESS_THAN,
        signedness=Signedness.UNSIGNED,
        dtype=bool_,
    )
    return TileOperand(lo.builder.add(comparison).result, bool_)


def _distance(lo: Lowering, tensor: TensorOperand, indices: tuple[TileOperand, ...]) -> TileOperand:
    """Offsets from the first element: valid where all indices are inside."""
    dtype = i64 if tensor.spec.far else i32
    steps = []
    for axis, index in enumerate(indices):
        step = convert(lo, index, dtype)
        if not tensor.spec.unit_strides[axis]:
            stride = lo.launch_value(Stride(tensor.name, axis), dtype.element)
            step = _joined(lo, MulI, step, TileOperand(stride, dtype))
        steps.append(step)
    return reduce(partial(_joined, lo, AddI), steps)


def _joined(
    lo: Lowering, op: type[AddI | AndI | MulI], left: TileOperand, right: TileOperand
) -> TileOperand:
    """Two tiles combined in their common shape, which exists."""
    shape = broadcast_shape(left.shape, right.shape)
    assert shape is not None, "the shapes broadcast together"
    lhs, rhs = broadcast_to(lo, left, shape), broadcast_to(lo, right, shape)
    made = lo.builder.add(op(lhs=lhs.value, rhs=rhs.value, dtype=left.dtype))
    return TileOperand(made.result, left.dtype)


def _base_pointers(lo: Lowering, tensor: TensorOperand, shape: tuple[int, ...]) -> Value:
    """A tile of the address of the first element."""
    kind, pointer = PtrType(tensor.spec.dtype.element), lo.address(tensor)
    if not shape:
        return pointer
    ones = Reshape(source=pointer, to=TileType(kind, (1,) * len(shape)))
    one = lo.builder.add(ones).result
    return lo.builder.add(Broadcast(source=one, to=TileType(kind, shape))).result
