"""KV cache updates: keys and values of new tokens stored at positions that only the device knows.

- Few tokens: a block owns all positions of one head and writes its new tokens one by one.
- Many tokens: tiles of positions are dealt round-robin to as many blocks as there are tiles of new
  tokens, so each block owns about one tile of new tokens wherever they begin.
- On the CPU: a block owns all positions of many heads, each head in one line.
- Caches whose length cannot be dealt evenly: blocks share a walk over the tiles of positions from
  the first start to the last end, and the walk is the same in all blocks.

A tile of new tokens alone is copied; a tile that also holds old tokens is merged. In every case
each position has one writer, for any starts. `append_kv` at the end chooses and launches.
"""

from __future__ import annotations

from typing import Any, Literal

import tilewright as tw
from tilewright import All, Const, Cut, Mapped, Mut, Ref, i32
from tilewright.dims import BD, BM, B, D, K, L, M, N, R, S, T
from tilewright.kernels.arguments import (
    MOVED,
    check_extents,
    check_one_device,
    check_tensor,
    giving,
)
from tilewright.kernels.cutting import power_of_two
from tilewright.kernels.heads.arguments import FARTHEST, check_axes
from tilewright.kernels.large_tiles import TILE, WIDEST, on_cpu

__all__ = ["append_dealt", "append_few", "append_kv", "append_lines", "append_many"]

FEW = 16  # tokens that one block writes one after the other
STEP_BYTES = 2048  # a 16-byte load for each thread
TOGETHER = 2  # loads in flight for each thread, of keys and of values each


@tw.kernel(deny_checks=True)
def append_few(
    keys: Mut[T, Cut[B, Literal[1]], Cut[K, Literal[1]], Cut[L, All], Cut[D, BD]],
    values: Mut[T, Cut[B, Literal[1]], Cut[K, Literal[1]], Cut[L, All], Cut[D, BD]],
    k: Ref[T, B, K, S, D], v: Ref[T, B, K, S, D], starts: Ref[i32, B],
) -> None:  # fmt: skip
    """`keys[b, h, starts[b] + s] = k[b, h, s]` for all s of one head, and likewise the values."""
    tw.require(D <= BD)
    b, h, _, _ = keys.index
    ks, vs = k.partition(1, 1, 1, BD), v.partition(1, 1, 1, BD)
    key_rows, value_rows = keys.partition(1, 1, 1, BD), values.partition(1, 1, 1, BD)
    first = starts.partition(1)[b].item()
    for s in range(S):
        place = first + s
        if 0 <= place < L:
            key_rows.store(ks[b, h, s, 0], 0, 0, place, 0)
            value_rows.store(vs[b, h, s, 0], 0, 0, place, 0)


def _rows(new: Any, b: Any, h: Any, tokens: Any, width: Any) -> Any:
    """New tokens of a head, with all channels."""
    return new.gather(b, h, tokens, tw.arange(width).reshape(1, width))


def _merged(old: Any, new: Any, b: Any, h: Any, first: Any) -> Any:
    """Old positions with the new tokens inserted; the first position has token number `first`."""
    step, width = old.shape[len(old.shape) - 2], old.shape[len(old.shape) - 1]
    tokens = first + tw.arange(step).reshape(step, 1)
    is_new = (tokens >= 0) & (tokens < new.shape[2])
    rows = _rows(new, b, h, tokens, width)
    return tw.where(is_new, rows, old.reshape(step, width)).reshape(old.shape)


