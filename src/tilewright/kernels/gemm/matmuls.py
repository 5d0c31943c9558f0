"""Matrix products: `activation(a @ b + bias) + residual`, single or batched, accumulated in f32.

The kernel here walks the tiles of the output. Separate kernels compute few rows (`gemv`), one tile
for each block (`once`), tiles of two widths (`wide`) and sums that are split (`splits`). Every
kernel takes operands of any strides, so a transposed operand is a view with its axes exchanged;
rows that tiles cannot be read from quickly are copied first (`aligned`).
"""

from __future__ import annotations

from typing import Any, Literal

import tilewright as tw
from tilewright import Const, Cut, Mapped, Ref, f32
from tilewright.dims import BM, BN, A, B, C, K, M, N, P, Q, T, X, Y, Z
from tilewright.kernels.arguments import check_extents, check_tensor, giving, output
from tilewright.kernels.gemm.aligned import aligned, is_worth_copying
from tilewright.kernels.gemm.configs import choose_product
from tilewright.kernels.gemm.epilogues import BIAS, OUT, RESIDUAL, finished
from tilewright.kernels.gemm.gemv import launch_gemv
from tilewright.kernels.gemm.once import launch_once
from tilewright.kernels.gemm.operands import (
    MatrixProduct,
    ProductRequest,
    check_matrices,
    exchanged,
    product,
    specialised,
    swapped,
)
from tilewright.kernels.gemm.splits import add_splits, launch_splits, parts_of
from tilewright.kernels.gemm.wide import first_columns, launch_wide
from tilewright.kernels.views import kept
from tilewright.tune import Config

__all__ = ["launch_matmul", "matmul", "matmul_kernel", "matvec", "walked"]


# The dims of `bias` and `residual` are independent: an unused one may have any extents.
@tw.kernel(deny_checks=True, starts_early=True)
def matmul_kernel(
    out: Mapped[OUT, Literal[1], Cut[M, BM], Cut[N, BN]], a: Ref[T, P, M, K], b: Ref[T, Q, K, N],
    bias: Ref[BIAS, A, B, C], residual: Ref[RESIDUAL, X, Y, Z],
    *, FACTOR: Const[type[tw.DType]], BK: Const[int] = 64, LATENCY: Const[int] = 0,
    IS_FAST: Const[bool] = False, SHARED_A: Const[bool] = False, SHARED_B: Const[bool] = False,
    HAS_BIAS: Const[bool] = False, ACTIVATION: Const[int] = 0, HAS_RESIDUAL: Const[bool] = False,
) -> None:  # fmt: skip
    """`out = activation(a @ b + bias) + residual`."""
    tw.require(out.shape[0] == (Q if SHARED_A else P))
    if HAS_BIAS:
        tw.require(C == N)
    if HAS_RESIDUAL:
        tw.require(Y == M and Z == N)
    left, right = a.partition(1, BM, BK), b.partition(1, BK, BN)
    biases = bias.partition(1, 1, BN) if HAS_BIAS else None
    residuals = residual.partition(1, BM, BN) if HAS_RESIDUAL else None
    for at in out.indices():  # this block's share of the tiles, disjoint from every other's
        batch, i, j = at
        u, v = 0 if SHARED_A else batch, 0 if SHARED_B else batch
        acc = tw.zeros((BM, BN), f32)
        for k in range(left.num_tiles(2)):
            x = left.load(u, i, k, latency=LATENCY or None).reshape(BM, BK).astype(FACTOR)
            y = right.load(v, k, j, latency=LATENCY or None).reshape(BK, BN).astype(FACTOR)
            acc = tw.mma(x, y, acc, fast_acc=IS_FAST)
        result = finished(acc, (batch, i, j), biases, ACTIVATION, residuals)
        out.store(result.astype(out.dtype).reshape(1, BM, BN), at)


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
    if not wanted.form.shape[2]:  # an empty sum has no parts
        return add_splits(wanted, parts_of(wanted, 0))
    if is_worth_copying(wanted):
        copies, even = aligned(wanted)
        return copies.then(lambda _: launch_matmul(even, choose_product(even.form)))
    return launch_matmul(wanted, choose_product(wanted.form))


def launch_matmul(wanted: MatrixProduct, config: Config) -> tw.DeviceOp[Any]:
    """The launches of a product with a configuration."""
    if "FOLDS" in config.values:
        return launch_gemv(wanted, config)
    if config.values.get("SWAPPED") and not wanted.form.epilogue["HAS_BIAS"]:
        wanted = swapped(wanted)
    if config.values.get("SPLITS", 1) > 1:
        return launch_splits(wanted, config)
    edge = first_columns(wanted.out.shape[2], config) if wanted.form.batch == 1 else None
    if edge is not None:
        return launch_wide(wanted, config, edge)
    if config.schedule is None:
        return launch_once(wanted, config)
    kernel, constants = specialised(matmul_kernel, wanted.form, config)
    out = wanted.out
    cut = walked(out, config) if wanted.is_new else kept(out, walked, config)
    return kernel(cut, *wanted[1:5], **constants)


def walked(out: tw.Tensor, config: Config) -> tw.PersistentPartition:
    """An output with the partition that the kernel takes."""
    return config.walk(out[:].partition(1, config["BM"], config["BN"]))
