"""Lowers logical block and tile coordinates, parts of pieces, and walks to loops and arithmetic.

    before                                  after (two axes, group 1)
    %i, %j = block_index %m, %n             %x, %y, %z = get_tile_block_id
                                            %i = divi %x, %n signed
                                            %j = subi %x, muli %i, %n

    walk (%i, %j) in (%m, %n) {             %t = muli %m, %n
      …                                     %b = launch_value the number of blocks
    }                                       for %id in (%x to %t, step %b) {
                                              %i = divi %id, %n signed
                                              %j = subi %id, muli %i, %n
                                              …
                                            }

Blocks are launched as a line, the last logical axis fastest. With `group` (g, h) the last two axes
are walked in bands of g rows, each band in groups of h columns, and each group row by row; the last
band and the last group of a band have the remaining extent, and all axes before them keep their
order. With an `order` that has the last tiles of an axis first, because they take longest, blocks
alternate from either end: the first block of one round is the last of the next. A range is cut to
the grid and numbered from zero; its start is added to the coordinate. All other numbers are
non-negative, and the launch has checked that tiles and blocks together stay below 2^31. Runs after
`order_tokens`, which relies on a `walk` to have steps on different tiles, and after
`lower_arithmetic`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from itertools import accumulate

from tilewright.dtypes import Element
from tilewright.ir.attributes import Predicate, Signedness
from tilewright.ir.function import Function
from tilewright.ir.launch_terms import Blocks
from tilewright.ir.op import Block, Op, Value
from tilewright.ir.ops.control import For, GetTileBlockId
from tilewright.ir.ops.internal import BlockIndex, LaunchValue, PartIndex, Walk
from tilewright.ir.rewrite import Rewriter, Rule, has_any
from tilewright.ir.types import scalar
from tilewright.passes.integer_ops import Integers

__all__ = ["lower_walks"]


def lower_walks(function: Function) -> Function:
    """Replace every `block_index`, every `part_index` and every `walk`."""
    return Rewriter(_RULES).function(function) if has_any(function, _RULES) else function


def _block_index(rewriter: Rewriter, op: BlockIndex) -> None:
    if not op.counts:
        return
    emit, counts = Integers(rewriter.builder), tuple(rewriter.new(count) for count in op.counts)
    place = list(_row_major(emit, rewriter.builder.add(GetTileBlockId()).x, counts))
    for axis in op.descending:
        place[axis] = emit.subtract(emit.subtract(counts[axis], 1), place[axis])
    rewriter.replace(op, *place)


def _walk(rewriter: Rewriter, op: Walk) -> None:
    builder, emit = rewriter.builder, Integers(rewriter.builder)
    counts = [rewriter.new(count) for count in op.counts]
    firsts: dict[int, Value] = {}
    for axis, ends in op.ranges.items():
        start, stop = (rewriter.new(end) for end in ends)
        firsts[axis], counts[axis] = _cut(emit, counts[axis], start, stop)
    number = _numbering(emit, tuple(counts), op)
    total = reduce(emit.multiply, counts) if counts else builder.index(1)
    blocks = builder.add(LaunchValue(term=Blocks(), to=scalar(Element.I32))).result
    block = builder.add(GetTileBlockId()).x
    turns = _AlternatingRounds(emit, total, blocks, block) if _descends(op) else None
    coordinates, carried = op.body.args[: len(counts)], op.body.args[len(counts) :]
    step = Value(scalar(Element.I32), hint="tile" if turns is None else "round")
    with builder.inside(Block((step, *carried))) as body:
        place = list(number(step if turns is None else turns.tile(step)))
        for axis, offset in firsts.items():
            place[axis] = emit.add(place[axis], offset)
        rewriter.values.update(zip(coordinates, place, strict=True))
        for inner in op.body.ops:
            rewriter.visit(inner)
    inits = tuple(rewriter.new(value) for value in op.init_values)
    if turns is None:
        loop = For(lower_bound=block, upper_bound=total, step=blocks, init_values=inits, body=body)
    else:
        loop = For(
            lower_bound=builder.index(0), upper_bound=turns.rounds, step=builder.index(1),
            init_values=inits, body=body,
        )  # fmt: skip
    rewriter.replace(op, *builder.add(loop).results)


def _descends(op: Walk) -> bool:
    return any(axis < 0 for axis in op.order)


class _AlternatingRounds:
    """Rounds of all blocks, every other one in reverse block order."""

    def __init__(self, emit: Integers, total: Value, blocks: Value, block: Value) -> None:
        self._emit, self._blocks, self._block = emit, blocks, block
        self._mirrored = emit.subtract(emit.subtract(blocks, 1), block)
        whole, left = _split(emit, total, blocks)
        has_another = emit.compare(self._place(whole), Predicate.LESS_THAN, left)
        self.rounds = emit.select(has_another, emit.add(whole, 1), whole)

    def tile(self, number: Value) -> Value:
        """The number of this block's tile in a round."""
        return self._emit.add(self._emit.multiply(number, self._blocks), self._place(number))

    def _place(self, number: Value) -> Value:
        emit = self._emit
        parity = emit.remainder(number, emit.constant(2, number))
        is_odd = emit.compare(parity, Predicate.EQUAL, 1)
        return emit.select(is_odd, self._mirrored, self._block)


