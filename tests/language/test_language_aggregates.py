"""Tuples, named tuples and dataclasses: made, read, returned, carried and merged by member."""

import dataclasses
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest
from running import agrees, floats, run

import tilewright as tw
from tilewright import Mut, Ref, f32, i32
from tilewright.dims import B, N


@dataclass
class Running:
    count: int
    total: int = 0


class Pair(NamedTuple):
    low: int
    high: int = 7


@dataclass(frozen=True)
class Nested:
    first: Pair
    second: Running


LIMITS = Pair(2, 30)


def by_field(n):
    state = Running(n)
    for i in range(n):
        state = Running(state.count + 1, total=state.total + i * state.count)
        if state.total > 50:
            break
    return state.count * 1000 + state.total


def merged(n):
    pair = Pair(n, 1) if n > 3 else Pair(5)
    if n > 8:
        pair = Pair(high=pair.low, low=2)
    low, high = pair
    return low * 100 + pair.high + high + pair[0]


def nested(n):
    state = Nested(Pair(0, n), Running(1, 2))
    while state.first.low < 4:
        first = state.first._replace(low=state.first.low + 1)
        state = dataclasses.replace(state, first=first, second=grown(state.second, n))
    return state.first.low * 1000 + state.first.high * 10 + state.second.total


def grown(running, n):
    if n < 0:
        return running
    return Running(running.count * 2, running.total + n)


def constants(n):
    return max(min(n, LIMITS.high), LIMITS.low) + len(LIMITS)


def spread(first, *others, scale=1):
    total = first
    for other in others[1:]:
        total = total * scale + other
    return total + len(others)


def unpacked(n):
    pair = (n, 2)
    return spread(*pair, *LIMITS, scale=3) + spread(*(1, *pair))


@pytest.mark.parametrize("function", [by_field, merged, nested, constants, unpacked])
def test_aggregates_of_scalars(function):
    agrees(function)


@dataclass(frozen=True)
class Softmax:
    best: tw.Tile[f32]
    weight: tw.Tile[f32]
    scale: float = 1.0


def step(state, tile):
    best = tw.maximum(state.best, tile)
    weight = state.weight * tw.exp(state.best - best) + tw.exp(tile - best)
    return dataclasses.replace(state, best=best, weight=weight)


@pytest.mark.parametrize("rows", [1, 3, 5])
def test_a_dataclass_of_tiles_is_carried(rows):
    @tw.kernel
    def log_sum(z: Mut[f32, B], x: Ref[f32, N]) -> None:
        xs = x.partition(B)
        state = Softmax(tw.full((B,), -1e30, f32), tw.zeros((B,), f32))
        for i in range(xs.num_tiles(0)):
            if i % 2 == 1:
                continue
            state = step(state, xs[i])
        z.store(state.best + tw.log(state.weight) * state.scale)

    x = floats(f32, size=8 * rows)
    wanted = np.log(np.exp(x.reshape(rows, 8)[::2]).sum(0))
    np.testing.assert_allclose(run(log_sum, ((8,), f32), 8, x), wanted, rtol=1e-5)


# --- unrolled loops -------------------------------------------------------------------------------


def over_a_tuple(n):
    total = 0
    for factor in (1, 2, n):
        total = total * 10 + factor
    return total


def over_pairs(n):
    total = 0
    for a, (b, c) in ((1, (2, 3)), (n, LIMITS)):
        total += a * b - c
    return total


def leaves_an_unrolled_loop(n):
    total = 0
    for i in (0, 1, 2, 3, 4):
        if i == 1:
            continue
        if i * 2 > n:
            total += 100
            break
        if n > 5:
            if i == 3:
                total += 7
                continue
            total += 20
        total += i
    return total * 2


def returns_from_an_unrolled_loop(n):
    seen = 0
    for i in (3, 5, 9):
        for j in (0, 1):
            if n == i + j:
                return 1000 + j
            if n < j:
                break
            seen += 1
            for k in range(n):
                if k > 6:
                    return seen
                if k == i:
                    break
        seen += 10
    return seen


def unrolled_in_a_loop(n):
    total = 0
    for k in range(4):
        for i in (1, 2, 3):
            if k == i:
                continue
            if k + i > n:
                break
            total += k * i
        if total > 9:
            break
        total += 1
    return total


@pytest.mark.parametrize(
    "function",
    [over_a_tuple, over_pairs, leaves_an_unrolled_loop, returns_from_an_unrolled_loop,
     unrolled_in_a_loop],
)  # fmt: skip
def test_unrolled_loops(function):
    agrees(function)


def total_shape(x):
    """A function of tensors of any rank."""
    total = 1
    for axis in tw.static_range(len(x.shape)):
        total = total * x.shape[axis]
    return total


def test_static_ranges_choose_shapes_and_axes():
    @tw.kernel
    def unrolled(z: Mut[i32, B], x: Ref[i32, N]) -> None:
        total = tw.zeros((1,), i32)
        for power in tw.static_range(1, 4):
            total = total + tw.sum(tw.ones((2**power,), i32))
        for i in tw.static_range(6, 0, -2):
            total = total * 10 + i
        for _ in tw.static_range(0):
            total = total * 0
        z.store(total + tw.full((B,), total_shape(x), i32))

    got = run(unrolled, ((4,), i32), 4, np.zeros(9, np.int32))
    np.testing.assert_array_equal(got, 14642 + 9)
