"""Gradients of a layer norm: the input's by rows, those of weight and bias by columns.

The input's gradient needs sums over each row, the parameters' over each column: two kernels, whose
blocks own the sums they make, so no accumulator is shared.
"""

import numpy as np

import tilewright as tw
from tilewright import All, Const, Cut, Mut, Ref, f32
from tilewright.dims import BM, BN, M, N


@tw.kernel(deny_checks=True)
def input_gradient(
    dx: Mut[f32, Cut[M, BM], Cut[N, All]], dy: Ref[f32, M, N], x: Ref[f32, M, N],
    weight: Ref[f32, N], mean: Ref[f32, M], rstd: Ref[f32, M], *, P: Const[int] = 64,
) -> None:  # fmt: skip
    """`dx = rstd * (wdy - mean(wdy) - xhat * mean(wdy * xhat))` with `wdy = w * dy`, BM rows."""
    i = dx.index[0]
    dys, xs, ws = dy.partition(BM, P), x.partition(BM, P), weight.partition(P)
    center = mean.partition(BM)[i][:, None]  # [BM, 1]
    scale = rstd.partition(BM)[i][:, None]
    plain, aligned = tw.zeros((BM, 1), f32), tw.zeros((BM, 1), f32)
    for j in range(dys.num_tiles(1)):
        wdy = dys[i, j] * ws[j]  # [BM, P], zero behind the edge
        plain += tw.sum(wdy, axis=1, keepdims=True)
        aligned += tw.sum(wdy * (xs[i, j] - center) * scale, axis=1, keepdims=True)
    parts = dx.partition(BM, P)
    for j in range(parts.num_tiles(1)):
        xhat = (xs[i, j] - center) * scale
        parts.store(scale * (dys[i, j] * ws[j] - (plain + xhat * aligned) / f32(N)), 0, j)


@tw.kernel(deny_checks=True)
def parameter_gradients(
    dweight: Mut[f32, Cut[N, BN]], dbias: Mut[f32, Cut[N, BN]], dy: Ref[f32, M, N],
    x: Ref[f32, M, N], mean: Ref[f32, M], rstd: Ref[f32, M], *, P: Const[int] = 64,
) -> None:  # fmt: skip
    """`dw = sum(dy * xhat)` and `db = sum(dy)` over the rows, for BN columns."""
    j = dweight.index[0]
    dys, xs = dy.partition(P, BN), x.partition(P, BN)
    means, rstds = mean.partition(P), rstd.partition(P)
    dw, db = tw.zeros((BN,), f32), tw.zeros((BN,), f32)
    for i in range(dys.num_tiles(0)):
        tile = dys[i, j]  # [P, BN]
        dw += tw.sum(tile * (xs[i, j] - means[i][:, None]) * rstds[i][:, None], axis=0)
        db += tw.sum(tile, axis=0)
    dweight.store(dw)
    dbias.store(db)


def main() -> None:
    """Compare with NumPy in double precision, on a shape that no tile divides."""
    random = np.random.default_rng(0)
    rows, columns = 37, 203
    x, dy = random.standard_normal((2, rows, columns))
    weight = random.standard_normal(columns)
    mean = x.mean(axis=1)
    rstd = 1 / np.sqrt(x.var(axis=1) + 1e-5)
    xhat, wdy = (x - mean[:, None]) * rstd[:, None], dy * weight
    expected = {
        "dx": rstd[:, None] * (wdy - wdy.mean(axis=1, keepdims=True)
                               - xhat * (wdy * xhat).mean(axis=1, keepdims=True)),
        "dweight": (dy * xhat).sum(axis=0),
        "dbias": dy.sum(axis=0),
    }  # fmt: skip
    given = [tw.from_numpy(a.astype(np.float32)) for a in (dy, x, weight, mean, rstd)]
    dx, dweight, dbias = (tw.zeros(expected[name].shape, f32) for name in expected)
    input_gradient(dx.partition(8, None), *given).submit()
    dy_, x_, _, mean_, rstd_ = given
    parameter_gradients(dweight.partition(64), dbias.partition(64), dy_, x_, mean_, rstd_).submit()
    for (name, wanted), found in zip(expected.items(), (dx, dweight, dbias), strict=True):
        error = np.abs(found.numpy() - wanted).max()
        assert error < 1e-4, (name, error)
        print(f"{name}: off by at most {error:.1e}")


if __name__ == "__main__":
    main()
