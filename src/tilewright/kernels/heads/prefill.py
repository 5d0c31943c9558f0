"""Prefill attention: many queries, full, causal or with a sliding window, with grouped heads.

A block takes BM queries of one head, one tile of them after the other, or one of several ranges of
the keys. `attention` at the end chooses tiles and launches.
"""

from __future__ import annotations

from typing import Any, Literal

import tilewright as tw
from tilewright import Const, Cut, Mapped, Mut, Ref, f32, i32
from tilewright.dims import BD, BM, B, D, H, K, L, S, T
from tilewright.kernels.arguments import giving, output
from tilewright.kernels.heads.arguments import (
    check_attention,
    check_lse,
    scale_of,
    width_of,
    window_of,
)
from tilewright.kernels.heads.attending import Cache, Sight, attend, attend_behind
from tilewright.kernels.heads.channels import load_channels, store_channels
from tilewright.kernels.heads.configs import choose_prefill
from tilewright.kernels.heads.online_softmax import log_of_sums, means
from tilewright.kernels.heads.splitting import attention_splits, merge
from tilewright.tune import Config

__all__ = [
    "attention",
    "attention_tiles",
    "attention_tiles_with_lse",
    "attention_walk",
]


# Under a causal mask the last queries see the most keys, so their tiles come first: head by head,
# so that tiles that run at once share keys in the cache, or interleaved over all heads.
LONGEST_FIRST = {False: (0, 1, ~2, 3), True: (~2, 0, 1, 3)}


