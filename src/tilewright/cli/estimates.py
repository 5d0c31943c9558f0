"""Estimates of the share of a target's peak that a kernel can reach, from its tiles and its cubin.

A kernel with products is bound by its tensor cores if a round of its loop loads few bytes for its
operations, and by loads from the L2 cache otherwise; spills are stored and loaded in every round.
Any other kernel is bound by memory, and needs enough bytes in flight. The model knows no sizes of
tensors, so it counts neither idle blocks nor misses of the cache. On an H200 it is within a fifth
of the measured shares of `benchmarks/own_kernel.py` where nothing spills.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.analysis.pressure import PRODUCTS, words_of
from tilewright.backends.cuda.cubin import Resources
from tilewright.backends.cuda.residency import blocks_at_once
from tilewright.dtypes import Element
from tilewright.ir.architectures import find_architecture
from tilewright.ir.function import Function
from tilewright.ir.op import Op, Value
from tilewright.ir.ops.memory import LoadPtr, LoadView
from tilewright.ir.rewrite import is_loop
from tilewright.ir.types import TileType

__all__ = ["Estimate", "estimate_share"]

_LOADS = (LoadView, LoadPtr)
_WORD_BYTES = 4
_CACHE_BYTES = 64  # from the L2 cache, for each clock of a multiprocessor
_IN_FLIGHT = 32 << 10  # bytes of a multiprocessor that hide the latency of memory
_PLAIN_OPERATIONS = 256  # of f32, outside the tensor cores, for each clock of a multiprocessor


@dataclass(frozen=True)
class Estimate:
    """A share of the peak, from 0 to 1, and the unit that is at its peak then."""

    share: float
    of: str


def estimate_share(entry: Function, resources: Resources, target: str) -> Estimate | None:
    """Estimate the share of the peak of one entry, or None for a target without figures."""
    known = find_architecture(target)
    if known is None or known.operations is None:
        return None
    bodies = (block.ops for op in entry.walk() if is_loop(op) for block in op.regions)
    rounds = [ops for ops in bodies if any(isinstance(op, PRODUCTS) for op in ops)]
    if not rounds:
        return _of_memory(entry, resources, target)
    spilled = 2 * resources.stack_bytes * resources.threads
    shares = [_share_of_products(ops, known.operations, spilled) for ops in rounds]
    return Estimate(min(shares), "the matrix products' peak")


def _share_of_products(ops: list[Op], rate: int, spilled: int) -> float:
    """The share of the clocks of a round in which the tensor cores multiply."""
    clocks = sum(_clocks(op, rate) for op in ops if isinstance(op, PRODUCTS))
    loaded = sum(_WORD_BYTES * words_of(op.results[0]) for op in ops if isinstance(op, _LOADS))
    return clocks / (max(clocks, loaded / _CACHE_BYTES) + spilled / _CACHE_BYTES)


def _clocks(op: Op, rate: int) -> float:
    """The clocks of one product on a multiprocessor whose 16-bit rate is given."""
    left, right = (_tile_of(value) for value in op.operands[:2])
    operations = 2 * left.size * right.shape[-1]
    element = left.element
    assert isinstance(element, Element), "factors are numbers"
    if element is Element.TF32:
        return operations / (rate / 2)
    if element.bits > 16:
        return operations / _PLAIN_OPERATIONS
    return operations / (rate * 16 / max(element.bits, 4))


def _of_memory(entry: Function, resources: Resources, target: str) -> Estimate | None:
    """The share of the bandwidth, by the bytes that resident blocks load at once."""
    blocks = blocks_at_once(resources, target)
    loads = [op for op in entry.walk() if isinstance(op, _LOADS)]
    loaded = sum(_WORD_BYTES * words_of(op.results[0]) for op in loads)
    if blocks is None or not loaded:
        return None
    spilled = 2 * resources.stack_bytes * resources.threads
    share = min(1.0, blocks * loaded / _IN_FLIGHT) * loaded / (loaded + spilled)
    return Estimate(share, "the bandwidth")


def _tile_of(value: Value) -> TileType:
    assert isinstance(value.type, TileType), "factors are tiles"
    return value.type
