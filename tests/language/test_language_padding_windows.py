"""Padding of windows and gathers in reductions: a warning where one reaches too far."""

import math
import warnings

import numpy as np
import pytest
from padding_warnings import warned

import tilewright as tw
from tilewright import Const, Mapped, Mut, Ref, f32
from tilewright.dims import B, M, N


@tw.kernel
def highest(z: Mut[f32, B], x: Ref[f32, N], *, PADDING: Const[float] = 0.0) -> None:
    z.store(tw.max(x.windows(4, step=2, padding=PADDING)[z.index[0]], axis=0, keepdims=True))


@tw.kernel
def totals(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    z.store(tw.sum(x.windows(4, step=2)[z.index[0]], axis=0, keepdims=True))


@tw.kernel
def looped(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    windows, total = x.windows(4, step=3), 0.0
    for k in range(windows.num_tiles(0)):
        total += tw.sum(tw.exp(windows[k]))
    z.store(tw.full((B,), total, f32))


@tw.kernel
def walked(z: Mapped[f32, B], x: Ref[f32, N]) -> None:
    for at in z.indices():
        z.store(tw.max(x.windows(4, step=2)[at], axis=0, keepdims=True), at)


@tw.kernel
def first(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    z.store(tw.full((B,), tw.max(x.windows(4, step=1)[0]), f32))


@tw.kernel
def whole_windows(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    windows, total = x.windows(4, step=3), 0.0
    for k in range((N - 1) // 3):
        total += tw.sum(tw.exp(windows[k]))
    z.store(tw.full((B,), total, f32))


@tw.kernel
def gathered(z: Mut[f32, B], x: Ref[f32, N], *, PADDING: Const[float] = 0.0) -> None:
    row = x.gather(z.index[0] * 4 + tw.arange(4), padding=PADDING)
    z.store(tw.max(row, axis=0, keepdims=True))


@tw.kernel
def gathered_squares(z: Mut[f32, B], x: Ref[f32, M, N]) -> None:
    total = tw.zeros((4, 1), f32)
    for k in range(tw.cdiv(N, 8)):
        rows, columns = z.index[0] * 4 + tw.arange(4), k * 8 + tw.arange(8)
        total += tw.sum(tw.exp(x.gather(rows[:, None], columns)), axis=1, keepdims=True)
    z.store(total.reshape(4))


@tw.kernel
def masked(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    at = z.index[0] * 4 + tw.arange(4)
    z.store(tw.max(x.gather(at, mask=at < N), axis=0, keepdims=True))


def ones(n):
    return np.full(n, -1, np.float32)


def test_the_message():
    assert warned(highest, ((4,), f32), 1, ones(8)) == [
        "kernel `highest`: axis 0 of `x` has 8 elements, beyond which a window of 4, one every 2, "
        "reaches, and the 0 that the last tile is padded with takes part in this reduction: load "
        "with `padding=-inf`, or mask the elements outside with tw.where"
    ]


@pytest.mark.parametrize(
    ("kernel", "results", "size", "count"),
    [
        (highest, 4, 8, 1),
        (highest, 3, 8, 0),  # the last window is not read
        (highest, 4, 10, 0),
        (totals, 4, 8, 0),  # zeros are neutral in a sum
        (looped, 1, 8, 1),
        (looped, 1, 7, 1),
        (whole_windows, 1, 7, 0),  # a loop of its own, which leaves out the last window
        (first, 1, 3, 1),
        (first, 1, 4, 0),
        (gathered, 2, 7, 1),
        (gathered, 2, 8, 0),
        (gathered, 1, 7, 0),  # only whole tiles are read
        (masked, 2, 7, 1),  # elements behind a mask are padding
        (masked, 2, 8, 0),
        (masked, 1, 7, 0),
    ],
)
def test_where_a_window_that_is_read_reaches_beyond(kernel, results, size, count):
    assert len(warned(kernel, ((results,), f32), 1, ones(size))) == count


def test_gathers_of_two_axes():
    """Rows are not reduced; columns are, in tiles of 8."""
    for columns, count in ((16, 0), (13, 1)):
        x = np.zeros((6, columns), np.float32)
        (*texts,) = warned(gathered_squares, ((6,), f32), 4, x)
        assert len(texts) == count
        assert all(
            "axis 1 of `x` has 13 elements, beyond which tiles of 8 reach" in t for t in texts
        )
    assert warned(gathered, ((2,), f32), 1, ones(7), PADDING=-math.inf) == []


def test_walks_and_a_padding_that_is_neutral():
    for results, count in ((4, 1), (3, 0)):
        z, x = tw.zeros((results,), f32), tw.from_numpy(ones(8))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warnings.simplefilter("ignore", tw.ExtentWarning)
            walked(z.partition(1).persistent(), x).sync()
        assert [one.category for one in caught] == [tw.PaddingWarning] * count
    assert warned(highest, ((4,), f32), 1, ones(8), PADDING=-math.inf) == []


def test_every_launch_that_reaches_beyond_warns_whichever_came_before():
    x = {n: tw.from_numpy(ones(n)) for n in (8, 10, 12)}
    z = tw.zeros((4,), f32)

    def warns(n):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warnings.simplefilter("ignore", tw.ExtentWarning)
            highest(z.partition(1), x[n]).sync()
        return bool(caught)

    for n in (10, 10, 10, 12, 12, 8, 8, 10, 8, 12):
        assert warns(n) == (n == 8), n
