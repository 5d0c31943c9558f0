"""The workloads of `cpu_backend.py` as Triton kernels, for its interpreter (TRITON_INTERPRET=1).

Run by a Python with triton and torch; prints one line of JSON with the seconds of every round.
Results are checked against torch. Not for a GPU.
"""

# ruff: noqa: ANN001, ANN201, N803, PLR0917 (the style of Triton kernels)

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(z, x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    total = tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside)
    tl.store(z + at, total, mask=inside)


@triton.jit
def softmax_kernel(z, x, columns, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    start = tl.program_id(0) * columns
    row = tl.load(x + start + at, mask=at < columns, other=-float("inf"))
    powers = tl.exp(row - tl.max(row, axis=0))
    tl.store(z + start + at, powers / tl.sum(powers, axis=0), mask=at < columns)


@triton.jit
def gemm_kernel(z, x, y, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, k, BK):
        inner = start + tl.arange(0, BK)
        left = tl.load(x + rows[:, None] * k + inner[None, :])
        right = tl.load(y + inner[:, None] * n + columns[None, :])
        acc = tl.dot(left, right, acc)
    tl.store(z + rows[:, None] * n + columns[None, :], acc)


@triton.jit
def attention_kernel(o, q, k, v, length, scale, BM: tl.constexpr, D: tl.constexpr):
    head, block = tl.program_id(0), tl.program_id(1)
    first = head * length
    rows = block * BM + tl.arange(0, BM)
    width = tl.arange(0, D)
    queries = tl.load(q + (first + rows)[:, None] * D + width[None, :]) * scale
    highest = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for j in range(block + 1):
        columns = j * BM + tl.arange(0, BM)
        keys = tl.load(k + (first + columns)[None, :] * D + width[:, None])
        scores = tl.dot(queries, keys)
        scores = tl.where(rows[:, None] >= columns[None, :], scores, -float("inf"))
        top = tl.maximum(highest, tl.max(scores, axis=1))
        weights = tl.exp2(scores - top[:, None])
        fade = tl.exp2(highest - top)
        total = total * fade + tl.sum(weights, axis=1)
        values = tl.load(v + (first + columns)[:, None] * D + width[None, :])
        acc = tl.dot(weights, values, acc * fade[:, None])
        highest = top
    tl.store(o + (first + rows)[:, None] * D + width[None, :], acc / total[:, None])


def workloads() -> dict[str, tuple[Callable[[], torch.Tensor], torch.Tensor]]:
    """The launch of each workload, and its expected result."""
    torch.manual_seed(0)
    x, y = torch.randn(1 << 22), torch.randn(1 << 22)
    z = torch.empty_like(x)
    a = torch.randn(4096, 1024)
    b = torch.empty_like(a)
    left, right = torch.randn(1024, 1024), torch.randn(1024, 1024)
    product = torch.empty(1024, 1024)
    heads, length, width = 4, 1024, 64
    q, k, v = (torch.randn(heads, length, width) for _ in range(3))
    o = torch.empty_like(q)
    scale = math.log2(math.e) / math.sqrt(width)

    def add() -> torch.Tensor:
        add_kernel[(triton.cdiv(x.numel(), 1024),)](z, x, y, x.numel(), BLOCK=1024)
        return z

    def softmax() -> torch.Tensor:
        softmax_kernel[(4096,)](b, a, 1024, BLOCK=1024)
        return b

    def gemm() -> torch.Tensor:
        sizes = (1024, 1024, 1024)
        gemm_kernel[(8, 8)](product, left, right, *sizes, BM=128, BN=128, BK=64)
        return product

    def attention() -> torch.Tensor:
        attention_kernel[(heads, length // 64)](o, q, k, v, length, scale, BM=64, D=width)
        return o

    plain = torch.nn.functional.scaled_dot_product_attention
    return {
        "add": (add, x + y),
        "softmax": (softmax, torch.softmax(a, dim=1)),
        "gemm": (gemm, left @ right),
        "attention": (attention, plain(q[None], k[None], v[None], is_causal=True)[0]),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=1)
    rounds = parser.parse_args().rounds
    seconds: dict[str, list[float]] = {}
    for name, (launch, expected) in workloads().items():
        for _ in range(rounds):
            start = time.perf_counter()
            found = launch()
            seconds.setdefault(name, []).append(time.perf_counter() - start)
        torch.testing.assert_close(found, expected, rtol=2e-3, atol=2e-3)
    versions = {"triton": triton.__version__, "torch": torch.__version__}
    print(json.dumps({"seconds": seconds, "versions": versions}))


if __name__ == "__main__":
    main()
