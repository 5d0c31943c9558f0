"""Keys and values of new tokens written into caches, at places that only the device knows.

Few tokens: a block owns all places of one head and writes those that it is told to. Many: blocks
share a walk over the places from the first start to the last end, the same in all of them, and
write those that belong to a new token. Either way no place has two writers, whatever the starts.
`append_kv` at the end chooses and launches; it says what is computed.
"""

from __future__ import annotations

from typing import Literal

import tilewright as tw
from tilewright import All, Const, Mapped, Mut, Ref, i32
from tilewright.dims import BD, BH, B, D, K, S, T
from tilewright.kernels.arguments import (
    check_extents,
    check_one_device,
    check_tensor,
    giving,
)
from tilewright.kernels.attention_arguments import check_axes
from tilewright.kernels.cutting import power_of_two

__all__ = ["append_few", "append_kv", "append_many"]

FEW = 16  # tokens that one block writes one after the other
FARTHEST = 1 << 30


@tw.kernel(deny_checks=True)
def append_few(
    keys: Mut[T, Literal[1], Literal[1], All, BD], values: Mut[T, Literal[1], Literal[1], All, BD],
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
        if 0 <= place < min(key_rows.num_tiles(2), value_rows.num_tiles(2)):
            key_rows.store(ks[b, h, s, 0], 0, 0, place, 0)
            value_rows.store(vs[b, h, s, 0], 0, 0, place, 0)


@tw.kernel(deny_checks=True)
def append_many(
    keys: Mapped[T, Literal[1], BH, Literal[1], BD],
    values: Mapped[T, Literal[1], BH, Literal[1], BD],
    k: Ref[T, B, K, S, D], v: Ref[T, B, K, S, D], starts: Ref[i32, B], *, BB: Const[int] = 1,
) -> None:  # fmt: skip
    """The same of all heads, one place at a time; BB is enough for all sequences."""
    tw.require(D <= BD and B <= BB)
    ks, vs = k.partition(1, BH, 1, BD), v.partition(1, BH, 1, BD)
    sequences = tw.arange(BB)
    firsts = starts.gather(sequences)
    low = tw.min(tw.where(sequences < B, firsts, FARTHEST), axis=0).item()
    high = tw.max(tw.where(sequences < B, firsts, -FARTHEST), axis=0).item() + S
    for at in keys.indices_with(values, within=(None, None, (low, high), None)):
        b, h, place, _ = at
        token = place - starts.partition(1)[b].item()
        if 0 <= token < S:
            keys.store(ks[b, h, token, 0], at)
            values.store(vs[b, h, token, 0], at)


# --- the launch -----------------------------------------------------------------------------------


def append_kv(
    keys: tw.Tensor, values: tw.Tensor, k: tw.Tensor, v: tw.Tensor, starts: tw.Tensor
) -> tw.DeviceOp[tuple[tw.Tensor, tw.Tensor]]:
    """`keys[b, h, starts[b] + s] = k[b, h, s]`, and the values alike.

    Caches are (B, K, L, D), new keys and values (B, K, S, D); `starts` is i32 (B) and read on the
    device. A place that the caches do not have is left out, whatever `starts` holds. The result of
    the operation is the two caches.
    """
    caller = "append_kv"
    check_axes(caller, "sequence head place channel", keys=keys, values=values, k=k, v=v)
    batch, heads, _, channels = keys.shape
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
    tile = (1, power_of_two(heads), 1, width)
    walks = (cache.partition(*tile).persistent() for cache in (keys, values))
    return giving(append_many(*walks, k, v, starts, BB=power_of_two(batch)), (keys, values))
