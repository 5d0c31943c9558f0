"""Cases of conversions of pointers, of memory of a block, of globals and of order between grids."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from tile_ir_programs import Case, Entry, tile

from tilewright.dtypes import Element
from tilewright.ir.attributes import Visibility
from tilewright.ir.function import Global
from tilewright.ir.op import Op, Value
from tilewright.ir.ops import addresses, dependencies, memory
from tilewright.ir.types import PtrAttribute, PtrType, TensorViewType, TileType, scalar

E = Element
_V4 = (13, 4)

GLOBALS = (
    Global("table", tile(E.F32, 4), np.array([1.0, 2.5, -3.0, 0.0])),
    Global("zeros", tile(E.I64, 8), 0, alignment=16),
    Global("secret", tile(E.F16, 2), 1.5, 8, Visibility.PRIVATE, constant=True),
)


def address_cases() -> Iterator[Case]:
    a, d = addresses, dependencies
    yield Case(a.IntToPtr, "", _int_to_ptr)
    yield Case(a.PtrToInt, "", _ptr_to_int)
    yield Case(a.PtrToPtr, "", _ptr_to_ptr)
    for held, version in zip(GLOBALS, ((13, 1), (13, 1), (13, 3)), strict=True):
        yield Case(a.GetGlobal, held.name, _global(held), version=version, globals=(held,))
    yield Case(a.Alloca, "", _alloca(), version=(13, 3))
    yield Case(a.Alloca, "shared", _alloca(global_memory=True), version=(13, 3))
    for op in (d.GdcLaunchDependents, d.GdcWait):
        yield Case(op, "", lambda n, op=op: n.add(op()), version=_V4)
        yield Case(op, "ordered", lambda n, op=op: n.add(op(token=_token(n))), version=_V4)
    yield Case(
        d.MemoryFenceAlias, "", lambda n: n.add(d.MemoryFenceAlias(token=_token(n))), version=_V4
    )
    yield Case(memory.MakeTensorView, "marked", _marked_view, version=_V4)
    yield Case(memory.MakeTensorView, "marked_point", _marked_point, version=_V4)


def _token(entry: Entry) -> Value:
    return entry.add(memory.MakeToken()).result


def _kept(entry: Entry, pointers: Value) -> None:
    entry.keep(entry.add(memory.LoadPtr(source=pointers)).result)


def _int_to_ptr(entry: Entry) -> Op:
    to = TileType(PtrType(E.F32), (8,))
    made = entry.add(addresses.IntToPtr(source=entry.given(tile(E.I64, 8)), to=to))
    _kept(entry, made.result)
    return made


def _ptr_to_int(entry: Entry) -> Op:
    return entry.add(addresses.PtrToInt(source=entry.pointers(E.F32, (8,)), to=tile(E.I64, 8)))


def _ptr_to_ptr(entry: Entry) -> Op:
    to = TileType(PtrType(E.I16), (8,))
    made = entry.add(addresses.PtrToPtr(source=entry.pointers(E.F32, (8,)), to=to))
    _kept(entry, made.result)
    return made


def _global(held: Global) -> Callable[[Entry], Op]:
    assert isinstance(held.type.element, Element)
    to = scalar(PtrType(held.type.element))

    def build(entry: Entry) -> Op:
        made = entry.add(addresses.GetGlobal(name=held.name, to=to))
        _kept(entry, made.result)
        return made

    return build


def _alloca(**attributes: bool) -> Callable[[Entry], Op]:
    def build(entry: Entry) -> Op:
        to = scalar(PtrType(E.F32))
        made = entry.add(addresses.Alloca(num_elem=16, alignment=8, to=to, **attributes))
        entry.add(memory.StorePtr(destination=made.result, value=entry.param(scalar(E.F32))))
        _kept(entry, made.result)
        return made

    return build


def _marked(entry: Entry) -> Value:
    return entry.param(scalar(PtrType(E.F32, PtrAttribute.NONE)))


def _marked_view(entry: Entry) -> Op:
    to = TensorViewType(E.F32, (None, 4), (4, 1), PtrAttribute.NONE)
    made = memory.MakeTensorView(base=_marked(entry), dynamic_shape=(entry.index(),), to=to)
    return entry.add(made)


def _marked_point(entry: Entry) -> Op:
    to = TensorViewType(E.F32, (), (), PtrAttribute.NONE)
    return entry.add(memory.MakeTensorView(base=_marked(entry), to=to))
