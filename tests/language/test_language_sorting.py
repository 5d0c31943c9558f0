"""Elements in order, and by their places, inside a tile: against NumPy's stable sort."""

import functools

import numpy as np
import pytest
from function_cases import STORED
from running import run

import tilewright as tw
from tilewright import AnyDType, Const, Mut, Ref, bool_, f32, i32, i64
from tilewright.dims import BM, BN, K, M, N
from tilewright.dtypes import numpy_dtype


class TX(AnyDType): ...


def matrix(dtype, shape=(8, 32), seed=0) -> np.ndarray:
    """Elements many of which are equal, all that is special among them."""
    generator, kind = np.random.default_rng(seed), numpy_dtype(dtype)
    if dtype is bool_:
        return generator.integers(0, 2, shape).astype(bool)
    if dtype.element.is_float and dtype is not tw.f8e8m0fnu:
        some = [0.0, -0.0, 1, -1, 0.5, 2, -7, 30, np.nan, -np.nan, np.inf, -np.inf]
        with np.errstate(all="ignore"):
            return generator.choice(np.array(some).astype(kind), shape)
    bits = generator.integers(0, 256, (*shape, kind.itemsize)).astype(np.uint8)
    bits[:, : shape[1] // 2] = bits[:, shape[1] // 2 :]
    return bits.view(kind)[..., 0]


def before(a, b) -> int:
    """The order of NumPy's sort: NaN behind everything."""
    if a != a or b != b:
        return int(a != a) - int(b != b)
    return int(a > b) - int(a < b)


def places_of(line: np.ndarray, *, descending: bool) -> list[int]:
    """A stable sort by comparing, of exact numbers."""
    numbers = line.tolist() if line.dtype.kind in "iub" else line.astype(np.float64).tolist()
    sign = -1 if descending else 1
    key = functools.cmp_to_key(lambda i, j: sign * before(numbers[i], numbers[j]) or i - j)
    return sorted(range(len(numbers)), key=key)


def assert_same_elements(got, wanted) -> None:
    """Equal bit for bit, NaN apart."""
    bits = f"u{wanted.dtype.itemsize}"
    is_nan = wanted != wanted
    np.testing.assert_array_equal(got != got, is_nan)
    np.testing.assert_array_equal(got[~is_nan].view(bits), wanted[~is_nan].view(bits))


@tw.kernel
def in_order(
    z: Mut[TX, BM, BN], p: Mut[i32, BM, BN], x: Ref[TX, M, N],
    *, AXIS: Const[int], DOWN: Const[bool] = False,
) -> None:  # fmt: skip
    t = x.load_like(z)
    z.store(tw.sort(t, AXIS, descending=DOWN))
    p.store(tw.argsort(t, AXIS, descending=DOWN))


def sort_both(x: np.ndarray, dtype, **constants) -> tuple[np.ndarray, np.ndarray]:
    z, p = tw.from_numpy(x.copy()), tw.zeros(x.shape, i32)
    in_order(z.partition(*x.shape), p.partition(*x.shape), tw.from_numpy(x), **constants).sync()
    return z.numpy(), p.numpy()


@pytest.mark.parametrize("dtype", STORED, ids=lambda d: d.label)
@pytest.mark.parametrize(("axis", "descending"), [(1, False), (-1, True), (0, True)])
def test_every_dtype_in_order(dtype, axis, descending):
    x = matrix(dtype)
    elements, places = sort_both(x, dtype, AXIS=axis, DOWN=descending)
    lines = [places_of(line, descending=descending) for line in (x if axis else x.T)]
    wanted = np.array(lines) if axis else np.array(lines).T
    np.testing.assert_array_equal(places, wanted)
    assert_same_elements(elements, np.take_along_axis(x, wanted, axis))


@pytest.mark.parametrize("extent", [1, 2, 4, 128, 512])
def test_every_extent(extent):
    x = np.random.default_rng(extent).standard_normal((2, extent)).astype(np.float32)
    elements, places = sort_both(x, f32, AXIS=1)
    np.testing.assert_array_equal(elements, np.sort(x, 1))
    np.testing.assert_array_equal(places, np.argsort(x, 1, kind="stable"))


def test_all_elements_in_order():
    @tw.kernel
    def flat(z: Mut[f32, BM], x: Ref[f32, M, N]) -> None:
        z.store(tw.sort(x.partition(4, 8)[0, 0], None))

    x = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)
    np.testing.assert_array_equal(run(flat, ((32,), f32), 32, x), np.sort(x, None))


