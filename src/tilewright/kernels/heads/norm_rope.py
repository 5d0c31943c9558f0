"""Queries and keys before attention in one launch: RMS norm of heads, rotation, KV cache.

A pair of channels, c and `c + D/2`, has an axis of its own, so any even number of channels fits a
tile. Few tokens: a block owns one key head of a sequence, with its positions in the caches and the
query heads that share it. Many tokens: blocks own tiles of tokens, and `append_kv` deals positions
to blocks. `norm_rope_append` at the end chooses and launches.
"""

from __future__ import annotations

from typing import Any, Literal

import tilewright as tw
from tilewright import All, Const, Cut, Mut, Ref, Tile, bf16, f16, f32, i32
from tilewright.dims import BH, BS, B, G, H, K, L, P, S, T
from tilewright.kernels.arguments import (
    check_extents,
    check_one_device,
    check_tensor,
    giving,
    output,
    real_number,
)
from tilewright.kernels.cutting import power_of_two
from tilewright.kernels.heads.arguments import check_axes
from tilewright.kernels.heads.decode import BG
from tilewright.kernels.heads.kv_cache import append_kv
from tilewright.kernels.heads.rotary import BP, HALF, rope
from tilewright.kernels.large_tiles import tile_for

__all__ = ["norm_rope", "norm_rope_append", "norm_rope_few"]

DTYPES = (f16, bf16, f32)
FEW = 16  # tokens that one block prepares one after the other
TILE = 2048  # elements
Pair = Literal[2]


def _turned(
    one: Tile[Any], two: Tile[Any], weight: Ref[Any, Pair, HALF], angle: tuple[Any, Any], eps: f32,
    NORMED: bool,
) -> tuple[Tile[f32], Tile[f32]]:  # fmt: skip
    """The RMS norm of heads given as halves [rows, BP], rotated; zeros behind HALF stay zeros."""
    u, v, (cos, sin) = one.astype(f32), two.astype(f32), angle
    if NORMED:
        squares = tw.sum(u * u + v * v, axis=1, keepdims=True)
        scale = tw.rsqrt(squares / f32(2 * weight.shape[1]) + eps)
        weights = weight.partition(1, one.shape[1])
        u *= scale * weights[0, 0].astype(f32)
        v *= scale * weights[1, 0].astype(f32)
    return u * cos - v * sin, v * cos + u * sin


@tw.kernel(deny_checks=True, starts_early=True)
def norm_rope_few(
    z: Mut[
        T, Cut[B, Literal[1]], Cut[K, Literal[1]], Cut[G, BG], Cut[S, All], Cut[Pair, Pair],
        Cut[HALF, BP],
    ],
    keys: Mut[
        T, Cut[B, Literal[1]], Cut[K, Literal[1]], Cut[L, All], Cut[Pair, Pair], Cut[HALF, BP]
    ],
    values: Mut[
        T, Cut[B, Literal[1]], Cut[K, Literal[1]], Cut[L, All], Cut[Pair, Pair], Cut[HALF, BP]
    ],
    q: Ref[T, B, K, G, S, Pair, HALF], k: Ref[T, B, K, S, Pair, HALF],
    v: Ref[T, B, K, S, Pair, HALF], q_norm: Ref[T, Pair, HALF], k_norm: Ref[T, Pair, HALF],
    cosines: Ref[f32, P, HALF], sines: Ref[f32, P, HALF], starts: Ref[i32, B], eps: f32,
    *, NORMED: Const[bool] = False,
) -> None:  # fmt: skip
    """One key head and its query heads: `z = rotated(norm(q))`, keys and values appended."""
    tw.require(HALF <= BP and G <= BG)
    b, h = keys.index[0], keys.index[1]
    queries, new_keys, new_values = (
        q.partition(1, 1, BG, 1, 1, BP), k.partition(1, 1, 1, 1, BP), v.partition(1, 1, 1, 1, BP)
    )  # fmt: skip
    turned = z.partition(1, 1, BG, 1, 1, BP)
    key_rows, value_rows = keys.partition(1, 1, 1, 1, BP), values.partition(1, 1, 1, 1, BP)
    first = starts.partition(1)[b].item()
    for s in range(S):
        place = first + s
        angle = cosines.gather(place, tw.arange(BP)), sines.gather(place, tw.arange(BP))
        u = queries[b, h, 0, s, 0, 0].reshape(BG, BP)
        w = queries[b, h, 0, s, 1, 0].reshape(BG, BP)
        one, two = _turned(u, w, q_norm, angle, eps, NORMED)
        turned.store(one.astype(z.dtype).reshape(1, 1, BG, 1, 1, BP), 0, 0, 0, s, 0, 0)
        turned.store(two.astype(z.dtype).reshape(1, 1, BG, 1, 1, BP), 0, 0, 0, s, 1, 0)
        if 0 <= place < L:
            u, w = new_keys[b, h, s, 0, 0].reshape(1, BP), new_keys[b, h, s, 1, 0].reshape(1, BP)
            one, two = _turned(u, w, k_norm, angle, eps, NORMED)
            key_rows.store(one.astype(z.dtype).reshape(1, 1, 1, 1, BP), 0, 0, place, 0, 0)
            key_rows.store(two.astype(z.dtype).reshape(1, 1, 1, 1, BP), 0, 0, place, 1, 0)
            value_rows.store(new_values[b, h, s, 0, 0], 0, 0, place, 0, 0)
            value_rows.store(new_values[b, h, s, 1, 0], 0, 0, place, 1, 0)


