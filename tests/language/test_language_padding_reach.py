"""Where a load reaches beyond its tensor: what padding makes wrong is told, and no more."""

import math
import warnings

import numpy as np
import pytest
from padding_warnings import warned

import tilewright as tw
from tilewright import Accum, Const, Cut, Mut, Ref, f32, i32
from tilewright.dims import BM, B, K, M, N


def negative(*shape):
    return np.full(shape, -1, np.float32)


# --- windows with a start -------------------------------------------------------------------------


@tw.kernel
def shifted(z: Mut[f32, B], x: Ref[f32, N], *, START: Const[int], FIRST: Const[int] = 0) -> None:
    halo = x.windows(4, step=2, start=START)[z.index[0] + FIRST]
    z.store(tw.max(halo, axis=0, keepdims=True))


def test_a_window_that_begins_before_the_tensor():
    assert warned(shifted, ((2,), f32), 1, negative(9), START=-1) == [
        "kernel `shifted`: axis 0 of `x` has 9 elements, before which tiles of 4 begin, and the 0 "
        "that the last tile is padded with takes part in this reduction: load with `padding=-inf`, "
        "or mask the elements outside with tw.where"
    ]
    assert warned(shifted, ((2,), f32), 1, negative(9), START=-1, FIRST=1) == []
    assert warned(shifted, ((2,), f32), 1, negative(9), START=1) == []


@pytest.mark.parametrize(("size", "count"), [(8, 1), (9, 0)])
def test_a_window_that_begins_later_ends_later(size, count):
    assert len(warned(shifted, ((3,), f32), 1, negative(size), START=1)) == count


@tw.kernel
def running(
    z: Mut[f32, Cut[N, B]], x: Ref[f32, N], *, START: Const[int], BACK: Const[bool]
) -> None:
    tile = x.windows(B, step=B, start=START)[z.index[0]]
    z.store(tw.cumsum(tile + 1, reverse=BACK))


@pytest.mark.parametrize(
    ("start", "back", "size", "count"),
    [(0, False, 7, 0), (0, True, 7, 1), (-1, False, 8, 1), (-1, True, 8, 0)],
)
def test_a_scan_meets_the_padding_in_front_of_its_elements(start, back, size, count):
    texts = warned(running, ((size,), f32), 4, negative(size), START=start, BACK=back)
    assert len(texts) == count


# --- indices --------------------------------------------------------------------------------------


@tw.kernel
def second(z: Mut[f32, B], x: Ref[f32, N], *, K: Const[int] = 1) -> None:
    z.store(tw.full((B,), tw.max(x.windows(4, step=2)[K]), f32))


@tw.kernel
def later(z: Mut[f32, B], x: Ref[f32, N], first: i32) -> None:
    xs, total = x.partition(4), 0.0
    for k in range(first, xs.num_tiles(0)):
        total += tw.sum(tw.exp(xs[k]))
    z.store(tw.full((B,), total, f32))


@tw.kernel
def up_to(z: Mut[f32, B], x: Ref[f32, N], count: i32) -> None:
    xs, total = x.partition(4), 0.0
    for k in range(count):
        total += tw.sum(tw.exp(xs[k]))
    z.store(tw.full((B,), total, f32))


@tw.kernel
def looked_up(z: Mut[f32, B], x: Ref[f32, N], ids: Ref[i32, K]) -> None:
    k = ids.partition(1)[0].item()
    z.store(tw.full((B,), tw.max(x.partition(4)[k]), f32))


def test_a_constant_index_above_zero():
    assert warned(second, ((1,), f32), 1, negative(5)) == [
        "kernel `second`: axis 0 of `x` has 5 elements, beyond which a window of 4, one every 2, "
        "reaches, and the 0 that the last tile is padded with takes part in this reduction: load "
        "with `padding=-inf`, or mask the elements outside with tw.where"
    ]
    assert warned(second, ((1,), f32), 1, negative(6)) == []
    assert warned(second, ((1,), f32), 1, negative(5), K=0) == []


def test_a_loop_that_begins_anywhere_and_an_index_from_memory():
    assert len(warned(later, ((1,), f32), 1, negative(7), 1)) == 1
    assert warned(later, ((1,), f32), 1, negative(8), 1) == []
    assert len(warned(looked_up, ((1,), f32), 1, negative(7), np.zeros(1, np.int32))) == 1
    assert warned(looked_up, ((1,), f32), 1, negative(8), np.zeros(1, np.int32)) == []


def test_a_scalar_decides_at_each_launch():
    x, z = tw.from_numpy(negative(7)), tw.zeros((1,), f32)
    for count in (1, 1, 2, 1, 2, 2, 1):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warnings.simplefilter("ignore", tw.ExtentWarning)
            up_to(z.partition(1), x, count).sync()
        assert len(caught) == (count == 2), count


