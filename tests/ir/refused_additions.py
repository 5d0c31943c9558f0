"""Programs that break one rule each of the views, addresses, products and promises of 13.2 to 13.4.

As in `refused_programs`, which has those of the older ops.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from refused_programs import Refused
from tile_ir_programs import I32, Entry, tile
from tile_ir_views import gathered, strided

from tilewright.dtypes import Element
from tilewright.ir.attributes import (
    AtomicMode,
    Bounded,
    DivBy,
    MemoryOrder,
    MemoryScope,
    Promise,
    SameElements,
)
from tilewright.ir.op import Op, Value
from tilewright.ir.ops import addresses as a
from tilewright.ir.ops import control as c
from tilewright.ir.ops import dependencies as d
from tilewright.ir.ops import elementwise as e
from tilewright.ir.ops import memory as m
from tilewright.ir.ops import reduction as r
from tilewright.ir.ops import shape as s
from tilewright.ir.ops import views as v
from tilewright.ir.types import (
    GatherScatterViewType,
    Padding,
    PtrAttribute,
    PtrType,
    StridedViewType,
    TensorViewType,
    TileType,
    scalar,
)

E = Element
_POINTER = scalar(PtrType(E.F32))
_Build = Callable[[Entry], Op]


def _insert(part: TileType, whole: TileType, indices: int = 2, index: E = E.I32) -> _Build:
    return lambda n: s.Insert(
        source=n.given(part),
        destination=n.given(whole),
        indices=tuple(n.param(scalar(index)) for _ in range(indices)),
    )


def _pack(before: TileType, after: TileType) -> _Build:
    return lambda n: s.Pack(source=n.given(before), to=after)


def _unpack(before: TileType, after: TileType) -> _Build:
    return lambda n: s.Unpack(source=n.given(before), to=after)


def _alloca(**parts: Any) -> _Build:
    return lambda _: a.Alloca(**{"num_elem": 4, "alignment": 4, "to": _POINTER} | parts)


def _print(text: str, count: int) -> _Build:
    return lambda n: c.Print(str=text, args=tuple(n.index() for _ in range(count)))


def _strided(**parts: Any) -> _Build:
    """A strided view with some of its type changed."""

    def build(n: Entry) -> Op:
        tensor = n.tensor(E.I32, 2)
        assert isinstance(tensor.type, TensorViewType)
        type_ = StridedViewType((16, 32), (4, 8), tensor.type, (0, 1))
        return v.MakeStridedView(tensor_view=tensor, to=replace(type_, **parts))

    return build


def _gather(**parts: Any) -> _Build:
    """A gather-scatter view with some of its type changed."""

    def build(n: Entry) -> Op:
        tensor = n.tensor(E.I32, 2)
        assert isinstance(tensor.type, TensorViewType)
        type_ = GatherScatterViewType((16, 32), tensor.type, 0)
        return v.MakeGatherScatterView(tensor_view=tensor, to=replace(type_, **parts))

    return build


def _gathered_load(*kinds: TileType) -> _Build:
    """A load of 16 rows of 32, with indices of these types."""
    return lambda n: m.LoadView(view=gathered(n, 0), index=tuple(_given(n, kind) for kind in kinds))


def _given(n: Entry, kind: TileType) -> Value:
    return n.given(kind) if kind.rank else n.param(kind)


def _padded_strided_inbounds(n: Entry) -> Op:
    view = strided(n, padding=Padding.ZERO)
    return m.LoadView(view=view, index=(n.index(), n.index()), inbounds=(True, False))


def _red(
    element: E = E.I32, mode: AtomicMode = AtomicMode.ADD, held: TileType | None = None,
    **parts: Any,
) -> _Build:  # fmt: skip
    return lambda n: v.AtomicRedView(
        **{"view": n.view(element, 8), "index": (n.index(),)}
        | {"value": n.given(held or tile(element, 8)), "mode": mode}
        | {name: part(n) if callable(part) else part for name, part in parts.items()}
    )


def _scaled(operand: E, scale: E, group: int, **changed: tuple[int, ...]) -> _Build:
    """32 x 64 times 64 x 32, with some shapes changed."""
    shapes: dict[str, tuple[E, tuple[int, ...]]] = {
        "lhs": (operand, (32, 64)),
        "rhs": (operand, (64, 32)),
        "acc": (E.F32, (32, 32)),
        "lhs_scale": (scale, (32, 64 // group)),
        "rhs_scale": (scale, (64 // group, 32)),
    }
    return lambda n: r.MmaFScaled(
        **{
            name: n.given(TileType(element, changed.get(name, shape)))
            for name, (element, shape) in shapes.items()
        }
    )


def _assume(kind: TileType, promise: Promise) -> _Build:
    return lambda n: c.Assume(value=_given(n, kind), predicate=promise)


def _marked_base(on_pointer: bool) -> _Build:
    said, unsaid = PtrAttribute.NONE, None
    pointer = PtrType(E.F32, said if on_pointer else unsaid)
    to = TensorViewType(E.F32, (4,), (1,), unsaid if on_pointer else said)
    return lambda n: m.MakeTensorView(base=n.param(scalar(pointer)), to=to)


_TILE = tile(E.I32, 4, 8)

REFUSED_ADDITIONS: tuple[Refused, ...] = (
    # shapes and bits
    Refused("inserted rank", "`source` and `destination` must have one rank",
            _insert(tile(E.F32, 4), tile(E.F32, 4, 8))),
    Refused("inserted element", "`source` and `destination` must have one element",
            _insert(tile(E.F16, 2, 8), tile(E.F32, 4, 8))),
    Refused("inserted part too large", "tile<8x8xf32> does not divide tile<4x8xf32>",
            _insert(tile(E.F32, 8, 8), tile(E.F32, 4, 8))),
    Refused("insertion without index", "2 indices are needed, but there are 1",
            _insert(tile(E.F32, 2, 8), tile(E.F32, 4, 8), indices=1)),
    Refused("insertion at i64", "`indices` must be a scalar of i32",
            _insert(tile(E.F32, 2, 8), tile(E.F32, 4, 8), index=E.I64)),
    Refused("packed bytes", "elements of 8 bits need no packing",
            _pack(tile(E.I8, 4), tile(E.I8, 4))),
    Refused("packed matrix", "both tiles must have one axis",
            _pack(tile(E.I4, 2, 4), tile(E.I8, 2, 2))),
    Refused("packed half a byte", "tile<1xi4> and tile<1xi8> do not have the same",
            _pack(tile(E.I4, 1), tile(E.I8, 1))),
    Refused("packed into words", "`result` must be a tile of i8",
            _pack(tile(E.I4, 8), tile(E.I32, 1))),
    Refused("unpacked too many", "tile<4xi8> and tile<16xi4> do not have the same",
            _unpack(tile(E.I8, 4), tile(E.I4, 16))),
    Refused("unpacked pointers", "`result` must be a tile of i1",
            _unpack(tile(E.I8, 64), TileType(PtrType(E.F32), (8,)))),
    Refused("power of i64", "`exponent` must be a tile of i1",
            lambda n: e.FPowI(source=n.given(tile(E.F32, 8)), exponent=n.given(tile(E.I64, 8)))),
    Refused("shape of a power", "`source` and `exponent` must have one shape",
            lambda n: e.FPowI(source=n.given(tile(E.F32, 8)), exponent=n.given(tile(E.I32, 4)))),
    # addresses
    Refused("pointer of i32", "`source` must be a tile of i64",
            lambda n: a.IntToPtr(source=n.given(tile(E.I32, 8)),
                                 to=TileType(PtrType(E.F32), (8,)))),
    Refused("address of i32", "`result` must be a tile of i64",
            lambda n: a.PtrToInt(source=n.pointers(E.F32, (8,)), to=tile(E.I32, 8))),
    Refused("pointers of another shape", "`source` and `result` must have one shape",
            lambda n: a.PtrToPtr(source=n.pointers(E.F32, (8,)),
                                 to=TileType(PtrType(E.F32), (4,)))),
    Refused("alignment 3", "`alignment` must be a power of two, at least 4 for f32, but is 3",
            _alloca(alignment=3)),
    Refused("alignment 2", "`alignment` must be a power of two, at least 4 for f32, but is 2",
            _alloca(alignment=2)),
    Refused("memory for a tile", "`result` must be a scalar of pointers",
            _alloca(to=TileType(PtrType(E.F32), (4,)))),
    Refused("unknown global", "the module has no global nowhere",
            lambda _: a.GetGlobal(name="nowhere", to=_POINTER)),
    Refused("marked pointer", "`base` is tile<ptr<f32, <none>>>, but the view is",
            _marked_base(on_pointer=True)),
    Refused("marked view", "`base` is tile<ptr<f32>>, but the view is tensor_view<4xf32",
            _marked_base(on_pointer=False)),
    # order
    Refused("waiting for a number", "`token` must be a token",
            lambda n: d.GdcWait(token=n.index())),
    Refused("fence of a number", "`token` must be a token",
            lambda n: d.MemoryFenceAlias(token=n.index())),
    # print
    Refused("nothing to print", "'%d' has a place for 1, but 0 are printed", _print("%d", 0)),
    Refused("nowhere to print", "'100%%' has a place for 0, but 1 are printed",
            _print("100%%", 1)),
    Refused("open percent", "'100%' holds a `%` that nothing ends", _print("100%", 0)),
    Refused("percent in percent", "'% 5%' holds a `%` that nothing ends", _print("% 5%", 0)),
    Refused("printed token", "`args` must be a tile",
            lambda n: c.Print(str="%d", args=(n.add(m.MakeToken()).result,))),
    # views
    Refused("step of zero", "steps are above zero", _strided(traversal_strides=(0, 8))),
    Refused("one step for two axes", "strided_view<", _strided(traversal_strides=(8,))),
    Refused("strided dim_map", "`dim_map` of strided_view<", _strided(dim_map=(0, 0))),
    Refused("strided nan in integers", "only zero can pad integers", _strided(padding=Padding.NAN)),
    Refused("strided tile of three", "every extent of a tile", _strided(tile=(3, 32))),
    Refused("gathered axis", "gather_scatter_view<", _gather(sparse_dim=2)),
    Refused("gathered rank", "the tile of gather_scatter_view<", _gather(tile=(16,))),
    Refused("strided view of another tensor", "a view of tensor_view<?xi32, strides=[1]> cannot",
            _strided(view=TensorViewType(E.I32, (None,), (1,)), tile=(8,), dim_map=(0,),
                     traversal_strides=(8,))),
    Refused("strided as partition", "the result cannot be strided_view<",
            lambda n: m.MakePartitionView(tensor_view=n.tensor(E.F32, 2),
                                          to=strided(n).type)),  # type: ignore[arg-type]
    Refused("shape of a tensor", "`src` must be a view of tiles",
            lambda n: _unchecked_shape(n.tensor(E.F32, 2))),
    Refused("extents of f32", "`extents` must be a scalar of i1",
            lambda n: m.GetIndexSpaceShape(src=strided(n), to=scalar(E.F32))),
    Refused("one row", "16 numbers pick the gathered rows, but they are tile<i32>",
            _gathered_load(I32, I32)),
    Refused("too few rows", "16 numbers pick the gathered rows, but they are tile<8xi32>",
            _gathered_load(tile(E.I32, 8), I32)),
    Refused("rows of floats", "16 numbers pick the gathered rows, but they are tile<16xf32>",
            _gathered_load(tile(E.F32, 16), I32)),
    Refused("many columns", "`index` must be a scalar of i1", _gathered_load(tile(E.I32, 16),
                                                                          tile(E.I32, 1))),
    Refused("gather without column", "2 indices are needed", _gathered_load(tile(E.I32, 16))),
    Refused("strided index of two types", "`index` must have one type",
            lambda n: m.LoadView(view=strided(n), index=(n.index(), n.param(scalar(E.I64))))),
    Refused("strided inbounds and padding", "`inbounds` does not go with a padded view",
            _padded_strided_inbounds, ours_only=True),
    # sums into views
    Refused("exchange into a view", "an exchange gives a value", _red(mode=AtomicMode.XCHG)),
    Refused("sum of i8 into a view", "`add` cannot be done atomically on i8", _red(E.I8)),
    Refused("acquiring sum", "`memory_ordering` must be one of relaxed, but",
            _red(memory_ordering=MemoryOrder.ACQUIRE)),
    Refused("sum for the system", "`memory_scope` must be one of tl_blk, device, but",
            _red(memory_scope=MemoryScope.SYS)),
    Refused("sum into padding", "nothing can be summed into a padded view",
            _red(view=lambda n: n.view(E.I32, 8, padding=Padding.ZERO))),
    Refused("sum into gathered rows", "nothing can be summed into a gather-scatter view",
            _red(E.F32, AtomicMode.ADDF, tile(E.F32, 16, 32), view=lambda n: gathered(n, 0),
                 index=lambda n: (n.given(tile(E.I32, 16)), n.index()))),
    Refused("sum of another shape", "`value` must be tile<8xi32>, but is tile<4xi32>",
            _red(held=tile(E.I32, 4))),
    Refused("sum without index", "1 indices are needed", _red(index=())),
    # scaled products
    Refused("scale of f8 for f8", "f8E4M3FN cannot scale f8E5M2",
            _scaled(E.F8E5M2, E.F8E4M3FN, 32)),
    Refused("groups of 16 in f8", "32 elements of", _scaled(E.F8E4M3FN, E.F8E8M0FNU, 16)),
    Refused("groups of 32 by f8", "16 elements of", _scaled(E.F4E2M1FN, E.F8E4M3FN, 32)),
    Refused("scaled halves", "f8E8M0FNU cannot scale f16", _scaled(E.F16, E.F8E8M0FNU, 32)),
    Refused("groups of two sizes", "16 or 32 elements of",
            _scaled(E.F4E2M1FN, E.F8E8M0FNU, 32, rhs_scale=(4, 32))),
    Refused("rows without scale", "32 elements of",
            _scaled(E.F8E4M3FN, E.F8E8M0FNU, 32, lhs_scale=(16, 2))),
    Refused("scaled sum", "tile<32x64xf8E4M3FN> times",
            _scaled(E.F8E4M3FN, E.F8E8M0FNU, 32, acc=(16, 32))),
    # promises
    Refused("groups along nothing", "`every` and `along` come together",
            _assume(_TILE, DivBy(4, every=2))),
    Refused("groups beyond the rank", "tile<4x8xi32> has no axis 2",
            _assume(_TILE, DivBy(4, 2, 2))),
    Refused("groups too large", "tile<4x8xi32> has no groups of 5 elements",
            _assume(_TILE, DivBy(4, 5, 0))),
    Refused("groups of a scalar", "tile<i32> has no axis 0", _assume(I32, DivBy(4, 1, 0))),
    Refused("equal floats", "equal elements are promised for integers",
            _assume(tile(E.F32, 8), SameElements((2,)))),
    Refused("equal along one axis of two", "2 sizes of groups are needed",
            _assume(_TILE, SameElements((2,)))),
    Refused("equal beyond the tile", "tile<4x8xi32> has no groups of (8, 8)",
            _assume(_TILE, SameElements((8, 8)))),
    Refused("bounds of a truth value", "the bounds 0 and 1 do not fit i1",
            _assume(tile(E.I1, 8), Bounded(0, 1))),
)  # fmt: skip


def _unchecked_shape(tensor: Value) -> Op:
    """The extents of what is no view of tiles, which the type rule would not let be built."""
    return m.GetIndexSpaceShape.restored({"src": tensor}, (I32, I32))
