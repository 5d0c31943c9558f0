"""Compilation ahead of all kernels that a weight with scales needs, whatever the number of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import tilewright as tw
from tilewright import f8e4m3fn, f32
from tilewright.kernels.arguments import shown
from tilewright.kernels.gemm.configs import choose_scaled, menu_for
from tilewright.kernels.gemm.operands import ProductRequest
from tilewright.kernels.gemm.scaled import launch_scaled, launch_scaled_parts, prepared
from tilewright.kernels.gemm.scaled_operands import ScaledProduct, scaled_product, swapped_scaled
from tilewright.kernels.gemm.scaling import GROUP
from tilewright.kernels.gemm.splits import add_splits, parts_of
from tilewright.kernels.gemm.warm_up import FEW, MANY, ONE, SPLITS, compile_all
from tilewright.kernels.rows.quantising import KINDS

__all__ = ["warm_up_scaled"]


def warm_up_scaled(
    weight: tw.Tensor,
    scale: tw.Tensor | None = None,
    *,
    dtype: type[tw.DType] = f8e4m3fn,
    kind: str | None = None,
    transpose_b: bool = False,
    bias: tw.Tensor | None = None,
    activation: str | None = None,
    out_dtype: type[tw.DType] | None = None,
    report: Callable[[int, int], object] | None = None,
) -> int:
    """Compile the kernels of `scaled_matmul(x, weight, x_scale, scale, …)` for up to 8192 rows.

    `dtype` is that of `x`, and `kind` that of `x_scale`, as in `quantise`; None: `x` has no scale.
    The other options are those of the later calls, and `report` is that of `warm_up`. Returns the
    number of kernels. Nothing runs, and no memory is allocated.
    """
    if kind not in (None, *KINDS[:3]):
        known = ", ".join(map(repr, (None, *KINDS[:3])))
        raise tw.LaunchError(f"`kind` of warm_up_scaled is one of {known}, not {shown(kind)}")
    request = ProductRequest(
        "scaled_matmul", None, out_dtype, bias, activation, transpose_b=transpose_b
    )

    def product_of(rows: int) -> ScaledProduct:
        """A product of so many rows, on tensors of its own."""
        k = weight.shape[-1 if transpose_b else -2] if weight.ndim > 1 else 0
        x = tw.empty((rows, k), dtype, device=weight.device)
        shapes = {"tensor": (1,), "row": (rows, 1), "part": (rows, -(-k // GROUP))}
        x_scale = None if kind is None else tw.empty(shapes[kind], f32, device=weight.device)
        return scaled_product(x, weight, (x_scale, scale), request)[0]

    return compile_all([*_launches(product_of)], report)


def _launches(product_of: Callable[[int], ScaledProduct]) -> Iterator[tw.DeviceOp[Any]]:
    """A launch of each kernel, each on tensors of its own."""

    def even_of(rows: int) -> ScaledProduct:
        copies, even = prepared(product_of(rows))
        if copies is not None:
            copies.close()
        return even

    copies, _ = prepared(product_of(MANY))
    if copies is not None:
        yield copies
    for rows in (ONE, FEW):
        wanted = even_of(rows)
        yield launch_scaled(wanted, choose_scaled(wanted.product.form))
    tiles = menu_for(even_of(MANY).product.form)
    for tile in tiles:
        wanted = even_of(MANY)
        if tile.splits:
            turned = swapped_scaled(wanted) if tile.is_swapped else wanted
            yield launch_scaled_parts(turned, tile.config, parts_of(turned.product, SPLITS))
        else:
            yield launch_scaled(wanted, tile.config)
    wanted = even_of(MANY)
    if not tiles:
        yield launch_scaled(wanted, choose_scaled(wanted.product.form))
    elif any(tile.splits for tile in tiles):
        yield add_splits(wanted.product, parts_of(wanted.product, SPLITS))
