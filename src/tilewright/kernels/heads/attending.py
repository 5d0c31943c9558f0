"""Queries against the keys of one head: the mask, and the iteration over tiles of keys.

A tile of queries iterates over the tiles of BN keys that any of them sees. Only tiles that some
query sees in part are masked; they lie at both ends of the range.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import tilewright as tw
from tilewright import Tile, f32
from tilewright.kernels.heads.channels import Channels, load_channels, scores_of
from tilewright.kernels.heads.online_softmax import Rows, add, fresh, take, weigh

__all__ = ["Cache", "Sight", "attend", "attend_behind"]


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


class Cache(NamedTuple):
    """The keys and values of a head, read in tiles of BN positions."""

    k: Any  # keys (sequence, head, position, channel)
    v: Any  # values of the same shape
    b: Any  # the sequence
    h: Any  # the head
    BN: int
    BD: Any  # the extent of a tile of channels
    REST: int


class Tiles(NamedTuple):
    """Tiles of keys seen by a tile of queries: partly, whole, and partly again."""

    begin: Any
    whole: Any
    rest: Any
    end: Any


def _number_of_tiles(cache: Cache) -> Any:
    return cache.k.partition(1, 1, cache.BN, cache.BD).num_tiles(2)


def _keys(cache: Cache, tile: Any) -> Channels:
    return load_channels(cache.k, (cache.b, cache.h, tile), cache.BN, cache.BD, cache.REST)


def _values(cache: Cache, tile: Any) -> Channels:
    return load_channels(cache.v, (cache.b, cache.h, tile), cache.BN, cache.BD, cache.REST)


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


def _range_of(tiles: Tiles, split: Any, splits: Any) -> Tiles:
    """One of `splits` ranges of tiles, which are about equally long."""
    stretch = tw.cdiv(tiles.end - tiles.begin, splits)
    low = tiles.begin + split * stretch
    high = min(low + stretch, tiles.end)
    begin, end = max(low, tiles.begin), max(high, tiles.begin)
    return Tiles(begin, max(tiles.whole, begin), min(tiles.rest, end), end)


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
    queries: Channels, cache: Cache, first: Any, sight: Sight, scale: f32,
    split: tuple[Any, Any] | None = None,
) -> Rows:  # fmt: skip
    """Queries, the first of them at position `first`, against the keys of one head.

    `split` restricts the keys to one of several ranges: its number, and how many there are.
    """
    BM, BN = queries.first.shape[0], cache.BN
    tiles = _tiles_in_sight(sight, first, first + BM - 1, _number_of_tiles(cache), BN)
    if split is not None:
        tiles = _range_of(tiles, *split)
    rows = fresh(queries)
    if sight.windowed or sight.packed:
        for j in range(tiles.begin, min(tiles.whole, tiles.end)):
            scores = scores_of(queries, _keys(cache, j))  # [BM, BN]
            scores = _hide(scores, sight, first, j * BN)
            rows = add(rows, scores, _values(cache, j), scale)
    for j in range(tiles.whole, tiles.rest):
        scores = scores_of(queries, _keys(cache, j))
        rows = add(rows, scores, _values(cache, j), scale)
    if sight.causal or sight.windowed or not sight.even:
        for j in range(max(tiles.whole, tiles.rest), tiles.end):
            scores = scores_of(queries, _keys(cache, j))
            scores = _hide(scores, sight, first, j * BN)
            rows = add(rows, scores, _values(cache, j), scale)
    return rows


def attend_behind(queries: Channels, cache: Cache, first: Any, sight: Sight, scale: f32) -> Rows:
    """`attend` where only the last tile of keys in sight is masked.

    The masked tile comes first, and values lag one step behind: while the tensor cores multiply the
    values of one tile, the scores of the next become exponentials.
    """
    BM, BN = queries.first.shape[0], cache.BN
    tiles = _tiles_in_sight(sight, first, first + BM - 1, _number_of_tiles(cache), BN)
    last = max(tiles.end - 1, 0)
    scores = scores_of(queries, _keys(cache, last))  # [BM, BN]
    if sight.causal or not sight.even:
        scores = _hide(scores, sight, first, last * BN)
    weights, rows = weigh(fresh(queries), scores, scale, cache.v.dtype)
    for j in range(last):
        scores = scores_of(queries, _keys(cache, j))
        rows = take(rows, weights, _values(cache, last if j == 0 else j - 1))
        weights, rows = weigh(rows, scores, scale, cache.v.dtype)
    return take(rows, weights, _values(cache, max(last - 1, 0)))
