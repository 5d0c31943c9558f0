"""Chooses the hints that the author has left open, by the tiles that a kernel holds.

    before (sm_90)                              after
    entry @gemm() {                             entry @gemm() optimization_hints=<default =
      %acc = mmaf … : tile<256x256xf32>             {num_cta_in_cga = 2,
    }                                                num_worker_warps_per_cta = 8}> {

The peak of the tiles in registers (`register_pressure`), shared by the threads, must leave room for
everything else; beyond that the assembler spills, and a kernel runs at a fraction of its speed.
More warps take smaller shares, then more CTAs do. A hint of the author's is kept, and the others
follow it. The limits are fitted to the assembler (13.4): `tests/assembly` has the tiles that must
not spill, and `benchmarks/own_kernel.py` compares the choice with the others on a GPU. Runs before
`order_tokens`, which depends on the number of CTAs.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.analysis.pressure import PRODUCTS, Pressure, register_pressure, words_of
from tilewright.dtypes import Element
from tilewright.ir.architectures import Architecture, TensorCores, find_architecture, has_clusters
from tilewright.ir.attributes import EVERY_TARGET, Dictionary, TargetHints
from tilewright.ir.function import EntryHints, Function
from tilewright.ir.op import Op, Value
from tilewright.ir.ops.internal import Walk
from tilewright.ir.ops.memory import LoadPtr, LoadView
from tilewright.ir.ops.reduction import MmaF, Reduce, Scan
from tilewright.ir.rewrite import Rewriter, has_any, with_parts
from tilewright.ir.types import TileType

__all__ = ["choose_hints"]

_WARP = 32  # threads
_FEW_WARPS, _MANY_WARPS = 4, 8
_MOST_CTAS = 4
# Words of tiles for each thread that leave enough of its 255 registers for the rest: in general,
# and beside the factors of a product, where a warp multiplies from its own registers.
_SHARE, _SHARE_OF_FACTORS = 160, 96
_SHARE_OF_PLAIN = 16  # the same where no tensor core multiplies, and all factors are in registers
_MOST_NARROW, _BYTE = 16, 8  # bits of the factors of tensor cores
_SMALL_SHARE = 64  # the same where two blocks divide the registers
_TOGETHER = 2  # blocks
_LEAST_STAGES = 3  # tiles of as many rounds are in shared memory at once
_BAND = (8, 1)  # tiles
_TENSOR_WORDS = 128 * 512  # of a multiprocessor's tensor memory
_LOADS = (LoadView, LoadPtr)
_SHORT_LATENCY = 2


def choose_hints(function: Function, target: str) -> Function:
    """Return the function with all hints for a target; unchanged for a target without facts."""
    known = find_architecture(target)
    if known is None:
        return function
    chosen = _entry_hints(function, known)
    function = replace(function, hints=chosen.hints())
    if not has_any(function, PRODUCTS):
        return function
    rules = {Walk: _group} if known.has_accelerator else {Walk: _group, LoadView: _shorten}
    return Rewriter(rules).function(function) if has_any(function, rules) else function


def _entry_hints(function: Function, target: Architecture) -> EntryHints:
    given = EntryHints.held_by(function.hints)
    products = [op for op in function.walk() if isinstance(op, PRODUCTS)]
    by_tensor_cores = all(_narrow_bits(op) for op in products)
    if (given.occupancy or 1) > 1:
        return given  # the blocks of a multiprocessor share its registers, whatever their warps
    if not products and not has_any(function, (Reduce, Scan)):
        return given  # element by element: the assembler itself works on a part at a time
    if products and by_tensor_cores and target.tensor_cores is TensorCores.TENSOR_MEMORY:
        return _for_tensor_memory(given, products)
    pressure = register_pressure(function)
    words = pressure.words + _second_sums(products, target)
    warps, ctas = given.num_worker_warps, given.num_ctas
    if warps is None and words > _FEW_WARPS * _WARP * _share(products, by_tensor_cores, target):
        warps = _MANY_WARPS
    if ctas is None and has_clusters(target.name) and _are_apart(function, products):
        ctas = _fitting(words, (warps or _FEW_WARPS) * _WARP * _SHARE)
    chosen = replace(given, num_worker_warps=warps, num_ctas=ctas)
    if chosen == EntryHints() and products and by_tensor_cores and _fit_together(pressure, target):
        return EntryHints(occupancy=_TOGETHER)
    return chosen


def _share(products: list[Op], by_tensor_cores: bool, target: Architecture) -> int:
    """The words of tiles that one of a few warps' threads has room for."""
    if not products:
        return _SHARE
    if not by_tensor_cores:
        return _SHARE_OF_PLAIN
    return _SHARE_OF_FACTORS if target.tensor_cores is TensorCores.WARP else _SHARE


def _fit_together(pressure: Pressure, target: Architecture) -> bool:
    """Whether two blocks fit a multiprocessor: one loads and stores while the other multiplies."""
    staged = _LEAST_STAGES * pressure.round_bytes
    return (
        pressure.words <= _FEW_WARPS * _WARP * _SMALL_SHARE
        and staged <= target.block_shared_memory // _TOGETHER
    )


def _for_tensor_memory(given: EntryHints, products: list[Op]) -> EntryHints:
    """The sums of two tiles of the output fit tensor memory: one is stored while one is summed."""
    sums = max(words_of(op.results[0]) for op in products)
    if given.num_ctas is not None:
        return given
    return replace(given, num_ctas=_fitting(sums, _TENSOR_WORDS // 2))


def _fitting(words: int, room: int) -> int | None:
    """The least number of CTAs with room for some words, if more than one is needed."""
    ctas = 1
    while words > room * ctas and ctas < _MOST_CTAS:
        ctas *= 2
    return ctas if ctas > 1 else None


def _second_sums(products: list[Op], target: Architecture) -> int:
    """Words of the sums that 8-bit floats take twice: short ones are added to exact ones."""
    if target.tensor_cores is not TensorCores.WARP_GROUP:
        return 0
    exact = (op for op in products if isinstance(op, MmaF) and not op.fast_acc)
    return max((words_of(op.result) for op in exact if _narrow_bits(op) == _BYTE), default=0)


def _narrow_bits(product: Op) -> int | None:
    """The bits of the factors that tensor cores multiply; None for f32 and f64."""
    kind = product.operands[0].type
    assert isinstance(kind, TileType), "factors are tiles"
    bits = getattr(kind.element, "bits", 0)
    return bits if bits <= _MOST_NARROW or kind.element is Element.TF32 else None


def _are_apart(function: Function, products: list[Op]) -> bool:
    """Whether all factors of products come from memory, and none from another product.

    The CTAs of a block divide the rows or columns of a product, and would exchange such a factor.
    """
    makers = {value: op for op in function.walk() for value in op.results}
    waiting = [factor for op in products for factor in op.operands[:2]]
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
    return bool(products)


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
