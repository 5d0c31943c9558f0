"""Cases of the ops on views, pointers and tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tile_ir_programs import Case, Entry, tile

from tilewright.dtypes import Element
from tilewright.ir.attributes import (
    AtomicMode,
    Dictionary,
    IntIdentity,
    MemoryOrder,
    MemoryScope,
    TargetHints,
)
from tilewright.ir.op import Op, Value
from tilewright.ir.ops import memory
from tilewright.ir.types import (
    Padding,
    PartitionViewType,
    PtrType,
    TensorViewType,
    TileType,
    scalar,
)

E = Element


def view_cases() -> Iterator[Case]:
    m = memory
    yield Case(m.MakeToken, "", lambda n: n.add(m.MakeToken()))
    yield Case(m.JoinTokens, "", _join_tokens)
    yield Case(m.MakeTensorView, "", _tensor_view)
    yield Case(m.MakePartitionView, "", _partition_view)
    yield Case(m.GetIndexSpaceShape, "", lambda n: n.add(m.GetIndexSpaceShape(src=_view(n))))
    yield Case(m.GetTensorShape, "", _tensor_shape)
    yield Case(m.GetTensorShape, "wide", lambda n: _tensor_shape(n, scalar(E.I64)))
    yield Case(m.LoadView, "", lambda n: n.add(m.LoadView(view=_view(n), index=_at(n))))
    yield Case(m.LoadView, "hinted", _hinted_load, version=(13, 3))
    yield Case(m.LoadView, "advised", _advised_load)
    yield Case(m.LoadView, "acquire", _acquire_load)
    yield Case(
        m.LoadView, "inbounds",
        lambda n: n.add(
            m.LoadView(view=n.view(E.F32, 16, 32), index=_at(n), inbounds=(True, False))
        ),
        version=(13, 4),
    )  # fmt: skip
    yield Case(m.StoreView, "", lambda n: _store_view(n))
    yield Case(
        m.StoreView, "hinted", lambda n: _store_view(n, hints=TargetHints.of(allow_tma=True)),
        version=(13, 3),
    )  # fmt: skip
    yield Case(
        m.StoreView, "release",
        lambda n: _store_view(
            n, memory_ordering=MemoryOrder.RELEASE, memory_scope=MemoryScope.SYS,
            token=n.add(m.MakeToken()).result,
        ),
    )  # fmt: skip


def _view(entry: Entry) -> Value:
    return entry.view(E.F32, 16, 32, padding=Padding.NEG_INF)


def _at(entry: Entry) -> tuple[Value, ...]:
    return entry.index(), entry.index()


def _join_tokens(entry: Entry) -> Op:
    tokens = tuple(entry.add(memory.MakeToken()).result for _ in range(3))
    return entry.add(memory.JoinTokens(tokens=tokens))


def _tensor_view(entry: Entry) -> Op:
    base, number = entry.param(scalar(PtrType(E.F16))), entry.index()
    made = memory.MakeTensorView(
        base=base, dynamic_shape=(number,), dynamic_strides=(number,),
        to=TensorViewType(E.F16, (None, 64), (None, 1)),
    )  # fmt: skip
    result = entry.add(made)
    to = PartitionViewType((16, 16), made.to, (0, 1))
    part = entry.add(memory.MakePartitionView(tensor_view=result.result, to=to)).result
    entry.keep(entry.add(memory.LoadView(view=part, index=(number, number))).tile)
    return result


def _partition_view(entry: Entry) -> Op:
    view = entry.add(
        memory.MakeTensorView(
            base=entry.param(scalar(PtrType(E.F16))), to=TensorViewType(E.F16, (64, 128), (128, 1))
        )
    ).result
    assert isinstance(view.type, TensorViewType)
    to = PartitionViewType((32, 16), view.type, (1, 0), Padding.ZERO)
    made = entry.add(memory.MakePartitionView(tensor_view=view, to=to))
    number = entry.index()
    entry.keep(entry.add(memory.LoadView(view=made.result, index=(number, number))).tile)
    return made


def _tensor_shape(entry: Entry, to: TileType = scalar(E.I32)) -> Op:  # noqa: B008
    view = entry.add(
        memory.MakeTensorView(
            base=entry.param(scalar(PtrType(E.F32))), dynamic_shape=(entry.index(),),
            to=TensorViewType(E.F32, (None, 8), (8, 1)),
        )
    ).result  # fmt: skip
    return entry.add(memory.GetTensorShape(src=view, to=to))


def _hinted_load(entry: Entry) -> Op:
    hints = TargetHints.of(latency=3, allow_tma=False)
    token = entry.add(memory.MakeToken()).result
    return entry.add(memory.LoadView(view=_view(entry), index=_at(entry), hints=hints, token=token))


def _advised_load(entry: Entry) -> Op:
    """Advice for single targets, one of which nobody knows."""
    hints = TargetHints(
        (
            ("sm_90", Dictionary((("latency", 3), ("allow_tma", True)))),
            ("sm_999", Dictionary((("note", "none"), ("list", (1, IntIdentity(E.I64, 2)))))),
        )
    )
    return entry.add(memory.LoadView(view=_view(entry), index=_at(entry), hints=hints))


def _acquire_load(entry: Entry) -> Op:
    order, scope = MemoryOrder.ACQUIRE, MemoryScope.DEVICE
    return entry.add(
        memory.LoadView(
            view=_view(entry), index=_at(entry), memory_ordering=order, memory_scope=scope
        )
    )


def _store_view(entry: Entry, **attributes: object) -> Op:
    values = entry.given(tile(E.F32, 16, 32))
    return entry.add(
        memory.StoreView(tile=values, view=_view(entry), index=_at(entry), **attributes)
    )


def pointer_cases() -> Iterator[Case]:
    m = memory
    yield Case(m.Offset, "", _offset)
    yield Case(m.LoadPtr, "", lambda n: n.add(m.LoadPtr(source=n.pointers(E.I8, (16,)))))
    yield Case(m.LoadPtr, "masked", _masked_load, version=(13, 3))
    yield Case(
        m.LoadPtr, "relaxed",
        lambda n: n.add(
            m.LoadPtr(
                source=n.pointers(E.I32), memory_ordering=MemoryOrder.RELAXED,
                memory_scope=MemoryScope.TL_BLK,
            )
        ),
    )  # fmt: skip
    yield Case(m.StorePtr, "", lambda n: _store_ptr(n))
    yield Case(m.StorePtr, "masked", _masked_store, version=(13, 3))
    for mode, element in (
        (AtomicMode.ADD, E.I32), (AtomicMode.ADDF, E.F16), (AtomicMode.UMIN, E.I64),
        (AtomicMode.XCHG, E.F32), (AtomicMode.AND, E.I32),
    ):  # fmt: skip
        yield Case(m.AtomicRmw, mode.name, _rmw(mode, element))
    yield Case(m.AtomicRmw, "ADDF_BF16", _rmw(AtomicMode.ADDF, E.BF16), 89)
    yield Case(m.AtomicCas, "", _cas)
    yield Case(m.AtomicCas, "masked", _masked_cas)


def _offset(entry: Entry) -> Op:
    moved = entry.add(
        memory.Offset(ptr=entry.pointers(E.F32, (8,)), offset=entry.given(tile(E.I64, 8)))
    )
    entry.keep(entry.add(memory.LoadPtr(source=moved.result)).result)
    return moved


def _masked_load(entry: Entry) -> Op:
    loaded = memory.LoadPtr(
        source=entry.pointers(E.F32, (8,)), mask=entry.given(tile(E.I1, 8)),
        padding_value=entry.build.constant(-1.0, E.F32, (8,)), hints=TargetHints.of(latency=2),
        token=entry.add(memory.MakeToken()).result,
    )  # fmt: skip
    return entry.add(loaded)


def _store_ptr(entry: Entry) -> Op:
    return entry.add(
        memory.StorePtr(
            destination=entry.pointers(E.BF16, (8,)), value=entry.given(tile(E.BF16, 8))
        )
    )


def _masked_store(entry: Entry) -> Op:
    stored = memory.StorePtr(
        destination=entry.pointers(E.F32, (8,)), value=entry.given(tile(E.F32, 8)),
        mask=entry.given(tile(E.I1, 8)), token=entry.add(memory.MakeToken()).result,
        hints=TargetHints.of(latency=1),
    )  # fmt: skip
    return entry.add(stored)


def _rmw(mode: AtomicMode, element: E) -> Callable[[Entry], Op]:
    def build(entry: Entry) -> Op:
        masked = mode in (AtomicMode.ADD, AtomicMode.ADDF)
        changed = memory.AtomicRmw(
            pointers=entry.pointers(element, (8,)), arg=entry.given(tile(element, 8)), mode=mode,
            mask=entry.given(tile(E.I1, 8)) if masked else None,
            token=entry.add(memory.MakeToken()).result if masked else None,
        )  # fmt: skip
        return entry.add(changed)

    return build


def _cas(entry: Entry) -> Op:
    swapped = memory.AtomicCas(
        pointers=entry.pointers(E.I32), cmp=entry.index(), val=entry.index(),
        memory_ordering=MemoryOrder.ACQ_REL, memory_scope=MemoryScope.SYS,
    )  # fmt: skip
    return entry.add(swapped)


def _masked_cas(entry: Entry) -> Op:
    swapped = memory.AtomicCas(
        pointers=entry.pointers(E.I64, (4,)), cmp=entry.given(tile(E.I64, 4)),
        val=entry.given(tile(E.I64, 4)), mask=entry.given(tile(E.I1, 4)),
        token=entry.add(memory.MakeToken()).result,
    )  # fmt: skip
    return entry.add(swapped)
