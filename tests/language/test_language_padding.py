"""What lies outside a tensor: no divisor that is reported, and in a reduction a warning."""

import linecache
import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from padding_warnings import warned
from running import assert_same, run

import tilewright as tw
from tilewright import Const, Cut, Mut, PaddingWarning, Ref, ReportForm, f32, i32, u8
from tilewright.dims import BM, BN, B, M, N, T

# --- divisors -------------------------------------------------------------------------------------


@tw.kernel
def quotients(z: Mut[i32, B], x: Ref[i32, N], y: Ref[u8, N]) -> None:
    t, by = x.load_like(z), y.load_like(z).astype(i32)
    z.store(t // by + t % by)


@tw.kernel
def by_row(z: Mut[i32, BM, BN], x: Ref[i32, M, N], y: Ref[i32, M]) -> None:
    i, _ = z.index
    z.store(x.load_like(z) // y.partition(BM)[i][:, None])


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 40), st.sampled_from([1, 8, 32]), st.sampled_from(list(ReportForm)))
def test_padding_is_no_divisor(n, tile, form):
    kernel = tw.kernel(report=form)(quotients.source.function)
    generator = np.random.default_rng(n)
    x = generator.integers(-50, 50, n).astype(np.int32)
    y = generator.integers(1, 9, n).astype(np.uint8)
    assert_same(run(kernel, ((n,), i32), tile, x, y), (x // y + x % y).astype(np.int32))


@settings(max_examples=12, deadline=None)
@given(st.integers(1, 20), st.integers(1, 20), st.booleans())
def test_padding_of_a_divisor_that_is_spread(m, n, zero):
    x = np.arange(m * n, dtype=np.int32).reshape(m, n)
    y = np.arange(1, m + 1, dtype=np.int32)
    if not zero:
        assert_same(run(by_row, ((m, n), i32), (4, 8), x, y), x // y[:, None])
        return
    y[-1] = 0  # the last element, next to the padding, is data
    with pytest.raises(tw.KernelFailure, match=r"division by zero .* `tw\.where\(d == 0, 1, d\)`"):
        run(by_row, ((m, n), i32), (4, 8), x, y)


def test_a_fixed_extent_is_padded_too():
    @tw.kernel
    def divided(z: Mut[i32, 8], x: Ref[i32, 6], y: Ref[i32, 6]) -> None:
        z.store(x.partition(8)[0] // y.partition(8)[0])

    x, y = np.arange(6, dtype=np.int32), np.full(6, 2, np.int32)
    got = run(divided, ((8,), i32), 8, x, y)
    assert_same(got, np.array([0, 0, 1, 1, 2, 2, 0, 0], np.int32))


def test_what_is_computed_from_padding_is_a_divisor():
    """Only a tile as it was loaded has padding; the way out is in the message."""

    @tw.kernel
    def divided(z: Mut[i32, B], x: Ref[i32, N], *, SAFE: Const[bool]) -> None:
        twice = x.load_like(z) * 2
        z.store(100 // (tw.maximum(twice, 1) if SAFE else twice))

    x = np.arange(1, 8, dtype=np.int32)
    assert_same(run(divided, ((7,), i32), 8, x, SAFE=True), 100 // (2 * x))
    with pytest.raises(tw.KernelFailure, match=r"`tw\.maximum\(d, 1\)`"):
        run(divided, ((7,), i32), 8, x, SAFE=False)


# --- reductions -----------------------------------------------------------------------------------


@tw.kernel
def largest(z: Mut[T, Cut[M, BM]], x: Ref[T, M, N], *, W: Const[int]) -> None:
    z.store(tw.max(x.partition(BM, W)[z.index[0], 0], axis=1))


NEGATIVE = -np.arange(1, 22, dtype=np.float32).reshape(3, 7)


def test_a_maximum_over_padding_warns_at_its_line():
    with pytest.warns(PaddingWarning) as caught:
        run(largest, ((3,), f32), 1, NEGATIVE, W=8)
    (warning,) = caught
    assert warning.filename == __file__
    assert "tw.max" in linecache.getline(__file__, warning.lineno)
    assert str(warning.message) == (
        "kernel `largest`: axis 1 of `x` has 7 elements, which tiles of 8 do not divide, and the 0 "
        "that the last tile is padded with takes part in this reduction: load with "
        "`padding=-inf`, or mask the elements outside with tw.where"
    )


def test_a_launch_without_padding_is_silent():
    x = np.ones((3, 8), np.float32)
    assert warned(largest, ((3,), f32), 1, x, W=8) == []
    assert warned(largest, ((3,), f32), 1, NEGATIVE, W=1) == []
    assert warned(largest, ((3,), f32), 2, x, W=8) == []  # rows are padded, and not reduced
    assert len(warned(largest, ((3,), f32), 1, NEGATIVE, W=8)) == 1


def summed(t):
    return tw.sum(t)


def least(t):
    return tw.min(t)


def multiplied(t):
    return tw.prod(t)


def asked(t):
    return (tw.any(t) & tw.all(t > -9)).astype(f32)


def placed(t):
    return tw.argmax(t).astype(f32)


def running(t):
    return tw.sum(tw.cumprod(t)) + tw.sum(tw.cumsum(t, reverse=True))


def running_back(t):
    return tw.sum(tw.cumprod(t, reverse=True))


def converted(t):
    return tw.max(t.astype(i32)).astype(f32)


def unsigned(t):
    return tw.max(t.astype(u8)).astype(f32)


def masked(t):
    return tw.max(tw.where(tw.arange(8) < 7, t, -math.inf))


def computed(t):
    return tw.max(t - 1)


def combined(t):
    return tw.reduce(t, lambda a, b: a * b, 1)


def exponentials(t):
    return tw.sum(tw.exp(t))


def deviations(t):
    mean = tw.sum(t) / 7.0
    return tw.sum((t - mean) ** 2)


def masked_deviations(t):
    mean = tw.sum(t) / 7.0
    return tw.sum(tw.where(tw.arange(8) < 7, t - mean, 0) ** 2)


def masked_exponentials(t):
    inside = tw.arange(8) < 7
    scores = tw.where(inside, t, -1e30)
    return tw.sum(tw.exp(scores - tw.max(scores)))


def squares(t):
    return tw.sum(t * t * 3.0 + t / 2.0) + tw.sum(tw.abs(t) * tw.sum(t))


def positive(t):
    return tw.sum(tw.where(t > 0, tw.exp(t), 0)) + tw.sum(tw.maximum(t, 0))


def above_the_mean(t):
    return tw.sum(tw.where(t > tw.sum(t), tw.exp(t), 0))


def shifted(t):
    return tw.sum(t + 1)


def cosines(t):
    return tw.prod(tw.cos(t)) + tw.sum(tw.cos(t) - 1)


def counted(t):
    return tw.sum((t != 0).astype(i32)).astype(f32)


def zeros_counted(t):
    return tw.sum(tw.where(t == 0, 1, 0)).astype(f32)


def totals(t):
    return tw.sum(tw.cumsum(t))


def multiplied_matrices(t):
    m = tw.mma(t[None, :], tw.exp(t)[:, None], tw.zeros((1, 1), f32))
    return tw.sum(m)


def multiplied_exponentials(t):
    m = tw.mma(tw.exp(t)[None, :], tw.exp(t)[:, None], tw.zeros((1, 1), f32))
    return tw.sum(m)


def means(t):
    return tw.mean(t) + tw.sum(t) / 8


def masked_means(t):
    return tw.mean(tw.where(tw.arange(8) < 7, tw.exp(t), 0))


def turned(t):
    return tw.sum(tw.exp(t.reshape(8, 1).T))


def accumulated(t):
    total = tw.zeros((8,), f32)
    for _ in range(3):
        total = total + t
    return tw.sum(total)


def accumulated_exponentials(t):
    total = tw.zeros((8,), f32)
    for _ in range(3):
        total += tw.exp(t)
    return tw.sum(total)


def accumulated_maxima(t):
    highest = tw.full((8,), -math.inf, f32)
    for _ in range(3):
        highest = tw.maximum(highest, t)
    return tw.max(highest)


def carried_maxima(t):
    best = tw.full((1,), -9.0, f32)
    for _ in range(2):
        best = tw.maximum(best, tw.max(t, axis=0, keepdims=True))
    return best.item()


def chosen_by_a_branch(t):
    total = t
    if tw.sum(t) > 3:
        total = tw.exp(t)
    return tw.sum(total)


WARNS = {
    summed: 0, least: 1, multiplied: 1, asked: 0, placed: 1, running: 0, running_back: 1,
    converted: 1, unsigned: 0, masked: 0, computed: 1, combined: 1, exponentials: 1,
    deviations: 1, masked_deviations: 0, masked_exponentials: 0, squares: 0, positive: 0,
    above_the_mean: 1, shifted: 1, cosines: 0, counted: 0, zeros_counted: 1, totals: 1,
    multiplied_matrices: 0, multiplied_exponentials: 1, means: 1, masked_means: 1, turned: 1,
    accumulated: 0, accumulated_exponentials: 1, accumulated_maxima: 1, carried_maxima: 1,
    chosen_by_a_branch: 1,
}  # fmt: skip


@pytest.mark.parametrize("reduced", WARNS, ids=lambda function: function.__name__)
def test_what_warns(reduced):
    @tw.kernel
    def kernel(z: Mut[f32, B], x: Ref[f32, N]) -> None:
        z.store(tw.full((B,), reduced(x.partition(8)[0]), f32))

    x = np.full(8, -2, np.float32)
    assert len(warned(kernel, ((1,), f32), 1, x[:7])) == WARNS[reduced]
    assert warned(kernel, ((1,), f32), 1, x) == []


def test_every_axis_that_is_reduced_counts():
    @tw.kernel
    def least_of_all(z: Mut[f32, B], x: Ref[f32, M, N]) -> None:
        z.store(tw.full((B,), tw.min(x.partition(4, 8)[0, 0]), f32))

    x = np.ones((3, 7), np.float32)
    texts = warned(least_of_all, ((1,), f32), 1, x)
    assert sorted(text.split(" has ")[0][-16:] for text in texts) == [
        "`: axis 0 of `x`", "`: axis 1 of `x`",
    ]  # fmt: skip
    assert warned(least_of_all, ((1,), f32), 1, np.ones((4, 8), np.float32)) == []


def test_divisibility_that_is_required_needs_no_padding():
    @tw.kernel
    def checked(z: Mut[f32, B], x: Ref[f32, N]) -> None:
        tw.require(x.shape[0] % 8 == 0)
        z.store(tw.full((B,), tw.max(x.partition(8, padding=0)[0]), f32))

    assert warned(checked, ((1,), f32), 1, np.ones(8, np.float32)) == []


# --- at every launch ------------------------------------------------------------------------------


@tw.kernel
def sums(z: Mut[f32, BM], x: Ref[f32, M, N], *, P: Const[int] = 8) -> None:
    xs = x.partition(BM, P)
    total = tw.zeros((BM, P), f32)
    for j in range(xs.num_tiles(1)):
        total += tw.exp(xs[z.index[0], j])
    z.store(tw.sum(total, axis=1))


def test_the_message_says_what_the_padding_has_become():
    @tw.kernel
    def once(z: Mut[f32, BM], x: Ref[f32, M, N]) -> None:
        z.store(tw.sum(tw.exp(x.partition(BM, 8)[z.index[0], 0]), axis=1))

    (text,) = warned(once, ((3,), f32), 2, NEGATIVE)
    assert text == (
        "kernel `once`: axis 1 of `x` has 7 elements, which tiles of 8 do not divide, and the 1 "
        "that its padding has become takes part in this reduction: mask the elements outside with "
        "tw.where"
    )
    (text,) = warned(sums, ((3,), f32), 2, NEGATIVE)
    assert "and the value computed from the padding takes part" in text


def test_only_the_last_tile_is_padded():
    @tw.kernel
    def first(z: Mut[f32, BM], x: Ref[f32, M, N]) -> None:
        z.store(tw.max(x.partition(BM, 4)[z.index[0], 0], axis=1))

    assert warned(first, ((3,), f32), 2, NEGATIVE) == []  # 7 columns, of which 4 are read
    assert len(warned(first, ((3,), f32), 2, NEGATIVE[:, :3])) == 1


def test_a_loop_that_leaves_out_the_last_tile_is_silent():
    @tw.kernel
    def whole_tiles(z: Mut[f32, BM], x: Ref[f32, M, N]) -> None:
        xs = x.partition(BM, 4)
        total = tw.zeros((BM,), f32)
        for j in range(N // 4):
            total += tw.sum(tw.exp(xs[z.index[0], j]), axis=1)
        z.store(total)

    assert warned(whole_tiles, ((3,), f32), 2, NEGATIVE) == []


def test_tensors_of_one_dim_are_padded_together():
    @tw.kernel
    def products(z: Mut[f32, BM], x: Ref[f32, M, N], y: Ref[f32, M, N]) -> None:
        i = z.index[0]
        z.store(tw.sum((x.partition(BM, 8)[i, 0] + y.partition(BM, 8)[i, 0]) ** 2, axis=1))

    assert warned(products, ((3,), f32), 2, NEGATIVE, NEGATIVE) == []


def test_every_launch_that_has_padding_warns_whichever_came_before():
    x = {n: tw.from_numpy(np.ones((3, n), np.float32)) for n in (8, 16, 7, 13, 24)}
    z = {n: tw.zeros((3,), f32) for n in x}

    def warns(n: int) -> bool:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warnings.simplefilter("ignore", tw.ExtentWarning)
            sums(z[n].partition(2), x[n]).sync()
        return bool(caught)

    # Launches are planned, bound to the same handles, and fitted to other extents.
    for n in (8, 8, 8, 16, 16, 24, 7, 7, 7, 8, 13, 7, 16, 16):
        assert warns(n) == (n % 8 != 0), n


def test_a_launch_with_a_check_in_the_kernel_warns_too():
    @tw.kernel
    def picked(z: Mut[f32, BM], x: Ref[f32, M, N], ids: Ref[i32, M], n: i32) -> None:
        xs = x.partition(1, 8)
        total = 0.0
        if n > 0:
            total = tw.sum(xs[n, 0])
        z.store(
            tw.full((BM,), total, f32) + tw.sum(tw.exp(x.partition(BM, 8)[z.index[0], 0]), axis=1)
        )

    ids = np.zeros(3, np.int32)
    assert len(warned(picked, ((3,), f32), 2, NEGATIVE, ids, 1)) == 1
    assert len(warned(picked, ((3,), f32), 2, NEGATIVE, ids, 0)) == 1