@tw.kernel(deny_checks=True, num_worker_warps=4, occupancy=6, allow_tma=False)
def append_dealt(
    keys: Mut[
        T, Cut[B, Literal[1]], Cut[K, Literal[1]],
        Cut[R, All], Literal[1], Cut[BM, All], Cut[D, All],
    ],
    values: Mut[
        T, Cut[B, Literal[1]], Cut[K, Literal[1]],
        Cut[R, All], Literal[1], Cut[BM, All], Cut[D, All],
    ],
    k: Ref[T, B, K, S, D], v: Ref[T, B, K, S, D], starts: Ref[i32, B],
    *, BM: Const[int], BD: Const[int], DEALT: Const[int] = 1, STEP: Const[int] = 1,
) -> None:  # fmt: skip
    """`append_few` for many tokens; caches are (B, K, rounds, DEALT, BM, D).

    A block owns one tile of each round. A round has room for all new tokens, so they fill at most
    one tile of a block, or parts of two. STEP: positions merged at a time in a tile that also holds
    old tokens.
    """
    tw.require(0 < D <= BD and S <= DEALT * BM)
    b, h, _, place, _, _ = keys.index
    key_tiles, key_parts = keys.partition(1, 1, 1, 1, BM, BD), keys.partition(1, 1, 1, 1, STEP, BD)
    value_tiles = values.partition(1, 1, 1, 1, BM, BD)
    value_parts = values.partition(1, 1, 1, 1, STEP, BD)
    start = tw.clamp(starts.partition(1)[b].item(), -FARTHEST, FARTHEST) - place * BM
    a_round, rounds = DEALT * BM, keys.shape[2]
    t = (start - BM) // a_round + 1  # the first round with new tokens in this block's tiles
    first = t * a_round - start
    if 0 <= first < S - (BM - 1):
        if 0 <= t < rounds:
            tokens = first + tw.arange(BM).reshape(BM, 1)
            key_rows, value_rows = _rows(k, b, h, tokens, BD), _rows(v, b, h, tokens, BD)
            key_tiles.store(key_rows.reshape(1, 1, 1, 1, BM, BD), 0, 0, t, 0, 0, 0)
            value_tiles.store(value_rows.reshape(1, 1, 1, 1, BM, BD), 0, 0, t, 0, 0, 0)
    else:
        for r in range(tw.maximum(t, 0), tw.minimum(tw.cdiv(start + S, a_round), rounds)):
            for part in range(BM // STEP):
                at = r * a_round - start + part * STEP
                key_rows = _merged(key_parts[0, 0, r, 0, part, 0], k, b, h, at)
                key_parts.store(key_rows, 0, 0, r, 0, part, 0)
                value_rows = _merged(value_parts[0, 0, r, 0, part, 0], v, b, h, at)
                value_parts.store(value_rows, 0, 0, r, 0, part, 0)


@tw.kernel(deny_checks=True, num_worker_warps=4, occupancy=8, allow_tma=False)
def append_many(
    keys: Mapped[T, Cut[B, Literal[1]], Cut[K, Literal[1]], Cut[L, BM], Cut[D, BD]],
    values: Mapped[T, Cut[B, Literal[1]], Cut[K, Literal[1]], Cut[L, BM], Cut[D, BD]],
    k: Ref[T, B, K, S, D], v: Ref[T, B, K, S, D], starts: Ref[i32, B],
    *, BB: Const[int] = 1, STEP: Const[int] = 1,
) -> None:  # fmt: skip
    """`append_few` for many tokens, BM positions of a head at a time; BB covers all sequences.

    STEP: positions merged at a time in a tile that also holds old tokens.
    """
    tw.require(D <= BD and B <= BB and S < FARTHEST)
    sequences = tw.arange(BB)
    firsts = tw.clamp(starts.gather(sequences), -FARTHEST, FARTHEST)
    low = tw.min(tw.where(sequences < B, firsts, FARTHEST), axis=0).item()
    high = tw.max(tw.where(sequences < B, firsts, -FARTHEST), axis=0).item() + S
    tiles = (low // BM, tw.cdiv(high, BM))
    for at in keys.indices_with(values, within=(None, None, tiles, None)):
        b, h, tile, _ = at
        first = tile * BM - starts.partition(1)[b].item()
        if 0 <= first < S - (BM - 1):
            tokens = first + tw.arange(BM).reshape(BM, 1)
            key_rows, value_rows = _rows(k, b, h, tokens, BD), _rows(v, b, h, tokens, BD)
            keys.store(key_rows.reshape(1, 1, BM, BD), at)
            values.store(value_rows.reshape(1, 1, BM, BD), at)
        elif -BM < first < S:
            key_parts = keys.piece(at).partition(1, 1, STEP, BD)
            value_parts = values.piece(at).partition(1, 1, STEP, BD)
            for part in range(key_parts.num_tiles(2)):
                token = first + part * STEP
                key_parts.store(_merged(key_parts[0, 0, part, 0], k, b, h, token), 0, 0, part, 0)
            for part in range(value_parts.num_tiles(2)):
                token = first + part * STEP
                value_parts.store(
                    _merged(value_parts[0, 0, part, 0], v, b, h, token), 0, 0, part, 0
                )


@tw.kernel(deny_checks=True)
def append_lines(
    keys: Mut[T, Cut[B, Literal[1]], Cut[K, BM], Cut[N, All]],
    values: Mut[T, Cut[B, Literal[1]], Cut[K, BM], Cut[N, All]],
    k: Ref[T, B, K, M], v: Ref[T, B, K, M], starts: Ref[i32, B],
    *, BN: Const[int], CHANNELS: Const[int],
) -> None:  # fmt: skip
    """`append_few` for BM heads at once, BN elements at a time; a line is all tokens of a head."""
    b, h, _ = keys.index
    start = tw.clamp(starts.partition(1)[b].item(), -(M // CHANNELS), N // CHANNELS) * CHANNELS
    heads = (h * BM + tw.arange(BM)).reshape(BM, 1)
    key_tiles, value_tiles = keys.partition(1, BM, BN), values.partition(1, BM, BN)
    end = tw.minimum(tw.cdiv(start + M, BN), key_tiles.num_tiles(2))
    for tile in range(tw.maximum(start // BN, 0), end):
        first = tile * BN - start
        at = (first + tw.arange(BN)).reshape(1, BN)
        new_keys = k.gather(b, heads, at).reshape(1, BM, BN)
        new_values = v.gather(b, heads, at).reshape(1, BM, BN)
        if first < 0 or first > M - BN:  # also old tokens
            is_new = ((at >= 0) & (at < M)).reshape(1, 1, BN)
            new_keys = tw.where(is_new, new_keys, key_tiles[0, 0, tile])
            new_values = tw.where(is_new, new_values, value_tiles[0, 0, tile])
        key_tiles.store(new_keys, 0, 0, tile)
        value_tiles.store(new_values, 0, 0, tile)


# --- the launch -----------------------------------------------------------------------------------


def _has_lines(x: tw.Tensor) -> bool:
    """Whether the tokens of each head follow each other without gaps."""
    *_, tokens, channels = x.shape
    gaps = x.strides[3] != 1 or x.strides[2] != channels
    return x.size > 0 and not gaps and tokens * channels <= FARTHEST


def _append_lines(
    keys: tw.Tensor, values: tw.Tensor, k: tw.Tensor, v: tw.Tensor, starts: tw.Tensor
) -> tw.DeviceOp[Any]:
    """Launch `append_lines` with tiles as wide as all new tokens of a head, or the widest."""
    batch, heads, tokens, channels = k.shape
    across = min(power_of_two(tokens * channels), WIDEST)
    together = min(power_of_two(heads), TILE // across)
    old, new = ((batch, heads, x.shape[2] * channels) for x in (keys, k))
    pieces = (cache.reshape(old).partition(1, together, None) for cache in (keys, values))
    fresh = (x.reshape(new) for x in (k, v))
    return append_lines(*pieces, *fresh, starts, BN=across, CHANNELS=channels)


@tw.function
def append_kv(
    keys: tw.Tensor, values: tw.Tensor, k: tw.Tensor, v: tw.Tensor, starts: tw.Tensor
) -> tw.DeviceOp[tuple[tw.Tensor, tw.Tensor]]:
    """`keys[b, h, starts[b] + s] = k[b, h, s]`, and likewise the values.

    Caches are (B, K, L, D), new keys and values (B, K, S, D), all of one dtype, 8-bit floats
    included; `starts` is i32 (B) and read on the device. A position outside the caches is skipped,
    whatever `starts` holds. The result of the operation is the two caches.
    """
    caller = "append_kv"
    check_axes(caller, "sequence head place channel", MOVED, keys=keys, values=values, k=k, v=v)
    batch, heads, places, channels = keys.shape
    check_extents(caller, "values", values, keys.shape)
    check_extents(caller, "k", k, (batch, heads, k.shape[2], channels))
    check_extents(caller, "v", v, k.shape)
    check_tensor(caller, "starts", starts, (i32,))
    check_extents(caller, "starts", starts, (batch,))
    check_one_device(caller, keys=keys, starts=starts)
    width = power_of_two(channels)
    if on_cpu(keys) and all(map(_has_lines, (keys, values, k, v))):
        return giving(_append_lines(keys, values, k, v, starts), (keys, values))
    if k.shape[2] <= FEW:
        pieces = (cache.partition(1, 1, None, width) for cache in (keys, values))
        return giving(append_few(*pieces, k, v, starts), (keys, values))
    step = max(STEP_BYTES // (width * keys.itemsize), 1)
    if on_cpu(keys):
        step = max(min(TILE // width, power_of_two(k.shape[2])) // TOGETHER, 1)
    tile = TOGETHER * step
    tiles = -(-k.shape[2] // tile)
    dealt = power_of_two(tiles)
    rounds, rest = divmod(places, dealt * tile)
    if not rest and places <= FARTHEST:
        shape = (batch, heads, rounds, dealt, tile, channels)
        hands = (
            cache.reshape(shape).partition(1, 1, None, 1, None, None) for cache in (keys, values)
        )
        sizes = {"BM": tile, "BD": width, "DEALT": dealt, "STEP": step}
        return giving(append_dealt(*hands, k, v, starts, **sizes), (keys, values))
    # Starts differ, and most visits of a walk may find no work: launch a block for each tile, if
    # all sequences have about as many new tokens as old ones.
    blocks = max(batch * heads * 2 * (tiles + 1), 1)
    walks = (cache.partition(1, 1, tile, width).persistent(blocks) for cache in (keys, values))
    how = {"BB": power_of_two(batch), "STEP": step}
    return giving(append_many(*walks, k, v, starts, **how), (keys, values))
