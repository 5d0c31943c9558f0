"""Plain Triton kernels of the peers. Needs torch and triton."""

# ruff: noqa: ANN001, ANN202, N803, PLR0917 (the style of Triton kernels)

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl

__all__ = ["adder", "multiplier", "racer"]


@triton.jit
def _add(z, x, y, length, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    inside = at < length
    tl.store(z + at, tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)


@triton.jit
def _multiply(
    z, x, y, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr
):
    number = tl.program_id(0)
    rows, columns = tl.cdiv(M, BM), tl.cdiv(N, BN)
    top = number // (GROUP * columns) * GROUP
    height = tl.minimum(rows - top, GROUP)
    i = top + number % (GROUP * columns) % height
    j = number % (GROUP * columns) // height
    row, column, k = i * BM + tl.arange(0, BM), j * BN + tl.arange(0, BN), tl.arange(0, BK)
    xs = x + (row % M)[:, None] * K + k[None, :]
    ys = y + k[:, None] * N + (column % N)[None, :]
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for step in range(tl.cdiv(K, BK)):
        left = tl.load(xs, mask=k[None, :] < K - step * BK, other=0.0)
        right = tl.load(ys, mask=k[:, None] < K - step * BK, other=0.0)
        acc = tl.dot(left, right, acc)
        xs += BK
        ys += BK * N
    inside = (row[:, None] < M) & (column[None, :] < N)
    tl.store(z + row[:, None] * N + column[None, :], acc.to(tl.float16), mask=inside)


@triton.jit
def _permute(dst, src, H, M, BM: tl.constexpr, D: tl.constexpr):
    b, h1, h2 = tl.program_id(0) // H, tl.program_id(0) % H, tl.program_id(1)
    at = tl.arange(0, BM)[:, None] * D + tl.arange(0, D)[None, :]
    for m in range(M // BM):
        tile = tl.load(src + ((b * H + h1) * M + m * BM) * D + at)
        tl.store(dst + ((b * H + m) * M + h2 * BM) * D + at, tile)


_CONFIGURATIONS = [
    triton.Config({"BM": bm, "BN": bn, "BK": 64, "GROUP": 8}, num_warps=warps, num_stages=stages)
    for bm, bn, warps, stages in (
        (128, 128, 4, 3), (128, 128, 4, 4), (128, 128, 8, 3),
        (128, 256, 8, 3), (128, 256, 8, 4), (256, 128, 8, 3), (64, 128, 4, 4),
    )
]  # fmt: skip
_tuned = triton.autotune(_CONFIGURATIONS, key=["M", "N", "K"])(_multiply)


def adder(z: Any, x: Any, y: Any, tile: int) -> Callable[[], None]:
    """A launch of z = x + y."""
    length = z.numel()
    grid = (triton.cdiv(length, tile),)
    return lambda: _add[grid](z, x, y, length, B=tile)


def multiplier(z: Any, x: Any, y: Any) -> Callable[[], None]:
    """A launch of z = x @ y in f16, with the configuration of Triton's own tuner."""
    (m, k), n = x.shape, y.shape[1]

    def grid(chosen: Any) -> tuple[int]:
        return (triton.cdiv(m, chosen["BM"]) * triton.cdiv(n, chosen["BN"]),)

    assert z.dtype is torch.float16
    return lambda: _tuned[grid](z, x, y, m, n, k)


def racer(dst: Any, src: Any, tile: int) -> Callable[[], None]:
    """A launch of the paper's wrong permutation: it compiles, runs, and races."""
    b, h, m, d = src.shape
    return lambda: _permute[(b * h, h)](dst, src, h, m, BM=tile, D=d)
