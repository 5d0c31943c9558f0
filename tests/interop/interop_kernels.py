"""Kernels and arrays that the tests of foreign memory share."""

from __future__ import annotations

import gc

import numpy as np

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import BM, BN, B, M, N, T
from tilewright.runtime.interop import foreign


@tw.kernel
def add(z: Mut[f32, B], x: Ref[f32, N], y: Ref[f32, N]) -> None:
    z.store(x.load_like(z) + y.load_like(z))


@tw.kernel
def copy(z: Mut[T, B], x: Ref[T, N]) -> None:
    z.store(x.load_like(z))


@tw.kernel
def copy_matrix(z: Mut[T, BM, BN], x: Ref[T, M, N]) -> None:
    z.store(x.load_like(z))


def numbers(n: int, dtype: object = np.float32) -> np.ndarray:
    return np.arange(n).astype(dtype)


def known_ranges() -> list[tuple[int, int]]:
    """What is in use, as the table knows it, once everything dropped so far is settled."""
    gc.collect()
    for _ in range(3):  # a range in use comes back when its streams have passed
        tw.synchronize()
    used = (group for group in foreign.RANGES.groups if not group.is_over)
    return [(group.low, group.high) for group in used]
