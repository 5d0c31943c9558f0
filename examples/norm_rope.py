"""Fused kernels before attention: norm and rotary embedding of queries and keys, and KV cache.

Queries go to an output of their own, keys and values to the rows of a cache for the new tokens: a
range of a walk, whose start only the device knows.
"""

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

import tilewright as tw
from tilewright import Cut, Mapped, Mut, Ref, Tile, f16, f32, i32
from tilewright.dims import BS, D, H, K, L, P, S, T

Array = npt.NDArray[Any]


class HALF(tw.Dim):
    """Half of D: the number of pairs, and of angles."""


def norm_and_turn(
    x: Tile[T], y: Tile[T], weight: Ref[T, D], cos: Tile[f32], sin: Tile[f32]
) -> Tile[f32]:
    """The RMS norm of heads given as two halves, rotated: `[…, HALF]` twice to `[…, D]`."""
    weights = weight.partition(x.shape[-1])
    one, two = x.astype(f32), y.astype(f32)
    squares = tw.sum(one * one + two * two, axis=-1, keepdims=True)
    scale = tw.rsqrt(squares / (2 * x.shape[-1]) + 1e-6)
    one *= scale * weights[0].astype(f32)
    two *= scale * weights[1].astype(f32)
    return tw.cat((one * cos - two * sin, two * cos + one * sin), axis=-1)


@tw.kernel(deny_checks=True)
def prepare_queries(
    z: Mut[T, Cut[S, BS], Cut[H, Literal[1]], Cut[D, D]], q: Ref[T, S, H, D], weight: Ref[T, D],
    cosines: Ref[f32, P, HALF], sines: Ref[f32, P, HALF], start: Ref[i32],
) -> None:  # fmt: skip
    """BS tokens of one head."""
    i, h, _ = z.index
    half = D // 2
    places = (start.item() + i * BS + tw.arange(BS))[:, None]
    cos = cosines.gather(places, tw.arange(half))[:, None, :]  # [BS, 1, HALF]
    sin = sines.gather(places, tw.arange(half))[:, None, :]
    halves = q.partition(BS, 1, half)
    z.store(norm_and_turn(halves[i, h, 0], halves[i, h, 1], weight, cos, sin).astype(z.dtype))


@tw.kernel(deny_checks=True)
def prepare_keys(
    keys: Mapped[T, Cut[L, Literal[1]], Cut[K, Literal[1]], Cut[D, D]],
    values: Mapped[T, Cut[L, Literal[1]], Cut[K, Literal[1]], Cut[D, D]],
    k: Ref[T, S, K, D], v: Ref[T, S, K, D], weight: Ref[T, D],
    cosines: Ref[f32, P, HALF], sines: Ref[f32, P, HALF], start: Ref[i32],
) -> None:  # fmt: skip
    """Rows `start` to `start + S` of both caches; a single token is a prompt of one."""
    tw.require(P >= L)  # the tables have an angle for every row of the caches
    half = D // 2
    halves, whole = k.partition(1, 1, half), v.partition(1, 1, D)
    first = start.item()
    for at in keys.indices_with(values, within=((first, first + S), None, None)):
        place, h, d = at
        token = whole.clip(place - first, 0)
        cos = cosines.gather(place, tw.arange(half))  # [HALF]
        sin = sines.gather(place, tw.arange(half))
        turned = norm_and_turn(halves[token, h, 0], halves[token, h, 1], weight, cos, sin)
        keys.store(turned.astype(keys.dtype), at)
        values.store(whole[token, h, d], at)


def expected(x: Array, weight: Array, cos: Array, sin: Array) -> Array:
    """The reference in NumPy."""
    wide = x.astype(np.float32)
    normed = wide / np.sqrt((wide * wide).mean(axis=-1, keepdims=True) + 1e-6) * weight
    one, two = np.split(normed, 2, axis=-1)
    return np.concatenate([one * cos - two * sin, two * cos + one * sin], axis=-1)


def main() -> None:
    """A prompt of 11 tokens, then one token: compare with NumPy after each."""
    generator = np.random.default_rng(0)
    speeds = 10_000.0 ** (-np.arange(16) / 16)
    angles = np.outer(np.arange(64), speeds).astype(np.float32)
    tables = (tw.from_numpy(np.cos(angles)), tw.from_numpy(np.sin(angles)))
    weight = generator.standard_normal(32).astype(np.float16)
    w = tw.from_numpy(weight)
    keys, values = tw.zeros((64, 2, 32), f16), tw.zeros((64, 2, 32), f16)
    for first, tokens in ((5, 11), (16, 1)):
        q = generator.standard_normal((tokens, 4, 32)).astype(np.float16)
        k, v = generator.standard_normal((2, tokens, 2, 32)).astype(np.float16)
        z, start = tw.zeros(q.shape, f16), tw.from_numpy(np.array(first, np.int32))
        prepare_queries(z.partition(8, 1, 32), tw.from_numpy(q), w, *tables, start).submit()
        caches = (x.partition(1, 1, 32).persistent() for x in (keys, values))
        prepare_keys(*caches, tw.from_numpy(k), tw.from_numpy(v), w, *tables, start).submit()

        rows = slice(first, first + tokens)
        cos, sin = np.cos(angles)[rows, None], np.sin(angles)[rows, None]
        np.testing.assert_allclose(z.numpy(), expected(q, weight, cos, sin), rtol=4e-3, atol=4e-3)
        cached = keys.numpy()[rows]
        np.testing.assert_allclose(cached, expected(k, weight, cos, sin), rtol=4e-3, atol=4e-3)
        np.testing.assert_array_equal(values.numpy()[rows], v)
        print(f"tokens {first} to {first + tokens - 1}: right")
    assert not keys.numpy()[:5].any()
    assert not keys.numpy()[17:].any()


if __name__ == "__main__":
    main()
