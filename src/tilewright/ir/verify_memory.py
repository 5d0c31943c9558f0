"""What the ops on memory and the matrix products ask of their operands: one row a class."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tilewright.dtypes import Element
from tilewright.ir.attributes import AtomicMode, MemoryOrder
from tilewright.ir.op import Op, Value
from tilewright.ir.ops import memory, reduction
from tilewright.ir.types import (
    TOKEN,
    PartitionViewType,
    TensorViewType,
    TileType,
)
from tilewright.ir.verify_rules import (
    INTEGERS,
    NUMBERS,
    Rule,
    TileClass,
    alike,
    allowed,
    bit_width,
    same_element,
    same_rank,
    same_shape,
    tiles,
    values_of,
    when,
)

__all__ = ["MATRIX_RULES", "MEMORY_RULES", "TARGET_RULES"]

_POINTERS = TileClass(pointers=True)
_POINTER = TileClass(pointers=True, rank=0)
_TRUTH = TileClass(frozenset({Element.I1}))
_INT = TileClass(INTEGERS)
_SCALAR_INT = TileClass(INTEGERS, rank=0)
_NUMBER = TileClass(NUMBERS)
_M = MemoryOrder
_WIDE = (32, 64)
_BF16_SUMS = 89  # the first target with atomic sums of bf16


def _tokens(*names: str) -> Rule:
    def check(op: Op) -> Iterator[str]:
        for name in names:
            for value in values_of(op, name):
                if value.type != TOKEN:
                    yield f"`{name}` must be a token, but is {value.type}"

    return check


def _pointee(pointers: Value) -> object:
    held = pointers.type
    return held.element.pointee if _POINTERS.holds(held) else None  # type: ignore[union-attr]


def _points_to(pointers: str, values: str) -> Rule:
    """The pointers point to what the values hold."""

    def check(op: Op) -> Iterator[str]:
        (where,) = values_of(op, pointers)
        for value in values_of(op, values):
            if isinstance(value.type, TileType) and _pointee(where) != value.type.element:
                yield f"`{pointers}` points to {_pointee(where)}, but `{values}` is {value.type}"

    return check


def _scoped(*orders: MemoryOrder) -> tuple[Rule, ...]:
    """Loads and stores: which orders there are, and a scope if and only if it is not weak."""
    return (
        allowed("memory_ordering", *orders),
        when(
            lambda op: (op.memory_ordering is _M.WEAK) != (op.memory_scope is None),
            "a weak access has no `memory_scope`, every other one needs it",
        ),
    )


_ATOMIC = allowed("memory_ordering", _M.RELAXED, _M.ACQUIRE, _M.RELEASE, _M.ACQ_REL)
_LOAD = _scoped(_M.WEAK, _M.RELAXED, _M.ACQUIRE)
_STORE = _scoped(_M.WEAK, _M.RELAXED, _M.RELEASE)


def _hints(op: memory.LoadView) -> Iterator[str]:
    """A hint out of range would be dropped without a word."""
    for latency in op.hints.named("latency") if op.hints is not None else ():
        if latency not in range(1, 11):
            yield f"a latency hint is 1 to 10, but this is {latency}"


def _view_access(op: memory.LoadView | memory.StoreView) -> Iterator[str]:
    view = op.view.type
    if not isinstance(view, PartitionViewType):
        yield f"`view` must be a partition view, but is {view}"
        return
    if len(op.index) != len(view.tile):
        yield f"{len(view.tile)} indices are needed, but there are {len(op.index)}"
    if op.tile.type != view.tile_type:
        yield f"`tile` must be {view.tile_type}, but is {op.tile.type}"
    if op.inbounds and len(op.inbounds) != len(op.index):
        yield f"`inbounds` must say something of each of {len(op.index)} indices"
    if any(op.inbounds) and view.padding is not None:
        yield "`inbounds` does not go with a padded view: tileiras fails on it"


def _view_type(op: memory.MakePartitionView) -> Iterator[str]:
    if op.tensor_view.type != op.to.view:
        yield f"a view of {op.to.view} cannot be made from {op.tensor_view.type}"


def _tensor_view(op: memory.MakeTensorView) -> Iterator[str]:
    groups = (
        ("extents", op.to.shape, op.dynamic_shape),
        ("strides", op.to.strides, op.dynamic_strides),
    )
    for what, static, dynamic in groups:
        wanted = sum(extent is None for extent in static)
        if wanted != len(dynamic):
            yield f"{wanted} dynamic {what} are needed, but there are {len(dynamic)}"
    if _pointee(op.base) != op.to.element:
        yield f"`base` points to {_pointee(op.base)}, but the view holds {op.to.element}"


def _atomic_element(op: memory.AtomicRmw) -> Iterator[str]:
    kind = op.arg.type
    element = kind.element if isinstance(kind, TileType) else None
    good = isinstance(element, Element) and _ATOMIC_ELEMENTS[op.mode](element)
    if not good:
        yield f"`{op.mode.name.lower()}` cannot be done atomically on {element}"


def _wide_integer(element: Element) -> bool:
    return element in (Element.I32, Element.I64)


def _wide_number(element: Element) -> bool:
    return bit_width(element) in _WIDE


_SUMMABLE = (Element.F16, Element.BF16, Element.F32, Element.F64)
_ATOMIC_ELEMENTS = dict.fromkeys(AtomicMode, _wide_integer) | {
    AtomicMode.ADDF: _SUMMABLE.__contains__,
    AtomicMode.XCHG: _wide_number,
}


def _swappable(op: memory.AtomicCas) -> Iterator[str]:
    kind = op.val.type
    element = kind.element if isinstance(kind, TileType) else None
    if not isinstance(element, Element) or not _wide_number(element):
        yield f"only numbers of 32 or 64 bits can be compared and swapped, not {element}"


def _atomic_target(op: memory.AtomicRmw, target: int) -> Iterator[str]:
    kind = op.arg.type
    assert isinstance(kind, TileType)
    if op.mode is AtomicMode.ADDF and kind.element is Element.BF16 and target < _BF16_SUMS:
        yield f"sm_{target} has no atomic sum of bf16; the first that has it is sm_{_BF16_SUMS}"


# What a target lacks beside elements, by op class.
TARGET_RULES: dict[type[Op], Callable[[Any, int], Iterator[str]]] = {
    memory.AtomicRmw: _atomic_target,
}

# By op class.
MEMORY_RULES: dict[type[Op], tuple[Rule, ...]] = {
    memory.MakeToken: (),
    memory.JoinTokens: (
        _tokens("tokens"),
        when(lambda op: len(op.tokens) < 2, "two or more tokens are needed"),
    ),
    memory.MakeTensorView: (
        tiles(_POINTER, "base"),
        tiles(_SCALAR_INT, "dynamic_shape", "dynamic_strides"),
        alike("dynamic_shape", "dynamic_strides"),
        _tensor_view,
    ),
    memory.MakePartitionView: (_view_type,),
    memory.GetIndexSpaceShape: (
        when(
            lambda op: not isinstance(op.src.type, PartitionViewType),
            "`src` must be a partition view",
        ),
    ),
    memory.GetTensorShape: (
        when(lambda op: not isinstance(op.src.type, TensorViewType), "`src` must be a tensor view"),
        when(lambda op: not op.extents, "a tensor view of rank 0 has no extents to ask for"),
    ),
    memory.LoadView: (
        tiles(_SCALAR_INT, "index"), alike("index"), _tokens("token"), _view_access, *_LOAD,
        _hints,
    ),
    memory.StoreView: (
        tiles(_SCALAR_INT, "index"), alike("index"), _tokens("token"), _view_access, *_STORE,
        _hints,
    ),
    memory.Offset: (tiles(_POINTERS, "ptr"), tiles(_INT, "offset"), same_shape("ptr", "offset")),
    memory.LoadPtr: (
        tiles(_POINTERS, "source"), tiles(_TRUTH, "mask"), same_shape("source", "mask"),
        alike("padding_value", "result"), _tokens("token"), *_LOAD, _hints,
    ),
    memory.StorePtr: (
        tiles(_POINTERS, "destination"), tiles(_TRUTH, "mask"),
        same_shape("destination", "value", "mask"), _points_to("destination", "value"),
        _tokens("token"), *_STORE, _hints,
    ),
    memory.AtomicRmw: (
        tiles(_POINTERS, "pointers"), tiles(_TRUTH, "mask"),
        same_shape("pointers", "arg", "mask"), _points_to("pointers", "arg"), _tokens("token"),
        _atomic_element, _ATOMIC,
    ),
    memory.AtomicCas: (
        tiles(_POINTERS, "pointers"), tiles(_TRUTH, "mask"), alike("cmp", "val"),
        same_shape("pointers", "val", "mask"), _points_to("pointers", "val"), _tokens("token"),
        _swappable, _ATOMIC,
    ),
}  # fmt: skip

_E = Element
_PRODUCTS: dict[Element, tuple[Element, ...]] = {
    _E.F8E4M3FN: (_E.F16, _E.F32),
    _E.F8E5M2: (_E.F16, _E.F32),
    _E.F16: (_E.F16, _E.F32),
    _E.BF16: (_E.F32,),
    _E.TF32: (_E.F32,),
    _E.F32: (_E.F32,),
    _E.F64: (_E.F64,),
}


def _float_product(op: reduction.MmaF) -> Iterator[str]:
    lhs, acc = op.lhs.type, op.acc.type
    assert isinstance(lhs, TileType)
    assert isinstance(acc, TileType)
    sums = _PRODUCTS.get(lhs.element, ()) if isinstance(lhs.element, Element) else ()
    if acc.element not in sums:
        options = " or ".join(element.spelling for element in sums) or "nothing"
        yield f"products of {lhs.element} are summed in {options}, not in {acc.element}"


def _product_shapes(op: reduction.MmaF | reduction.MmaI) -> Iterator[str]:
    shapes = [value.type.shape for value in (op.lhs, op.rhs, op.acc)]  # type: ignore[union-attr]
    lhs, rhs, acc = shapes
    if len({len(shape) for shape in shapes}) != 1 or len(lhs) not in (2, 3):
        yield "the operands must all have rank 2, or all rank 3"
        return
    batch = [shape[:-2] for shape in shapes]
    wanted = (lhs[-2], rhs[-1])
    if len(set(batch)) > 1 or lhs[-1] != rhs[-2] or acc[-2:] != wanted:
        yield f"{op.lhs.type} times {op.rhs.type} does not give {op.acc.type}"


# By op class.
MATRIX_RULES: dict[type[Op], tuple[Rule, ...]] = {
    reduction.MmaF: (
        tiles(_NUMBER, "lhs", "rhs", "acc"),
        same_rank("lhs", "rhs", "acc"),
        same_element("lhs", "rhs"),
        _float_product,
        _product_shapes,
    ),
    reduction.MmaI: (
        tiles(TileClass(frozenset({Element.I8})), "lhs", "rhs"),
        tiles(TileClass(frozenset({Element.I32})), "acc"),
        _product_shapes,
    ),
}
