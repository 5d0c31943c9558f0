"""Reductions and scans against NumPy: named ones on every dtype, and functions of the author."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from running import assert_same, run

import tilewright as tw
from tilewright import (
    Const,
    DType,
    Mut,
    Ref,
    bf16,
    bool_,
    f16,
    f32,
    f64,
    i8,
    i16,
    i32,
    i64,
    u8,
    u16,
    u32,
    u64,
)
from tilewright.dims import BM, BN, B, M, N, P, T
from tilewright.dtypes import numpy_dtype

FLOATS = [f16, bf16, f32, f64]
INTEGERS = [i8, i16, i32, i64, u8, u16, u32, u64]
SHAPE = (4, 8, 2)
AXES = [0, 1, 2, -1, -3, (0, 2), (-1, 1), (0, 1, 2), (), None]
NUMPY = {tw.sum: np.sum, tw.prod: np.prod, tw.max: np.max, tw.min: np.min}


@tw.kernel
def all_reductions(z: Mut[f32, BM, BN], x: Ref[f32, M, N], *, D: Const[DType] = f32) -> None:
    t = x.load_like(z).astype(D)
    found = tw.argmax(t, axis=1, nan=True) + tw.argmin(t, axis=1) + tw.argmax(t)
    truth = tw.any(t > 0, axis=1) & tw.all(t, axis=1)
    products = tw.prod(t, axis=1) + tw.max(t, axis=1, nan=True) - tw.min(t, axis=1)
    running = tw.cumsum(t, axis=1) * tw.cumprod(t, axis=0, reverse=True)
    narrow = tw.argmax(t.astype(i32).astype(u8), axis=0) + tw.argmin(t.astype(i64), axis=0)
    row = (found + truth.astype(i32)).astype(D) + products
    z.store((running + row[:, None] + narrow.astype(D)).astype(f32))


def larger_of(value: f32, place: i32, other: f32, there: i32) -> tuple[f32, i32]:
    wins = (value > other) or (value == other and place < there)
    return (value if wins else other), (place if wins else there)


@tw.kernel
def all_combinations(z: Mut[f32, BM, BN], x: Ref[f32, M, N], n: i32) -> None:
    t = x.load_like(z)
    limit = n.astype(f32)
    capped = tw.reduce(t, lambda a, b: min(max(a, b), limit), -math.inf, axis=1, keepdims=True)
    halves = tw.scan(t.astype(i32), lambda a, b: (a + b) // 2 * 2, 0, axis=-1)
    places = tw.arange(BN)[None, :].broadcast_to(BM, BN)
    best, where = tw.reduce((t, places), larger_of, (-math.inf, 2**31 - 1), axis=1)
    z.store(t + capped + halves.astype(f32) + best[:, None] + where[:, None].astype(f32))


def spread(total, axis, keepdims):
    """A result over the whole of the tile it was made of."""
    if keepdims or axis is None:
        return total.broadcast_to(4, 8, 2)
    return total


@pytest.mark.parametrize("dtype", [f32, i32, u8], ids=lambda d: d.label)
@pytest.mark.parametrize("axis", AXES, ids=str)
@pytest.mark.parametrize("function", NUMPY, ids=lambda f: f.name)
def test_axes(function, axis, dtype):
    @tw.kernel
    def reduced(z: Mut[T, BM, BN, P], x: Ref[T, M, N, P]) -> None:
        z.store(function(x.load_like(z), axis, True).broadcast_to(BM, BN, P))

    x = np.random.default_rng(0).integers(0, 4, SHAPE).astype(numpy_dtype(dtype))
    wanted = NUMPY[function](x, axis=axis, keepdims=True, dtype=x.dtype) if function in (
        tw.sum, tw.prod) else NUMPY[function](x, axis=axis, keepdims=True)  # fmt: skip
    got = run(reduced, (SHAPE, dtype), SHAPE, x)
    assert_same(got, np.broadcast_to(wanted, SHAPE).astype(x.dtype))


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS], ids=lambda d: d.label)
@pytest.mark.parametrize("function", NUMPY, ids=lambda f: f.name)
def test_every_dtype(function, dtype):
    @tw.kernel
    def reduced(z: Mut[T, BM], x: Ref[T, M, N]) -> None:
        z.store(function(x.partition(BM, 8)[z.index[0], 0], axis=1))

    limits = (-3, 4) if dtype.signed else (0, 7)
    x = np.random.default_rng(1).integers(*limits, (16, 8)).astype(numpy_dtype(dtype))
    exact = x.astype(np.float64 if dtype.element.is_float else object)
    wanted = NUMPY[function](exact, axis=1)
    if not dtype.element.is_float:  # modulo the width, as the machine counts
        bits = np.array([int(v) & 0xFFFFFFFFFFFFFFFF for v in wanted], np.uint64)
        wanted = bits.astype(np.uint64).view(np.int64)
    assert_same(run(reduced, ((16,), dtype), 4, x), wanted.astype(x.dtype))


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, bool_], ids=lambda d: d.label)
@pytest.mark.parametrize("function", [tw.any, tw.all], ids=lambda f: f.name)
def test_truth(function, dtype):
    @tw.kernel
    def asked(z: Mut[bool_, BM], x: Ref[T, M, N]) -> None:
        z.store(function(x.partition(BM, 4)[z.index[0], 0], axis=-1))

    x = (np.random.default_rng(2).integers(0, 4, (32, 4)) > 1).astype(numpy_dtype(dtype))
    x[:2] = np.array([[0], [1]], x.dtype)
    wanted = (np.any if function is tw.any else np.all)(x.astype(bool), axis=1)
    assert_same(run(asked, ((32,), bool_), 4, x), wanted)


# --- places ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, bool_], ids=lambda d: d.label)
@pytest.mark.parametrize("axis", [0, 1, -1, None], ids=str)
@pytest.mark.parametrize("greatest", [True, False])
def test_the_first_of_equals(dtype, axis, greatest):
    @tw.kernel
    def found(z: Mut[i32, BM, BN], x: Ref[T, M, N], *, MOST: Const[bool]) -> None:
        t = x.load_like(z)
        place = tw.argmax(t, axis, True) if MOST else tw.argmin(t, axis, True)
        z.store(place.broadcast_to(BM, BN))

    x = np.random.default_rng(3).integers(0, 3, (8, 16)).astype(numpy_dtype(dtype))
    if dtype in INTEGERS:
        x[0, 0], x[3, 3] = np.iinfo(x.dtype).max, np.iinfo(x.dtype).min
    numbers = x.astype(np.float64) if dtype in FLOATS else x
    search = np.argmax if greatest else np.argmin
    wanted = np.broadcast_to(search(numbers, axis=axis, keepdims=True), x.shape)
    assert_same(run(found, (x.shape, i32), x.shape, x, MOST=greatest), wanted.astype(np.int32))


NAN, INF = math.nan, math.inf
ROWS = [
    [1, NAN, 3, 2], [NAN, NAN, NAN, NAN], [NAN, -INF, NAN, -INF], [NAN, INF, 0, INF],
    [-INF, -INF, -INF, -INF], [0.0, -0.0, -0.0, 0.0], [INF, 1, NAN, INF], [-INF, NAN, 1, 1],
]  # fmt: skip


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.label)
def test_nan_is_found_last_or_first(dtype):
    @tw.kernel
    def found(z: Mut[i32, BM, 4], x: Ref[T, M, N]) -> None:
        t = x.partition(BM, 4)[z.index[0], 0]
        lost = tw.cat((tw.argmax(t, 1, True), tw.argmin(t, 1, True)), axis=1)
        won = tw.cat((tw.argmax(t, 1, True, nan=True), tw.argmin(t, 1, True, nan=True)), axis=1)
        z.store(tw.cat((lost, won), axis=1))

    x = np.array(ROWS).astype(numpy_dtype(dtype))
    wide = np.array(ROWS)
    lowest, highest = (
        np.array([_place(row, best) for row in wide]) for best in (np.nanmin, np.nanmax)
    )
    wanted = np.stack([highest, lowest, wide.argmax(1), wide.argmin(1)], axis=1)
    assert_same(run(found, ((8, 4), i32), (4, 4), x), wanted.astype(np.int32))


def _place(row, best) -> int:
    if np.isnan(row).all():
        return 0
    return int(np.flatnonzero(row == best(row))[0])


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.label)
def test_nan_wins_a_reduction_if_asked(dtype):
    @tw.kernel
    def largest(z: Mut[T, BM, 2], x: Ref[T, M, N], *, WINS: Const[bool]) -> None:
        t = x.partition(BM, 4)[z.index[0], 0]
        pair = (tw.max(t, 1, True, nan=WINS), tw.min(t, 1, True, nan=WINS))
        z.store(tw.cat(pair, axis=1))

    x, wide = np.array(ROWS).astype(numpy_dtype(dtype)), np.array(ROWS)
    won = run(largest, ((8, 2), dtype), (4, 2), x, WINS=True)
    assert_same(won, np.stack([wide.max(1), wide.min(1)], 1).astype(x.dtype))
    lost = run(largest, ((8, 2), dtype), (4, 2), x, WINS=False)
    ignored = np.stack([np.fmax.reduce(wide, 1), np.fmin.reduce(wide, 1)], 1)
    assert_same(lost, ignored.astype(x.dtype))


# --- scans ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [f32, f64, i8, i32, u16, u64], ids=lambda d: d.label)
@pytest.mark.parametrize("axis", [0, 1, -1, None], ids=str)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("function", [tw.cumsum, tw.cumprod], ids=lambda f: f.name)
def test_running_sums_and_products(function, reverse, axis, dtype):
    @tw.kernel
    def running(z: Mut[T, BM, BN], x: Ref[T, M, N], *, BACK: Const[bool]) -> None:
        z.store(function(x.load_like(z), axis, reverse=BACK).reshape(BM, BN))

    x = np.random.default_rng(4).integers(1, 3, (4, 8)).astype(numpy_dtype(dtype))
    along = x.reshape(-1) if axis is None else x
    over = axis or 0
    turned = np.flip(along, over) if reverse else along
    numpy = np.cumsum if function is tw.cumsum else np.cumprod
    with np.errstate(over="ignore"):
        wanted = numpy(turned, axis=over, dtype=x.dtype)
    wanted = np.flip(wanted, over) if reverse else wanted
    got = run(running, (x.shape, dtype), (4, 8), x, BACK=reverse)
    assert_same(got, wanted.reshape(x.shape))


# --- functions of the author ----------------------------------------------------------------------


def added(a, b):
    return a + b


COMBINATIONS = {
    "sum": (added, 0, np.add),
    "product": (lambda a, b: a * b, 1, np.multiply),
    "bits": (lambda a, b: a ^ b, 0, np.bitwise_xor),
    "largest": (lambda a, b: a if a > b else b, -(2**31), np.maximum),
}


@pytest.mark.parametrize("axis", [0, -1, (0, 1), None], ids=str)
@pytest.mark.parametrize("name", ["sum", "product", "bits", "largest"])
def test_a_reduction_with_a_function(name, axis):
    @tw.kernel
    def reduced(z: Mut[i32, BM, BN], x: Ref[i32, M, N], *, WHICH: Const[int]) -> None:
        t = x.load_like(z)
        if WHICH == 0:
            total = tw.reduce(t, added, 0, axis, True)
        elif WHICH == 1:
            total = tw.reduce(t, lambda a, b: a * b, 1, axis=axis, keepdims=True)
        elif WHICH == 2:
            total = tw.reduce(t, lambda a, b: a ^ b, identity=0, axis=axis, keepdims=True)
        else:
            total = tw.reduce(t, lambda a, b: a if a > b else b, -(2**31), axis, True)
        z.store(total.broadcast_to(BM, BN))

    x = np.random.default_rng(5).integers(-9, 9, (4, 8)).astype(np.int32)
    which = list(COMBINATIONS).index(name)
    over = (0, 1) if axis is None else axis
    ufunc = COMBINATIONS[name][2]
    wanted = np.broadcast_to(ufunc.reduce(x, axis=over, keepdims=True), x.shape) if (
        not isinstance(over, tuple)) else np.full(x.shape, ufunc.reduce(x.reshape(-1)))  # fmt: skip
    assert_same(run(reduced, (x.shape, i32), (4, 8), x, WHICH=which), wanted.astype(np.int32))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, 1, None], ids=str)
def test_a_scan_keeps_the_order_of_what_it_combines(axis, reverse):
    """The later of two is associative and not commutative; so is a linear recurrence."""

    @tw.kernel
    def running(z: Mut[i32, BM, BN], x: Ref[i32, M, N], *, BACK: Const[bool]) -> None:
        t = x.load_like(z)
        kept = tw.scan(t, lambda a, b: a if b == 0 else b, 0, axis, reverse=BACK)
        z.store(kept.reshape(BM, BN))

    x = np.random.default_rng(6).integers(0, 3, (4, 8)).astype(np.int32)
    along = x.reshape(-1) if axis is None else x
    turned = np.flip(along, axis or 0) if reverse else along
    wanted = turned.copy()
    moved = np.moveaxis(wanted, axis or 0, 0)
    for n in range(1, len(moved)):
        moved[n] = np.where(moved[n] == 0, moved[n - 1], moved[n])
    wanted = np.flip(wanted, axis or 0) if reverse else wanted
    got = run(running, (x.shape, i32), (4, 8), x, BACK=reverse)
    assert_same(got, wanted.reshape(x.shape))


@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_of_pairs(reverse):
    @tw.kernel
    def recurrence(z: Mut[f32, B], x: Ref[f32, N], y: Ref[f32, N], *, BACK: Const[bool]) -> None:
        a, b = x.load_like(z), y.load_like(z)
        _, state = tw.scan(
            (a, b), lambda a, b, c, d: (a * c, b * c + d), (1, 0), axis=0, reverse=BACK
        )
        z.store(state)

    generator = np.random.default_rng(7)
    x, y = (generator.uniform(-1, 1, 32).astype(np.float32) for _ in range(2))
    steps = list(zip(x, y, strict=True))
    wanted, state = [], 0.0
    for a, b in reversed(steps) if reverse else steps:
        state = float(a) * state + float(b)
        wanted.append(state)
    wanted = wanted[::-1] if reverse else wanted
    np.testing.assert_allclose(run(recurrence, ((32,), f32), 32, x, y, BACK=reverse), wanted, 1e-5)


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 40), st.integers(1, 5))
def test_pairs_of_value_and_place_over_ragged_rows(n, m):
    @tw.kernel
    def found(z: Mut[i32, BM], x: Ref[f32, M, N]) -> None:
        t = x.partition(BM, 64, padding=-math.inf)[z.index[0], 0]
        places = tw.arange(64)[None, :].broadcast_to(BM, 64)
        _, where = tw.reduce((t, places), larger_of, (-math.inf, 2**31 - 1), axis=1)
        z.store(where)

    x = np.random.default_rng(n).integers(-3, 3, (m, n)).astype(np.float32)
    assert_same(run(found, ((m,), i32), 2, x), x.argmax(1).astype(np.int32))


def test_a_combination_sees_what_is_around_it():
    @tw.kernel
    def capped(z: Mut[f32, BM, 1], x: Ref[f32, M, N], n: i32, *, LOW: Const[int]) -> None:
        limit = n.astype(f32)
        z.store(
            tw.reduce(
                x.partition(BM, 8)[z.index[0], 0],
                lambda a, b: tw.clamp(tw.maximum(a, b), LOW, limit),
                -math.inf,
                axis=1,
                keepdims=True,
            )
        )

    x = np.arange(64, dtype=np.float32).reshape(8, 8)
    got = run(capped, ((8, 1), f32), (4, 1), x, 40, LOW=10)
    assert_same(got, np.clip(x.max(1, keepdims=True), 10, 40))


def test_a_lambda_is_a_function_too():
    @tw.kernel
    def doubled(z: Mut[f32, B], x: Ref[f32, N]) -> None:
        factor = 2
        times = lambda t, by: t * by * factor  # noqa: E731
        factor = 3
        z.store(times(x.load_like(z), by=1.5))

    x = np.arange(64, dtype=np.float32)
    assert_same(run(doubled, ((64,), f32), 32, x), x * np.float32(4.5))


@pytest.mark.parametrize("form", list(tw.ReportForm), ids=str)
def test_an_index_found_by_a_combination_is_checked_like_any(form):
    """What the combination sees outside itself goes with it, into the audit kernel too."""

    @tw.kernel(report=form)
    def picked(z: Mut[f32, B], x: Ref[f32, N], at: Ref[i32, M]) -> None:
        tiles, places = x.partition(B), at.partition(4)[0]
        least = at.partition(1)[0].item()
        far = tw.reduce(places, lambda a, b: max(max(a, b), least), -(2**31)).item()
        z.store(tiles[far])

    x = np.arange(32, dtype=np.float32)
    got = run(picked, ((8,), f32), 8, x, np.array([0, 2, 3, 1], np.int32))
    assert_same(got, x[24:])
    if form is tw.ReportForm.NONE:
        return
    with pytest.raises(tw.OutOfBoundsError, match=r"index 4 is outside axis 0 of `x`"):
        run(picked, ((8,), f32), 8, x, np.array([4, 2, 3, 1], np.int32))
