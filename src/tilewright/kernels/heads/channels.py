"""Channels of a head as tiles: a single tile, or two that fit closer.

Extents of tiles are powers of two, and a product takes as long for padding as for channels. So 96
channels are a tile of 64 and one of 32, and 192 are a tile of 128 and one of 64.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import tilewright as tw
from tilewright import Mut, Ref, Tile, f32
from tilewright.kernels.cutting import power_of_two

__all__ = ["Channels", "load_channels", "rest_of", "scores_of", "store_channels"]

LEAST = 16  # channels of a tile of the tensor cores


class Channels(NamedTuple):
    """Rows of channels."""

    first: Tile[Any]  # [rows, BD], or [rows, BD // 2] beside a rest
    rest: Tile[Any] | None = None  # [rows, REST]


def rest_of(channels: int) -> int:
    """The extent of the second tile of channels; 0 if a single one wastes less than a quarter."""
    width = power_of_two(channels)
    rest = max(LEAST, power_of_two(channels - width // 2))
    return rest if width > 2 * LEAST and rest <= width // 4 else 0


def load_channels(
    rows: Ref[Any, *tuple[Any, ...]], at: tuple[Any, Any, Any], count: Any, BD: Any, REST: int
) -> Channels:
    """A tile of `count` rows of a tensor (sequence, head, position, channel)."""
    b, h, i = at
    if REST == 0:
        return Channels(rows.partition(1, 1, count, BD)[b, h, i, 0].reshape(count, BD))
    HALF = BD // 2
    first = rows.partition(1, 1, count, HALF)[b, h, i, 0].reshape(count, HALF)
    rest = rows.partition(1, 1, count, REST)[b, h, i, HALF // REST].reshape(count, REST)
    return Channels(first, rest)


def store_channels(z: Mut[Any, *tuple[Any, ...]], rows: Channels) -> None:
    """Store all rows of a block's own piece, in the dtype of the piece."""
    count, width = rows.first.shape
    first = rows.first.astype(z.dtype).reshape(1, 1, count, width)
    z.partition(1, 1, count, width).store(first, 0, 0, 0, 0)
    if rows.rest is not None:
        REST = rows.rest.shape[1]
        rest = rows.rest.astype(z.dtype).reshape(1, 1, count, REST)
        z.partition(1, 1, count, REST).store(rest, 0, 0, 0, width // REST)


def scores_of(queries: Channels, keys: Channels) -> Tile[f32]:
    """Products of all queries and keys, [queries, keys]."""
    scores = queries.first @ keys.first.T
    if queries.rest is None or keys.rest is None:
        return scores
    return tw.mma(queries.rest, keys.rest.T, scores)
