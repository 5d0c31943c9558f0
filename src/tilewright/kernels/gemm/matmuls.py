"""Matrix products: `activation(a @ b + bias) + residual`, single or batched, accumulated in f32.

The kernel here walks the tiles of the output. Separate kernels compute few rows (`gemv`), outputs
whose tiles all fit the GPU at once (`once`) and tiles of two widths (`wide`). Every kernel takes
operands of any strides, so a transposed operand is a view with its axes exchanged.

Split-K: where the output has too few tiles to occupy a GPU, or its last tiles would leave much of
the GPU idle, the sums over K are split. Each split writes partial sums, and a second kernel adds
them in a fixed order, so results are the same at every run.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal

import tilewright as tw
from tilewright import Const, Cut, Mapped, Mut, Ref, f32
from tilewright.dims import BM, BN, A, B, C, K, M, N, P, Q, T, X, Y, Z
from tilewright.kernels.arguments import check_extents, check_tensor, giving, output
from tilewright.kernels.gemm.configs import MOST_ROWS, choose_gemv, choose_matmul
from tilewright.kernels.gemm.epilogues import BIAS, OUT, RESIDUAL, finished
from tilewright.kernels.gemm.gemv import launch_gemv
from tilewright.kernels.gemm.once import fits_at_once, launch_once
from tilewright.kernels.gemm.operands import (
    MOST_FORMS,
    MatrixProduct,
    ProductRequest,
    check_matrices,
    exchanged,
    product,
    specialised,
)
from tilewright.kernels.gemm.wide import first_columns, launch_wide
from tilewright.kernels.views import kept
from tilewright.tune import Config

__all__ = [
    "add_splits",
    "launch_matmul",
    "launch_splits",
    "matmul",
    "matmul_kernel",
    "matvec",
    "sum_splits_kernel",
]

SUM_TILE = (16, 128)  # tile of the kernel that adds splits


# The dims of `bias` and `residual` are independent: an unused one may have any extents.
@tw.kernel(deny_checks=True, starts_early=True)
def matmul_kernel(
    out: Mapped[OUT, Literal[1], Cut[M, BM], Cut[N, BN]], a: Ref[T, P, M, K], b: Ref[T, Q, K, N],
    bias: Ref[BIAS, A, B, C], residual: Ref[RESIDUAL, X, Y, Z],
    *, FACTOR: Const[type[tw.DType]], BK: Const[int] = 64, LATENCY: Const[int] = 0,
    SPLITS: Const[int] = 1, IS_FAST: Const[bool] = False,
    SHARED_A: Const[bool] = False, SHARED_B: Const[bool] = False,
    HAS_BIAS: Const[bool] = False, ACTIVATION: Const[int] = 0, HAS_RESIDUAL: Const[bool] = False,
) -> None:  # fmt: skip
    """`out = activation(a @ b + bias) + residual`, or the partial sums of SPLITS ranges of K."""
    tw.require(out.shape[0] == SPLITS * (Q if SHARED_A else P))
    if HAS_BIAS:
        tw.require(C == N)
    if HAS_RESIDUAL:
        tw.require(Y == M and Z == N)
    left, right = a.partition(1, BM, BK), b.partition(1, BK, BN)
    biases = bias.partition(1, 1, BN) if HAS_BIAS else None
    residuals = residual.partition(1, BM, BN) if HAS_RESIDUAL else None
    steps = left.num_tiles(2)
    stretch = tw.cdiv(steps, SPLITS)
    for at in out.indices():  # this block's share of the tiles, disjoint from every other's
        part, i, j = at
        batch, first = part // SPLITS, part % SPLITS * stretch
        u, v = 0 if SHARED_A else batch, 0 if SHARED_B else batch
        acc = tw.zeros((BM, BN), f32)
        for k in range(first, min(first + stretch, steps)):
            x = left.load(u, i, k, latency=LATENCY or None).reshape(BM, BK).astype(FACTOR)
            y = right.load(v, k, j, latency=LATENCY or None).reshape(BK, BN).astype(FACTOR)
            acc = tw.mma(x, y, acc, fast_acc=IS_FAST)
        result = finished(acc, (part, i, j), biases, ACTIVATION, residuals)
        out.store(result.astype(out.dtype).reshape(1, BM, BN), at)


@tw.kernel(deny_checks=True, occupancy=4)  # it only reads: as much as possible at a time
def sum_splits_kernel(
    out: Mut[OUT, Literal[1], Cut[M, BM], Cut[N, BN]], parts: Ref[f32, P, M, N],
    bias: Ref[BIAS, A, B, C], residual: Ref[RESIDUAL, X, Y, Z], *, SPLITS: Const[int],
    HAS_BIAS: Const[bool] = False, ACTIVATION: Const[int] = 0, HAS_RESIDUAL: Const[bool] = False,
) -> None:  # fmt: skip
    """`out = activation(sum of SPLITS parts + bias) + residual`."""
    tw.require(SPLITS * out.shape[0] == P)
    if HAS_BIAS:
        tw.require(C == N)
    if HAS_RESIDUAL:
        tw.require(out.shape[0] == X and Y == M and Z == N)
    batch, i, j = out.index
    tiles = parts.partition(1, BM, BN)
    biases = bias.partition(1, 1, BN) if HAS_BIAS else None
    residuals = residual.partition(1, BM, BN) if HAS_RESIDUAL else None
    acc = tw.zeros((BM, BN), f32)
    for split in tw.static_range(SPLITS):
        acc += tiles[batch * SPLITS + split, i, j].reshape(BM, BN)
    result = finished(acc, (batch, i, j), biases, ACTIVATION, residuals)
    out.store(result.astype(out.dtype).reshape(1, BM, BN))


# --- the function ---------------------------------------------------------------------------------


@tw.function
def matmul(
    a: tw.Tensor,
    b: tw.Tensor,
    *,
    out: tw.Tensor | None = None,
    transpose_a: bool = False,
    transpose_b: bool = False,
    bias: tw.Tensor | None = None,
    activation: str | None = None,
    residual: tw.Tensor | None = None,
    out_dtype: type[tw.DType] | None = None,
    tf32: bool = False,
    fast_accumulate: bool = False,
) -> tw.DeviceOp[tw.Tensor]:
    """`activation(a @ b + bias) + residual`, accumulated in f32 and rounded once, when stored.

    `a` is `[M, K]` and `b` is `[K, N]`; `transpose_a` and `transpose_b` exchange their last two
    axes first. Either operand may have batch axes in front, and then the result has them too; if
    both operands have batch axes, these are equal. Both operands hold f16, bf16, f32 or 8-bit
    floats. `bias` is `[N]`, `residual` has the shape of the result, and `activation` is None,
    "relu", "gelu" or "silu".

    The result has `out_dtype`, else the dtype of `out`, else that of the operands (bf16 for 8-bit
    floats). f32 is multiplied exactly, or rounded to `tf32` first, which is many times faster.
    `fast_accumulate` allows less exact sums of 8-bit floats.

    The operation is lazy and can be recorded in a graph; its result is `out`, or a new tensor.
    """
    request = ProductRequest(
        "matmul", out, out_dtype, bias, activation, residual, tf32, fast_accumulate,
        transpose_a, transpose_b,
    )  # fmt: skip
    wanted, result = product(a, b, request)
    return giving(_launched(wanted), result)


@tw.function
def matvec(
    a: tw.Tensor,
    x: tw.Tensor,
    *,
    out: tw.Tensor | None = None,
    transpose_a: bool = False,
    bias: tw.Tensor | None = None,
    activation: str | None = None,
    residual: tw.Tensor | None = None,
    out_dtype: type[tw.DType] | None = None,
) -> tw.DeviceOp[tw.Tensor]:
    """`activation(a @ x + bias) + residual` of a matrix and a vector, at the bandwidth of `a`.

    `a` is `[M, K]` (`[K, M]`, with `transpose_a`) and `x` is `[K]`; batch axes stand in front of
    both. `bias` is `[M]`, `residual` has the shape of the result. Dtypes and the other options are
    those of `matmul`; several vectors are a matrix, `matmul(xs, a, transpose_b=True)`.
    """
    caller = "matvec"
    check_matrices(caller, "a", a)
    *batch, m, k = exchanged(caller, "a", a).shape if transpose_a else a.shape
    check_tensor(caller, "x", x, (a.dtype,))
    check_extents(caller, "x", x, (*batch, k))
    request = ProductRequest(caller, out, out_dtype, bias, activation, residual)
    request.check_added(a, (m,), (*batch, m))
    z = output(caller, out, (*batch, m), request.sums(a), a)
    wanted, _ = product(
        kept(x, as_row),
        a,
        request._replace(
            out=kept(z, as_row),
            residual=None if residual is None else kept(residual, as_row),
            transpose_b=not transpose_a,
        ),
    )
    return giving(_launched(wanted), z)


def as_row(vector: tw.Tensor) -> tw.Tensor:
    """A vector, or each vector of a batch, as a matrix of one row."""
    return vector.unsqueeze(-2)


def _launched(wanted: MatrixProduct) -> tw.DeviceOp[Any]:
    form = wanted.form
    m, n, k = form.shape
    if not k:  # an empty sum has no parts
        return add_splits(wanted, tw.empty((0, m, n), f32, device=wanted.out.device), 0)
    if m <= MOST_ROWS:
        return launch_gemv(wanted, choose_gemv(form))
    config = choose_matmul(form)
    if config.values.get("SPLITS", 1) > 1:
        return launch_splits(wanted, config)
    return launch_matmul(wanted, config)


def launch_splits(wanted: MatrixProduct, config: Config) -> tw.DeviceOp[Any]:
    """The launches of a product with a configuration that splits all sums, or some of them."""
    splits, tail, n = config["SPLITS"], config.values.get("TAIL", 0), wanted.out.shape[2]
    if 0 < tail < n:  # two independent parts of one output
        whole = launch_matmul(_columns(wanted, 0, n - tail), _without_splits(config))
        return tw.zip(whole, _split(_columns(wanted, n - tail, n), config, splits))
    return _split(wanted, config, splits)


def _split(wanted: MatrixProduct, config: Config, splits: int) -> tw.DeviceOp[Any]:
    """Partial sums of SPLITS ranges of K for each element, then the sums of those."""
    batch, m, n = wanted.out.shape
    parts = tw.empty((batch * splits, m, n), f32, device=wanted.out.device)
    kernel, constants = specialised(matmul_kernel, wanted.form, config, is_last=False)
    a, b = wanted.a, wanted.b
    sums = kernel(walked(parts, config), a, b, a, a, **constants)
    return sums.then(lambda _: add_splits(wanted, parts, splits))


def launch_matmul(wanted: MatrixProduct, config: Config) -> tw.DeviceOp[Any]:
    """The launch of a product with a configuration without splits."""
    edge = first_columns(wanted.out.shape[2], config) if wanted.form.batch == 1 else None
    if edge is not None:
        return launch_wide(wanted, config, edge)
    if fits_at_once(wanted, config):
        return launch_once(wanted, config)
    kernel, constants = specialised(matmul_kernel, wanted.form, config)
    out = wanted.out
    cut = walked(out, config) if wanted.is_new else kept(out, walked, config)
    return kernel(cut, *wanted[1:5], **constants)


def walked(out: tw.Tensor, config: Config) -> tw.PersistentPartition:
    """An output with the partition that the kernel takes."""
    return config.walk(out[:].partition(1, config["BM"], config["BN"]))


def _columns(wanted: MatrixProduct, start: int, stop: int) -> MatrixProduct:
    """The part of a product with these columns."""
    place = (slice(None), slice(None), slice(start, stop))
    has = wanted.form.epilogue
    return wanted._replace(
        out=wanted.out[place],
        b=wanted.b[place],
        bias=wanted.bias[place] if has["HAS_BIAS"] else wanted.bias,
        residual=wanted.residual[place] if has["HAS_RESIDUAL"] else wanted.residual,
    )


@lru_cache(maxsize=MOST_FORMS)
def _without_splits(config: Config) -> Config:
    return config.updated(SPLITS=1)


def add_splits(wanted: MatrixProduct, parts: tw.Tensor, splits: int) -> tw.DeviceOp[Any]:
    """The launch that adds the partial sums of all splits, for each matrix."""
    cut = wanted.out.partition(1, *SUM_TILE)
    return sum_splits_kernel(
        cut, parts, wanted.bias, wanted.residual, SPLITS=splits, **wanted.form.epilogue
    )
