"""Compilation ahead of all kernels that a weight needs, whatever the number of rows.

A product with a weight chooses among few kernels (`tiles.menu_of`). `warm_up` compiles them in
parallel, so that no request waits for the assembler.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import tilewright as tw
from tilewright.kernels.gemm.aligned import aligned, is_worth_copying
from tilewright.kernels.gemm.configs import MOST_ROWS, choose_product, menu_for
from tilewright.kernels.gemm.matmuls import launch_matmul
from tilewright.kernels.gemm.operands import MatrixProduct, ProductRequest, product, swapped
from tilewright.kernels.gemm.splits import add_splits, launch_parts, parts_of

__all__ = ["FEW", "MANY", "ONE", "SPLITS", "compile_all", "warm_up"]

# Rows of the products that are built: one row, few rows, many rows.
ONE, FEW, MANY = 1, MOST_ROWS, 64
SPLITS = 2  # any number: it is no constant of a kernel


def warm_up(
    *weights: tw.Tensor,
    transpose_b: bool = False,
    bias: tw.Tensor | None = None,
    activation: str | None = None,
    out_dtype: type[tw.DType] | None = None,
    report: Callable[[int, int], object] | None = None,
) -> int:
    """Compile the kernels of `matmul(x, weight, …)` for every number of rows up to 8192.

    The options are those of the later calls of `matmul`, which get the same kernels. Kernels are
    assembled in parallel; `report(done, total)` is called after each, and by default a terminal
    shows the count. Returns the number of kernels. Nothing runs, and no memory is allocated.
    """
    request = ProductRequest("matmul", None, out_dtype, bias, activation, transpose_b=transpose_b)
    return compile_all([one for weight in weights for one in _launches(weight, request)], report)


def compile_all(found: list[tw.DeviceOp[Any]], report: Callable[[int, int], object] | None) -> int:
    """Compile launches that are not run, and report after each; returns their number."""
    tell = _show if report is None else report
    for done, launch in enumerate(found, 1):
        launch.compile().close()
        tell(done, len(found))
    return len(found)


def _launches(weight: tw.Tensor, request: ProductRequest) -> Iterator[tw.DeviceOp[Any]]:
    """A launch of each kernel, each on tensors of its own."""
    for rows in (ONE, FEW):
        wanted = _product(weight, request, rows)
        yield launch_matmul(wanted, choose_product(wanted.form))
    wanted = _raw_product(weight, request, MANY)
    if is_worth_copying(wanted):
        yield aligned(wanted)[0]
    tiles = menu_for(_product(weight, request, MANY).form)
    for tile in tiles:
        wanted = _product(weight, request, MANY)
        if tile.splits:
            turned = swapped(wanted) if tile.is_swapped else wanted
            yield launch_parts(turned, tile.config, parts_of(turned, SPLITS))
        else:
            yield launch_matmul(wanted, tile.config)
    wanted = _product(weight, request, MANY)
    if not tiles:
        yield launch_matmul(wanted, choose_product(wanted.form))
    elif any(tile.splits for tile in tiles):
        yield add_splits(wanted, parts_of(wanted, SPLITS))


def _product(weight: tw.Tensor, request: ProductRequest, rows: int) -> MatrixProduct:
    """The product that the kernels compute: of copies, where copies are made first."""
    wanted = _raw_product(weight, request, rows)
    if is_worth_copying(wanted):
        copies, wanted = aligned(wanted)
        copies.close()
    return wanted


def _raw_product(weight: tw.Tensor, request: ProductRequest, rows: int) -> MatrixProduct:
    shared = weight.shape[-1 if request.transpose_b else -2] if weight.ndim > 1 else 0
    x = tw.empty((rows, shared), weight.dtype, device=weight.device)
    return product(x, weight, request)[0]


def _show(done: int, total: int) -> None:
    """Show the count in a terminal."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\rtilewright: compiled {done} of {total} kernels")
        sys.stderr.write("\n" if done == total else "")
        sys.stderr.flush()