def test_a_fixed_extent_is_padded_at_every_launch():
    @tw.kernel
    def fixed(z: Mut[f32, B], x: Ref[f32, 6], *, T: Const[int]) -> None:
        z.store(tw.full((B,), tw.max(x.partition(T)[0]), f32))

    assert len(warned(fixed, ((1,), f32), 1, negative(6), T=8)) == 1
    assert warned(fixed, ((1,), f32), 1, negative(6), T=4) == []


# --- gathers --------------------------------------------------------------------------------------


@tw.kernel
def behind_a_mask(z: Mut[f32, B], x: Ref[f32, N], *, PADDING: Const[float] = 0.0) -> None:
    at = z.index[0] * 4 + tw.arange(4)
    z.store(tw.max(x.gather(at, mask=tw.arange(4) < 3, padding=PADDING), axis=0, keepdims=True))


@tw.kernel
def chosen_by_data(z: Mut[f32, B], x: Ref[f32, N], y: Ref[f32, N], *, MASKED: Const[bool]) -> None:
    at = z.index[0] * 4 + tw.arange(4)
    taken = (y.gather(at) > 0) & (at < N)
    t = tw.exp(x.gather(at, mask=taken))
    z.store(tw.sum(tw.where(taken, t, 0) if MASKED else t, axis=0, keepdims=True))


@tw.kernel
def neighbours(z: Mut[f32, B], x: Ref[f32, N], *, SHIFT: Const[int]) -> None:
    at = z.index[0] * 4 + tw.arange(4) + SHIFT
    z.store(tw.max(x.gather(at), axis=0, keepdims=True))


@tw.kernel
def bag(z: Mut[f32, B], x: Ref[f32, N], ids: Ref[i32, K], *, MASKED: Const[bool]) -> None:
    at = tw.arange(8)
    found = x.gather(tw.clamp(ids.partition(8)[0], 0, N - 1), mask=at < K if MASKED else True)
    z.store(tw.full((B,), tw.sum(found), f32))


def test_elements_behind_a_mask_are_padding():
    assert warned(behind_a_mask, ((2,), f32), 1, negative(8)) == [
        "kernel `behind_a_mask`: a mask leaves elements of `x` out, and the 0 that they are padded "
        "with takes part in this reduction: load with `padding=-inf`, or mask the elements outside "
        "with tw.where"
    ]
    assert warned(behind_a_mask, ((2,), f32), 1, negative(8), PADDING=-math.inf) == []


def test_a_mask_of_data():
    x, y = negative(8), np.ones(8, np.float32)
    (text,) = warned(chosen_by_data, ((2,), f32), 1, x, y, MASKED=False)
    assert "a mask leaves elements of `x` out, and the 1 that its padding has become" in text
    assert warned(chosen_by_data, ((2,), f32), 1, x, y, MASKED=True) == []


def test_neighbours_before_and_behind():
    (text,) = warned(neighbours, ((2,), f32), 1, negative(9), SHIFT=-1)
    assert "axis 0 of `x` has 9 elements, before which tiles of 4 begin, and the 0" in text
    (text,) = warned(neighbours, ((2,), f32), 1, negative(8), SHIFT=1)
    assert "axis 0 of `x` has 8 elements, beyond which tiles of 4 reach, and the 0" in text
    assert warned(neighbours, ((2,), f32), 1, negative(9), SHIFT=1) == []


def test_elements_at_padded_indices():
    """An index that is padding is 0, and element 0 is added once more."""
    x, ids = np.arange(1, 9, dtype=np.float32), np.arange(5, dtype=np.int32)
    (text,) = warned(bag, ((1,), f32), 1, x, ids, MASKED=False)
    assert "axis 0 of `ids` has 5 elements, which tiles of 8 do not divide" in text
    assert warned(bag, ((1,), f32), 1, x, ids, MASKED=True) == []
    assert warned(bag, ((1,), f32), 1, x, np.arange(8, dtype=np.int32), MASKED=False) == []


# --- pieces, parts and segments -------------------------------------------------------------------


@tw.kernel
def own(z: Mut[f32, Cut[N, B]], x: Ref[f32, N]) -> None:
    z.store(tw.full((B,), tw.max(z.load()), f32) + x.load_like(z))


@tw.kernel
def parts(z: Mut[f32, Cut[M, BM], Cut[N, tw.All]], x: Ref[f32, M, N]) -> None:
    ps, xs = z.partition(BM, 4), x.partition(BM, 4)
    highest = tw.full((BM,), -math.inf, f32)
    for k in range(ps.num_tiles(1)):
        highest = tw.maximum(highest, tw.max(xs[z.index[0], k], axis=1))
    for k in range(ps.num_tiles(1)):
        ps.store(highest[:, None].broadcast_to(BM, 4), 0, k)


@tw.kernel
def by_segment(z: Mut[f32, Cut[N, B]], x: Ref[f32, N], *, PADDING: Const[float] = 0.0) -> None:
    z.store(tw.full((B,), tw.max(x.load_like(z, padding=PADDING)), f32))