@tw.kernel(deny_checks=True)
def norm_rope(
    z: Mut[T, Cut[B, Literal[1]], Cut[H, BH], Cut[S, BS], Cut[Pair, Pair], Cut[HALF, BP]],
    x: Ref[T, B, H, S, Pair, HALF], weight: Ref[T, Pair, HALF],
    cosines: Ref[f32, P, HALF], sines: Ref[f32, P, HALF], starts: Ref[i32, B], eps: f32,
) -> None:  # fmt: skip
    """BS tokens of BH heads, normed and rotated by the angles of their positions."""
    tw.require(HALF <= BP)
    b, h, i, _, _ = z.index
    places = starts.partition(1)[b].item() + i * BS + tw.arange(BH * BS).reshape(BH * BS, 1) % BS
    angle = cosines.gather(places, tw.arange(BP)), sines.gather(places, tw.arange(BP))
    halves, turned = x.partition(1, BH, BS, 1, BP), z.partition(1, BH, BS, 1, BP)
    u, w = halves[b, h, i, 0, 0].reshape(BH * BS, BP), halves[b, h, i, 1, 0].reshape(BH * BS, BP)
    one, two = _turned(u, w, weight, angle, eps, True)
    turned.store(one.astype(z.dtype).reshape(1, BH, BS, 1, BP), 0, 0, 0, 0, 0)
    turned.store(two.astype(z.dtype).reshape(1, BH, BS, 1, BP), 0, 0, 0, 1, 0)


# --- the launch -----------------------------------------------------------------------------------


