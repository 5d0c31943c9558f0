"""Rules of views cut into tiles, and of the accesses through them: one row for each op class."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tilewright.ir.attributes import AtomicMode, MemoryOrder, MemoryScope
from tilewright.ir.op import Op, Value
from tilewright.ir.ops.memory import (
    AtomicRmw,
    GetIndexSpaceShape,
    LoadView,
    MakePartitionView,
    StoreView,
)
from tilewright.ir.ops.views import AtomicRedView, MakeGatherScatterView, MakeStridedView
from tilewright.ir.types import (
    GatherScatterViewType,
    PartitionViewType,
    StridedViewType,
    Type,
    ViewType,
)
from tilewright.ir.verify.access import (
    LOAD,
    STORE,
    atomic_element,
    atomic_target,
    tokens,
)
from tilewright.ir.verify.rules import (
    INTEGERS,
    SCALAR_INTEGER,
    Rule,
    TileClass,
    allowed,
    tiles,
    when,
)

__all__ = ["TARGET_RULES", "VIEW_RULES"]

_ROW_NUMBERS = TileClass(INTEGERS, rank=1)
_Accesses = LoadView | StoreView | AtomicRedView


def _made_from(kind: type[ViewType]) -> Rule:
    """The view is of that kind, and of the given tensor view."""

    def check(op: Any) -> Iterator[str]:
        if not isinstance(op.to, kind):
            yield f"the result cannot be {op.to}"
        elif op.tensor_view.type != op.to.view:
            yield f"a view of {op.to.view} cannot be made from {op.tensor_view.type}"

    return check


def _index(op: _Accesses) -> Iterator[str]:
    """One index for each axis: scalars of one type, except for the rows of a gather."""
    view = op.view.type
    if not isinstance(view, ViewType):
        yield f"`view` must be a view of tiles, but is {view}"
        return
    if len(op.index) != view.index_rank:
        yield f"{view.index_rank} indices are needed, but there are {len(op.index)}"
        return
    scalars = list(op.index)
    if isinstance(view, GatherScatterViewType):
        yield from _rows(view, scalars.pop(view.sparse_dim))
    for value in scalars:
        if not SCALAR_INTEGER.holds(value.type):
            yield f"`index` must be {SCALAR_INTEGER}, but is {value.type}"
    kinds = {value.type for value in scalars}
    if len(kinds) > 1 and not isinstance(op, AtomicRedView):
        listed = ", ".join(str(value.type) for value in scalars)
        yield f"`index` must have one type, but are {listed}"


def _rows(view: GatherScatterViewType, rows: Value) -> Iterator[str]:
    wanted = view.tile[view.sparse_dim]
    if not _ROW_NUMBERS.holds(rows.type) or rows.type.shape != (wanted,):  # type: ignore[union-attr]
        yield f"{wanted} numbers pick the gathered rows, but they are {rows.type}"


def _tile(operand: str) -> Rule:
    """The tile has the view's tile type."""

    def check(op: Any) -> Iterator[str]:
        view: Type = op.view.type
        held = getattr(op, operand).type
        if isinstance(view, ViewType) and held != view.tile_type:
            yield f"`{operand}` must be {view.tile_type}, but is {held}"

    return check


def _inbounds(op: LoadView | StoreView) -> Iterator[str]:
    if op.inbounds and len(op.inbounds) != len(op.index):
        yield f"`inbounds` must say something of each of {len(op.index)} indices"


def _no_promise_on_padding(op: LoadView) -> Iterator[str]:
    view = op.view.type
    padded = isinstance(view, PartitionViewType | StridedViewType) and view.padding is not None
    if any(op.inbounds) and padded:
        yield "`inbounds` does not go with a padded view: tileiras fails on it"


def _reducible(op: AtomicRedView) -> Iterator[str]:
    view = op.view.type
    if isinstance(view, GatherScatterViewType):
        yield "nothing can be summed into a gather-scatter view"
    elif isinstance(view, ViewType) and view.padding is not None:
        yield "nothing can be summed into a padded view"


# Rules of a target beside elements, by op class.
TARGET_RULES: dict[type[Op], Callable[[Any, int], Iterator[str]]] = {
    AtomicRmw: atomic_target("arg"),
    AtomicRedView: atomic_target("value"),
}

# By op class.
VIEW_RULES: dict[type[Op], tuple[Rule, ...]] = {
    MakePartitionView: (_made_from(PartitionViewType),),
    MakeStridedView: (_made_from(StridedViewType),),
    MakeGatherScatterView: (_made_from(GatherScatterViewType),),
    GetIndexSpaceShape: (
        tiles(SCALAR_INTEGER, "extents"),
        when(lambda op: not isinstance(op.src.type, ViewType), "`src` must be a view of tiles"),
    ),
    LoadView: (
        _index, _tile("tile"), tokens("token"), _inbounds, _no_promise_on_padding, *LOAD,
    ),
    StoreView: (_index, _tile("tile"), tokens("token"), _inbounds, *STORE),
    AtomicRedView: (
        _index,
        _tile("value"),
        tokens("token"),
        _reducible,
        when(lambda op: op.mode is AtomicMode.XCHG, "an exchange gives a value, which this cannot"),
        atomic_element("value"),
        allowed("memory_ordering", MemoryOrder.RELAXED),
        allowed("memory_scope", MemoryScope.TL_BLK, MemoryScope.DEVICE),
    ),
}  # fmt: skip
