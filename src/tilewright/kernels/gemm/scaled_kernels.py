"""Kernels of products with scales: a walk, one tile for each block, split sums, few rows.

They are the kernels of `matmuls`, `once`, `splits` and `gemv` with the sum of `scaling`. Factors
may have different dtypes, such as bf16 rows and 8-bit weights; both are converted to FACTOR, which
holds them exactly. A_SCALE and B_SCALE say which rows share a scale, A_PARTS and B_PARTS whether
scales change along K. Scales are `[rows, 1, parts]`, those of `b` by its columns.
"""

from __future__ import annotations

from typing import Any, Literal

import tilewright as tw
from tilewright import Const, Cut, Mapped, Mut, Ref, f32
from tilewright.dims import BM, BN, A, B, C, D, G, H, K, L, M, N, P, Q, R, S, X, Y, Z
from tilewright.kernels.gemm.epilogues import BIAS, OUT, RESIDUAL, finished
from tilewright.kernels.gemm.scaling import (
    LEFT,
    LEFTSCALE,
    NO_SCALE,
    RIGHT,
    RIGHTSCALE,
    Scales,
    Steps,
    places_of_pieces,
    require_scales,
    scaled_sums,
    sum_of_folds,
    with_whole_scales,
)

__all__ = [
    "require_added",
    "scaled_gemv_kernel",
    "scaled_matmul_kernel",
    "scaled_once_kernel",
    "scaled_split_kernel",
]


def require_added(out: Any, added: tuple[Any, Any], has_bias: bool, has_residual: bool) -> None:
    """Require a bias for each column of `out` and a residual for each element, if there are any."""
    bias, residual = added
    if has_bias:
        tw.require(bias.shape[2] == out.shape[2])
    if has_residual:
        tw.require(residual.shape[0] == out.shape[0])
        tw.require(residual.shape[1] == out.shape[1] and residual.shape[2] == out.shape[2])


