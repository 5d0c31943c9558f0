"""`tw.sort`, `tw.argsort` and `tw.top_k`: a bitonic network along one axis of a tile.

Tile IR has no op that moves elements by a value. So a step of the network reshapes the tile to
pairs at a fixed distance, exchanges those that are out of order, and joins the halves again:
`log(n) (log(n) + 1) / 2` steps for `n` elements, each a few ops on the whole tile.

The network compares integer keys in the order of the elements: NaN last, zeros of both signs equal.
The low bits of a key are the index of its element, which keeps equal elements in order, and the
sign of a zero, so that the element can be restored. If both fit, the keys are one tile; 64-bit
elements take two.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.check.errors.types import WrongOperand
from tilewright.dtypes import (
    INTEGERS_OF_WIDTH,
    DType,
    bf16,
    bool_,
    f4e2m1fn,
    f8e4m3fn,
    f8e5m2,
    f8e8m0fnu,
    f16,
    f32,
    f64,
    i4,
    i8,
    i32,
    tf32,
    u8,
)
from tilewright.frontend.builtins.axes import axis_argument, flag_argument, flattened
from tilewright.frontend.calling.arguments import Arguments
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.operands.operands import Operand, TileOperand, TupleOperand
from tilewright.frontend.operands.tile_formulas import TileFormula
from tilewright.frontend.operands.tiles import as_tile, is_power_of_two, static_int
from tilewright.ir.ops.internal import Sorted
from tilewright.ir.ops.shape import Cat

__all__ = ["lower_argsort", "lower_sort", "lower_top_k"]

# Dtypes without bits of their own, and one that holds their numbers exactly.
_WIDER: dict[type[DType], type[DType]] = {bool_: i8, i4: i8, f4e2m1fn: f16, tf32: f32}
# The bits of infinity, or of the largest number without one: greater ones are NaN.
_LARGEST = {
    f8e4m3fn: 0x7E,
    f8e5m2: 0x7C,
    f16: 0x7C00,
    bf16: 0x7F80,
    f32: 0x7F80_0000,
    f64: 0x7FF << 52,
}
_MOST = 1 << 11  # elements along the axis: 66 steps


def lower_sort(lo: Lowering, call: Arguments) -> Operand:
    """`tw.sort(x, axis, descending=…)`."""
    line = _Line.of(lo, call, "tw.sort")
    return line.elements(line.sorted_keys(has_places=False), line.extent)


def lower_argsort(lo: Lowering, call: Arguments) -> Operand:
    """`tw.argsort(x, axis, descending=…)`."""
    line = _Line.of(lo, call, "tw.argsort")
    return line.places(line.sorted_keys(has_places=True), line.extent)


def lower_top_k(lo: Lowering, call: Arguments) -> Operand:
    """`tw.top_k(x, k, axis)`: the first elements in descending order."""
    line = _Line.of(lo, call, "tw.top_k")
    k = static_int(lo, call.where("k"), call.operand("k"), "the number of elements of tw.top_k")
    if not is_power_of_two(k) or k > line.extent:
        reason = f"it takes a power of two, at most the {line.extent} that there are; this is {k}"
        way_out = "take more, and let `tw.where` leave out those that are too many"
        lo.reject(WrongOperand, call.where("k"), "tw.top_k", reason, way_out)
    keys = [_first(key, k) for key in line.sorted_keys(has_places=True)]
    return TupleOperand((line.elements(keys, k), line.places(keys, k)))


@dataclass(frozen=True)
class _Line:
    """A tile as [before, extent, behind], sorted along the middle axis."""

    tile: TileFormula  # in the dtype of the comparison
    dtype: type[DType]  # of the elements
    shape: tuple[int, ...]
    axis: int
    is_descending: bool

    @staticmethod
    def of(lo: Lowering, call: Arguments, name: str) -> _Line:
        """The line that a call sorts."""
        tile = as_tile(lo, call.where("x"), call.operand("x"))
        if not tile.shape:
            lo.reject(WrongOperand, call.where("x"), name, f"it needs a tile; this is {tile}")
        axis = axis_argument(lo, call, tile)
        if axis is None:
            tile, axis = flattened(lo, tile), 0
        if tile.shape[axis] > _MOST:
            reason = f"it takes up to {_MOST} elements along the axis; this is {tile}"
            way_out = "sort parts of it, and merge the results"
            lo.reject(WrongOperand, call.where("x"), name, reason, way_out)
        is_descending = name == "tw.top_k" or flag_argument(lo, call, "descending")
        noted = Sorted(source=tile.value, dim=axis, is_descending=is_descending, dtype=tile.dtype)
        tile = TileOperand(lo.builder.add(noted).result, tile.dtype)
        wide = TileFormula(lo, call.node, tile)
        if tile.dtype is f8e8m0fnu:
            wide = wide.bits_as(u8)  # powers of two by their exponents, NaN last
        wide = wide.astype(_WIDER.get(wide.dtype, wide.dtype))
        return _Line(wide, tile.dtype, tile.shape, axis, is_descending)

    @property
    def extent(self) -> int:
        """Elements along the axis."""
        return self.shape[self.axis]

    @property
    def _is_float(self) -> bool:
        return self.tile.dtype.element.is_float

    @property
    def _bits(self) -> int:
        return self.tile.dtype.element.bits

    @property
    def _low_bits(self) -> int:
        """Bits of an index and the sign of a zero."""
        return self.extent.bit_length()

    @property
    def _packed(self) -> type[DType] | None:
        """An integer dtype that holds a key with its low bits; None if none is wide enough."""
        wide = self._bits + self._low_bits
        return next((integer for w, integer in INTEGERS_OF_WIDTH.items() if w >= wide), None)

    # --- keys in the order of the elements --------------------------------------------------------

    def sorted_keys(self, *, has_places: bool) -> list[TileFormula]:
        """Sorted keys, from which the elements can be restored; each tile is [before, n, behind].

        Equal keys are the same element, so sorting the elements alone needs no indices.
        """
        before, behind = math.prod(self.shape[: self.axis]), math.prod(self.shape[self.axis + 1 :])
        key = self._key()
        keys = [key]
        if has_places or self._is_float:
            low = self._low()
            packed = self._packed
            if packed is None:
                keys.append(low)
            else:
                room = packed.element.bits - self._bits
                keys = [(key.astype(packed) << room) | low.astype(packed)]
        whole = [each.reshaped(before, self.extent, behind) for each in keys]
        return _network(whole, self.extent)

    def _key(self) -> TileFormula:
        """A signed integer for each element, in its order."""
        integer = INTEGERS_OF_WIDTH[self._bits]
        top = -(1 << (self._bits - 1))
        bits = self.tile.bits_as(integer) if self._is_float else self.tile.astype(integer)
        if self._is_float:
            size = bits & ~top
            bits = (bits ^ ~top).where(bits < 0, bits)
            bits = bits.filled(0).where(size.equals(0), bits)
            bits = bits.filled(~top).where(size > _LARGEST[self.tile.dtype], bits)
        elif not self.tile.dtype.signed:
            bits = bits ^ top
        return ~bits if self.is_descending else bits

    def _low(self) -> TileFormula:
        """The low bits of a key: the index of the element, and below it the sign of a zero."""
        shape = (self.extent, *(1,) * (len(self.shape) - self.axis - 1))
        places = self.tile.counted(self.extent).reshaped(*shape) << 1
        bits = self.tile.bits_as(INTEGERS_OF_WIDTH[self._bits])
        if not self._is_float:
            return places | bits.astype(i32).filled(0)
        return places | bits.equals(-(1 << (self._bits - 1))).astype(i32)

    # --- elements from keys -----------------------------------------------------------------------

    def elements(self, keys: Sequence[TileFormula], extent: int) -> Operand:
        """The elements of some keys."""
        integer, top = INTEGERS_OF_WIDTH[self._bits], -(1 << (self._bits - 1))
        bits, low = keys[0], keys[-1]
        if bits.dtype is not integer:
            bits = (bits >> (bits.dtype.element.bits - self._bits)).astype(integer)
        bits = ~bits if self.is_descending else bits
        if self._is_float:
            bits = (bits ^ ~top).where(bits < 0, bits)
            bits = bits.filled(top).where((low & 1).differs(0), bits)
            values = bits.bits_as(self.tile.dtype)
        else:
            values = (bits if self.tile.dtype.signed else bits ^ top).astype(self.tile.dtype)
        is_exponent = self.dtype is f8e8m0fnu
        values = values.bits_as(self.dtype) if is_exponent else values.astype(self.dtype)
        return values.reshaped(*self._shape(extent)).tile

    def places(self, keys: Sequence[TileFormula], extent: int) -> Operand:
        """The indices of the elements of some keys."""
        low = (keys[-1] & ((1 << self._low_bits) - 1)) >> 1
        return low.astype(i32).reshaped(*self._shape(extent)).tile

    def _shape(self, extent: int) -> tuple[int, ...]:
        return (*self.shape[: self.axis], extent, *self.shape[self.axis + 1 :])


def _first(keys: TileFormula, extent: int) -> TileFormula:
    """The first elements along the middle axis."""
    before, _, behind = keys.shape
    return _part(keys, (before, extent, behind), 0)


# --- the network ----------------------------------------------------------------------------------


def _network(keys: list[TileFormula], extent: int) -> list[TileFormula]:
    """Keys of [before, extent, behind] sorted along the middle axis, by the first tile first.

    Runs of elements are sorted, every other one in descending order, so that two neighbours form a
    bitonic run, which is sorted by exchanges at ever smaller distances.
    """
    shape = keys[0].shape
    before, _, behind = shape
    for level in range(1, extent.bit_length()):
        for step in range(level):
            distance = 1 << (level - 1 - step)
            rows = before * extent // (2 * distance)
            keys = [key.reshaped(rows, 2, distance * behind) for key in keys]
            turned = (1 << level) // (2 * distance) if 1 << level < extent else None
            keys = _exchanged(keys, turned)
    return [key.reshaped(*shape) for key in keys]


def _exchanged(keys: list[TileFormula], turned: int | None) -> list[TileFormula]:
    """Pairs along the middle axis in order: descending in rows with the bit `turned` set."""
    rows, _, columns = keys[0].shape
    firsts, seconds = ([_part(key, (rows, 1, columns), n) for key in keys] for n in (0, 1))
    swap = _is_less(seconds, firsts)
    if turned is not None:
        swap = swap ^ (keys[0].counted(rows) & turned).differs(0).reshaped(rows, 1, 1)
    pairs = zip(firsts, seconds, strict=True)
    return [_joined(b.where(swap, a), a.where(swap, b)) for a, b in pairs]


def _is_less(lhs: Sequence[TileFormula], rhs: Sequence[TileFormula]) -> TileFormula:
    """Lexicographic comparison of tuples of integers."""
    less = lhs[0] < rhs[0]
    if len(lhs) == 1:
        return less
    return less | (lhs[0].equals(rhs[0]) & _is_less(lhs[1:], rhs[1:]))


def _part(keys: TileFormula, shape: tuple[int, int, int], number: int) -> TileFormula:
    """One of the parts along the middle axis."""
    if keys.shape == shape:
        return keys
    index = keys.lo.builder.index
    return keys.part(shape, (index(0), index(number), index(0)))


def _joined(first: TileFormula, second: TileFormula) -> TileFormula:
    op = Cat(lhs=first.tile.value, rhs=second.tile.value, dim=1, dtype=first.dtype)
    return first.like(TileOperand(first.lo.builder.add(op).result, first.dtype))
