"""Prefill attention: many queries, full, causal or with a sliding window, with grouped heads.

A block takes BM queries of one head and iterates over the tiles of BN keys that any of them sees.
Only tiles that some query sees in part are masked; they lie at both ends of the range.
`attention` at the end chooses tiles and launches.
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

import tilewright as tw
from tilewright import Const, Cut, Mapped, Mut, Ref, Tile, f32, i32
from tilewright.dims import BD, BM, B, D, H, K, L, S, T
from tilewright.kernels.arguments import giving, output
from tilewright.kernels.heads.arguments import (
    check_attention,
    check_lse,
    scale_of,
    window_of,
)
from tilewright.kernels.heads.configs import choose_prefill
from tilewright.kernels.heads.online_softmax import (
    Rows,
    add,
    fresh,
    log_of_sums,
    means,
    take,
    weigh,
)

__all__ = [
    "Sight",
    "attend",
    "attend_behind",
    "attention",
    "attention_tiles",
    "attention_tiles_with_lse",
    "attention_walk",
]


# Under a causal mask the last queries see the most keys, so their tiles come first: head by head,
# so that tiles that run at once share keys in the cache, or interleaved over all heads.
LONGEST_FIRST = {False: (0, 1, ~2, 3), True: (~2, 0, 1, 3)}


class Sight(NamedTuple):
    """The mask of a query: which of the keys from `low` to `high` it sees.

    Bools are compile-time constants; numbers may be run-time values.
    """

    causal: bool  # keys up to its own position
    windowed: bool  # keys less than `window` positions away
    packed: bool  # `low` may lie inside a tile
    even: bool  # `high` lies at the end of a tile
    window: Any
    low: Any
    high: Any


class Tiles(NamedTuple):
    """Tiles of keys seen by a tile of queries: partly, whole, and partly again."""

    begin: Any
    whole: Any
    rest: Any
    end: Any


def _tiles_in_sight(sight: Sight, first: Any, last: Any, number: int, BN: int) -> Tiles:
    """The tiles of BN keys, out of `number`, that queries at positions `first` to `last` see."""
    begin, whole = max(sight.low // BN, 0), max(tw.cdiv(sight.low, BN), 0)
    rest, end = sight.high // BN, min(tw.cdiv(sight.high, BN), number)
    if sight.windowed:
        begin = max((first - sight.window + 1) // BN, begin)
        whole = max(tw.cdiv(last - sight.window + 1, BN), whole)
    if sight.causal or sight.windowed:
        beyond = 1 if sight.causal else sight.window  # the first position out of sight
        rest = min((first + beyond) // BN, rest)
        end = min(tw.cdiv(last + beyond, BN), end)
    return Tiles(begin, whole, min(rest, end), end)


def _hide(scores: Tile[f32], sight: Sight, first: Any, column: int) -> Tile[f32]:
    """Scores [BM, BN] with masked ones set to -inf, from a query position and a key position on."""
    places = first + tw.arange(scores.shape[0])[:, None]
    columns = column + tw.arange(scores.shape[1])
    if sight.causal:
        scores = tw.where(columns <= places, scores, -math.inf)
    if sight.windowed:
        scores = tw.where(columns > places - sight.window, scores, -math.inf)
        if not sight.causal:
            scores = tw.where(columns < places + sight.window, scores, -math.inf)
    if sight.packed:
        scores = tw.where(columns >= sight.low, scores, -math.inf)
    if not (sight.causal or sight.even):
        scores = tw.where(columns < sight.high, scores, -math.inf)
    return scores


def attend(
    queries: Tile[Any], k: Ref[Any, *tuple[Any, ...]], v: Ref[Any, *tuple[Any, ...]],
    head: tuple[int, int], first: Any, sight: Sight, scale: f32, BN: int,
) -> Rows:  # fmt: skip
    """Queries [BM, BD], the first of them at position `first`, against the keys of one head."""
    b, h = head
    BM, BD = queries.shape
    keys, values = k.partition(1, 1, BN, BD), v.partition(1, 1, BN, BD)
    tiles = _tiles_in_sight(sight, first, first + BM - 1, keys.num_tiles(2), BN)
    rows = fresh(BM, BD)
    if sight.windowed or sight.packed:
        for j in range(tiles.begin, min(tiles.whole, tiles.end)):
            scores = queries @ keys[b, h, j, 0].reshape(BN, BD).T  # [BM, BN]
            scores = _hide(scores, sight, first, j * BN)
            rows = add(rows, scores, values[b, h, j, 0].reshape(BN, BD), scale)
    for j in range(tiles.whole, tiles.rest):
        scores = queries @ keys[b, h, j, 0].reshape(BN, BD).T
        rows = add(rows, scores, values[b, h, j, 0].reshape(BN, BD), scale)
    if sight.causal or sight.windowed or not sight.even:
        for j in range(max(tiles.whole, tiles.rest), tiles.end):
            scores = queries @ keys[b, h, j, 0].reshape(BN, BD).T
            scores = _hide(scores, sight, first, j * BN)
            rows = add(rows, scores, values[b, h, j, 0].reshape(BN, BD), scale)
    return rows


def attend_behind(
    queries: Tile[Any], k: Ref[Any, *tuple[Any, ...]], v: Ref[Any, *tuple[Any, ...]],
    head: tuple[int, int], first: Any, sight: Sight, scale: f32, BN: int,
) -> Rows:  # fmt: skip
    """`attend` where only the last tile of keys in sight is masked.

    The masked tile comes first, and values lag one step behind: while the tensor cores multiply the
    values of one tile, the scores of the next become exponentials.
    """
    b, h = head
    BM, BD = queries.shape
    keys, values = k.partition(1, 1, BN, BD), v.partition(1, 1, BN, BD)
    tiles = _tiles_in_sight(sight, first, first + BM - 1, keys.num_tiles(2), BN)
    last = max(tiles.end - 1, 0)
    scores = queries @ keys[b, h, last, 0].reshape(BN, BD).T  # [BM, BN]
    if sight.causal or not sight.even:
        scores = _hide(scores, sight, first, last * BN)
    weights, rows = weigh(fresh(BM, BD), scores, scale, v.dtype)
    for j in range(last):
        scores = queries @ keys[b, h, j, 0].reshape(BN, BD).T
        before = values[b, h, last if j == 0 else j - 1, 0].reshape(BN, BD)
        rows = take(rows, weights, before)
        weights, rows = weigh(rows, scores, scale, v.dtype)
    return take(rows, weights, values[b, h, max(last - 1, 0), 0].reshape(BN, BD))


@tw.kernel(deny_checks=True, starts_early=True)
def attention_tiles(
    z: Mut[T, Cut[B, Literal[1]], Cut[H, Literal[1]], Cut[S, BM], Cut[D, BD]],
    q: Ref[T, B, H, S, D], k: Ref[T, B, K, L, D], v: Ref[T, B, K, L, D], scale: f32, window: i32,
    *, BN: Const[int] = 128, GROUP: Const[int] = 1, CAUSAL: Const[bool] = False,
    WINDOWED: Const[bool] = False, EVEN: Const[bool] = False, BEHIND: Const[bool] = False,
) -> None:  # fmt: skip
    """BM queries of one head; GROUP query heads share a key head; EVEN: BN divides L.

    BEHIND requires a mask that leaves a single tile of keys in part: no window, and tiles of
    queries that divide those of keys. `scale` is the scale of the scores times log2(e).
    """
    tw.require(D <= BD)
    if EVEN:
        tw.require(L % BN == 0)
    if BEHIND:
        tw.static_assert(not WINDOWED and (not CAUSAL or BM <= BN))
        tw.require(L >= 1 and (not CAUSAL or (L - S) % BN == 0))
    b, h, i, _ = z.index
    queries = q.load_like(z).reshape(BM, BD)
    sight = Sight(CAUSAL, WINDOWED, packed=False, even=EVEN, window=window, low=0, high=L)
    form = attend_behind if BEHIND else attend
    rows = form(queries, k, v, (b, h // GROUP), L - S + i * BM, sight, scale, BN)
    z.store(means(rows).astype(z.dtype).reshape(1, 1, BM, BD))


@tw.kernel(deny_checks=True, starts_early=True)
def attention_tiles_with_lse(
    z: Mut[T, Cut[B, Literal[1]], Cut[H, Literal[1]], Cut[S, BM], Cut[D, BD]],
    lse: Mut[f32, Cut[B, Literal[1]], Cut[H, Literal[1]], Cut[S, BM]],
    q: Ref[T, B, H, S, D], k: Ref[T, B, K, L, D], v: Ref[T, B, K, L, D], scale: f32, window: i32,
    *, BN: Const[int] = 128, GROUP: Const[int] = 1, CAUSAL: Const[bool] = False,
    WINDOWED: Const[bool] = False, EVEN: Const[bool] = False, BEHIND: Const[bool] = False,
) -> None:  # fmt: skip
    """`attention_tiles` that also stores `lse`, the log-sum-exp of each query."""
    tw.require(D <= BD)
    if EVEN:
        tw.require(L % BN == 0)
    if BEHIND:
        tw.static_assert(not WINDOWED and (not CAUSAL or BM <= BN))
        tw.require(L >= 1 and (not CAUSAL or (L - S) % BN == 0))
    b, h, i, _ = z.index
    queries = q.load_like(z).reshape(BM, BD)
    sight = Sight(CAUSAL, WINDOWED, packed=False, even=EVEN, window=window, low=0, high=L)
    form = attend_behind if BEHIND else attend
    rows = form(queries, k, v, (b, h // GROUP), L - S + i * BM, sight, scale, BN)
    z.store(means(rows).astype(z.dtype).reshape(1, 1, BM, BD))
    lse.store(log_of_sums(rows, scale).reshape(1, 1, BM))


@tw.kernel(deny_checks=True, starts_early=True)
def attention_walk(
    z: Mapped[T, Cut[B, Literal[1]], Cut[H, Literal[1]], Cut[S, BM], Cut[D, BD]],
    q: Ref[T, B, H, S, D], k: Ref[T, B, K, L, D], v: Ref[T, B, K, L, D], scale: f32, window: i32,
    *, BN: Const[int] = 128, GROUP: Const[int] = 1, CAUSAL: Const[bool] = False,
    WINDOWED: Const[bool] = False, EVEN: Const[bool] = False, BEHIND: Const[bool] = False,
) -> None:  # fmt: skip
    """`attention_tiles` with persistent blocks, which take one tile of queries after the other."""
    tw.require(D <= BD)
    if EVEN:
        tw.require(L % BN == 0)
    if BEHIND:
        tw.static_assert(not WINDOWED and (not CAUSAL or BM <= BN))
        tw.require(L >= 1 and (not CAUSAL or (L - S) % BN == 0))
    tiles = q.partition(1, 1, BM, BD)
    sight = Sight(CAUSAL, WINDOWED, packed=False, even=EVEN, window=window, low=0, high=L)
    for at in z.indices():
        b, h, i, _ = at
        queries = tiles[b, h, i, 0].reshape(BM, BD)
        form = attend_behind if BEHIND else attend
        rows = form(queries, k, v, (b, h // GROUP), L - S + i * BM, sight, scale, BN)
        z.store(means(rows).astype(z.dtype).reshape(1, 1, BM, BD), at)


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
    config = choose_prefill(heads, causal=bool(causal), windowed=window is not None)
    constants = {
        "BN": config["BN"],
        "GROUP": heads.group,
        "CAUSAL": bool(causal),
        "WINDOWED": window is not None,
        "EVEN": heads.length % config["BN"] == 0,
        "BEHIND": bool(config.values.get("BEHIND")),
    }
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
