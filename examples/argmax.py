"""Argmax of logits in two launches: the best of each block, then the best of all blocks.

The first launch also comes fused with the product that makes the logits, which are then never
stored.
"""

import math
from typing import Literal

import numpy as np

import tilewright as tw
from tilewright import Const, Mut, Ref, f32, u32
from tilewright.dims import K, N, T, V


@tw.kernel(deny_checks=True)
def best_of_blocks(
    best: Mut[f32, Literal[1]], place: Mut[u32, Literal[1]], logits: Ref[T, N],
    *, BLOCK: Const[int] = 256,
) -> None:  # fmt: skip
    """The highest of BLOCK logits, and its index."""
    tw.require(best.shape[0] == tw.cdiv(N, BLOCK))
    i = best.index[0]
    tile = logits.partition(BLOCK, padding=-math.inf)[i].astype(f32)
    best.store(tw.max(tile, axis=0, keepdims=True))
    place.store((i * BLOCK + tw.argmax(tile, axis=0, keepdims=True)).astype(u32))


@tw.kernel(deny_checks=True)
def best_of_head(
    best: Mut[f32, Literal[1]], place: Mut[u32, Literal[1]], weight: Ref[T, V, K],
    hidden: Ref[T, Literal[1], K], *, BLOCK: Const[int] = 64, BK: Const[int] = 32,
) -> None:  # fmt: skip
    """The highest of BLOCK rows of `weight @ hidden`, and its index."""
    tw.require(best.shape[0] == tw.cdiv(V, BLOCK))
    i = best.index[0]
    rows, columns = weight.partition(BLOCK, BK), hidden.partition(1, BK)
    logits = tw.zeros((BLOCK,), f32)
    for k in range(rows.num_tiles(1)):
        logits += tw.sum(rows[i, k].astype(f32) * columns[0, k].astype(f32), axis=1)
    token = i * BLOCK + tw.arange(BLOCK)
    logits = tw.where(token < V, logits, -math.inf)
    best.store(tw.max(logits, axis=0, keepdims=True))
    place.store((i * BLOCK + tw.argmax(logits, axis=0, keepdims=True)).astype(u32))


@tw.kernel(deny_checks=True)
def best_of_all(
    token: Mut[u32, Literal[1]], best: Ref[f32, N], place: Ref[u32, N], *, BLOCK: Const[int] = 64
) -> None:
    """The index of the highest of up to BLOCK candidates."""
    tw.require(N <= BLOCK)
    winner = tw.argmax(best.partition(BLOCK, padding=-math.inf)[0], axis=0, keepdims=True)
    token.store(place.gather(winner))


def main() -> None:
    """Compare with NumPy."""
    generator = np.random.default_rng(0)
    weight = generator.standard_normal((3000, 100)).astype(np.float16)
    hidden = generator.standard_normal((1, 100)).astype(np.float16)
    logits = weight.astype(np.float32) @ hidden[0].astype(np.float32)
    token = tw.zeros((1,), u32)

    best, place = tw.zeros((12,), f32), tw.zeros((12,), u32)
    best_of_blocks(best.partition(1), place.partition(1), tw.from_numpy(logits)).submit()
    best_of_all(token.partition(1), best, place).sync()
    assert token.numpy()[0] == logits.argmax()
    print(f"argmax of {logits.size} logits: {token.numpy()[0]}")

    best, place = tw.zeros((47,), f32), tw.zeros((47,), u32)
    head = (tw.from_numpy(weight), tw.from_numpy(hidden))
    best_of_head(best.partition(1), place.partition(1), *head).submit()
    best_of_all(token.partition(1), best, place).sync()
    assert token.numpy()[0] == logits.argmax()
    print(f"the same, fused with the product: {token.numpy()[0]}")


if __name__ == "__main__":
    main()