@tw.kernel(deny_checks=True, starts_early=True)
def attention_tiles(
    z: Mut[T, Cut[B, Literal[1]], Cut[H, Literal[1]], Cut[S, BM], Cut[D, BD]],
    q: Ref[T, B, H, S, D], k: Ref[T, B, K, L, D], v: Ref[T, B, K, L, D], scale: f32, window: i32,
    *, BN: Const[int] = 128, GROUP: Const[int] = 1, CAUSAL: Const[bool] = False,
    WINDOWED: Const[bool] = False, EVEN: Const[bool] = False, BEHIND: Const[bool] = False,
    REST: Const[int] = 0,
) -> None:  # fmt: skip
    """BM queries of one head; GROUP query heads share a key head; EVEN: BN divides L.

    BEHIND requires a mask that leaves a single tile of keys in part: no window, and tiles of
    queries that divide those of keys. REST is that of `channels`, 0 for a single tile. `scale` is
    the scale of the scores times log2(e).
    """
    if REST:
        tw.require(BD // 2 < D <= BD // 2 + REST)
    else:
        tw.require(D <= BD)
    if EVEN:
        tw.require(L % BN == 0)
    if BEHIND:
        tw.static_assert(not WINDOWED and (not CAUSAL or BM <= BN))
        tw.require(L >= 1 and (not CAUSAL or (L - S) % BN == 0))
    b, h, i, _ = z.index
    queries = load_channels(q, (b, h, i), BM, BD, REST)
    cache = Cache(k, v, b, h // GROUP, BN, BD, REST)
    sight = Sight(CAUSAL, WINDOWED, packed=False, even=EVEN, window=window, low=0, high=L)
    form = attend_behind if BEHIND else attend
    rows = form(queries, cache, L - S + i * BM, sight, scale)
    store_channels(z, means(rows))


@tw.kernel(deny_checks=True, starts_early=True)
def attention_tiles_with_lse(
    z: Mut[T, Cut[B, Literal[1]], Cut[H, Literal[1]], Cut[S, BM], Cut[D, BD]],
    lse: Mut[f32, Cut[B, Literal[1]], Cut[H, Literal[1]], Cut[S, BM]],
    q: Ref[T, B, H, S, D], k: Ref[T, B, K, L, D], v: Ref[T, B, K, L, D], scale: f32, window: i32,
    *, BN: Const[int] = 128, GROUP: Const[int] = 1, CAUSAL: Const[bool] = False,
    WINDOWED: Const[bool] = False, EVEN: Const[bool] = False, BEHIND: Const[bool] = False,
    REST: Const[int] = 0,
) -> None:  # fmt: skip
    """`attention_tiles` that also stores `lse`, the log-sum-exp of each query."""
    if REST:
        tw.require(BD // 2 < D <= BD // 2 + REST)
    else:
        tw.require(D <= BD)
    if EVEN:
        tw.require(L % BN == 0)
    if BEHIND:
        tw.static_assert(not WINDOWED and (not CAUSAL or BM <= BN))
        tw.require(L >= 1 and (not CAUSAL or (L - S) % BN == 0))
    b, h, i, _ = z.index
    queries = load_channels(q, (b, h, i), BM, BD, REST)
    cache = Cache(k, v, b, h // GROUP, BN, BD, REST)
    sight = Sight(CAUSAL, WINDOWED, packed=False, even=EVEN, window=window, low=0, high=L)
    form = attend_behind if BEHIND else attend
    rows = form(queries, cache, L - S + i * BM, sight, scale)
    store_channels(z, means(rows))
    lse.store(log_of_sums(rows, scale).reshape(1, 1, BM))


@tw.kernel(deny_checks=True, starts_early=True)
def attention_walk(
    z: Mapped[T, Cut[B, Literal[1]], Cut[H, Literal[1]], Cut[S, BM], Cut[D, BD]],
    q: Ref[T, B, H, S, D], k: Ref[T, B, K, L, D], v: Ref[T, B, K, L, D], scale: f32, window: i32,
    *, BN: Const[int] = 128, GROUP: Const[int] = 1, CAUSAL: Const[bool] = False,
    WINDOWED: Const[bool] = False, EVEN: Const[bool] = False, BEHIND: Const[bool] = False,
    REST: Const[int] = 0,
) -> None:  # fmt: skip
    """`attention_tiles` with persistent blocks, which take one tile of queries after the other."""
    if REST:
        tw.require(BD // 2 < D <= BD // 2 + REST)
    else:
        tw.require(D <= BD)
    if EVEN:
        tw.require(L % BN == 0)
    if BEHIND:
        tw.static_assert(not WINDOWED and (not CAUSAL or BM <= BN))
        tw.require(L >= 1 and (not CAUSAL or (L - S) % BN == 0))
    sight = Sight(CAUSAL, WINDOWED, packed=False, even=EVEN, window=window, low=0, high=L)
    for at in z.indices():
        b, h, i, _ = at
        queries = load_channels(q, (b, h, i), BM, BD, REST)
        cache = Cache(k, v, b, h // GROUP, BN, BD, REST)
        form = attend_behind if BEHIND else attend
        rows = form(queries, cache, L - S + i * BM, sight, scale)
        store_channels(z.piece(at), means(rows))


# --- the launch -----------------------------------------------------------------------------------


@tw.function
def attention(
    q: tw.Tensor, k: tw.Tensor, v: tw.Tensor, *, causal: bool = False, scale: float | None = None,
    window: int | None = None, out: tw.Tensor | None = None, lse: tw.Tensor | None = None,
) -> tw.DeviceOp[tw.Tensor]:  # fmt: skip
    """`softmax(scale * q @ k.T) @ v` of every head: queries (B, H, S, D), keys (B, K, L, D).

    H is a multiple of K; neighbouring query heads share a key head. `scale` defaults to 1/sqrt(D).
    Query s has position `L - S + s` among the keys, so the last query is at the last key. `causal`
    masks the keys behind that position, `window` those `window` or more positions away. A query
    that sees no key gives zeros.

    The result of the operation is `out`, or a new tensor. `lse`, if given, is written as well: f32
    (B, H, S), the natural logarithm of the sum of `exp(scale * q · k)` over the keys that a query
    sees.
    """
    heads = check_attention("attention", q, k, v)
    z = output("attention", out, q.shape, q.dtype, q)
    numbers = (scale_of("attention", scale, heads), window_of("attention", window))
    config = choose_prefill(heads, causal=bool(causal), window=window and int(window))
    constants = {
        "BN": config["BN"],
        "GROUP": heads.group,
        "CAUSAL": bool(causal),
        "WINDOWED": window is not None,
        "EVEN": heads.length % config["BN"] == 0,
    }
    if lse is None and config.values.get("SPLITS", 1) > 1:
        return giving(_split(z, (q, k, v, *numbers), config, constants), z)
    constants["BEHIND"] = bool(config.values.get("BEHIND"))
    constants["REST"] = config.values.get("REST", 0)
    order = LONGEST_FIRST[bool(config.values.get("ACROSS"))] if causal else ()
    cut = z.partition(1, 1, config["BM"], heads.width, order=order)
    if lse is not None:
        check_lse("attention", lse, q.shape[:3], q)
        both = (cut, lse.partition(1, 1, config["BM"], order=order[:3]))
        run = config.applied_to(attention_tiles_with_lse)(*both, q, k, v, *numbers, **constants)
    elif config.values.get("WALK"):
        walk = config.walk(cut)
        run = config.applied_to(attention_walk)(walk, q, k, v, *numbers, **constants)
    else:
        run = config.applied_to(attention_tiles)(cut, q, k, v, *numbers, **constants)
    return giving(run, z)


def _split(
    z: tw.Tensor, operands: tuple[Any, ...], config: Config, constants: dict[str, Any]
) -> tw.DeviceOp[Any]:
    """Ranges of the keys in parallel, and their merge."""
    (batch, heads, queries, channels), rows = z.shape, config["BM"]
    shape = (batch, heads, config["SPLITS"], queries)
    parts = tw.empty((*shape, channels), f32, device=z.device)
    lses = tw.empty(shape, f32, device=z.device)
    cuts = (parts.partition(1, 1, 1, rows, width_of(channels)), lses.partition(1, 1, 1, rows))
    run = config.applied_to(attention_splits)(*cuts, *operands, **constants)
    return run.then(lambda _: merge(z, parts, lses))
