"""Order, places, scatters, masks and formulas on the GPU and on the CPU backend."""

import math

import ml_dtypes
import numpy as np
import pytest
from gpu_kernels import GPU, poisoned, run_both, run_on

import tilewright as tw
from tilewright import Mut, Ref, f32, i32, kernels
from tilewright.dims import BM, BN, B, M, N, T

pytestmark = pytest.mark.gpu

KINDS = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64, np.int8, np.uint32, np.int64]


@tw.kernel
def in_order(z: Mut[T, BM, BN], x: Ref[T, M, N]) -> None:
    t = x.load_like(z)
    places = tw.argsort(t, 0, descending=True)
    z.store(tw.take_along_axis(tw.sort(t), places, 0))


@tw.kernel
def scattered(z: Mut[T, B], x: Ref[T, N], at: Ref[i32, N]) -> None:
    t, places = x.load_like(z), at.load_like(z)
    z.store(t + t, mask=places > 5)
    z.scatter(t, places)


@tw.kernel
def formulas(z: Mut[f32, 6, B], x: Ref[f32, N]) -> None:
    t = x.windows(B, step=B, start=0)[z.index[1]]
    out = z.partition(1, B)
    out.store(tw.erf(t)[None, :], 0, 0)
    out.store(tw.log1p(t)[None, :], 1, 0)
    out.store(tw.expm1(t)[None, :], 2, 0)
    out.store(tw.sigmoid(t)[None, :], 3, 0)
    out.store(tw.round(t)[None, :], 4, 0)
    out.store(x.windows(B, step=B, start=-1)[z.index[1]][None, :], 5, 0)


def numbers(kind, shape) -> np.ndarray:
    generator, kind = np.random.default_rng(0), np.dtype(kind)
    if kind.kind in "iu":
        ends = np.iinfo(kind)
        return generator.integers(ends.min, ends.max, shape, dtype=kind)
    return generator.choice(np.array([0.0, -0.0, 1, -2, 0.5, np.inf, -np.inf, 7]), shape).astype(
        kind
    )


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: np.dtype(kind).name)
def test_order_and_places_to_the_bit(kind):
    x = numbers(kind, (32, 64))
    got, wanted = run_both(
        lambda z, x: in_order(z.partition(16, 64), x), poisoned(x.shape, kind), x
    )
    assert (got.view(np.uint8) == wanted.view(np.uint8)).all()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: np.dtype(kind).name)
def test_scatters_and_masks_to_the_bit(kind):
    x = numbers(kind, 500)
    at = np.random.default_rng(1).integers(-3, 70, 500).astype(np.int32)
    old = numbers(kind, 500)[::-1].copy()
    got, wanted = run_both(lambda z, x, at: scattered(z.partition(64), x, at), old, x, at)
    assert (got.view(np.uint8) == wanted.view(np.uint8)).all()


def test_formulas_are_within_their_ulps():
    generator = np.random.default_rng(2)
    x = np.concatenate([generator.uniform(-0.99, 4, 2048), 2.0 ** generator.uniform(-20, 6, 2048)])
    x = x.astype(np.float32)
    got = run_on(
        GPU, lambda z, x: formulas(z.partition(6, 256), x), poisoned((6, 4096), np.float32), x
    )
    wide = x.astype(np.float64)
    exact = [
        np.vectorize(math.erf)(wide), np.log1p(wide), np.expm1(wide), 1 / (1 + np.exp(-wide)),
    ]  # fmt: skip
    for found, wanted, ulps in zip(got, exact, (2, 2, 2, 3), strict=False):
        error = np.abs(found - wanted) / np.spacing(np.abs(wanted).astype(np.float32))
        assert error.max() <= ulps
    np.testing.assert_array_equal(got[4], np.rint(x))
    windows = np.pad(x, (1, 0)).astype(np.float32)
    starts = range(0, 4096, 256)
    np.testing.assert_array_equal(got[5], np.concatenate([windows[s : s + 256] for s in starts]))


def test_rows_by_numbers():
    generator = np.random.default_rng(3)
    x = generator.standard_normal((3000, 33)).astype(np.float32)
    index = generator.integers(-2, 1000, 3000).astype(np.int64)
    got, wanted = run_both(
        lambda z, x, index: kernels.scatter(x, index, out=z),
        np.zeros((998, 33), np.float32),
        x,
        index,
    )
    np.testing.assert_array_equal(got, wanted)
