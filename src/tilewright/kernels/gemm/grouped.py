"""Products of ragged groups of rows, each with its own matrix, as in a mixture of experts.

The output is partitioned by the offsets at which groups begin. The offsets lie in device memory and
are never read by the host; whatever they hold, no two blocks write one element, and every access
stays within bounds.
"""

from __future__ import annotations

import tilewright as tw
from tilewright import Const, Cut, Mut, Ref, f32, i32, i64
from tilewright.dims import BM, BN, A, B, G, K, M, N, T, X, Y
from tilewright.kernels.arguments import (
    check_extents,
    check_one_device,
    check_tensor,
    giving,
    zeroed_output,
)
from tilewright.kernels.gemm.configs import choose_grouped
from tilewright.kernels.gemm.epilogues import BIAS, FUNCTIONS, OUT, RESIDUAL
from tilewright.kernels.gemm.operands import (
    ProductRequest,
    check_factors,
    check_matrices,
    exchanged,
)
from tilewright.tune import key_of

__all__ = ["grouped_matmul", "grouped_matmul_kernel"]


# The dims of `bias` and `residual` are independent: an unused one may have any extents.
@tw.kernel(deny_checks=True)
def grouped_matmul_kernel(
    out: Mut[OUT, Cut[M, BM], Cut[N, BN]], a: Ref[T, M, K], b: Ref[T, G, K, N],
    bias: Ref[BIAS, A, B], residual: Ref[RESIDUAL, X, Y],
    *, FACTOR: Const[type[tw.DType]], BK: Const[int] = 64, IS_FAST: Const[bool] = False,
    HAS_BIAS: Const[bool] = False, ACTIVATION: Const[int] = 0, HAS_RESIDUAL: Const[bool] = False,
) -> None:  # fmt: skip
    """`out = activation(a @ b[g] + bias[g]) + residual` for the rows of each group g."""
    tw.require(out.segments == G)
    group, _, j = out.index
    begin, end = out.rows
    left, right = a.windows(BM, BK, step=(1, BK)), b.partition(1, BK, BN)
    # A block without rows stores nothing, so the matrix that it reads does not matter.
    first = left.clip(begin, 0)
    acc = tw.zeros((BM, BN), f32)
    if begin < end:
        for k in range(right.num_tiles(1)):
            x = left[first, k].astype(FACTOR)  # rows behind the end are not stored
            y = right[group, k, j].reshape(BK, BN).astype(FACTOR)
            acc = tw.mma(x, y, acc, fast_acc=IS_FAST)
    if HAS_BIAS:
        tw.require(A == G and B == N)
        acc += bias.partition(1, BN)[group, j].astype(f32)
    acc = FUNCTIONS[ACTIVATION](acc)
    if HAS_RESIDUAL:
        acc += residual.load_like(out).astype(f32)
    out.store(acc.astype(out.dtype))


# --- the function ---------------------------------------------------------------------------------


@tw.function
def grouped_matmul(
    a: tw.Tensor,
    b: tw.Tensor,
    offsets: tw.Tensor,
    *,
    out: tw.Tensor | None = None,
    transpose_b: bool = False,
    bias: tw.Tensor | None = None,
    activation: str | None = None,
    residual: tw.Tensor | None = None,
    out_dtype: type[tw.DType] | None = None,
    tf32: bool = False,
    fast_accumulate: bool = False,
) -> tw.DeviceOp[tw.Tensor]:
    """`activation(a @ b[g] + bias[g]) + residual`, for the rows of each group g.

    Group g has the rows `offsets[g]` to `offsets[g + 1]` of `a`, which is `[M, K]`; `b` is
    `[groups, K, N]` (or `[groups, N, K]`, with `transpose_b`), `offsets` is `[groups + 1]`, i32 or
    i64 in device memory, `bias` is `[groups, N]` and `residual` is `[M, N]`. Where offsets
    decrease, a group begins at the end of the group before it. Rows without a group are left
    unchanged in `out`, and are zero in a new tensor.

    Dtypes and the other options are those of `matmul`.
    """
    caller = "grouped_matmul"
    request = ProductRequest(
        caller, out, out_dtype, bias, activation, residual, tf32, fast_accumulate
    )
    check_matrices(caller, "a", a, rank=2)
    check_matrices(caller, "b", b, rank=3)
    right = exchanged(caller, "b", b) if transpose_b else b
    check_factors(caller, a, right)
    groups, _, n = right.shape
    shape = (a.shape[0], n)
    check_tensor(caller, "offsets", offsets, (i32, i64))
    check_extents(caller, "offsets", offsets, (groups + 1,))
    check_one_device(caller, a=a, offsets=offsets)
    number, factor = request.number(), request.factor(a.dtype)
    request.check_added(a, (groups, n), shape)
    result = zeroed_output(caller, out, shape, request.sums(a), a)
    if not result.size or not groups:
        return tw.value(result, device=a.device)
    key = key_of(factor, (groups, *shape, a.shape[1]), transposed=right.strides[2] != 1)
    config = choose_grouped(key, a.device.target)
    operation = config.applied_to(grouped_matmul_kernel)(
        result.partition(config["BM"], config["BN"], segments=offsets), a, right,
        a if bias is None else bias, a if residual is None else residual,
        FACTOR=factor, IS_FAST=fast_accumulate, HAS_BIAS=bias is not None, ACTIVATION=number,
        HAS_RESIDUAL=residual is not None, **config.arguments(grouped_matmul_kernel),
    )  # fmt: skip
    return giving(operation, result)