@pytest.mark.parametrize(("kernel", "tile", "shape", "count"), [
    (own, 4, (7,), 1), (own, 4, (8,), 0),
    (parts, (2, None), (3, 7), 1), (parts, (2, None), (3, 8), 0),
])  # fmt: skip
def test_pieces_and_parts_of_them(kernel, tile, shape, count):
    assert len(warned(kernel, (shape, f32), tile, negative(*shape))) == count


def test_segments_end_anywhere():
    x, z = tw.from_numpy(negative(8)), tw.zeros((8,), f32)
    offsets = tw.from_numpy(np.array([0, 3, 8], np.int32))
    for padding, count in ((0.0, 1), (-math.inf, 0)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            by_segment(z.partition(4, segments=offsets), x, PADDING=padding).sync()
        assert [one.category for one in caught] == [tw.PaddingWarning] * count
        assert all("a mask or the end of a segment leaves" in str(one.message) for one in caught)


# --- places in a tile -----------------------------------------------------------------------------


def flat(t):
    return tw.sum(tw.exp(t.reshape(8)))


def flat_scan(t):
    return tw.sum(tw.where(tw.arange(8) == 7, tw.cumsum(t + 1, axis=None), 0))


def wrong_axis(t):
    return tw.sum(tw.where(tw.arange(2)[:, None] < 2, tw.exp(t), 0))


def right_axis(t):
    return tw.sum(tw.where(tw.arange(4) < 3, tw.exp(t), 0))


def whole_or_nothing(t):
    return tw.sum(tw.where(tw.sum(t) < 0, tw.exp(t), 0))


def outer(t):
    line = tw.sum(t, axis=0)
    return tw.sum(line[:, None] + line)


def outer_product(t):
    line = tw.sum(t, axis=0)
    return tw.sum(line[:, None] * line)


def exponentials_behind_a_mask(t):
    return tw.sum(tw.exp(tw.where(tw.arange(4) < 3, t, 0)))


def deviations_behind_a_mask(t):
    return tw.sum((tw.where(tw.arange(4) < 3, t, 0) - tw.sum(t)) ** 2)


def softmax_behind_a_mask(t):
    scores = tw.where(tw.arange(4) < 3, t, -1e30)
    return tw.sum(tw.exp((scores - tw.max(scores)) * tw.sum(t)))


def counted_by_data(t):
    return tw.sum(tw.where(t > tw.sum(t), 1.0, 0.0))


def sorted_up(t):
    return tw.max(tw.where(tw.arange(4) == 0, tw.sort(t, axis=1), -9))


def highest_two(t):
    return tw.sum(tw.top_k(t, 2, axis=1)[0])


WARNS = {
    flat: 1, flat_scan: 1, wrong_axis: 1, right_axis: 0, whole_or_nothing: 1,
    outer: 1, outer_product: 0,
    exponentials_behind_a_mask: 1, deviations_behind_a_mask: 1, softmax_behind_a_mask: 0,
    counted_by_data: 1, sorted_up: 1, highest_two: 1,
}  # fmt: skip


@pytest.mark.parametrize("reduced", WARNS, ids=lambda function: function.__name__)
def test_what_warns(reduced):
    @tw.kernel
    def kernel(z: Mut[f32, B], x: Ref[f32, M, N]) -> None:
        z.store(tw.full((B,), reduced(x.partition(2, 4)[0, 0]), f32))

    assert len(warned(kernel, ((1,), f32), 1, negative(2, 3))) == WARNS[reduced]
    assert warned(kernel, ((1,), f32), 1, negative(2, 4)) == []


def test_padding_that_is_sorted():
    @tw.kernel
    def ordered(z: Mut[f32, Cut[N, B]], x: Ref[f32, N], *, PADDING: Const[float] = 0.0) -> None:
        z.store(tw.sort(x.load_like(z, padding=PADDING)))

    assert warned(ordered, ((7,), f32), 8, negative(7)) == [
        "kernel `ordered`: axis 0 of `x` has 7 elements, which tiles of 8 do not divide, and the 0 "
        "that the last tile is padded with is sorted among the elements: load with `padding=inf`, "
        "or mask the elements outside with tw.where"
    ]
    assert warned(ordered, ((7,), f32), 8, negative(7), PADDING=math.inf) == []


@tw.kernel
def histogram(counts: Accum[i32, K], x: Ref[i32, N], *, MASKED: Const[bool]) -> None:
    at = tw.arange(8)
    counts.add_at(1, x.partition(8)[0], mask=at < N if MASKED else True)


def test_padding_that_is_counted():
    for masked, size, count in ((False, 7, 1), (False, 8, 0), (True, 7, 0)):
        counts, x = tw.zeros((4,), i32), tw.from_numpy(np.ones(size, np.int32))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            histogram.grid(1)(counts, x, MASKED=masked).sync()
        assert len(caught) == count
        assert counts.numpy().tolist() == [count, size, 0, 0]
