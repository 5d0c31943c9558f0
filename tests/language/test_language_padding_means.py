"""A mean of a tile counts its padding, and the launch says so."""

import numpy as np
from padding_warnings import warned
from running import assert_same, run

import tilewright as tw
from tilewright import Const, Mut, Ref, f32
from tilewright.dims import BM, M, N

NEGATIVE = -np.arange(1, 22, dtype=np.float32).reshape(3, 7)


def test_a_mean_counts_padding():
    @tw.kernel
    def averages(z: Mut[f32, BM], x: Ref[f32, M, N], *, EXACT: Const[bool] = False) -> None:
        z.store(tw.mean(x.partition(BM, 8, exact=EXACT)[z.index[0], 0], axis=1))

    @tw.kernel
    def sums_over_counts(z: Mut[f32, BM], x: Ref[f32, M, N]) -> None:
        t = x.partition(BM, 8)[z.index[0], 0]
        z.store(tw.sum(t, axis=1) / x.shape[1].astype(t.dtype))

    (text,) = warned(averages, ((3,), f32), 1, NEGATIVE)
    assert text == (
        "kernel `averages`: axis 1 of `x` has 7 elements, which tiles of 8 do not divide, and "
        "tw.mean divides by the number of elements of the tile, padding included: divide the sum "
        "by the number of those that count, as `tw.sum(t) / x.shape[1].astype(t.dtype)` does"
    )
    assert warned(sums_over_counts, ((3,), f32), 1, NEGATIVE) == []
    assert_same(run(sums_over_counts, ((3,), f32), 1, NEGATIVE), NEGATIVE.mean(axis=1))
    whole = np.ones((3, 8), np.float32)
    assert warned(averages, ((3,), f32), 1, whole) == []
    assert warned(averages, ((3,), f32), 1, whole, EXACT=True) == []
