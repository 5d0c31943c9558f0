"""Matrix products: squares, and the layers of Qwen3-4B and 32B, with transposed weights."""

from __future__ import annotations

from functools import reduce
from operator import itemgetter, or_
from typing import Any

import numpy as np

import tilewright as tw
from tilewright import bf16, f8e4m3fn, f16, f32
from tilewright.kernels.cutting import power_of_two
from tilewright.kernels.gemm.configs import (
    WEIGHTS,
    gemv_rule,
    matmul_rule,
    size_of,
)
from tilewright.kernels.gemm.gemv import FEWEST_ROWS, gemv_kernel
from tilewright.kernels.gemm.matmuls import matmul, matmul_kernel
from tilewright.kernels.gemm.once import matmul_once_kernel
from tilewright.kernels.gemm.operands import ProductForm, ProductRequest, product
from tilewright.kernels.gemm.splits import split_kernel, sum_splits_kernel
from tilewright.kernels.gemm.tiles import BAND, MULTIPROCESSORS, tiles_of
from tilewright.kernels.gemm.wide import matmul_wide_kernel
from tilewright.kernels.tunables.beginnings import TARGET, dtype_of
from tilewright.kernels.tunables.signed_sums import checked_trial, copied, in_turns, spread
from tilewright.tune import Config, Key, Space, Trial, Tunable, key_of

__all__ = ["GEMV", "MATMUL"]

SQUARES = (1024, 2048, 4096, 8192, 16384)
# N and K of the products of a layer: queries, keys and values; their output; both gates; down.
LAYERS = (
    (6144, 2560), (2560, 4096), (19456, 2560), (2560, 9728),
    (10240, 5120), (5120, 8192), (51200, 5120), (5120, 25600),
)  # fmt: skip
VOCABULARY = (151936, 2560)
MANY_ROWS = (512, 2048, 8192)
FEW_ROWS = (1, 16)
SMALL_TILE = (128, 128)  # least tile that keeps the tensor cores busy
MOST_FOLDED = 64  # rows times folds
ROUNDS = 2  # rounds of tiles below which smaller tiles may be faster
NEAR = 1.3  # candidates up to this multiple of the least estimated time
MOST_NEAR = 5  # at most so many near candidates
CENTERS = 2  # candidates whose neighbours are tried
BANDS = ((1, 4, 1), (1, 16, 1))  # beside the default
FAST_LIMIT = 2e-2  # error of sums with fast accumulation
# Stages of loads in flight; shared memory may hold fewer.
LATENCIES = (3, 4, 5, 6, 8)
DEPTHS = {f16.label: (32, 64, 128), f8e4m3fn.label: (64, 128, 256)}


def _form(key: Key, target: str) -> ProductForm:
    """The product of a key, on tensors without memory."""
    _, m, n, k = key.shape
    options, dtype = dict(key.options), dtype_of(key)
    is_transposed = options["layout"] == "nt"
    a = tw.meta((m, k), dtype, target=target)
    b = tw.meta((n, k) if is_transposed else (k, n), dtype, target=target)
    is_fast = bool(options.get("fast"))
    request = ProductRequest("matmul", transpose_b=is_transposed, fast_accumulate=is_fast)
    return product(a, b, request)[0].form


def _matmul_rule(key: Key, target: str) -> Config:
    return matmul_rule(_form(key, target))


def _gemv_rule(key: Key, target: str) -> Config:
    return gemv_rule(_form(key, target))


def _matmul_space(key: Key) -> Space:
    """The candidates of the library's heuristic, and the neighbours of its best ones."""
    tiles, size = tiles_of(TARGET, dtype_of(key)), size_of(_form(key, TARGET))
    plans = sorted((plan for tile in tiles for plan in tile.plans(size)), key=itemgetter(0))
    near = [config for seconds, config in plans if seconds <= NEAR * plans[0][0]][:MOST_NEAR]
    space = reduce(or_, map(Space.around, near))
    for config in near[:CENTERS]:
        splits = config.values.get("SPLITS", 1)
        axes: dict[str, Any] = {"BK": DEPTHS[key.dtypes[0]]}
        if config is near[0]:
            axes["LATENCY"] = LATENCIES
        if config.schedule is not None:
            axes["group"] = BANDS
        if splits > 1:
            axes["SPLITS"] = (max(splits - 1, 2), splits + 1)
        space |= Space.around(config, **axes)
    if size.m * size.n < ROUNDS * SMALL_TILE[0] * SMALL_TILE[1] * MULTIPROCESSORS:
        space |= _small_tiles(key)
    return space


