"""Matrix products: squares, and the layers of Qwen3-4B and 32B, with transposed weights."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import tilewright as tw
from tilewright import bf16, f8e4m3fn, f16, f32
from tilewright.kernels.gemv import gemv_kernel
from tilewright.kernels.matmul_tiles import TILES
from tilewright.kernels.matmuls import matmul, matmul_kernel, sum_splits_kernel
from tilewright.kernels.tunables.signed_sums import checked_trial, in_turns, spread
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
FEW = 4096 * 5120  # elements of an output with so few large tiles that some multiprocessors idle
MULTIPROCESSORS = 132  # of the GPU that the spaces are written for: blocks that run at once

BANDS = ((1, 8, 1), (1, 4, 1), (1, 16, 1))
DTYPES: dict[str, type[tw.DType]] = {one.label: one for one in (f16, bf16, f32, f8e4m3fn)}


def _tiles(
    tile: tuple[int, int],
    depths: tuple[int, ...] = (64,),
    *,
    warps: int = 4,
    ctas: int = 1,
    at_once: int = 1,
    splits: tuple[int, ...] = (1,),
    bands: tuple[tuple[int, int, int], ...] = BANDS[:1],
) -> Space:
    """One tile of the output, by as many blocks as fit: `at_once` on each multiprocessor."""
    return Space(
        BM=tile[:1],
        BN=tile[1:],
        BK=depths,
        SPLITS=splits,
        num_ctas=(ctas,),
        num_worker_warps=(warps,),
        occupancy=(None if at_once == 1 else at_once,),
        blocks=(MULTIPROCESSORS * at_once // ctas,),
        group=bands,
    )


def _matmul_space(key: Key) -> Space:
    """Large tiles; where the output has few of them, smaller ones and splits of the sum as well."""
    _, m, n, _ = key.shape
    is_narrow = key.dtypes == (f8e4m3fn.label,)
    depths = (128, 64) if is_narrow else (64, 32)
    large = (
        _tiles((256, 256), depths, warps=8, ctas=2, bands=BANDS)
        | _tiles((128, 256), depths, warps=8, bands=BANDS[:2])
        | _tiles((256, 128), depths, warps=8)
        | _tiles((128, 128), (64, 128))
    )
    space = large if m * n > FEW else large | _small_tiles()
    for plan in _split_tails(key):
        axes: dict[str, Any] = {name: (value,) for name, value in plan.values.items()}
        space |= Space(**axes)
    return space


def _split_tails(key: Key) -> Iterator[Config]:
    """What the rule of thumb would try that splits the sums of the last columns."""
    _, *shape = key.shape
    for tile in TILES.get(("sm_90", DTYPES[key.dtypes[0]]), ()):
        yield from (config for _, config in tile.plans(*shape) if config.values.get("TAIL"))


def _small_tiles() -> Space:
    return (
        _tiles((128, 128), splits=(2, 3, 4))
        | _tiles((256, 256), warps=8, ctas=2, splits=(2, 3))
        | _tiles((128, 256), warps=8, splits=(2, 3))
        | _tiles((64, 128), (64, 128), at_once=2)
        | _tiles((128, 64), (64, 128), at_once=2)
        | _tiles((64, 64), (64, 128), at_once=2)
        | _tiles((64, 128), (128, 256))
        | _tiles((128, 64), (128, 256))
        | _tiles((64, 256))
    )


def _gemv_space(key: Key) -> Space:
    """Tiles of the weights that keep enough bytes in flight; short rows of them are folded."""
    rows = 8 if key.shape[1] <= 8 else 16
    return Space(
        BM=(rows,),
        BN=(64, 128, 32, 16, 8),
        BK=(128, 64, 256, 512),
        FOLDS=(1, 2, 4, 8),
        num_worker_warps=(4,),
        occupancy=(None, 2, 4),
        where=lambda c: (
            64 <= c["BN"] * c["FOLDS"] <= 128
            and 8192 <= c["BN"] * c["FOLDS"] * c["BK"] <= 32768
            and c["BM"] * c["FOLDS"] <= 64
        ),
    )


def _trial(key: Key, device: tw.Device) -> Trial:
    batch, m, n, k = key.shape
    assert batch == 1, "one product, of two matrices"
    dtype = DTYPES[key.dtypes[0]]
    a = tw.randn((m, k), f32, seed=1, device=device).astype(dtype)
    stored = dict(key.options)["layout"]
    assert stored in ("nn", "nt"), "the left factor is stored as it is"
    shape = (k, n) if stored == "nn" else (n, k)
    b = tw.randn(shape, f32, seed=2, device=device).astype(dtype)
    out = tw.empty((m, n), bf16 if dtype is f8e4m3fn else dtype, device=device)
    factors = in_turns(a, b)

    def build() -> tw.DeviceOp[Any]:
        left, right = next(factors)
        return matmul(left, right, transpose_b=stored == "nt", out=out)

    def sample() -> tuple[Any, Any]:
        """Tiles at corners and in the middle."""
        found, expected = [], []
        for rows in spread(m, 3, 8):
            left = a[rows].numpy().astype(np.float32)
            for columns in spread(n, 3, 64):
                right = (b[:, columns] if stored == "nn" else b[columns].T).clone().numpy()
                found.append(out[rows, columns].clone().numpy().astype(np.float32))
                expected.append(left @ right.astype(np.float32))
        return np.stack(found), np.stack(expected)

    return checked_trial(build, out, sample)


def _keys(dtype: type[tw.DType], rows: tuple[int, ...]) -> tuple[Key, ...]:
    """The layers of the models, with so many rows."""
    return tuple(key_of(dtype, (1, m, n, k), layout="nt") for n, k in LAYERS for m in rows)


# Products of many rows: squares, layers, and squares of narrow floats.
MATMUL = Tunable(
    name="matmul",
    kernels=(matmul_kernel, sum_splits_kernel),
    space=_matmul_space,
    keys=(
        *(key_of(f16, (1, size, size, size), layout="nn") for size in SQUARES),
        *_keys(f16, MANY_ROWS),
        *(key_of(f8e4m3fn, (1, size, size, size), layout="nt") for size in SQUARES),
    ),
    trial=_trial,
)
# Products of few rows, which are a matter of reading weights.
GEMV = Tunable(
    name="gemv",
    kernels=(gemv_kernel,),
    space=_gemv_space,
    keys=(
        *_keys(f16, FEW_ROWS),
        *(key_of(f16, (1, m, *VOCABULARY), layout="nt") for m in FEW_ROWS),
    ),
    trial=_trial,
)
