"""Keys and values of new tokens written into caches, at places that only the device knows.

Few tokens: a block owns all places of one head and writes those that it is told to. Many: places
are dealt out in tiles, as cards are, to as many blocks as there are tiles of new tokens; so each
owns about one of theirs, wherever they begin. Caches of lengths that cannot be dealt out evenly:
blocks share a walk over tiles of places from the first start to the last end, the same in all of
them. Tiles of new tokens are copied, and where old ones lie beside them both are merged. Either way
no place has two writers, whatever the starts. `append_kv` at the end chooses and launches; it says
what is computed.
"""

from __future__ import annotations

from typing import Any, Literal

import tilewright as tw
from tilewright import All, Const, Cut, Mapped, Mut, Ref, i32
from tilewright.dims import BD, BM, B, D, K, L, R, S, T
from tilewright.kernels.arguments import (
    MOVED,
    check_extents,
    check_one_device,
    check_tensor,
    giving,
)
from tilewright.kernels.cutting import power_of_two
from tilewright.kernels.heads.arguments import check_axes

__all__ = ["append_dealt", "append_few", "append_kv", "append_many"]

FEW = 16  # tokens that one block writes one after the other
FARTHEST = 1 << 30
STEP_BYTES = 2048  # a load of 16 bytes for each thread
TOGETHER = 2  # such loads that a thread has in flight, of keys and of values each


@tw.kernel(deny_checks=True)
def append_few(
    keys: Mut[T, Cut[B, Literal[1]], Cut[K, Literal[1]], Cut[L, All], Cut[D, BD]],
    values: Mut[T, Cut[B, Literal[1]], Cut[K, Literal[1]], Cut[L, All], Cut[D, BD]],
    k: Ref[T, B, K, S, D], v: Ref[T, B, K, S, D], starts: Ref[i32, B],
) -> None:  # fmt: skip
    """`keys[b, h, starts[b] + s] = k[b, h, s]` for all s of one head, and the values alike."""
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
    """New tokens of a head, all channels."""
    return new.gather(b, h, tokens, tw.arange(width).reshape(1, width))


def _merged(old: Any, new: Any, b: Any, h: Any, first: Any) -> Any:
    """Of places that may have old tokens, those of new ones with theirs; the first is so many."""
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
    """The same; caches are (B, K, rounds, DEALT, BM, D): a block owns a tile of each round.

    A round has room for all new tokens: they fill one tile of a block at most, or parts of two.
    STEP: places that are merged at a time where a tile has places of old tokens too.
    """
    tw.require(0 < D <= BD and S <= DEALT * BM)
    b, h, _, place, _, _ = keys.index
    key_tiles, key_parts = keys.partition(1, 1, 1, 1, BM, BD), keys.partition(1, 1, 1, 1, STEP, BD)
    value_tiles = values.partition(1, 1, 1, 1, BM, BD)
    value_parts = values.partition(1, 1, 1, 1, STEP, BD)
    start = tw.clamp(starts.partition(1)[b].item(), -FARTHEST, FARTHEST) - place * BM
    a_round, rounds = DEALT * BM, keys.shape[2]
    t = (start - BM) // a_round + 1  # the first round in which this block owns places of tokens
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
    """The same, BM places of a head at a time; BB is enough for all sequences.

    STEP: places that are merged at a time where a tile has places of old tokens too.
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


# --- the launch -----------------------------------------------------------------------------------


@tw.function
def append_kv(
    keys: tw.Tensor, values: tw.Tensor, k: tw.Tensor, v: tw.Tensor, starts: tw.Tensor
) -> tw.DeviceOp[tuple[tw.Tensor, tw.Tensor]]:
    """`keys[b, h, starts[b] + s] = k[b, h, s]`, and the values alike.

    Caches are (B, K, L, D), new keys and values (B, K, S, D), all of one dtype, also an 8-bit one;
    `starts` is i32 (B) and read on the device. A place that the caches do not have is left out,
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
    if k.shape[2] <= FEW:
        pieces = (cache.partition(1, 1, None, width) for cache in (keys, values))
        return giving(append_few(*pieces, k, v, starts), (keys, values))
    step = max(STEP_BYTES // (width * keys.itemsize), 1)
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
    # Starts differ, and most visits may find nothing to do: a block for each tile, if all have
    # about as many new tokens as old ones.
    blocks = max(batch * heads * 2 * (tiles + 1), 1)
    walks = (cache.partition(1, 1, tile, width).persistent(blocks) for cache in (keys, values))
    how = {"BB": power_of_two(batch), "STEP": step}
    return giving(append_many(*walks, k, v, starts, **how), (keys, values))
