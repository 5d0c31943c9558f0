"""Loads, stores and atomics through pointers.

The memory orders of each access and the dtypes of each atomic are tables here; the verifier of the
IR has the same rules.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import NoReturn, TypeVar

from tilewright.check.errors.syntax import BadCall
from tilewright.check.errors.types import NotBroadcastable, UnsupportedByTarget, WrongOperand
from tilewright.check.errors.unsafety import BadMemoryOrder
from tilewright.dtypes import DType, bool_
from tilewright.frontend.calling.arguments import Arguments
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.memory.atomic_modes import atomic_mode, first_target_needed
from tilewright.frontend.memory.unsafe import require_unsafe
from tilewright.frontend.operands.operands import Operand, PointerOperand, Static, TileOperand
from tilewright.frontend.operands.tiles import as_tile, broadcast_shape, broadcast_to
from tilewright.ir.attributes import AtomicMode, MemoryOrder, MemoryScope
from tilewright.ir.op import Value
from tilewright.ir.ops.memory import AtomicCas, AtomicRmw, LoadPtr, StorePtr

__all__ = ["AccessKind", "atomic", "lower_cas", "lower_load", "lower_store"]

_WHY = "the pointers may lie outside every tensor, or where another block writes"


# --- how an access is ordered ---------------------------------------------------------------------

_ORDERS: dict[str, MemoryOrder] = {
    "weak": MemoryOrder.WEAK,
    "relaxed": MemoryOrder.RELAXED,
    "acquire": MemoryOrder.ACQUIRE,
    "release": MemoryOrder.RELEASE,
    "acquire_release": MemoryOrder.ACQ_REL,
}
_SCOPES: dict[str, MemoryScope] = {
    "block": MemoryScope.TL_BLK,
    "device": MemoryScope.DEVICE,
    "system": MemoryScope.SYS,
}


class AccessKind(Enum):
    """A kind of access, with the memory orders it can have and why it has no others."""

    LOAD = (("weak", "relaxed", "acquire"), "a load has nothing to release")
    STORE = (("weak", "relaxed", "release"), "a store has nothing to acquire")
    ATOMIC = (
        ("relaxed", "acquire", "release", "acquire_release"),
        "an atomic access is never weak: that would be a plain load and a plain store",
    )

    def __init__(self, orders: tuple[str, ...], why: str) -> None:
        self.orders = orders
        self.why = why


Chosen = TypeVar("Chosen", MemoryOrder, MemoryScope)


def _word(lo: Lowering, call: Arguments, callee: str, name: str, words: dict[str, Chosen]) -> str:
    operand = call.operand(name)
    word = operand.value if isinstance(operand, Static) else None
    if not isinstance(word, str) or word not in words:
        reason = f"`{name}` is one of {_listed(words)}; this is {operand}"
        lo.reject(BadCall, call.where(name), callee, reason)
    return word


def _listed(words: object) -> str:
    assert isinstance(words, (dict, tuple))
    return ", ".join(f'"{word}"' for word in words)


def _order(
    lo: Lowering, call: Arguments, callee: str, kind: AccessKind
) -> tuple[MemoryOrder, MemoryScope | None]:
    order = _word(lo, call, callee, "ordering", _ORDERS)
    scope = _word(lo, call, callee, "scope", _SCOPES)
    if order not in kind.orders:
        way_out = f"`ordering` is one of {_listed(kind.orders)}"
        reason = f'it cannot be "{order}": {kind.why}'
        lo.reject(BadMemoryOrder, call.where("ordering"), callee, reason, way_out)
    if order != "weak":
        return _ORDERS[order], _SCOPES[scope]
    if call.given("scope"):
        reason = "a weak access has no scope: no other block may look at the same time"
        way_out = 'say how it is ordered: `ordering="relaxed"`'
        lo.reject(BadMemoryOrder, call.where("scope"), callee, reason, way_out)
    return MemoryOrder.WEAK, None


# --- operands -------------------------------------------------------------------------------------


def _pointers(lo: Lowering, call: Arguments, callee: str) -> PointerOperand:
    require_unsafe(lo, call.node, f"`{callee}`", _WHY)
    operand = call.operand("pointers")
    if not isinstance(operand, PointerOperand):
        way_out = "tensors are read and written through `.partition(…)`, `.store(…)` and the like"
        reason = f"it takes pointers; this is {operand}"
        lo.reject(BadCall, call.where("pointers"), callee, reason, way_out)
    return operand


def _values(
    lo: Lowering, call: Arguments, callee: str, name: str, pointers: PointerOperand
) -> TileOperand:
    """The written values, in the dtype and shape of the pointed-to elements."""
    where, operand = call.where(name), call.operand(name)
    tile = as_tile(lo, where, operand, pointers.dtype)
    if tile.dtype is not pointers.dtype:
        wanted = pointers.dtype.label
        reason = f"the pointers point to {wanted}; this is {tile}"
        lo.reject(WrongOperand, where, f"`{callee}`", reason, f"convert it: `.astype({wanted})`")
    return _in_shape(lo, call, callee, name, tile, pointers.shape)


def _in_shape(
    lo: Lowering,
    call: Arguments,
    callee: str,
    name: str,
    tile: TileOperand,
    shape: tuple[int, ...],
) -> TileOperand:
    if broadcast_shape(tile.shape, shape) != shape:
        lo.reject(NotBroadcastable, call.where(name), callee, tile.shape, shape)
    return broadcast_to(lo, tile, shape)


def _mask(lo: Lowering, call: Arguments, callee: str, shape: tuple[int, ...]) -> Value | None:
    operand = call.operand("mask")
    if isinstance(operand, Static) and operand.value in (None, True):
        return None
    tile = as_tile(lo, call.where("mask"), operand)
    if tile.dtype is not bool_:
        reason = f"a mask holds truth values; this is {tile}"
        lo.reject(WrongOperand, call.where("mask"), f"`{callee}`", reason, "compare: `i < n`")
    return _in_shape(lo, call, callee, "mask", tile, shape).value


# --- loads and stores -----------------------------------------------------------------------------


def lower_load(lo: Lowering, call: Arguments) -> Operand:
    """`tw.load(pointers, mask=, padding=, ordering=, scope=)`."""
    pointers = _pointers(lo, call, "tw.load")
    order, scope = _order(lo, call, "tw.load", AccessKind.LOAD)
    mask = _mask(lo, call, "tw.load", pointers.shape)
    # Without padding, a masked-out element would be undefined.
    padding = _values(lo, call, "tw.load", "padding", pointers).value
    op = LoadPtr(
        source=pointers.value, mask=mask, padding_value=None if mask is None else padding,
        memory_ordering=order, memory_scope=scope,
    )  # fmt: skip
    result = lo.builder.add(op).result
    result.dtype = pointers.dtype
    return TileOperand(result, pointers.dtype)


def lower_store(lo: Lowering, call: Arguments) -> Operand:
    """`tw.store(pointers, values, mask=, ordering=, scope=)`."""
    pointers = _pointers(lo, call, "tw.store")
    order, scope = _order(lo, call, "tw.store", AccessKind.STORE)
    op = StorePtr(
        destination=pointers.value,
        value=_values(lo, call, "tw.store", "values", pointers).value,
        mask=_mask(lo, call, "tw.store", pointers.shape),
        memory_ordering=order,
        memory_scope=scope,
    )
    lo.builder.add(op)
    return Static(None)


# --- atomics --------------------------------------------------------------------------------------


def _is_wide(dtype: type[DType]) -> bool:
    return dtype.element.bits in (32, 64)


def _mode(lo: Lowering, call: Arguments, mode: AtomicMode, dtype: type[DType]) -> AtomicMode:
    """The mode of the op for this dtype; other dtypes are refused."""
    exact = atomic_mode(mode, dtype)
    if exact is None:
        _refuse_dtype(lo, call, f"tw.atomic_{mode.name.lower()}", dtype)
    if (first := first_target_needed(lo, exact, dtype)) is not None:
        what = f"the atomic sum of {dtype.label}"
        lo.reject(UnsupportedByTarget, call.node, what, lo.specialization.target, first)
    return exact


def _refuse_dtype(lo: Lowering, call: Arguments, callee: str, dtype: type[DType]) -> NoReturn:
    way_out = (
        "floats can be added (`tw.atomic_add`) and exchanged (`tw.atomic_xchg`); anything else "
        "is a loop around `tw.atomic_cas`"
        if dtype.element.is_float and _is_wide(dtype)
        else "use a dtype of 32 or 64 bits"
    )
    reason = f"it cannot be done at once on {dtype.label}"
    lo.reject(WrongOperand, call.where("pointers"), f"`{callee}`", reason, way_out)


def atomic(mode: AtomicMode) -> Callable[[Lowering, Arguments], Operand]:
    """`tw.atomic_add` and the like."""
    callee = f"tw.atomic_{mode.name.lower()}"

    def lower(lo: Lowering, call: Arguments) -> Operand:
        pointers = _pointers(lo, call, callee)
        order, scope = _order(lo, call, callee, AccessKind.ATOMIC)
        assert scope is not None, "only a weak access has none"
        op = AtomicRmw(
            pointers=pointers.value,
            arg=_values(lo, call, callee, "values", pointers).value,
            mask=_mask(lo, call, callee, pointers.shape),
            memory_ordering=order,
            memory_scope=scope,
            mode=_mode(lo, call, mode, pointers.dtype),
        )
        return _before(lo, op, pointers.dtype)

    return lower


def lower_cas(lo: Lowering, call: Arguments) -> Operand:
    """`tw.atomic_cas(pointers, expected, desired)`."""
    callee = "tw.atomic_cas"
    pointers = _pointers(lo, call, callee)
    order, scope = _order(lo, call, callee, AccessKind.ATOMIC)
    assert scope is not None, "only a weak access has none"
    if not _is_wide(pointers.dtype):
        _refuse_dtype(lo, call, callee, pointers.dtype)
    op = AtomicCas(
        pointers=pointers.value,
        cmp=_values(lo, call, callee, "expected", pointers).value,
        val=_values(lo, call, callee, "desired", pointers).value,
        mask=_mask(lo, call, callee, pointers.shape),
        memory_ordering=order,
        memory_scope=scope,
    )
    return _before(lo, op, pointers.dtype)


def _before(lo: Lowering, op: AtomicRmw | AtomicCas, dtype: type[DType]) -> Operand:
    result = lo.builder.add(op).result
    result.dtype = dtype
    return TileOperand(result, dtype)
