"""Recognises counted loops that only accumulate products of tiles along the counter.

    for k in range(lower, upper):          # step 1, nothing else carried
        acc = mma(x[i, k], y[k, j], acc)

Such a loop is one product of two panels. Elements outside a tensor count as zero in it, so the
views must pad with zeros; and the accumulator must be at least as wide as the sum inside a product,
which excludes f16 accumulators. Conversions, permutations and reshapes that add or drop axes of
extent one may stand between a load and its product.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from tilewright.backends.cpu.views import is_sliced
from tilewright.dtypes import Element
from tilewright.ir.op import Op, Value
from tilewright.ir.ops.control import For
from tilewright.ir.ops.elementwise import FToF
from tilewright.ir.ops.memory import JoinTokens, LoadView, MakeToken
from tilewright.ir.ops.reduction import MmaF, MmaI
from tilewright.ir.ops.shape import Permute, Reshape
from tilewright.ir.types import Padding, PartitionViewType, TileType, TokenType

__all__ = ["Contraction", "contraction", "kept_axes"]

_ALLOWED = (FToF, JoinTokens, LoadView, MakeToken, MmaF, MmaI, Permute, Reshape)
_WIDE = (Element.F32, Element.F64, Element.I32)


@dataclass(frozen=True)
class Contraction:
    """The loads of a product, each with the tile axis that the counter runs along."""

    lhs: tuple[LoadView, int]
    rhs: tuple[LoadView, int]
    is_single: bool  # whether it multiplies two matrices, and not batches of them


def contraction(loop: For, outside: AbstractSet[Op]) -> Contraction | None:
    """Return the product that a loop computes; `outside` are ops invariant in the loop."""
    ops = [op for op in loop.body.ops[:-1] if op not in outside]
    products = [op for op in ops if isinstance(op, MmaF | MmaI)]
    if loop.unsigned_cmp or len(products) != 1 or not all(isinstance(op, _ALLOWED) for op in ops):
        return None
    product = products[0]
    if not _accumulates(loop, product):
        return None
    made = {result: op for op in ops for result in op.results}
    rank = len(product.lhs.type.shape) if isinstance(product.lhs.type, TileType) else 0
    lhs = _loaded(product.lhs, rank - 1, made)
    rhs = _loaded(product.rhs, rank - 2, made)
    loads = [op for op in ops if isinstance(op, LoadView)]
    if lhs is None or rhs is None or {lhs[0], rhs[0]} != set(loads):
        return None
    inner = {*loop.body.args, *made}
    fixed = all(_runs_along(load, axis, loop.body.args[0], inner) for load, axis in (lhs, rhs))
    return Contraction(lhs, rhs, rank == 2) if fixed else None


def _accumulates(loop: For, product: MmaF | MmaI) -> bool:
    """Whether the product's sum is the only value that the loop carries."""
    carried = [arg for arg in loop.body.args[1:] if not isinstance(arg.type, TokenType)]
    handed = [v for v in loop.body.ops[-1].operands if not isinstance(v.type, TokenType)]
    wide = isinstance(product.acc.type, TileType) and product.acc.type.element in _WIDE
    return wide and carried == [product.acc] and handed == [product.result]


def _loaded(value: Value, axis: int, made: dict[Value, Op]) -> tuple[LoadView, int] | None:
    """Return the load that a value comes from, and the tile axis that became `axis`."""
    op = made.get(value)
    if isinstance(op, LoadView):
        return op, axis
    if isinstance(op, Permute):
        return _loaded(op.source, op.permutation[axis], made)
    if isinstance(op, FToF):
        return _loaded(op.source, axis, made)
    if isinstance(op, Reshape):
        places = kept_axes(op)
        return _loaded(op.source, places[axis], made) if axis in places else None
    return None


def kept_axes(op: Reshape) -> dict[int, int]:
    """Return the source axis of each result axis, if only axes of extent one come and go."""
    assert isinstance(op.source.type, TileType)
    before, after = op.source.type.shape, op.to.shape
    old = [axis for axis, extent in enumerate(before) if extent != 1]
    new = [axis for axis, extent in enumerate(after) if extent != 1]
    same = [before[axis] for axis in old] == [after[axis] for axis in new]
    return dict(zip(new, old, strict=True)) if same else {}


def _runs_along(load: LoadView, axis: int, counter: Value, inner: AbstractSet[Value]) -> bool:
    """Whether the counter indexes that axis, and the other indices are loop-invariant."""
    return (
        isinstance(load.view.type, PartitionViewType)
        and is_sliced(load.view.type)
        and not any(load.inbounds)
        and load.view.type.padding in (None, Padding.ZERO)
        and load.view not in inner
        and all(
            (value is counter) if at == axis else value not in inner
            for at, value in enumerate(load.index)
        )
    )