@tw.function
def norm_rope_append(
    q: tw.Tensor, k: tw.Tensor, v: tw.Tensor, keys: tw.Tensor, values: tw.Tensor,
    cosines: tw.Tensor, sines: tw.Tensor, starts: tw.Tensor, *,
    q_norm: tw.Tensor | None = None, k_norm: tw.Tensor | None = None, eps: float = 1e-6,
    out: tw.Tensor | None = None,
) -> tw.DeviceOp[tw.Tensor]:  # fmt: skip
    """Queries (B, H, S, D), ready for attention, with new keys and values in the caches.

    Heads of `q` and `k` are normed, `x / sqrt(mean(x²) + eps) * weight` with the weights `q_norm`
    and `k_norm` (D) if both are given, and then rotated as `rope` does. Keys and values (B, K, S,
    D) are stored as `append_kv` does, at positions from `starts[b]` on of the caches (B, K, L, D).
    `starts` is i32 (B), and read on the device.

    The result of the operation is `out`, or a new tensor: the rotated queries.
    """
    caller = "norm_rope_append"
    _check(caller, (q, k, v), (keys, values), (cosines, sines, starts), (q_norm, k_norm))
    eps = real_number(caller, "eps", eps)
    z = output(caller, out, q.shape, q.dtype, q)
    batch, heads, tokens, channels = q.shape
    if not z.size:
        return tw.value(z, device=z.device)
    angles = (cosines, sines, starts)
    if tokens > FEW:
        return _many(z, (q, k, v), (keys, values), angles, (q_norm, k_norm, eps))
    wide, group = power_of_two(channels // 2), heads // k.shape[1]
    grouped = (batch, k.shape[1], group, tokens, 2, channels // 2)
    cuts = (
        z.reshape(grouped).partition(1, 1, power_of_two(group), None, 2, wide),
        *(_paired(one).partition(1, 1, None, 2, wide) for one in (keys, values)),
    )
    unread = q[0, 0, 0]  # in place of weights that are not given
    norms = (_paired(unread if one is None else one) for one in (q_norm, k_norm))
    operands = (q.reshape(grouped), _paired(k), _paired(v), *norms, *angles, eps)
    return giving(norm_rope_few(*cuts, *operands, NORMED=q_norm is not None), z)


def _many(z: tw.Tensor, new: Any, caches: Any, angles: Any, norms: Any) -> tw.DeviceOp[Any]:
    """The launches for many tokens."""
    (q, k, v), (keys, values), (_, _, starts) = new, caches, angles
    q_norm, k_norm, eps = norms
    turned = tw.empty(k.shape, k.dtype, device=k.device)
    launches = (_rotated(z, q, angles, q_norm, eps), _rotated(turned, k, angles, k_norm, eps))
    both = tw.zip(*launches)
    return giving(both.then(lambda _: append_kv(keys, values, turned, v, starts)), z)


def _rotated(
    z: tw.Tensor, x: tw.Tensor, angles: Any, norm: tw.Tensor | None, eps: float
) -> tw.DeviceOp[Any]:
    if norm is None:
        return rope(x, angles[0], angles[1], starts=angles[2], out=z)
    _, heads, tokens, channels = x.shape
    wide = power_of_two(channels // 2)
    most = max(tile_for(z, TILE) // (2 * wide), 1)
    across = min(power_of_two(tokens), most)
    tile = (min(power_of_two(heads), max(most // across, 1)), across)
    cut = _paired(z).partition(1, *tile, 2, wide)
    return norm_rope(cut, _paired(x), _paired(norm), *angles, eps)


def _paired(x: tw.Tensor) -> tw.Tensor:
    """A view with an axis for the halves of the channels."""
    *outer, channels = x.shape
    return x.reshape(*outer, 2, channels // 2)


def _check(caller: str, new: Any, caches: Any, angles: Any, norms: Any) -> None:
    """Refuse tensors that do not fit each other."""
    (q, k, v), (keys, values), (cosines, sines, starts) = new, caches, angles
    axes = "sequence head place channel"
    check_axes(caller, axes, DTYPES, q=q, k=k, v=v, keys=keys, values=values)
    batch, heads, tokens, channels = q.shape
    key_heads = k.shape[1]
    if not key_heads or heads % key_heads or channels % 2 or not channels:
        raise tw.LaunchError(
            f"{caller} takes an even number of channels, and query heads that are a multiple of the"
            f" key heads: shapes {q.shape} and {k.shape}"
        )
    check_extents(caller, "k", k, (batch, key_heads, tokens, channels))
    check_extents(caller, "v", v, k.shape)
    check_extents(caller, "keys", keys, (batch, key_heads, keys.shape[2], channels))
    check_extents(caller, "values", values, keys.shape)
    rows = cosines.shape[0] if isinstance(cosines, tw.Tensor) and cosines.ndim else 0
    for name, table in (("cosines", cosines), ("sines", sines)):
        check_tensor(caller, name, table, (f32,))
        check_extents(caller, name, table, (rows, channels // 2))
    check_tensor(caller, "starts", starts, (i32,))
    check_extents(caller, "starts", starts, (batch,))
    check_one_device(caller, q=q, cosines=cosines, sines=sines, starts=starts)
    if (norms[0] is None) != (norms[1] is None):
        raise tw.LaunchError(f"{caller} norms queries and keys, or neither: give both weights")
    for name, weight in zip(("q_norm", "k_norm"), norms, strict=True):
        if weight is not None:
            check_tensor(caller, name, weight, (q.dtype,))
            check_extents(caller, name, weight, (channels,))