@pytest.mark.parametrize(
    ("dtype", "k"), [*((dtype, 4) for dtype in STORED), (f32, 1), (f32, 32)],
    ids=lambda it: str(getattr(it, "label", it)),
)  # fmt: skip
def test_the_greatest(dtype, k):
    @tw.kernel
    def greatest(z: Mut[TX, BM, BN], p: Mut[i32, BM, BN], x: Ref[TX, M, N]) -> None:
        elements, places = tw.top_k(x.partition(BM, 32)[z.index[0], 0], BN)
        z.store(elements)
        p.store(places)

    x = matrix(dtype, seed=1)
    z, p = tw.from_numpy(x[:, :k].copy()), tw.zeros((8, k), i32)
    greatest(z.partition(8, k), p.partition(8, k), tw.from_numpy(x)).sync()
    wanted = np.array([places_of(line, descending=True)[:k] for line in x])
    np.testing.assert_array_equal(p.numpy(), wanted)
    assert_same_elements(z.numpy(), np.take_along_axis(x, wanted, 1))


# --- by their places ------------------------------------------------------------------------------


@tw.kernel
def taken(
    z: Mut[TX, BM, BN], x: Ref[TX, M, K], at: Ref[tw.i16, M, N], *, PADDING: Const[int] = 1
) -> None:
    t = x.partition(BM, 16)[z.index[0], 0]
    z.store(tw.take_along_axis(t, at.load_like(z), 1, padding=PADDING))


@pytest.mark.parametrize("dtype", STORED, ids=lambda d: d.label)
def test_every_dtype_by_places(dtype):
    x = matrix(dtype, (8, 16))
    at = np.random.default_rng(2).integers(-4, 20, (8, 64)).astype(np.int16)
    z = tw.from_numpy(np.resize(x, (8, 64)))
    taken(z.partition(4, 64), tw.from_numpy(x), tw.from_numpy(at), PADDING=1).sync()
    inside = (at >= 0) & (at < 16)
    found = np.take_along_axis(x, np.clip(at, 0, 15).astype(np.int64), 1)
    assert_same_elements(z.numpy(), np.where(inside, found, np.ones((), x.dtype)))


@pytest.mark.parametrize("kind", [np.int32, np.int64, np.uint64, np.uint8])
def test_places_of_every_width_and_long_axes(kind):
    @tw.kernel
    def along(z: Mut[f32, BM, BN], x: Ref[f32, K, BN], at: Ref[TX, M, N]) -> None:
        z.store(tw.take_along_axis(x.partition(256, BN)[0, 0], at.load_like(z), 0))

    x = np.random.default_rng(0).standard_normal((256, 8)).astype(np.float32)
    at = np.random.default_rng(1).integers(0, 256, (512, 8)).astype(kind)
    if kind is not np.uint8:
        at[::7] = np.iinfo(kind).max  # is no place, and none that is cut to 32 bits
    z = tw.zeros((512, 8), f32)
    along(z.partition(512, 8), tw.from_numpy(x), tw.from_numpy(at)).sync()
    found = np.take_along_axis(x, (at.astype(np.uint64) % 256).astype(np.int64), 0)
    np.testing.assert_array_equal(z.numpy(), np.where(at.astype(np.float64) < 256, found, 0))


def test_a_sort_by_another_tile():
    @tw.kernel
    def by_key(z: Mut[i64, BM], keys: Ref[f32, N], x: Ref[i64, N]) -> None:
        places = tw.argsort(keys.load_like(z))
        z.store(tw.take_along_axis(x.load_like(z), places, 0))

    keys = np.random.default_rng(0).standard_normal(64).astype(np.float32)
    x = np.arange(64, dtype=np.int64) << 40
    np.testing.assert_array_equal(run(by_key, ((64,), i64), 64, keys, x), x[np.argsort(keys)])
