"""Register pressure: how many tiles of a kernel are held at once, in 32-bit words.

A tile is held from its definition to its last use. Three kinds take no registers: constants and
tiles that repeat a smaller one, which are made again where they are used, and loaded operands of
matrix products, which stay in shared memory. The peak is an estimate: an assembler moves ops, and
computes element-wise chains piece by piece.

    %acc = mmaf %x, %y, %a    : tile<128x128xf32>    16384 words from here
    %z = ftof %acc            : tile<128x128xf16>    8192 words, since %acc is not used again
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tilewright.ir.function import Function
from tilewright.ir.op import Block, Op, Value
from tilewright.ir.ops.memory import LoadPtr, LoadView
from tilewright.ir.ops.reduction import MmaF, MmaFScaled, MmaI
from tilewright.ir.ops.shape import Broadcast, Constant, Iota, Permute, Reshape
from tilewright.ir.rewrite import is_loop, nested_ops
from tilewright.ir.types import PtrType, TileType
from tilewright.source import Location

__all__ = ["PRODUCTS", "Pressure", "register_pressure", "words_of"]

# Ops that multiply matrices.
PRODUCTS = (MmaF, MmaFScaled, MmaI)
_WORD_BITS = 32
_WORD_BYTES = 4
_POINTER_BITS = 64
_LEAST_BITS = 8  # a truth value takes a byte of a register
_REPEATED = (Constant, Iota, Broadcast)
_LOADS = (LoadView, LoadPtr)
_RESHAPED = (Permute, Reshape)  # views of the same shared memory


@dataclass(frozen=True)
class Pressure:
    """The most words that are held at once, and the place of the op behind which they are."""

    words: int = 0
    location: Location | None = None
    round_bytes: int = 0  # that the products of one round of a loop load, to shared memory


def register_pressure(function: Function) -> Pressure:
    """Return the peak over all points of a function."""
    finder = _Peak(_without_registers(function))
    finder.visit(function.body, set())
    return Pressure(finder.words, finder.location, _round_bytes(function))


def words_of(value: Value) -> int:
    """Return the 32-bit words of a tile; 0 for scalars and all values that are no tiles."""
    kind = value.type
    if not isinstance(kind, TileType) or not kind.shape:
        return 0
    bits = _POINTER_BITS if isinstance(kind.element, PtrType) else kind.element.bits
    return -(-kind.size * max(bits, _LEAST_BITS) // _WORD_BITS)


class _Peak:
    """The search for the peak, from the end of each block to its start."""

    def __init__(self, free: set[Value]) -> None:
        self._free = free  # values that take no registers
        self.words = 0
        self.location: Location | None = None

    def visit(self, block: Block, used_later: set[Value]) -> None:
        """Visit a block behind which some values of outer blocks are used."""
        live = set(used_later)
        for op in reversed(block.ops):
            self._note(op, live)
            live.difference_update(op.results)
            for region in op.regions:
                self.visit(region, live | _used_inside(op) if is_loop(op) else live)
            live.update(op.operands)

    def _note(self, op: Op, live: Iterable[Value]) -> None:
        words = sum(words_of(value) for value in live if value not in self._free)
        if words >= self.words:  # of equal points the first in program order
            self.words, self.location = words, op.loc


def _round_bytes(function: Function) -> int:
    """Return the most bytes that a round of a loop with products loads."""
    bodies = (block.ops for op in function.walk() if is_loop(op) for block in op.regions)
    rounds = (
        sum(_WORD_BYTES * words_of(op.results[0]) for op in ops if isinstance(op, _LOADS))
        for ops in bodies
        if any(isinstance(op, PRODUCTS) for op in ops)
    )
    return max(rounds, default=0)


def _used_inside(op: Op) -> set[Value]:
    """Return the values from outside a loop that its body uses, in every round."""
    inside = [*nested_ops(op)]
    defined = {value for each in inside for value in each.results}
    defined.update(value for each in (op, *inside) for body in each.regions for value in body.args)
    return {value for each in inside for value in each.operands} - defined


def _without_registers(function: Function) -> set[Value]:
    """Return repeated tiles, and the loaded operands of products through any change of shape."""
    free: set[Value] = set()
    other_uses: set[Value] = set()
    loaded: list[Value] = []
    for op in function.walk():
        if isinstance(op, _REPEATED):
            free.update(op.results)
        elif isinstance(op, _LOADS):
            loaded.append(op.results[0])
        if isinstance(op, PRODUCTS):
            other_uses.add(op.acc)
        elif not isinstance(op, _RESHAPED):
            other_uses.update(op.operands)
    reshaped = {op.source: op.result for op in function.walk() if isinstance(op, _RESHAPED)}
    for value in loaded:
        chain = [value]
        while chain[-1] in reshaped:
            chain.append(reshaped[chain[-1]])
        if other_uses.isdisjoint(chain):
            free.update(chain)
    return free
