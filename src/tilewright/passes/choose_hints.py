"""Chooses the hints that the author has left open, by the tiles that a kernel holds.

    before (sm_90)                              after
    entry @gemm() {                             entry @gemm() optimization_hints=<default =
      %acc = mmaf … : tile<256x256xf32>             {num_cta_in_cga = 2,
    }                                                num_worker_warps_per_cta = 8}> {

The peak of the tiles in registers (`register_pressure`), shared by the threads, must leave room for
everything else; beyond that the assembler spills, and a kernel runs at a fraction of its speed.
More warps take smaller shares, then more CTAs do. Where tiles are small, several blocks share a
multiprocessor, and one loads while another computes. A hint of the author's is kept, and the others
follow it. The limits are fitted to the assembler (13.4) and to an H200: `tests/assembly` has tiles
that must not spill, and `benchmarks/own_kernel.py` compares the choice with the others on a GPU.
Runs before `order_tokens`, which depends on the number of CTAs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tilewright.analysis.pressure import PRODUCTS, Pressure, register_pressure, words_of
from tilewright.dtypes import Element
from tilewright.ir.architectures import Architecture, TensorCores, find_architecture, has_clusters
from tilewright.ir.attributes import EVERY_TARGET, Dictionary, TargetHints
from tilewright.ir.function import EntryHints, Function
from tilewright.ir.op import Op, Value
from tilewright.ir.ops.internal import Walk
from tilewright.ir.ops.memory import LoadPtr, LoadView
from tilewright.ir.ops.reduction import MmaF, Reduce, Scan
from tilewright.ir.rewrite import Rewriter, Rule, has_any, with_parts
from tilewright.ir.types import TileType

__all__ = ["choose_hints"]

_WARP = 32  # threads
_FEW_WARPS, _MANY_WARPS = 4, 8
_MOST_CTAS = 4
# Words of tiles for each thread that leave enough of its 255 registers for the rest: in general;
# beside the factors of a product, where a warp multiplies from its own registers, or beside sums
# that are kept twice; and beside all that a product without tensor cores keeps in registers.
_SHARE, _SHARE_OF_FACTORS, _SHARE_OF_PLAIN = 160, 96, 16
_FULL_SHARE = 128  # words for each thread, with which the assembler itself loads few rounds ahead
_SMALL_SHARE = 64  # words for each thread of two blocks with products on a multiprocessor
_TOGETHER = 2  # blocks with products on a multiprocessor
_LEAST_STAGES = 3  # tiles of as many rounds are in shared memory at once
_TENSOR_WORDS = 128 * 512  # of a multiprocessor's tensor memory
_ROW_WORDS = 36 << 10  # of the tiles of all blocks of a multiprocessor, where none multiplies
_MOST_ROW_BLOCKS = 8
_LONG_ROWS = 2 << 10  # words of a block that keep more than a few warps busy
_MOST_NARROW, _BYTE = 16, 8  # bits of the factors of tensor cores
_LOADS = (LoadView, LoadPtr)
_SHORT_LATENCY = 1
_BAND = (8, 1)  # tiles


def choose_hints(function: Function, target: str) -> Function:
    """Return the function with all hints for a target; unchanged for a target without facts."""
    known = find_architecture(target)
    if known is None:
        return function
    products = [op for op in function.walk() if isinstance(op, PRODUCTS)]
    given = EntryHints.held_by(function.hints)
    if products:
        kernel = _MultiplyingKernel(function, products, register_pressure(function), known)
        chosen = _for_products(kernel)
        rules: dict[type[Op], Rule] = {Walk: _group}
        if not known.has_accelerator and kernel.words < _threads(chosen) * _FULL_SHARE:
            rules[LoadView] = _shorten
        function = Rewriter(rules).function(function) if has_any(function, rules) else function
    elif has_any(function, (Reduce, Scan)):
        chosen = _for_rows(given, register_pressure(function).words, known)
    else:
        chosen = given  # element by element: the assembler itself works on a part at a time
    return replace(function, hints=chosen.hints())


def _for_rows(given: EntryHints, words: int, target: Architecture) -> EntryHints:
    """Hints of a kernel that reduces tiles: memory is busy if enough blocks load at once.

    Without the accelerator the assembler itself leaves registers for other blocks.
    """
    warps = given.num_worker_warps
    if given == EntryHints() and target.has_accelerator:
        blocks = min(_ROW_WORDS // max(words, 1), _MOST_ROW_BLOCKS)
        warps = _MANY_WARPS if words > _LONG_ROWS else None
        return EntryHints(occupancy=blocks if blocks > 1 else None, num_worker_warps=warps)
    if warps is None and given.occupancy is None and words > _FEW_WARPS * _WARP * _SHARE:
        warps = _MANY_WARPS
    return replace(given, num_worker_warps=warps)


# --- products -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _MultiplyingKernel:
    """A kernel with products, on its target."""

    function: Function
    products: Sequence[Op]
    pressure: Pressure
    target: Architecture

    @property
    def is_for_tensor_cores(self) -> bool:
        """Whether tensor cores compute all products."""
        return all(_narrow_bits(op) is not None for op in self.products)

    @property
    def words(self) -> int:
        """The words that are held at once, with those of sums that are kept twice."""
        return self.pressure.words + _second_sums(self.products, self.target)

    @property
    def share(self) -> int:
        """The words of tiles that a thread of a few warps has room for."""
        if not self.is_for_tensor_cores:
            return _SHARE_OF_PLAIN
        if self.target.tensor_cores is TensorCores.WARP:
            return _SHARE_OF_FACTORS // (2 if self.target.has_accelerator else 1)
        return _SHARE if self.words == self.pressure.words else _SHARE_OF_FACTORS


def _for_products(kernel: _MultiplyingKernel) -> EntryHints:
    given = EntryHints.held_by(kernel.function.hints)
    if (given.occupancy or 1) > 1:
        return given  # the blocks of a multiprocessor share its registers, whatever their warps
    if kernel.is_for_tensor_cores and kernel.target.tensor_cores is TensorCores.TENSOR_MEMORY:
        return _for_tensor_memory(given, kernel.products)
    are_apart = _are_apart(kernel)
    warps, ctas = given.num_worker_warps, given.num_ctas
    if warps is None and kernel.words > _FEW_WARPS * _WARP * kernel.share:
        warps = _MANY_WARPS
    if ctas is None and are_apart and has_clusters(kernel.target.name):
        ctas = _fitting(kernel.words, _threads(EntryHints(num_worker_warps=warps)) * _SHARE)
    chosen = replace(given, num_worker_warps=warps, num_ctas=ctas)
    if chosen == EntryHints() and kernel.is_for_tensor_cores and _fit_together(kernel, are_apart):
        return EntryHints(occupancy=_TOGETHER)
    return chosen


def _threads(hints: EntryHints) -> int:
    return (hints.num_worker_warps or _FEW_WARPS) * _WARP * (hints.num_ctas or 1)


def _fit_together(kernel: _MultiplyingKernel, are_apart: bool) -> bool:
    """Whether two blocks fit a multiprocessor: one loads and stores while the other multiplies.

    If a product is a factor of another one, as in attention, one block also computes the elements
    between them while the other multiplies, which is worth more than stages.
    """
    stages, share = _LEAST_STAGES, _SMALL_SHARE
    if not are_apart and kernel.target.tensor_cores is TensorCores.WARP_GROUP:
        stages, share = 1, _SHARE
    staged = stages * kernel.pressure.round_bytes
    fits = staged <= kernel.target.block_shared_memory // _TOGETHER
    return fits and kernel.words <= _FEW_WARPS * _WARP * share


def _for_tensor_memory(given: EntryHints, products: Sequence[Op]) -> EntryHints:
    """The sums of two tiles of the output fit tensor memory: one is stored while one is summed."""
    if given.num_ctas is not None:
        return given
    sums = max(words_of(op.results[0]) for op in products)
    return replace(given, num_ctas=_fitting(sums, _TENSOR_WORDS // 2))


def _fitting(words: int, room: int) -> int | None:
    """The least number of CTAs with room for some words, if more than one is needed."""
    ctas = 1
    while words > room * ctas and ctas < _MOST_CTAS:
        ctas *= 2
    return ctas if ctas > 1 else None


def _second_sums(products: Sequence[Op], target: Architecture) -> int:
    """Words of the sums that 8-bit floats take twice: short ones are added to exact ones."""
    if target.tensor_cores is not TensorCores.WARP_GROUP:
        return 0
    exact = (op for op in products if isinstance(op, MmaF) and not op.fast_acc)
    return max((words_of(op.result) for op in exact if _narrow_bits(op) == _BYTE), default=0)


def _narrow_bits(product: Op) -> int | None:
    """The bits of the factors that tensor cores multiply; None for f32 and f64."""
    kind = product.operands[0].type
    assert isinstance(kind, TileType), "factors are tiles"
    element = kind.element
    assert isinstance(element, Element), "factors are numbers"
    return element.bits if element.bits <= _MOST_NARROW or element is Element.TF32 else None


def _are_apart(kernel: _MultiplyingKernel) -> bool:
    """Whether all factors of products come from memory, and none from another product.

    The CTAs of a block divide the rows or columns of a product, and would exchange such a factor.
    """
    makers = {value: op for op in kernel.function.walk() for value in op.results}
    waiting = [factor for op in kernel.products for factor in op.operands[:2]]
    seen: set[Value] = set()
    while waiting:
        value = waiting.pop()
        if value in seen or not words_of(value):
            continue
        seen.add(value)
        maker = makers.get(value)
        if maker is None or maker.regions or isinstance(maker, PRODUCTS):
            return False  # carried by a loop, or computed by one, or a product itself
        if not isinstance(maker, _LOADS):
            waiting += maker.operands
    return True


# --- hints on single ops of a kernel with products ------------------------------------------------


def _group(rewriter: Rewriter, op: Walk) -> None:
    """Walk in bands of several rows: the blocks that run at once share rows and columns of tiles.

    All walks get one group, since several walks of one output visit its tiles in one order.
    """
    regions = tuple(rewriter.block(region) for region in op.regions)
    new = op.rebuilt(rewriter.values, regions)
    if op.group is None and not op.order:
        new = with_parts(new, group=_BAND)
    rewriter.builder.add(new)
    rewriter.replace(op, *new.results)


def _shorten(rewriter: Rewriter, op: LoadView) -> None:
    """Start a load without the accelerator few rounds ahead, each of which takes registers."""
    if op.hints is not None and op.hints.named("latency"):
        rewriter.keep(op)
        return
    new = with_parts(op.rebuilt(rewriter.values, ()), hints=_with_latency(op.hints))
    rewriter.builder.add(new)
    rewriter.replace(op, *new.results)


def _with_latency(hints: TargetHints | None) -> TargetHints:
    given = dict(() if hints is None else hints.targets)
    known = dict(given.get(EVERY_TARGET, Dictionary()).items) | {"latency": _SHORT_LATENCY}
    given[EVERY_TARGET] = Dictionary(tuple(sorted(known.items())))
    return TargetHints(tuple(given.items()))