def _small_tiles(key: Key) -> Space:
    """Tiles without a rate in the heuristic, for outputs of few tiles."""
    shallow, depth, deep = DEPTHS[key.dtypes[0]]
    two = Config.of(
        BM=64, BN=128, BK=depth, num_worker_warps=4, occupancy=2,
        blocks=MULTIPROCESSORS * 2, group=BAND,
    )  # fmt: skip
    one = two.updated(num_worker_warps=8, occupancy=None, blocks=MULTIPROCESSORS)
    return (
        Space.around(two, BK=(deep,))
        | Space.around(two.updated(BM=128, BN=64))
        | Space.around(two.updated(BN=64, BK=shallow))
        | Space.around(one.updated(BN=256))
        | Space.around(one.updated(BM=128, BN=64, BK=deep))
    )


def _gemv_space(key: Key) -> Space:
    """Tiles of weights that keep enough bytes in flight; short rows of weights are folded."""
    rows = power_of_two(key.shape[1])
    spaces = []
    for folds in (1, 2, 4, 8):
        if rows * folds > MOST_FOLDED:
            continue
        center = Config.of(
            BM=max(rows, FEWEST_ROWS // folds), BN=WEIGHTS // folds, BK=128, FOLDS=folds,
            num_worker_warps=4, occupancy=2,
        )  # fmt: skip
        spaces.append(Space.around(center, occupancy=(4, 3), BK=(256,), BN=(128 // folds,)))
    return reduce(or_, spaces)


def _trial(key: Key, device: tw.Device) -> Trial:
    batch, m, n, k = key.shape
    assert batch == 1, "one product, of two matrices"
    dtype = dtype_of(key)
    a = tw.randn((m, k), f32, seed=1, device=device).astype(dtype)
    options = dict(key.options)
    stored = options["layout"]
    assert stored in ("nn", "nt"), "the left factor is stored as it is"
    shape = (k, n) if stored == "nn" else (n, k)
    b = tw.randn(shape, f32, seed=2, device=device).astype(dtype)
    out = tw.empty((m, n), bf16 if dtype is f8e4m3fn else dtype, device=device)
    factors, is_fast = in_turns(a, b), bool(options.get("fast"))

    def build() -> tw.DeviceOp[Any]:
        left, right = next(factors)
        is_transposed = stored == "nt"
        return matmul(left, right, transpose_b=is_transposed, fast_accumulate=is_fast, out=out)

    def sample() -> tuple[Any, Any]:
        """Tiles at the corners and in the middle."""
        found, expected = [], []
        for rows in spread(m, 3, 4):
            left = copied(a[rows])
            for columns in spread(n, 3, 16):
                right = copied(b[:, columns] if stored == "nn" else b[columns].T)
                found.append(copied(out[rows, columns]))
                expected.append(left @ right)
        return np.stack(found), np.stack(expected)

    return checked_trial(build, out, sample, limit=FAST_LIMIT if is_fast else None)


def _keys(dtype: type[tw.DType], rows: tuple[int, ...]) -> tuple[Key, ...]:
    """The layers of the models, with so many rows."""
    return tuple(key_of(dtype, (1, m, n, k), layout="nt") for n, k in LAYERS for m in rows)


# Products of many rows: squares, layers, and squares of 8-bit floats.
MATMUL = Tunable(
    name="matmul",
    kernels=(
        matmul_kernel,
        matmul_once_kernel,
        matmul_wide_kernel,
        split_kernel,
        sum_splits_kernel,
    ),
    rule=_matmul_rule,
    space=_matmul_space,
    keys=(
        *(key_of(f16, (1, size, size, size), layout="nn") for size in SQUARES),
        *(key_of(f8e4m3fn, (1, n, n, n), layout="nt", fast=True) for n in SQUARES),
        *_keys(f16, MANY_ROWS),
        *(key_of(f16, (1, size, size, size), layout="nt") for size in SQUARES[1:4]),
        *(key_of(f8e4m3fn, (1, n, n, n), layout="nt") for n in SQUARES[1:4]),
    ),
    trial=_trial,
)
# Products of few rows, bound by the bandwidth of the weights.
GEMV = Tunable(
    name="gemv",
    kernels=(gemv_kernel,),
    rule=_gemv_rule,
    space=_gemv_space,
    keys=(
        *_keys(f16, FEW_ROWS),
        *(key_of(f16, (1, m, *VOCABULARY), layout="nt") for m in FEW_ROWS),
    ),
    trial=_trial,
)