def _cut(emit: Integers, count: Value, start: Value, stop: Value) -> tuple[Value, Value]:
    """The first tile and the length of a range, cut to [0, count)."""
    first = emit.least(emit.greatest(start, 0), count)
    behind = emit.least(emit.greatest(stop, first), count)
    return first, emit.subtract(behind, first)


def _numbering(
    emit: Integers, counts: tuple[Value, ...], op: Walk
) -> Callable[[Value], tuple[Value, ...]]:
    """The function from a tile number to its coordinates; emits the invariant parts here."""
    if op.group is not None and op.group[0] > 1 and len(counts) > 1:
        return _Bands(emit, counts, op.group).place
    if op.order:
        return lambda number: _ordered(emit, number, counts, op.order)
    return lambda number: _row_major(emit, number, counts)


def _ordered(
    emit: Integers, number: Value, counts: tuple[Value, ...], order: tuple[int, ...]
) -> tuple[Value, ...]:
    """Coordinates of a number when the axes vary in the given order, the last one fastest."""
    axes = [max(axis, ~axis) for axis in order]
    places = _row_major(emit, number, tuple(counts[axis] for axis in axes))
    found = dict(zip(axes, places, strict=True))
    for axis in (~axis for axis in order if axis < 0):
        found[axis] = emit.subtract(emit.subtract(counts[axis], 1), found[axis])
    return tuple(found[axis] for axis in sorted(found))


class _Bands:
    """Bands of rows of the last two axes, each walked group by group of its columns.

    The constructor emits the loop-invariant parts, before the loop.
    """

    def __init__(self, emit: Integers, counts: tuple[Value, ...], group: tuple[int, int]) -> None:
        *leading, self._rows, self._columns = counts
        self._emit, self._leading = emit, tuple(leading)
        # A band is at most as high as the axis; this also keeps its size below that of the plane.
        self._height = emit.least(self._rows, group[0])
        self._width = emit.least(self._columns, group[1]) if group[1] > 1 else None
        self._band_size = emit.multiply(self._height, self._columns)
        self._plane_size = emit.multiply(self._rows, self._columns) if leading else None

    def place(self, number: Value) -> tuple[Value, ...]:
        """Coordinates of a tile number."""
        emit, outer = self._emit, tuple[Value, ...]()
        if self._plane_size is not None:
            plane, number = _split(emit, number, self._plane_size)
            outer = _row_major(emit, plane, self._leading)
        band, within = _split(emit, number, self._band_size)
        top = emit.multiply(band, self._height)
        height = emit.least(emit.subtract(self._rows, top), self._height)
        row, column = self._within(height, within)
        return *outer, emit.add(top, row), column

    def _within(self, height: Value, number: Value) -> tuple[Value, Value]:
        """Row and column in a band of this height."""
        emit = self._emit
        if self._width is None:
            column, row = _split(emit, number, height)
            return row, column
        group, within = _split(emit, number, emit.multiply(height, self._width))
        left = emit.multiply(group, self._width)
        width = emit.least(emit.subtract(self._columns, left), self._width)
        row, column = _split(emit, within, width)
        return row, emit.add(left, column)


def _row_major(emit: Integers, number: Value, counts: tuple[Value, ...]) -> tuple[Value, ...]:
    """Coordinates of a number when the last axis is fastest.

    The divisions are independent of each other, since every block begins with them.
    """
    if not counts:
        return ()
    sizes = list(accumulate(reversed(counts[1:]), emit.multiply))  # of the axes after each one
    quotients = [
        *(emit.divide(number, size, signedness=Signedness.UNSIGNED) for size in reversed(sizes)),
        number,
    ]
    insides = (
        emit.subtract(own, emit.multiply(outer, count))
        for outer, own, count in zip(quotients, quotients[1:], counts[1:], strict=False)
    )
    return quotients[0], *insides


def _split(emit: Integers, number: Value, size: Value) -> tuple[Value, Value]:
    """Quotient and remainder of non-negative numbers."""
    return emit.divide(number, size), emit.remainder(number, size)


def _part_index(rewriter: Rewriter, op: PartIndex) -> None:
    emit, piece = Integers(rewriter.builder), rewriter.new(op.piece)
    first = piece if op.parts == 1 else emit.multiply(piece, op.parts)
    rewriter.replace(op, emit.add(first, rewriter.new(op.own)))


_RULES: dict[type[Op], Rule] = {BlockIndex: _block_index, PartIndex: _part_index, Walk: _walk}
