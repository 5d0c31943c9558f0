"""Tiles with padding that is skipped: the same results as with it."""

import math

import numpy as np
import pytest

import tilewright as tw
from tilewright import Const, Mut, Ref, f16, f32
from tilewright.backends.cpu.floats import flushed_exp2
from tilewright.backends.cpu.reductions import extremum, tree
from tilewright.backends.cpu.selection import chosen
from tilewright.dims import BM, M, N


@tw.kernel
def highest(z: Mut[f32, BM], x: Ref[f32, M, N], *, PART: Const[int], PADDING: Const[float]) -> None:
    tile = x.partition(BM, PART, padding=PADDING)[z.index[0], 0]
    z.store(tw.max(tile, axis=1))


@tw.kernel
def total(z: Mut[f32, BM], x: Ref[f16, M, N], *, PART: Const[int]) -> None:
    columns = x.partition(PART, BM)[0, z.index[0]]
    z.store(tw.sum(columns.astype(f32), axis=0))


@pytest.fixture(autouse=True)
def on_the_cpu():
    with tw.device("cpu"):
        yield


@pytest.mark.filterwarnings("ignore::tilewright.errors.PaddingWarning")
@pytest.mark.parametrize("watched", [False, True])
@pytest.mark.parametrize("width", [1, 5, 31, 32, 33, 63])
@pytest.mark.parametrize("rows", [8, 11])
def test_padding_that_is_no_identity_counts(rows, width, watched):
    a = -1 - np.random.default_rng(0).random((rows, width), np.float32)
    x, z = tw.from_numpy(a), tw.zeros(rows, f32)
    for padding, wanted in ((-math.inf, a.max(axis=1)), (0.0, np.maximum(a.max(axis=1), 0))):
        with tw.race_check(watched):
            highest(z.partition(4), x, PART=64, PADDING=padding).sync()
        np.testing.assert_array_equal(z.numpy(), wanted)


@pytest.mark.parametrize("count", [1, 3, 16, 23])
def test_columns_are_summed_without_padding(count):
    a = np.random.default_rng(0).standard_normal((count, 16)).astype(np.float16)
    z = tw.zeros(16, f32)
    total(z.partition(16), tw.from_numpy(a), PART=32).sync()
    np.testing.assert_allclose(z.numpy(), a.astype(np.float32).sum(axis=0), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("extent", [1, 2, 3, 5, 6, 7, 8, 13])
def test_a_tree_over_any_extent_keeps_the_order(extent):
    names = np.array([chr(ord("a") + i) for i in range(extent)], object)
    (found,) = tree(lambda element, before: (before + element,), 0, names)
    assert found == "".join(names)


def test_only_open_extrema_are_recomputed():
    x = np.array(
        [[1, 2, -0.0], [-0.0, 0.0, -1], [-0.0, -0.0, -5], [0, 0, 0], [np.nan, 3, 1]], np.float32
    )
    seen = []

    def greatest(element, before):
        seen.append(element.shape)
        return (
            np.where(np.signbit(before) & (before == element), element, np.fmax(before, element)),
        )

    found = extremum(np.maximum.reduce(x, 1), greatest, 1, x)
    np.testing.assert_array_equal(found, [2, 0, 0, 0, 3])
    np.testing.assert_array_equal(np.signbit(found), [False, False, True, False, False])
    assert all(shape[1:] == (4,) for shape in seen), "the first row is decided"


@pytest.mark.parametrize("shape", [(64, 128), (32, 1, 256), (2, 64, 64), (1, 8192), (8192,), (3,)])
def test_powers_of_two_are_flushed_and_skip_padding(shape):
    rng = np.random.default_rng(0)
    x = rng.uniform(-160, 20, shape).astype(np.float32)
    for cut in (0, 1, 40):
        y = x.copy()
        if cut:
            y[..., -cut:] = -np.inf
        found, exact = flushed_exp2(y), np.exp2(y.astype(np.float64))
        normal = exact >= 2.0**-126
        np.testing.assert_allclose(found[normal], exact[normal], rtol=4 * 2.0**-24)
        assert not found[exact < 2.0**-127].any()
    y = x.copy()
    y.reshape(-1)[::7] = np.nan
    np.testing.assert_array_equal(np.isnan(flushed_exp2(y)), np.isnan(y))


def test_one_row_of_padding_is_no_column_of_it():
    x = np.zeros((64, 128), np.float32)
    x[0, 60:] = -np.inf
    np.testing.assert_array_equal(flushed_exp2(x), np.exp2(x))


@pytest.mark.parametrize(
    "shapes", [((64, 128),) * 3, ((64, 1), (1, 128), ()), ((64, 128), (), (1, 1))]
)
def test_a_choice_between_broadcast_tiles(shapes):
    rng = np.random.default_rng(0)
    condition = rng.random(shapes[0]) < 0.5
    x, y = (np.asarray(rng.standard_normal(shape), np.float32)[()] for shape in shapes[1:])
    found = chosen(condition, x, y)
    np.testing.assert_array_equal(found, np.where(condition, x, y))
    assert found.dtype == np.float32
