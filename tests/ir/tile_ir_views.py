"""Cases of strided and gather-scatter views, and of sums into views."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tile_ir_programs import Case, Entry, tile

from tilewright.dtypes import Element
from tilewright.ir.attributes import AtomicMode, MemoryScope
from tilewright.ir.op import Op, Value
from tilewright.ir.ops import memory, views
from tilewright.ir.types import (
    GatherScatterViewType,
    Padding,
    StridedViewType,
    TensorViewType,
    scalar,
)

E = Element
_V3 = (13, 3)


def other_view_cases() -> Iterator[Case]:
    m, v = memory, views
    yield Case(v.MakeStridedView, "", _strided_load(4, 8), version=_V3)
    yield Case(v.MakeStridedView, "mapped", _strided_load(7, 100, (1, 0), Padding.NAN), version=_V3)
    yield Case(v.MakeGatherScatterView, "rows", _gathered_load(0, None), version=_V3)
    yield Case(v.MakeGatherScatterView, "columns", _gathered_load(1, Padding.ZERO), version=_V3)
    yield Case(
        m.GetIndexSpaceShape, "strided",
        lambda n: n.add(m.GetIndexSpaceShape(src=strided(n), to=scalar(E.I64))),
        version=_V3,
    )  # fmt: skip
    yield Case(
        m.GetIndexSpaceShape, "gathered",
        lambda n: n.add(m.GetIndexSpaceShape(src=gathered(n, 0))),
        version=_V3,
    )  # fmt: skip
    yield Case(m.LoadView, "strided", lambda n: _load(n, strided(n), _at(n)), version=_V3)
    yield Case(m.LoadView, "gathered", _gathered_load(0, Padding.POS_INF), version=_V3)
    yield Case(m.LoadView, "gathered_wide", _wide_gather, version=_V3)
    yield Case(m.LoadView, "picked", _picked, version=_V3)
    yield Case(m.StoreView, "strided", _strided_store, version=_V3)
    yield Case(m.StoreView, "scattered", _scattered_store, version=_V3)
    for mode, element, oldest in (
        (AtomicMode.ADD, E.I32, 80), (AtomicMode.ADDF, E.F32, 80), (AtomicMode.ADDF, E.BF16, 89),
        (AtomicMode.UMAX, E.I64, 80), (AtomicMode.XOR, E.I32, 80),
    ):  # fmt: skip
        label = f"{mode.name}_{element.name}"
        yield Case(v.AtomicRedView, label, _red(mode, element), oldest, _V3)
    yield Case(v.AtomicRedView, "strided", _strided_red, version=_V3)


def _at(entry: Entry) -> tuple[Value, ...]:
    return entry.index(), entry.index()


def _rows(entry: Entry, count: int = 16, element: E = E.I32) -> Value:
    return entry.given(tile(element, count))


def strided(
    entry: Entry,
    steps: tuple[int, int] = (4, 8),
    dim_map: tuple[int, int] = (0, 1),
    padding: Padding | None = None,
) -> Value:
    """A strided view of tiles of 16 times 32."""
    tensor = entry.tensor(E.F32, 2)
    assert isinstance(tensor.type, TensorViewType)
    to = StridedViewType((16, 32), steps, tensor.type, dim_map, padding)
    return entry.add(views.MakeStridedView(tensor_view=tensor, to=to)).result


def gathered(entry: Entry, axis: int, padding: Padding | None = None) -> Value:
    """A gather-scatter view of tiles of 16 times 32."""
    tensor = entry.tensor(E.F32, 2)
    assert isinstance(tensor.type, TensorViewType)
    to = GatherScatterViewType((16, 32), tensor.type, axis, padding)
    return entry.add(views.MakeGatherScatterView(tensor_view=tensor, to=to)).result


def _load(entry: Entry, view: Value, index: tuple[Value, ...]) -> Op:
    return entry.add(memory.LoadView(view=view, index=index))


def _strided_load(
    first: int, second: int, dim_map: tuple[int, int] = (0, 1), padding: Padding | None = None
) -> Callable[[Entry], Op]:
    return lambda n: _load(n, strided(n, (first, second), dim_map, padding), _at(n))


def _gathered_load(axis: int, padding: Padding | None) -> Callable[[Entry], Op]:
    def build(entry: Entry) -> Op:
        rows = _rows(entry, (16, 32)[axis])
        index = (rows, entry.index()) if axis == 0 else (entry.index(), rows)
        return _load(entry, gathered(entry, axis, padding), index)

    return build


def _wide_gather(entry: Entry) -> Op:
    """Numbers of 64 bits pick rows, one of 32 bits says where they start."""
    return _load(entry, gathered(entry, 0), (_rows(entry, element=E.I64), entry.index()))


def _picked(entry: Entry) -> Op:
    """A gather of rank 1: single elements."""
    tensor = entry.tensor(E.F32, 1)
    assert isinstance(tensor.type, TensorViewType)
    to = GatherScatterViewType((16,), tensor.type, 0)
    view = entry.add(views.MakeGatherScatterView(tensor_view=tensor, to=to)).result
    return _load(entry, view, (_rows(entry),))


def _store(entry: Entry, view: Value, index: tuple[Value, ...]) -> Op:
    values = entry.given(tile(E.F32, 16, 32))
    return entry.add(memory.StoreView(tile=values, view=view, index=index))


def _strided_store(entry: Entry) -> Op:
    return _store(entry, strided(entry, (16, 64)), _at(entry))


def _scattered_store(entry: Entry) -> Op:
    return _store(entry, gathered(entry, 0), (_rows(entry), entry.index()))


def _red(mode: AtomicMode, element: E) -> Callable[[Entry], Op]:
    def build(entry: Entry) -> Op:
        token = entry.add(memory.MakeToken()).result if mode is AtomicMode.ADD else None
        scope = MemoryScope.TL_BLK if mode is AtomicMode.XOR else MemoryScope.DEVICE
        summed = views.AtomicRedView(
            view=entry.view(element, 8), index=(entry.index(),), mode=mode, token=token,
            value=entry.given(tile(element, 8)), memory_scope=scope,
        )  # fmt: skip
        return entry.add(summed)

    return build


def _strided_red(entry: Entry) -> Op:
    index = entry.param(scalar(E.I64)), entry.index()
    summed = views.AtomicRedView(
        view=strided(entry), index=index, value=entry.given(tile(E.F32, 16, 32)),
        mode=AtomicMode.ADDF,
    )  # fmt: skip
    return entry.add(summed)
