"""Decode attention: one query a sequence, with the keys split between blocks.

Decode attention reads every key once and runs at the bandwidth of memory if the whole GPU reads.
The keys of a head are split into ranges: each block processes one range for all query heads that
share it, and stores the weighted mean of the values with the log-sum-exp of the scores;
`merge_splits` combines the ranges. The length of each sequence is read on the device.
`decode_attention` at the end chooses the split and launches.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import tilewright as tw
from tilewright import Const, Cut, Mut, Ref, f32, i32
from tilewright.dims import BD, B, D, G, K, L, S, T
from tilewright.kernels.arguments import (
    check_extents,
    check_one_device,
    check_tensor,
    giving,
    output,
    shown,
)
from tilewright.kernels.cutting import power_of_two
from tilewright.kernels.heads.arguments import (
    Heads,
    check_attention,
    check_axes,
    scale_of,
    window_of,
)
from tilewright.kernels.heads.channels import load_channels, scores_of
from tilewright.kernels.heads.configs import choose_decode
from tilewright.kernels.heads.online_softmax import (
    add,
    fresh,
    log_of_sums,
    means,
)
from tilewright.kernels.heads.splitting import MOST_SPLITS, merge

__all__ = ["Parts", "attend_split", "decode_attention", "decode_parts"]


class BG(tw.Dim):
    """Tile extent of `G`: all query heads that share a key head."""


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
    keys = k.partition(1, 1, BN, BD)
    queries = load_channels(q, (b, h, 0), BG, BD, 0)
    end = tw.minimum(lengths.partition(1)[b].item(), k.shape[2])
    begin = tw.maximum(end - window, 0)
    first, last = begin // BN, min(tw.cdiv(end, BN), keys.num_tiles(2))  # tiles
    stretch = tw.cdiv(last - first, tw.num_blocks(2))
    rows = fresh(queries)
    low = first + split * stretch
    for j in range(tw.maximum(low, 0), tw.minimum(low + stretch, last)):
        scores = scores_of(queries, load_channels(k, (b, h, j), BN, BD, 0))  # [BG, BN]
        columns = j * BN + tw.arange(BN)
        scores = tw.where((columns >= begin) & (columns < end), scores, -math.inf)
        rows = add(rows, scores, load_channels(v, (b, h, j), BN, BD, 0), scale)
    parts.store(means(rows).first.reshape(1, 1, 1, BG, BD))
    lses.store(log_of_sums(rows, scale).reshape(1, 1, 1, BG))


# --- the launches ---------------------------------------------------------------------------------


class Parts(NamedTuple):
    """Partial results between the two kernels: a mean and a log-sum-exp for each range of keys."""

    means: tw.Tensor  # f32 (B, K, splits, H / K, D)
    lses: tw.Tensor  # f32 (B, K, splits, H / K)


def decode_parts(q: tw.Tensor, k: tw.Tensor) -> Parts:
    """Reusable memory for the partial results of `decode_attention` of these queries and keys."""
    q, k = (tw.from_dlpack(one) if hasattr(one, "__dlpack__") else one for one in (q, k))
    heads = _check("decode_parts", q, k, k)
    config = choose_decode(heads)
    most = min(-(-heads.length // config["BN"]), MOST_SPLITS)
    pairs = heads.batch * heads.key_heads
    splits = max(1, min(config["BLOCKS"] // max(pairs, 1), most))
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
    rows = max(16, power_of_two(heads.group))  # least rows of a tensor-core tile
    first = config.applied_to(attend_split)(
        between.means.partition(1, 1, 1, rows, heads.width),
        between.lses.partition(1, 1, 1, rows),
        *(_grouped(q, heads), k, v, lengths),
        *numbers,
        BN=config["BN"],
    )
    return giving(first.then(lambda _: merge(_grouped(z, heads), *between)), z)


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
