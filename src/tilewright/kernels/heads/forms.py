"""Forms of prefill attention on an H200, and the time that each takes.

A tile of queries costs a start, and a step for each tile of keys it sees; both are least-squares
fits to measured times. A multiprocessor holds `occupancy` blocks, which compute exponentials and
use the tensor cores in turns, so a block that is alone is only a little faster. The time of a
problem is that of the tiles on all multiprocessors, with a tail where the last blocks are alone, or
that of its bytes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple, TypeVar

import numpy as np

from tilewright.kernels.heads.arguments import Heads
from tilewright.kernels.heads.channels import rest_of
from tilewright.tune import Config

__all__ = ["FORMS", "MULTIPROCESSORS", "Mask", "PrefillForm", "fastest", "may_lag", "microseconds"]

T = TypeVar("T")

MULTIPROCESSORS = 132  # of an H200
LAUNCH = 3.0  # microseconds of a launch
BANDWIDTH = 3.8e6  # bytes a microsecond
MERGE = 3.0  # microseconds of a merge, beside its bytes
MOST_SPLITS = 16
# Time of a tile by the blocks that share a multiprocessor, for each occupancy.
SHARED = {1: (1.0,), 2: (0.72, 1.0), 3: (0.5, 0.75, 1.0), 4: (0.4, 0.62, 0.82, 1.0)}
TAIL = 0.35  # of the longest tile, at the end of a causal problem
WAVE = 0.25  # of a tile, at the end of others
PLAIN = 1.06  # time without values a step behind, where a form would have them
MOST_DEALT = 1 << 16  # tiles that are dealt to blocks one by one in the estimate
MOST_ACROSS = 64  # key heads whose tiles run side by side and still hit the cache


class PrefillForm(NamedTuple):
    """Tiles of queries and keys, their schedule, and their times on an H200 in microseconds."""

    start: float  # of a tile of queries
    step: float  # of a tile of keys
    BM: int
    BN: int
    occupancy: int
    warps: int
    behind: bool = False
    walk: bool = False
    across: bool = False
    splits: int = 1

    def config(self, rest: int) -> Config:
        """The configuration of a launch."""
        tiles = {"BM": self.BM, "BN": self.BN, "REST": 0 if self.splits > 1 else rest}
        hints = {"occupancy": self.occupancy, "num_worker_warps": self.warps}
        forms = {"BEHIND": self.behind, "WALK": self.walk, "ACROSS": self.across}
        return Config.of(**tiles, **hints, **forms, SPLITS=self.splits)


class Mask(NamedTuple):
    """The keys that a query sees."""

    causal: bool
    window: int | None


def _two(start: float, step: float, **more: bool) -> PrefillForm:
    return PrefillForm(start, step, 64, 128, occupancy=2, warps=4, **more)


def _small(start: float, step: float, occupancy: int, **more: bool) -> PrefillForm:
    return PrefillForm(start, step, 64, 64, occupancy, warps=4, **more)


def _large(start: float, step: float, BN: int = 128, **more: bool) -> PrefillForm:
    return PrefillForm(start, step, 128, BN, occupancy=1, warps=8, **more)


# By channels, up to the extent of their tiles.
FORMS = {
    64: (
        _two(2.0, 1.11, behind=True),
        _two(1.5, 1.15, behind=True, walk=True),
        _two(2.0, 1.08, across=True),
        _small(1.75, 1.17, 4, walk=True),
    ),
    80: (_two(2.25, 1.32), _two(2.5, 1.32, walk=True), _small(2.5, 1.09, 3, behind=True)),
    96: (_two(2.5, 1.63), _two(2.5, 1.6, walk=True), _small(1.75, 1.19, 3, behind=True)),
    128: (_two(2.25, 1.72, behind=True), _two(2.0, 1.76, behind=True, walk=True)),
    160: (
        _large(2.5, 2.4, behind=True),
        _large(2.75, 2.13, behind=True, walk=True),
        _small(2.5, 1.57, 2),
    ),
    192: (
        _large(4.75, 2.26, behind=True),
        _large(4.75, 2.18, behind=True, walk=True),
        _small(3.75, 1.39, 2),
    ),
    256: (
        _large(5.75, 3.14),
        _large(5.25, 3.27, walk=True),
        _large(3.75, 1.66, BN=64, behind=True, walk=True),
        PrefillForm(3.75, 1.72, 64, 128, occupancy=1, warps=4, behind=True),
    ),
}
# Forms that split the keys.
SPLIT = {
    64: _two(2.0, 1.2),
    128: _two(2.0, 1.9),
    256: PrefillForm(4.0, 1.86, 64, 128, occupancy=1, warps=4),
}


def fastest(heads: Heads, mask: Mask) -> Config:
    """The configuration that the model finds the fastest."""
    rest = rest_of(heads.channels)
    best = min(_candidates(heads, mask, rest), key=lambda one: microseconds(one, heads, mask))
    return best.config(rest)


def may_lag(heads: Heads, BM: int, BN: int, mask: Mask) -> bool:
    """Whether each tile of queries sees every tile of keys whole, except the last one."""
    if mask.window is not None or heads.length < 1:
        return False
    return not mask.causal or (BM <= BN and (heads.length - heads.queries) % BN == 0)


def _candidates(heads: Heads, mask: Mask, rest: int) -> Iterator[PrefillForm]:
    extent = heads.width // 2 + rest if rest else heads.width
    few = mask.causal and heads.batch * heads.key_heads <= MOST_ACROSS
    for form in _up_to(FORMS, extent):
        if form.across and not few:
            continue
        if form.behind and not may_lag(heads, form.BM, form.BN, mask):
            yield form._replace(behind=False, start=PLAIN * form.start, step=PLAIN * form.step)
        else:
            yield form
    form = _up_to(SPLIT, heads.width)
    steps, blocks = -(-heads.length // form.BN), max(_tiles(form, heads), 1)
    most = min(MOST_SPLITS, steps, 2 * MULTIPROCESSORS * form.occupancy // blocks)
    for splits in range(2, most + 1):
        yield form._replace(splits=splits)


def _up_to(table: dict[int, T], extent: int) -> T:
    return next(found for most, found in table.items() if extent <= most)


def _tiles(form: PrefillForm, heads: Heads) -> int:
    return heads.batch * heads.key_heads * heads.group * -(-heads.queries // form.BM)


def _merge(heads: Heads, splits: int) -> float:
    """Microseconds of the partial results, written and read, and of their merge."""
    rows = heads.batch * heads.key_heads * heads.group * heads.queries
    return MERGE + 8 * rows * heads.channels * splits / BANDWIDTH if splits > 1 else 0.0


def microseconds(form: PrefillForm, heads: Heads, mask: Mask) -> float:
    """The time of a form; ranges of keys are as many tiles with fewer steps."""
    costs = form.start + form.step * -(-_steps(form, heads, mask) // form.splits)
    count, slots = _tiles(form, heads) * form.splits, MULTIPROCESSORS * form.occupancy
    shared = SHARED[form.occupancy]
    longest, mean, waves = float(costs.max()), float(costs.mean()), count / slots
    if count <= slots:
        time = longest * shared[-(-count // MULTIPROCESSORS) - 1]
    elif not mask.causal:
        time = longest * min(math.ceil(waves), waves + WAVE)
    elif form.walk:
        time = (_busiest(costs, count, slots) + max(waves * mean, longest)) / 2
    else:
        tail = 0.0 if form.across else TAIL
        time = max(waves * mean + tail * longest, longest * shared[0])
    return LAUNCH + max(time, _bytes(heads) / BANDWIDTH) + _merge(heads, form.splits)


def _steps(form: PrefillForm, heads: Heads, mask: Mask) -> np.ndarray:
    """Tiles of keys that each tile of queries of a head sees."""
    BM, BN = form.BM, form.BN
    last = np.minimum(np.arange(BM, heads.queries + BM, BM), heads.queries)
    end = np.full(len(last), heads.length)
    if mask.causal:
        end = np.clip(heads.length - heads.queries + last, 0, None)
    if mask.window is not None:
        sides = 1 if mask.causal else 2
        end = np.minimum(end, sides * mask.window + BM + BN)
    steps: np.ndarray = np.maximum(-(-end // BN), 1)
    return steps


def _busiest(costs: np.ndarray, count: int, slots: int) -> float:
    """The time of the busiest persistent block.

    Tiles of a head come from the longest to the shortest, and blocks take turns from either end.
    """
    if count > MOST_DEALT:
        return count / slots * float(costs.mean())
    turn, place = np.divmod(np.arange(count), slots)
    block = np.where(turn % 2, slots - 1 - place, place)
    order = len(costs) - 1 - np.arange(count) % len(costs)
    return float(np.bincount(block, weights=costs[order], minlength=slots).max())


def _bytes(heads: Heads) -> int:
    """Queries, results, keys and values."""
    queries = heads.key_heads * heads.group * heads.queries
    return 4 * heads.batch * heads.channels * (queries + heads.key_heads * heads.length)
