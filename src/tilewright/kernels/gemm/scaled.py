"""Products with scales, as for 8-bit floats: `(a * a_scale) @ (b * b_scale)`.

The forms are those of `matmuls`: few rows, one tile for each block, a walk, sums that are split,
the transposed product. Factors of 8-bit floats that are not stored along K, and rows that tiles
cannot be read from quickly, are copied first.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import tilewright as tw
from tilewright.kernels.arguments import giving
from tilewright.kernels.cutting import square_config
from tilewright.kernels.elements.transposes import transpose_tiles
from tilewright.kernels.gemm.aligned import copied, is_worth_copying, store_of
from tilewright.kernels.gemm.configs import choose_scaled
from tilewright.kernels.gemm.gemv import FEWEST_ROWS, folded, is_foldable
from tilewright.kernels.gemm.matmuls import walked
from tilewright.kernels.gemm.once import cut_at_once
from tilewright.kernels.gemm.operands import (
    MOST_FORMS,
    ProductRequest,
    exchanged_batch,
    has_even_rows,
    only_matrix,
    specialised,
    with_factors,
)
from tilewright.kernels.gemm.scaled_kernels import (
    scaled_gemv_kernel,
    scaled_matmul_kernel,
    scaled_once_kernel,
    scaled_split_kernel,
)
from tilewright.kernels.gemm.scaled_operands import (
    ScaledProduct,
    is_turned,
    scaled_product,
    swapped_scaled,
)
from tilewright.kernels.gemm.splits import add_splits, parts_of
from tilewright.kernels.views import kept
from tilewright.tune import Config

__all__ = ["launch_scaled", "launch_scaled_parts", "prepared", "scaled_matmul"]


@tw.function
def scaled_matmul(
    a: tw.Tensor,
    b: tw.Tensor,
    a_scale: tw.Tensor | None = None,
    b_scale: tw.Tensor | None = None,
    *,
    out: tw.Tensor | None = None,
    transpose_a: bool = False,
    transpose_b: bool = False,
    bias: tw.Tensor | None = None,
    activation: str | None = None,
    residual: tw.Tensor | None = None,
    out_dtype: type[tw.DType] | None = None,
    fast_accumulate: bool = False,
) -> tw.DeviceOp[tw.Tensor]:
    """`activation((a * a_scale) @ (b * b_scale) + bias) + residual`, accumulated in f32.

    `a` is `[M, K]`, perhaps with more axes of rows, and `b` is `[K, N]`; both hold 8-bit floats, or
    one of them f16 or bf16 (8-bit weights alone). The shape of a scale says its kind:

    - one number, for the whole tensor;
    - `[M]` or `[M, 1]` for the rows of `a`, `[N]` or `[1, N]` for the columns of `b`;
    - `[M, K/128]` for parts of the rows of `a`, `[K/128, N/128]` for blocks of `b`, rounded up; any
      axis may also have one element, and blocks of `a` or parts of the columns of `b` work alike.

    `transpose_a` and `transpose_b` exchange the axes of a factor and of its scale, so a weight of
    `[N, K]` has the scale `[N/128, K/128]`. Scales are f32, bf16 or f16.

    Sums are f32: tensor cores add up at most 128 products of 8-bit floats with fewer bits, or all
    of K with `fast_accumulate`, for scales without parts. The result has `out_dtype`, else the
    dtype of `out`, else that of `a` (bf16 for 8-bit floats). Other options are those of `matmul`.
    """
    request = ProductRequest(
        "scaled_matmul", out, out_dtype, bias, activation, residual, False, fast_accumulate,
        transpose_a, transpose_b,
    )  # fmt: skip
    wanted, result = scaled_product(a, b, (a_scale, b_scale), request)
    if not result.size:
        return tw.value(result, device=result.device)
    return giving(_launched(wanted), result)


def _launched(wanted: ScaledProduct) -> tw.DeviceOp[Any]:
    if not wanted.product.form.shape[2]:  # an empty sum has no parts
        return add_splits(wanted.product, parts_of(wanted.product, 0))
    copies, even = prepared(wanted)
    if copies is None:
        return launch_scaled(wanted, choose_scaled(wanted.product.form))
    return copies.then(lambda _: launch_scaled(even, choose_scaled(even.product.form)))


def prepared(wanted: ScaledProduct) -> tuple[tw.DeviceOp[Any] | None, ScaledProduct]:
    """The copies of factors that need one, and the product of the copies."""
    product = wanted.product
    copies: list[tw.DeviceOp[Any]] = []
    is_copied = is_worth_copying(product)
    factors = []
    for factor, axis in ((product.a, 2), (product.b, 1)):
        if is_turned(product.form, factor, axis):
            factors.append(_turned(factor, copies))
        elif is_copied and not has_even_rows(factor):
            factors.append(copied(factor, copies))
        else:
            factors.append(factor)
    if not copies:
        return None, wanted
    first, *rest = copies
    made = wanted._replace(product=with_factors(product, *factors))
    scales = (made.product.a if one is product.a else one for one in wanted[1:])
    return tw.zip(first, *rest) if rest else first, ScaledProduct(made.product, *scales)


def _turned(batch: tw.Tensor, copies: list[tw.DeviceOp[Any]]) -> tw.Tensor:
    """A copy of a factor that is contiguous along its other axis."""
    source = batch if batch.strides[2] == 1 else batch.permute(0, 2, 1)
    count, rows, columns = source.shape
    made = store_of(source, count, columns, rows)
    config = square_config("transpose", source)
    pieces = made.partition(1, config["BN"], config["BM"])
    copies.append(config.applied_to(transpose_tiles)(pieces, source))
    return made if batch.strides[2] != 1 else made.permute(0, 2, 1)


def launch_scaled(wanted: ScaledProduct, config: Config) -> tw.DeviceOp[Any]:
    """The launches of a product with a configuration."""
    if "FOLDS" in config.values:
        return _launch_gemv(wanted, config)
    if config.values.get("SWAPPED") and not wanted.product.form.epilogue["HAS_BIAS"]:
        wanted = swapped_scaled(wanted)
    product = wanted.product
    if config.values.get("SPLITS", 1) > 1:
        parts = parts_of(product, config["SPLITS"])
        sums = launch_scaled_parts(wanted, config, parts)
        return sums.then(lambda _: add_splits(product, parts))
    is_walk = config.schedule is not None
    kernel = scaled_matmul_kernel if is_walk else scaled_once_kernel
    cut = walked if is_walk else cut_at_once
    out = cut(product.out, config) if product.is_new else kept(product.out, cut, config)
    chosen, constants = specialised(kernel, product.form, config)
    factors = (kept(one, only_matrix) for one in (product.a, product.b))
    return chosen(out, *factors, *wanted[1:], product.bias, product.residual, **constants)


def launch_scaled_parts(
    wanted: ScaledProduct, config: Config, parts: tw.Tensor
) -> tw.DeviceOp[Any]:
    """The launch that computes partial sums."""
    form = wanted.product.form
    kernel, constants = specialised(scaled_split_kernel, form, config, is_last=False)
    cut = parts.partition(1, 1, config["BM"], config["BN"])
    factors = (kept(one, only_matrix) for one in wanted.product[1:3])
    return kernel(cut, *factors, *wanted[1:], **constants)


# --- few rows -------------------------------------------------------------------------------------


def _launch_gemv(wanted: ScaledProduct, config: Config) -> tw.DeviceOp[Any]:
    """The launch of a product of few rows, with rows folded as often as their length allows."""
    product = wanted.product
    a, b = product.a, kept(product.b, exchanged_batch)
    part = product.form.depth or 1
    folds = config.values.get("FOLDS", 1)
    while folds > 1 and not (
        a.shape[2] % (folds * part) == 0 and is_foldable(a, folds) and is_foldable(b, folds)
    ):
        folds //= 2
    config = _with_folds(config, folds)
    if folds > 1:
        a, b = kept(a, folded, folds), kept(b, folded, folds)
    scales = [
        kept(scale, folded_parts, folds) if has_parts and folds > 1 else scale
        for scale, has_parts in zip(wanted[1:], _have_parts(wanted), strict=True)
    ]
    kernel, constants = specialised(scaled_gemv_kernel, product.form, config)
    cut = product.out.partition(1, config["BM"], config["BN"])
    rows, weights = kept(a, turned_matrix), kept(b, only_matrix)
    return kernel(cut, rows, weights, *scales, product.bias, product.residual, **constants)


def _have_parts(wanted: ScaledProduct) -> tuple[bool, bool]:
    constants = wanted.product.form.constants
    return constants["A_PARTS"], constants["B_PARTS"]


@lru_cache(maxsize=MOST_FORMS)
def _with_folds(config: Config, folds: int) -> Config:
    """A configuration with as many weights in a tile, and rows for a tensor core."""
    was = config.values.get("FOLDS", 1)
    rows = max(config["BM"], FEWEST_ROWS // folds)
    return config.updated(FOLDS=folds, BN=config["BN"] * was // folds, BM=rows)


def folded_parts(scale: tw.Tensor, folds: int) -> tw.Tensor:
    """The scales of each fold of a row: `[rows, folds, parts]`."""
    rows, _, parts = scale.shape
    return scale.reshape(rows, folds, parts // folds)


def turned_matrix(batch: tw.Tensor) -> tw.Tensor:
    """The only matrix of a batch of one, with its axes exchanged."""
    return batch[0].T
