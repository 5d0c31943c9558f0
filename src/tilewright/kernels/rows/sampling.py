"""Sampling of tokens from rows of logits: penalties, filters, and a random choice, on the device.

A filter is a threshold: a token is kept if its logit reaches it. The threshold of top-k is the
highest number that k logits reach, that of top-p the highest one that tokens with enough
probability reach; both are found by bisection over the bits of floats, which compare as integers
once they are mapped. The choice adds to each logit a number with a Gumbel distribution and takes
the highest: it picks each token with its probability. These numbers are a function of the row's
seed, its step and the token alone, so a row gives the same tokens in every batch.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import tilewright as tw
from tilewright import Accum, Const, Cut, Mut, Ref, bool_, f32, i32, i64
from tilewright.dims import BM, BN, M, V
from tilewright.kernels.arguments import (
    check_extents,
    check_one_device,
    check_tensor,
    giving,
    output,
)
from tilewright.kernels.cutting import power_of_two
from tilewright.kernels.large_tiles import tile_for

__all__ = ["count_ids", "count_tokens", "penalise", "penalise_rows", "sample", "sample_rows"]

PART = 4096  # logits of a row that a block reads at a time
TILE = 4096  # elements
MAGNITUDE = 0x7FFFFFFF  # all bits of an f32 but the sign
LOWEST = -(1 << 31)  # at or below the key of every logit
BITS = 32
NOWHERE = (1 << 31) - 1  # behind every token
STRIDE = 1 << 32  # random numbers of a step; no row is longer


def _keys(logits: Any) -> Any:
    """Floats as integers of the same order."""
    bits = tw.bitcast(logits, i32)
    return tw.where(bits < 0, bits ^ MAGNITUDE, bits)


def _part(logits: Any, row: Any, j: Any, PART: Any) -> tuple[Any, Any]:
    """Part j of a row, [PART], and which of its elements there are."""
    tile = logits.partition(1, PART, padding=-math.inf)[row, j].reshape(PART)
    return tile, j * PART + tw.arange(PART) < logits.shape[1]


def _weight(logits: Any, row: Any, least: Any, highest: Any, scale: Any, PART: Any) -> Any:
    """The sum of `exp(scale * (logit - highest))` over logits whose keys are `least` or more."""
    total = tw.zeros((PART,), f32)
    for j in range(tw.cdiv(logits.shape[1], PART)):
        tile, inside = _part(logits, row, j, PART)
        powers = tw.exp((tile - highest) * scale)
        total += tw.where(inside & (_keys(tile) >= least), powers, 0.0)
    return tw.sum(total, axis=0).item()


def _count(logits: Any, row: Any, least: Any, PART: Any) -> Any:
    """The number of logits whose keys are `least` or more."""
    total = tw.zeros((PART,), i32)
    for j in range(tw.cdiv(logits.shape[1], PART)):
        tile, inside = _part(logits, row, j, PART)
        total += (inside & (_keys(tile) >= least)).astype(i32)
    return tw.sum(total, axis=0).item()


def _middle(low: Any, high: Any) -> Any:
    """The number halfway between two keys, rounded up."""
    return ((low.astype(i64) + high.astype(i64) + 1) >> 1).astype(i32)


def _key_of_top_k(logits: Any, row: Any, k: Any, top: Any, PART: Any) -> Any:
    """The highest key that k logits reach."""
    low, high = i32(LOWEST), top
    for _ in range(BITS):
        middle = _middle(low, high)
        if _count(logits, row, middle, PART) >= k:
            low = middle
        else:
            high = middle - 1
    return low


def _key_of_top_p(
    logits: Any, row: Any, p: Any, low: Any, top: Any, highest: Any, scale: Any, PART: Any
) -> Any:
    """The highest key that logits with a share p of the weight from `low` on reach."""
    wanted = p * _weight(logits, row, low, highest, scale, PART)
    high = top
    for _ in range(BITS):
        middle = _middle(low, high)
        if _weight(logits, row, middle, highest, scale, PART) >= wanted:
            low = middle
        else:
            high = middle - 1
    return low


@tw.kernel(deny_checks=True)
def sample_rows(
    z: Mut[i64, Cut[M, Literal[1]]], logits: Ref[f32, M, V], temperatures: Ref[f32, M],
    top_ks: Ref[i32, M], top_ps: Ref[f32, M], min_ps: Ref[f32, M], seeds: Ref[i64, M],
    steps: Ref[i64, M], *, PART: Const[int] = 1024,
) -> None:  # fmt: skip
    """One token of a row of logits; a temperature of 0 takes the highest."""
    row = z.index[0]
    temperature, k = temperatures.partition(1)[row].item(), top_ks.partition(1)[row].item()
    p, share = top_ps.partition(1)[row].item(), min_ps.partition(1)[row].item()
    seed, step = seeds.partition(1)[row].item(), steps.partition(1)[row].item()
    parts = tw.cdiv(V, PART)

    tops = tw.full((PART,), -math.inf, f32)
    for j in range(parts):
        tops = tw.maximum(tops, _part(logits, row, j, PART)[0])
    highest = tw.max(tops, axis=0)
    top = _keys(highest).item()
    highest = highest.item()
    is_random = temperature > 0.0
    scale = 1.0 / tw.maximum(temperature, 1e-6)
    least = top
    if is_random:
        least = i32(LOWEST)
        if (k > 0) & (k < V):
            least = _key_of_top_k(logits, row, k, top, PART)
        if p < 1.0:
            least = _key_of_top_p(logits, row, p, least, top, highest, scale, PART)
    cut = tw.log(share)  # at most 0, the score of the highest

    best, place = tw.full((PART,), -math.inf, f32), tw.full((PART,), NOWHERE, i32)
    for j in range(parts):
        tile, inside = _part(logits, row, j, PART)
        scores = (tile - highest) * scale
        kept = inside & (_keys(tile) >= least) & (scores >= cut)
        if is_random:
            uniform = tw.rand((PART,), f32, seed=seed, offset=step * STRIDE + i64(j * PART))
            scores -= tw.log(-tw.log(uniform))
        is_better = kept & ((scores > best) | (place == NOWHERE))
        best = tw.where(is_better, scores, best)
        place = tw.where(is_better, j * PART + tw.arange(PART), place)
    winner = tw.max(best, axis=0)
    first = tw.min(tw.where(best == winner, place, NOWHERE), axis=0)
    z.store(tw.where(first == NOWHERE, 0, first).astype(i64).reshape(1))


@tw.kernel(deny_checks=True)
def penalise_rows(
    z: Mut[f32, Cut[M, BM], Cut[V, BN]], logits: Ref[f32, M, V], bias: Ref[f32, M, V],
    prompted: Ref[bool_, M, V], counts: Ref[i32, M, V], repetition: Ref[f32, M],
    presence: Ref[f32, M], frequency: Ref[f32, M],
) -> None:  # fmt: skip
    """Logits with biases added, and penalties for tokens of the prompt and of the answer."""
    i = z.index[0]
    number = counts.load_like(z)
    is_new = number > 0
    factor = repetition.partition(BM)[i][:, None]
    fixed, each = presence.partition(BM)[i][:, None], frequency.partition(BM)[i][:, None]
    x = logits.load_like(z) + bias.load_like(z)
    repeated = tw.where(x > 0.0, x / factor, x * factor)
    x = tw.where(is_new | prompted.load_like(z), repeated, x)
    z.store(x - tw.where(is_new, fixed, 0.0) - each * number.astype(f32))


@tw.kernel(deny_checks=True)
def count_ids(counts: Accum[i32, M, V], ids: Ref[i64, M], *, SIZE: Const[int] = 64) -> None:
    """`counts[m, ids[m]] += 1`; an id without a column is dropped."""
    rows = tw.block_id(0) * SIZE + tw.arange(SIZE)
    counts.add_at(1, rows, ids.gather(rows), mask=rows < M)


# --- functions of tensors -------------------------------------------------------------------------


def _check_rows(caller: str, logits: tw.Tensor, **lines: tuple[tw.Tensor, type[tw.DType]]) -> None:
    """Refuse anything but f32 logits [M, V], and a number of its dtype for each row."""
    check_tensor(caller, "logits", logits, (f32,))
    if logits.ndim != 2 or not logits.shape[1]:
        raise tw.LaunchError(
            f"`logits` of {caller} is [rows, tokens], one token or more, not shape {logits.shape}"
        )
    for name, (line, dtype) in lines.items():
        check_tensor(caller, name, line, (dtype,))
        check_extents(caller, name, line, logits.shape[:1])
    check_one_device(caller, logits=logits, **{name: line for name, (line, _) in lines.items()})


@tw.function
def sample(
    logits: tw.Tensor, temperatures: tw.Tensor, top_ks: tw.Tensor, top_ps: tw.Tensor,
    min_ps: tw.Tensor, seeds: tw.Tensor, steps: tw.Tensor, *, out: tw.Tensor | None = None,
) -> tw.DeviceOp[tw.Tensor]:  # fmt: skip
    """One token (i64) of each row of logits, f32 [M, V], drawn with its probability.

    Every other argument has a number for each row. Logits are divided by the temperature (f32); at
    0 the highest logit wins, the first of equals. Then filters keep tokens: the `top_ks` (i32) with
    the highest logits, all with 0; of those the most probable ones that together reach `top_ps`
    (f32, at most 1); and those with at least `min_ps` (f32) times the highest probability. Tokens
    with the same logit are kept or dropped together. The result depends on the logits of the row,
    its seed and its step (i64) alone.
    """
    _check_rows(
        "sample", logits, temperatures=(temperatures, f32), top_ks=(top_ks, i32),
        top_ps=(top_ps, f32), min_ps=(min_ps, f32), seeds=(seeds, i64), steps=(steps, i64),
    )  # fmt: skip
    z = output("sample", out, logits.shape[:1], i64, logits)
    if not z.size:
        return tw.value(z, device=z.device)
    part = min(power_of_two(logits.shape[1]), tile_for(logits, PART))
    lines = (temperatures, top_ks, top_ps, min_ps, seeds, steps)
    return giving(sample_rows(z.partition(1), logits, *lines, PART=part), z)


@tw.function
def penalise(
    logits: tw.Tensor, bias: tw.Tensor, prompted: tw.Tensor, counts: tw.Tensor,
    repetition: tw.Tensor, presence: tw.Tensor, frequency: tw.Tensor, *,
    out: tw.Tensor | None = None,
) -> tw.DeviceOp[tw.Tensor]:  # fmt: skip
    """Logits f32 [M, V] plus `bias`, with penalties for tokens that have occurred.

    `prompted` (bool) marks the tokens of a row's prompt, `counts` (i32) counts those of its answer.
    A token of either has its logit divided by `repetition` if positive, else multiplied. A token of
    the answer loses `presence`, and `frequency` for each time it occurred. The three penalties are
    f32 with a number for each row; 1, 0 and 0 change nothing.
    """
    caller = "penalise"
    _check_rows(
        caller, logits, repetition=(repetition, f32), presence=(presence, f32),
        frequency=(frequency, f32),
    )  # fmt: skip
    tables = (("bias", bias, f32), ("prompted", prompted, bool_), ("counts", counts, i32))
    for name, table, dtype in tables:
        check_tensor(caller, name, table, (dtype,))
        check_extents(caller, name, table, logits.shape)
        check_one_device(caller, **{"logits": logits, name: table})
    z = output(caller, out, logits.shape, f32, logits)
    if not z.size:
        return tw.value(z, device=z.device)
    across = min(power_of_two(z.shape[1]), tile_for(z, TILE))
    tall = max(1, min(power_of_two(z.shape[0]), tile_for(z, TILE) // across))
    tables_of = (logits, bias, prompted, counts)
    lines = (repetition, presence, frequency)
    return giving(penalise_rows(z.partition(tall, across), *tables_of, *lines), z)


@tw.function
def count_tokens(counts: tw.Tensor, ids: tw.Tensor) -> tw.DeviceOp[tw.Tensor]:
    """`counts[m, ids[m]] += 1` of i32 [M, V] and i64 [M]; an id without a column is dropped.

    The result of the operation is `counts`.
    """
    check_tensor("count_tokens", "counts", counts, (i32,))
    check_tensor("count_tokens", "ids", ids, (i64,))
    check_extents("count_tokens", "ids", ids, counts.shape[:1])
    check_one_device("count_tokens", counts=counts, ids=ids)
    if not counts.size:
        return tw.value(counts, device=counts.device)
    size = min(power_of_two(len(ids)), TILE)
    return giving(count_ids.grid(tw.cdiv(len(ids), size))(counts, ids, SIZE=size), counts)
