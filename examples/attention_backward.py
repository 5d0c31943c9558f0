"""Gradients of attention, without stored scores.

The forward pass keeps the log-sum-exp of each row, from which the weights are recomputed. One
kernel owns the gradients of queries and iterates over keys, the other owns those of keys and values
and iterates over queries, so no two blocks write one element.
"""

import math
from typing import Literal

import numpy as np
import numpy.typing as npt

import tilewright as tw
from tilewright import Const, Cut, Mut, Ref, f32
from tilewright.dims import BM, BN, D, H, L, S

Array = npt.NDArray[np.float32]


@tw.kernel(deny_checks=True)
def query_gradient(
    dq: Mut[f32, Cut[H, Literal[1]], Cut[S, BM], Cut[D, D]],
    q: Ref[f32, H, S, D], k: Ref[f32, H, L, D], v: Ref[f32, H, L, D], do: Ref[f32, H, S, D],
    lse: Ref[f32, H, S], delta: Ref[f32, H, S], scale: f32, *, BN: Const[int] = 32,
) -> None:  # fmt: skip
    """`dq = scale * (p * (do @ v.T - delta)) @ k`, for BM queries."""
    h, i, _ = dq.index
    keys, values = k[h].partition(BN, D), v[h].partition(BN, D)
    queries, given = q[h].partition(BM, D)[i, 0], do[h].partition(BM, D)[i, 0]
    shift = lse[h].partition(BM)[i][:, None]
    mean = delta[h].partition(BM)[i][:, None]
    acc = tw.zeros((BM, D), f32)
    for j in range(keys.num_tiles(0)):
        weights = tw.exp(queries @ keys[j, 0].T * scale - shift)  # [BM, BN]
        weights = tw.where(j * BN + tw.arange(BN) < L, weights, 0.0)
        acc = tw.mma(weights * (given @ values[j, 0].T - mean), keys[j, 0], acc)
    dq.store((acc * scale).reshape(1, BM, D))


@tw.kernel(deny_checks=True)
def key_value_gradients(
    dk: Mut[f32, Cut[H, Literal[1]], Cut[L, BN], Cut[D, D]],
    dv: Mut[f32, Cut[H, Literal[1]], Cut[L, BN], Cut[D, D]],
    q: Ref[f32, H, S, D], k: Ref[f32, H, L, D], v: Ref[f32, H, L, D], do: Ref[f32, H, S, D],
    lse: Ref[f32, H, S], delta: Ref[f32, H, S], scale: f32, *, BM: Const[int] = 32,
) -> None:  # fmt: skip
    """`dv = p.T @ do` and `dk = scale * (p * (do @ v.T - delta)).T @ q`, for BN keys."""
    h, j, _ = dk.index
    queries, given = q[h].partition(BM, D), do[h].partition(BM, D)
    shifts, means = lse[h].partition(BM), delta[h].partition(BM)
    keys, values = k[h].partition(BN, D)[j, 0], v[h].partition(BN, D)[j, 0]
    for_keys, for_values = tw.zeros((BN, D), f32), tw.zeros((BN, D), f32)
    for i in range(queries.num_tiles(0)):
        weights = tw.exp(queries[i, 0] @ keys.T * scale - shifts[i][:, None])  # [BM, BN]
        weights = tw.where((i * BM + tw.arange(BM))[:, None] < S, weights, 0.0)
        for_values = tw.mma(weights.T, given[i, 0], for_values)
        toward = weights * (given[i, 0] @ values.T - means[i][:, None])
        for_keys = tw.mma(toward.T, queries[i, 0], for_keys)
    dk.store((for_keys * scale).reshape(1, BN, D))
    dv.store(for_values.reshape(1, BN, D))


def main() -> None:
    """Compare with NumPy: 3 heads, 50 queries, 70 keys of 32 channels."""
    random = np.random.default_rng(0)
    q, do = random.standard_normal((2, 3, 50, 32))
    k, v = random.standard_normal((2, 3, 70, 32))
    scale = 1 / math.sqrt(32)
    scores = q @ k.swapaxes(1, 2) * scale
    lse = np.log(np.exp(scores).sum(axis=-1))
    weights = np.exp(scores - lse[..., None])
    delta = (do * (weights @ v)).sum(axis=-1)
    toward = weights * (do @ v.swapaxes(1, 2) - delta[..., None])
    expected = (scale * toward @ k, scale * toward.swapaxes(1, 2) @ q, weights.swapaxes(1, 2) @ do)

    given = [tw.from_numpy(a.astype(np.float32)) for a in (q, k, v, do, lse, delta)]
    dq, dk, dv = (tw.zeros(a.shape, f32) for a in (q, k, v))
    query_gradient(dq.partition(1, 32, 32), *given, scale).submit()
    key_value_gradients(dk.partition(1, 32, 32), dv.partition(1, 32, 32), *given, scale).submit()
    for name, found, wanted in zip(("dq", "dk", "dv"), (dq, dk, dv), expected, strict=True):
        error = np.abs(found.numpy() - wanted).max()
        assert error < 1e-3, (name, error)
        print(f"{name}: off by at most {error:.1e}")


if __name__ == "__main__":
    main()
