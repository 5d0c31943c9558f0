"""Decisions about a function before its source is emitted.

- *Hoisted*: an op that is uniform across blocks is executed once for a launch. An op that may
  report a fault is hoisted only from a point that every block reaches.
- *Borrowed*: the tile of a load may stay a window on memory instead of a copy, if all its uses
  come before the block's next write.
- *Cut*: a load whose only use is a reduction needs no padding that is the reduction's identity.
- *Direct*: the result of an op goes straight to memory if its only use is the block's next write.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from tilewright.backends.cpu.emitter import EmissionPlan, is_plain
from tilewright.backends.cpu.views import PADDING_NUMBERS, is_sliced
from tilewright.dtypes import Element
from tilewright.ir.attributes import Overflow
from tilewright.ir.function import Function
from tilewright.ir.op import Block, Effect, Op, Value
from tilewright.ir.ops.addresses import Alloca, IntToPtr, PtrToInt, PtrToPtr
from tilewright.ir.ops.control import Assert, Assume, For, GetTileBlockId, If, Loop, Return
from tilewright.ir.ops.elementwise import Bitcast, DivI, FToF, FToI, RemI, Select, ShLI, ShRI
from tilewright.ir.ops.memory import (
    GetIndexSpaceShape,
    GetTensorShape,
    LoadPtr,
    LoadView,
    MakeTensorView,
    Offset,
    StoreView,
)
from tilewright.ir.ops.reduction import MmaFScaled, Reduce
from tilewright.ir.ops.shape import Broadcast, Extract, Insert, Pack, Permute, Reshape, Unpack
from tilewright.ir.rewrite import use_counts
from tilewright.ir.types import Padding, PartitionViewType, TileType

__all__ = ["SMALLEST_SHORT", "plan"]

# Elements of a tile whose padding costs more than comparisons of extents.
SMALLEST_SHORT = 1 << 13

_MAY_REPORT = (
    Assume, DivI, Extract, FToI, GetIndexSpaceShape, GetTensorShape, Insert, MakeTensorView,
    MmaFScaled, Offset, RemI, ShLI, ShRI,
)  # fmt: skip
_HANDS_ON = (For, If, Loop)  # results of their regions may alias the tile
_MAY_ALIAS = (
    Assume, Bitcast, Broadcast, Extract, IntToPtr, Pack, Permute, PtrToInt, PtrToPtr, Reshape,
    Select, Unpack,
)  # fmt: skip


def plan(
    function: Function,
    globals: Mapping[str, int] | None = None,
    *,
    watched: bool = False,
    as_gpus: bool = False,
) -> EmissionPlan:
    """Return the ops to hoist, the loads to borrow, and the values that are used."""
    uses = use_counts(function)
    return EmissionPlan(
        cut=dict(_cut(function.body, uses)),
        direct=frozenset(_direct(function.body, uses)),
        nested=frozenset(_nested(function.body)),
        shortens=not watched and _has_large_tiles(function),
        watched=watched,
        as_gpus=as_gpus,
        allocates=any(isinstance(op, Alloca) for op in function.walk()),
        globals=globals or {},
        hoisted=frozenset(_hoisted(function)),
        borrowed=frozenset(_borrowed(function.body)),
        read=frozenset(value for op in function.walk() for value in op.operands),
    )


# --- hoisting --------------------------------------------------------------------------------


def _hoisted(function: Function) -> Iterator[Op]:
    uniform: set[Value] = set(function.params)
    certain = True  # whether every block reaches this point
    for op in function.body.ops:
        for inner in op.walk():
            sure = certain and inner is op
            if _is_uniform(inner, uniform) and (sure or not _may_report(inner)):
                uniform.update(inner.results)
                yield inner
        certain = certain and not any(isinstance(inner, Assert | Return) for inner in op.walk())


def _is_uniform(op: Op, uniform: set[Value]) -> bool:
    return (
        op.effect is Effect.NONE
        and not op.regions
        and not isinstance(op, GetTileBlockId)
        and all(value in uniform for value in op.operands)
    )


def _may_report(op: Op) -> bool:
    return isinstance(op, _MAY_REPORT) or (
        getattr(op, "overflow", Overflow.NONE) is not Overflow.NONE
    )


# --- borrowing -------------------------------------------------------------------------------


def _borrowed(block: Block) -> Iterator[Op]:
    for at, op in enumerate(block.ops):
        if isinstance(op, LoadView) and _is_read_before_writes(op, block.ops[at + 1 :]):
            yield op
        for inner in op.regions:
            yield from _borrowed(inner)


def _is_read_before_writes(load: LoadView, later: Sequence[Op]) -> bool:
    """Whether the tile and its possible aliases have no use after the block's next write."""
    tiles: set[Value] = {load.tile}
    written = False
    for op in later:
        if not tiles.isdisjoint(_all_operands(op)):
            if written or op.effect is Effect.CONTROL or (op.regions and _writes(op)):
                return False
            if isinstance(op, _MAY_ALIAS):
                tiles.update(result for result in op.results if not is_plain(result))
            elif isinstance(op, _HANDS_ON):
                return False
        written = written or _writes(op)
    return True