# The dims of scales, `bias` and `residual` are independent: an unused one may have any extents.
@tw.kernel(deny_checks=True, starts_early=True)
def scaled_matmul_kernel(
    out: Mapped[OUT, Literal[1], Cut[M, BM], Cut[N, BN]], a: Ref[LEFT, M, K], b: Ref[RIGHT, K, N],
    a_scale: Ref[LEFTSCALE, P, Q, R], b_scale: Ref[RIGHTSCALE, D, G, H],
    bias: Ref[BIAS, A, B, C], residual: Ref[RESIDUAL, X, Y, Z],
    *, FACTOR: Const[type[tw.DType]], A_SCALE: Const[int] = NO_SCALE, A_PARTS: Const[bool] = False,
    B_SCALE: Const[int] = NO_SCALE, B_PARTS: Const[bool] = False, BK: Const[int] = 128,
    PIECES: Const[int] = 1, LATENCY: Const[int] = 0, IS_FAST: Const[bool] = False,
    HAS_BIAS: Const[bool] = False, ACTIVATION: Const[int] = 0, HAS_RESIDUAL: Const[bool] = False,
) -> None:  # fmt: skip
    """`out = activation((a * a_scale) @ (b * b_scale) + bias) + residual`."""
    require_added(out, (bias, residual), HAS_BIAS, HAS_RESIDUAL)
    left, right = a.partition(BM, BK), b.partition(BK, BN // PIECES)
    scales = Scales(a_scale, A_SCALE, A_PARTS), Scales(b_scale, B_SCALE, B_PARTS)
    require_scales(scales, (M, N), left.num_tiles(1))
    biases = bias.partition(1, 1, BN // PIECES) if HAS_BIAS else None
    residuals = residual.partition(1, BM, BN // PIECES) if HAS_RESIDUAL else None
    steps = Steps(0, left.num_tiles(1), (BM, BN // PIECES), FACTOR, LATENCY, IS_FAST)
    for at in out.indices():  # this block's share of the tiles, disjoint from every other's
        _, i, j = at
        places = places_of_pieces(right, j, PIECES)
        sums = scaled_sums(left, right, (i, places), scales, steps)
        target = out.piece(at).partition(1, BM, BN // PIECES)
        for piece in tw.static_range(PIECES):
            acc = with_whole_scales(sums[piece], (i, places[piece]), scales)
            result = finished(acc, (0, i, places[piece]), biases, ACTIVATION, residuals)
            tile = result.astype(out.dtype).reshape(1, BM, BN // PIECES)
            if piece < target.num_tiles(2):
                target.store(tile, 0, 0, piece)


@tw.kernel(deny_checks=True, starts_early=True)
def scaled_once_kernel(
    out: Mut[OUT, Literal[1], Cut[M, BM], Cut[N, BN]], a: Ref[LEFT, M, K], b: Ref[RIGHT, K, N],
    a_scale: Ref[LEFTSCALE, P, Q, R], b_scale: Ref[RIGHTSCALE, D, G, H],
    bias: Ref[BIAS, A, B, C], residual: Ref[RESIDUAL, X, Y, Z],
    *, FACTOR: Const[type[tw.DType]], A_SCALE: Const[int] = NO_SCALE, A_PARTS: Const[bool] = False,
    B_SCALE: Const[int] = NO_SCALE, B_PARTS: Const[bool] = False, BK: Const[int] = 128,
    PIECES: Const[int] = 1, LATENCY: Const[int] = 0, IS_FAST: Const[bool] = False,
    HAS_BIAS: Const[bool] = False, ACTIVATION: Const[int] = 0, HAS_RESIDUAL: Const[bool] = False,
) -> None:  # fmt: skip
    """`scaled_matmul_kernel` with one tile for each block."""
    require_added(out, (bias, residual), HAS_BIAS, HAS_RESIDUAL)
    left, right = a.partition(BM, BK), b.partition(BK, BN // PIECES)
    scales = Scales(a_scale, A_SCALE, A_PARTS), Scales(b_scale, B_SCALE, B_PARTS)
    require_scales(scales, (M, N), left.num_tiles(1))
    biases = bias.partition(1, 1, BN // PIECES) if HAS_BIAS else None
    residuals = residual.partition(1, BM, BN // PIECES) if HAS_RESIDUAL else None
    _, i, j = out.index
    places = places_of_pieces(right, j, PIECES)
    steps = Steps(0, left.num_tiles(1), (BM, BN // PIECES), FACTOR, LATENCY, IS_FAST)
    sums = scaled_sums(left, right, (i, places), scales, steps)
    target = out.partition(1, BM, BN // PIECES)
    for piece in tw.static_range(PIECES):
        acc = with_whole_scales(sums[piece], (i, places[piece]), scales)
        result = finished(acc, (0, i, places[piece]), biases, ACTIVATION, residuals)
        tile = result.astype(out.dtype).reshape(1, BM, BN // PIECES)
        if piece < target.num_tiles(2):
            target.store(tile, 0, 0, piece)


@tw.kernel(deny_checks=True, starts_early=True)
def scaled_split_kernel(
    parts: Mut[f32, Literal[1], Literal[1], Cut[M, BM], Cut[N, BN]],
    a: Ref[LEFT, M, K], b: Ref[RIGHT, K, N],
    a_scale: Ref[LEFTSCALE, P, Q, R], b_scale: Ref[RIGHTSCALE, D, G, H],
    *, FACTOR: Const[type[tw.DType]], A_SCALE: Const[int] = NO_SCALE, A_PARTS: Const[bool] = False,
    B_SCALE: Const[int] = NO_SCALE, B_PARTS: Const[bool] = False, BK: Const[int] = 128,
    PIECES: Const[int] = 1, LATENCY: Const[int] = 0, IS_FAST: Const[bool] = False,
) -> None:  # fmt: skip
    """`parts[s] = (a * a_scale) @ (b * b_scale)`, summed over range s of K."""
    left, right = a.partition(BM, BK), b.partition(BK, BN // PIECES)
    scales = Scales(a_scale, A_SCALE, A_PARTS), Scales(b_scale, B_SCALE, B_PARTS)
    require_scales(scales, (M, N), left.num_tiles(1))
    stretch = tw.cdiv(left.num_tiles(1), parts.shape[0])
    split, _, i, j = parts.index
    first = split * stretch
    last = min(first + stretch, left.num_tiles(1))
    places = places_of_pieces(right, j, PIECES)
    steps = Steps(first, last, (BM, BN // PIECES), FACTOR, LATENCY, IS_FAST)
    sums = scaled_sums(left, right, (i, places), scales, steps)
    target = parts.partition(1, 1, BM, BN // PIECES)
    for piece in tw.static_range(PIECES):
        acc = with_whole_scales(sums[piece], (i, places[piece]), scales)
        if piece < target.num_tiles(3):
            target.store(acc.reshape(1, 1, BM, BN // PIECES), 0, 0, 0, piece)


@tw.kernel(deny_checks=True, starts_early=True)
def scaled_gemv_kernel(
    out: Mut[OUT, Literal[1], Cut[M, BM], Cut[N, BN]], a: Ref[LEFT, K, L], b: Ref[RIGHT, S, K],
    a_scale: Ref[LEFTSCALE, P, Q, R], b_scale: Ref[RIGHTSCALE, D, G, H],
    bias: Ref[BIAS, A, B, C], residual: Ref[RESIDUAL, X, Y, Z],
    *, FACTOR: Const[type[tw.DType]], A_SCALE: Const[int] = NO_SCALE, A_PARTS: Const[bool] = False,
    B_SCALE: Const[int] = NO_SCALE, B_PARTS: Const[bool] = False, BK: Const[int] = 128,
    FOLDS: Const[int] = 1, LATENCY: Const[int] = 0, IS_FAST: Const[bool] = False,
    HAS_BIAS: Const[bool] = False, ACTIVATION: Const[int] = 0, HAS_RESIDUAL: Const[bool] = False,
) -> None:  # fmt: skip
    """`scaled_matmul_kernel` of few rows, as `(b @ a).T`; each row has FOLDS parts."""
    tw.require(M * FOLDS == L and N * FOLDS == S)
    require_added(out, (bias, residual), HAS_BIAS, HAS_RESIDUAL)
    left, right = b.partition(BN * FOLDS, BK), a.partition(BK, BM * FOLDS)
    scales = Scales(b_scale, B_SCALE, B_PARTS), Scales(a_scale, A_SCALE, A_PARTS)
    require_scales(scales, (N, M), left.num_tiles(1))
    biases = bias.partition(1, 1, BN) if HAS_BIAS else None
    residuals = residual.partition(1, BM, BN) if HAS_RESIDUAL else None
    batch, i, j = out.index
    steps = Steps(0, left.num_tiles(1), (BN * FOLDS, BM * FOLDS), FACTOR, LATENCY, IS_FAST, FOLDS)
    sums = scaled_sums(left, right, (j, (i,)), scales, steps)
    acc = with_whole_scales(sum_of_folds(sums[0], FOLDS), (j, i), scales)
    result = finished(acc.T, (batch, i, j), biases, ACTIVATION, residuals)
    out.store(result.astype(out.dtype).reshape(1, BM, BN))
