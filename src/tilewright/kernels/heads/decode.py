"""Decode attention: one query a sequence, with the keys split between blocks.

Decode attention reads every key once and runs at the bandwidth of memory if the whole GPU reads.
A block processes the keys of a head for all query heads that share it. Where there are fewer heads
than blocks, each takes one range of the keys, and `merge_splits` combines the ranges. The length of
each sequence is read on the device. `decode_attention` at the end chooses the split and launches.
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

import tilewright as tw
from tilewright import Const, Cut, Mut, Ref, Tile, f32, i32
from tilewright.dims import BD, B, D, G, K, L, S, T
from tilewright.kernels.arguments import (
    check_extents,
    check_one_device,
    check_tensor,
    giving,
    output,
    shown,
)
from tilewright.kernels.arithmetic import LN_2
from tilewright.kernels.heads.arguments import (
    Heads,
    check_attention,
    check_axes,
    scale_of,
    window_of,
)
from tilewright.kernels.heads.attending import Cache
from tilewright.kernels.heads.channels import load_channels
from tilewright.kernels.heads.configs import choose_decode
from tilewright.kernels.heads.online_softmax import LEAST, LOWEST
from tilewright.kernels.heads.ranges import MOST_SPLITS, columns_of
from tilewright.kernels.heads.splitting import merge

__all__ = ["BG", "Parts", "attend_split", "attend_whole", "decode_attention", "decode_parts"]


class BG(tw.Dim):
    """Tile extent of `G`: all query heads that share a key head."""


class Columns(NamedTuple):
    """Running state of an online softmax, with a query in each column.

    A product on the tensor cores has 64 rows or more, and as few as 8 columns: keys and channels
    fill rows, a few query heads do not.
    """

    highest: Tile[f32]  # [1, BG]
    total: Tile[f32]  # [1, BG]
    mean: Tile[f32]  # [BD, BG], before division by the total


class Cached(NamedTuple):
    """The keys of one head that the query of its sequence sees, in tiles of BN."""

    cache: Cache
    begin: Any  # positions
    end: Any
    first: Any  # tiles
    last: Any


def _seen(cache: Cache, lengths: Ref[i32, B], window: Any) -> Cached:
    """The last `window` keys; whatever `lengths` holds, they lie in the cache."""
    BN = cache.BN
    end = tw.minimum(lengths.partition(1)[cache.b].item(), cache.k.shape[2])
    begin = tw.maximum(end - window, 0)
    number = cache.k.partition(1, 1, BN, cache.BD).num_tiles(2)
    return Cached(cache, begin, end, begin // BN, min(tw.cdiv(end, BN), number))


def _attend(queries: Tile[Any], seen: Cached, low: Any, high: Any, scale: f32) -> Columns:
    """Queries [BD, BG] against the tiles of keys from `low` to `high`."""
    (BD, BG), cache = queries.shape, seen.cache
    columns = Columns(
        tw.full((1, BG), LOWEST, f32), tw.zeros((1, BG), f32), tw.zeros((BD, BG), f32)
    )
    for j in range(tw.maximum(low, 0), tw.minimum(high, seen.last)):
        keys = load_channels(cache.k, (cache.b, cache.h, j), cache.BN, BD, 0).first
        scores = keys @ queries  # [BN, BG]
        places = (j * cache.BN + tw.arange(cache.BN))[:, None]
        scores = tw.where((places >= seen.begin) & (places < seen.end), scores, -math.inf)
        highest = tw.maximum(columns.highest, tw.max(scores, axis=0, keepdims=True))
        powers = tw.exp2(tw.fma(scores, scale, -(highest * scale)), ftz=True)
        fade = tw.exp2((columns.highest - highest) * scale, ftz=True)
        total = columns.total * fade + tw.sum(powers, axis=0, keepdims=True)
        values = load_channels(cache.v, (cache.b, cache.h, j), cache.BN, BD, 0).first
        mean = tw.mma(values.T, powers.astype(values.dtype), columns.mean * fade)
        columns = Columns(highest, total, mean)
    return columns


def _means(columns: Columns) -> Tile[f32]:
    """The weighted means of the values, [BG, BD]."""
    share = tw.divide(1.0, tw.maximum(columns.total, LEAST), rounding="approx")
    return (columns.mean * share).T


@tw.kernel(deny_checks=True, starts_early=True)
def attend_split(
    parts: Mut[
        f32, Cut[B, Literal[1]], Cut[K, Literal[1]], Cut[S, Literal[1]], Cut[G, BG], Cut[D, BD]
    ],
    lses: Mut[f32, Cut[B, Literal[1]], Cut[K, Literal[1]], Cut[S, Literal[1]], Cut[G, BG]],
    q: Ref[T, B, K, G, D], k: Ref[T, B, K, L, D], v: Ref[T, B, K, L, D],
    lengths: Ref[i32, B], scale: f32, window: i32, *, BN: Const[int] = 64,
) -> None:  # fmt: skip
    """The query heads of one key head against one range of the last `window` keys.

    `scale` is the scale of the scores times log2(e).
    """
    tw.require(D <= BD and G <= BG)
    b, h, split, _, _ = parts.index
    seen = _seen(Cache(k, v, b, h, BN, BD, 0), lengths, window)
    stretch = tw.cdiv(seen.last - seen.first, tw.num_blocks(2))
    low = seen.first + split * stretch
    queries = load_channels(q, (b, h, 0), BG, BD, 0).first.T
    columns = _attend(queries, seen, low, low + stretch, scale)
    parts.store(_means(columns).reshape(1, 1, 1, BG, BD))
    logs = (columns.highest * scale + tw.log2(columns.total)) * LN_2
    lses.store(logs.reshape(1, 1, 1, BG))


@tw.kernel(deny_checks=True, starts_early=True)
def attend_whole(
    z: Mut[T, Cut[B, Literal[1]], Cut[K, Literal[1]], Cut[G, BG], Cut[D, BD]],
    q: Ref[T, B, K, G, D], k: Ref[T, B, K, L, D], v: Ref[T, B, K, L, D],
    lengths: Ref[i32, B], scale: f32, window: i32, *, BN: Const[int] = 64,
) -> None:  # fmt: skip
    """The query heads of one key head against all of the last `window` keys."""
    tw.require(D <= BD and G <= BG)
    b, h, _, _ = z.index
    seen = _seen(Cache(k, v, b, h, BN, BD, 0), lengths, window)
    queries = load_channels(q, (b, h, 0), BG, BD, 0).first.T
    columns = _attend(queries, seen, seen.first, seen.last, scale)
    z.store(_means(columns).astype(z.dtype).reshape(1, 1, BG, BD))


# --- the launches ---------------------------------------------------------------------------------


class Parts(NamedTuple):
    """Partial results between the two kernels: a mean and a log-sum-exp for each range of keys."""

    means: tw.Tensor  # f32 (B, K, splits, H / K, D)
    lses: tw.Tensor  # f32 (B, K, splits, H / K)


def decode_parts(q: tw.Tensor, k: tw.Tensor) -> Parts:
    """Reusable memory for the partial results of `decode_attention` of these queries and keys."""
    q, k = (tw.from_dlpack(one) if hasattr(one, "__dlpack__") else one for one in (q, k))
    heads = _check("decode_parts", q, k, k)
    splits = choose_decode(heads)["SPLITS"]
    shape = (heads.batch, heads.key_heads, splits, heads.group)
    return Parts(
        tw.empty((*shape, heads.channels), f32, device=q.device),
        tw.empty(shape, f32, device=q.device),
    )


@tw.function
def decode_attention(
    q: tw.Tensor, k: tw.Tensor, v: tw.Tensor, lengths: tw.Tensor, *, scale: float | None = None,
    window: int | None = None, out: tw.Tensor | None = None, parts: Parts | None = None,
) -> tw.DeviceOp[tw.Tensor]:  # fmt: skip
    """`softmax(scale * q @ k.T) @ v` of one query a sequence, (B, H, D), with cached keys.

    Keys and values are (B, K, L, D); sequence b has filled the first `lengths[b]` positions. The
    lengths are i32 and read on the device. `window` restricts attention to the last keys. A
    sequence without keys gives zeros.

    The result of the operation is `out`, or a new tensor. `parts` holds partial results; a call
    that is recorded in a graph passes it explicitly, from `decode_parts(q, k)`.
    """
    caller = "decode_attention"
    heads = _check(caller, q, k, v)
    check_tensor(caller, "lengths", lengths, (i32,))
    check_extents(caller, "lengths", lengths, (heads.batch,))
    check_one_device(caller, q=q, lengths=lengths)
    numbers = (scale_of(caller, scale, heads), window_of(caller, window))
    z = output(caller, out, q.shape, q.dtype, q)
    if not z.size:
        return tw.value(z, device=z.device)
    between = decode_parts(q, k) if parts is None else _checked_parts(caller, parts, heads, q)
    config = choose_decode(heads)
    rows = columns_of(heads.group)
    operands = (_grouped(q, heads), k, v, lengths, *numbers)
    grouped = _grouped(z, heads)
    if between.lses.shape[2] == 1:
        cut = grouped.partition(1, 1, rows, heads.width)
        return giving(config.applied_to(attend_whole)(cut, *operands, BN=config["BN"]), z)
    cuts = (
        between.means.partition(1, 1, 1, rows, heads.width),
        between.lses.partition(1, 1, 1, rows),
    )
    first = config.applied_to(attend_split)(*cuts, *operands, BN=config["BN"])
    return giving(first.then(lambda _: merge(grouped, *between)), z)


def _check(caller: str, q: tw.Tensor, k: tw.Tensor, v: tw.Tensor) -> Heads:
    """Check queries (B, H, D) with keys and values (B, K, L, D)."""
    check_axes(caller, "sequence head channel", q=q)
    return check_attention(caller, q.unsqueeze(2), k, v)


def _grouped(tensor: tw.Tensor, heads: Heads) -> tw.Tensor:
    """(B, H, D) as (B, K, H / K, D)."""
    return tensor.reshape(heads.batch, heads.key_heads, heads.group, heads.channels)


def _checked_parts(caller: str, parts: Parts, heads: Heads, q: tw.Tensor) -> Parts:
    """Check that `parts` fits the problem; the number of splits is free."""
    if not isinstance(parts, Parts):
        raise tw.LaunchError(
            f"`parts` of {caller} is made by `decode_parts(q, k)`, not {shown(parts)}"
        )
    for name, tensor in zip(("parts.means", "parts.lses"), parts, strict=True):
        check_tensor(caller, name, tensor, (f32,))
        check_one_device(caller, **{"q": q, name: tensor})
    splits = parts.lses.shape[2] if parts.lses.ndim == 4 else 0
    if not 1 <= splits <= MOST_SPLITS:
        raise tw.LaunchError(
            f"`parts` of {caller} has 1 to {MOST_SPLITS} stretches, not {splits}: make it with"
            " `decode_parts(q, k)`"
        )
    shape = (heads.batch, heads.key_heads, splits, heads.group)
    check_extents(caller, "parts.lses", parts.lses, shape)
    check_extents(caller, "parts.means", parts.means, (*shape, heads.channels))
    return parts