# --- cutting ---------------------------------------------------------------------------------


def _cut(block: Block, uses: Counter[Value]) -> Iterator[tuple[Op, int]]:
    """Return loads that feed a reduction alone, with its axis, and an identity as padding."""
    made = {result: op for op in block.ops for result in op.results}
    for op in block.ops:
        if isinstance(op, Reduce) and len(op.sources) == 1:
            load = made.get(op.sources[0])
            while isinstance(load, FToF) and uses[load.result] == 1:
                load = made.get(load.source)
            if isinstance(load, LoadView) and uses[load.tile] == 1 and _pads_with(load, op):
                yield load, op.dim
        for inner in op.regions:
            yield from _cut(inner, uses)


def _pads_with(load: LoadView, reduction: Reduce) -> bool:
    """Whether the padding of a load is the identity of a reduction."""
    type_ = load.view.type
    if not isinstance(type_, PartitionViewType) or not is_sliced(type_):
        return False
    return type_.view.element is not Element.I1 and (
        PADDING_NUMBERS[type_.padding or Padding.ZERO] == reduction.identities[0].value
    )


# --- direct results --------------------------------------------------------------------------


def _direct(block: Block, uses: Counter[Value]) -> Iterator[Op]:
    """Return ops whose result the block's next write stores, and nothing else uses."""
    made: dict[Value, Op] = {}
    for op in block.ops:
        if isinstance(op, StoreView) and is_sliced(op.view.type) and uses[op.tile] == 1:
            stored = made.get(op.tile)
            if stored is not None:
                yield stored
        for inner in op.regions:
            yield from _direct(inner, uses)
        if op.regions or _writes(op):
            made.clear()
        made.update(dict.fromkeys(op.results, op))


# --- short tiles -----------------------------------------------------------------------------


def _has_large_tiles(function: Function) -> bool:
    """Whether the padding of some loaded tile would cost more than comparisons of extents."""
    loads = (op for op in function.walk() if isinstance(op, LoadView | LoadPtr))
    types = (value.type for op in loads for value in op.results)
    return any(isinstance(tile, TileType) and tile.size >= SMALLEST_SHORT for tile in types)


def _nested(block: Block) -> Iterator[Value]:
    """Return values used in a region behind them, or in a promise about all their elements."""
    for op in block.ops:
        if isinstance(op, Assume):
            yield op.value
        for inner in op.regions:
            ops = [each for outer in inner.ops for each in outer.walk()]
            made = {result for each in ops for result in each.results}
            made.update(value for each in ops for region in each.regions for value in region.args)
            yield from {value for each in ops for value in each.operands} - made - {*inner.args}
            yield from _nested(inner)


def _all_operands(op: Op) -> set[Value]:
    return {value for inner in op.walk() for value in inner.operands}


def _writes(op: Op) -> bool:
    return any(inner.effect is Effect.WRITE for inner in op.walk())
