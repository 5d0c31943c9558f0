"""Quantisation to 8-bit floats: `x` as `q * scale`, a scale for a tensor, rows, parts or blocks.

A scale maps the greatest finite element that shares it to the greatest 8-bit float. Infinities
become that number, NaN stays NaN, and zeros alone have the scale 1. A scale is never subnormal, so
neither it nor its reciprocal overflows or vanishes.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import tilewright as tw
from tilewright import Const, Cut, Mut, Ref, bf16, f8e4m3fn, f8e5m2, f16, f32
from tilewright.dims import BM, BN, M, N, P, Q, T
from tilewright.kernels.arguments import (
    check_extents,
    check_one_device,
    check_tensor,
    given_outputs,
    giving,
    output,
    reshaped,
    rows_of,
    shown,
)
from tilewright.kernels.cutting import power_of_two
from tilewright.kernels.large_tiles import on_cpu
from tilewright.kernels.placeholders import FROM

__all__ = [
    "KINDS",
    "quantise",
    "quantise_blocks",
    "quantise_by_scale",
    "quantise_rows",
    "scale_of_sizes",
    "sizes_of_rows",
]

GREATEST = {f8e4m3fn: 448.0, f8e5m2: 57344.0}
SOURCES = (f16, bf16, f32)
GROUP = 128  # rows and columns of a block, columns of a part
LEAST = 2.0**-126  # the least normal f32
TILE = 4096  # elements of a tile on a GPU
LARGE_TILE = 1 << 16  # on the CPU
# Kinds of scales, as a call names them.
KINDS = ("tensor", "row", "part", "block")


class ACROSS(tw.Dim):
    """Scales along the rows of a tile."""


def _sizes(x: Any) -> Any:
    """The absolute values of finite elements, in f32, and -inf for others, as behind the edge."""
    wide = tw.abs(x.astype(f32))
    return tw.where(tw.isfinite(wide), wide, -math.inf)


def _scale(size: Any, greatest: float) -> Any:
    """The scale of elements up to `size`."""
    return tw.where(size <= 0.0, 1.0, tw.maximum(size * (1.0 / greatest), LEAST))


def _narrowed(x: Any, scale: Any, greatest: float, dtype: Any) -> Any:
    """`x / scale`, within the range of the dtype; NaN stays NaN."""
    wide = x.astype(f32) / scale
    inside = tw.minimum(tw.maximum(wide, -greatest, nan=True), greatest, nan=True)
    return inside.astype(dtype)


@tw.kernel(deny_checks=True)
def quantise_rows(
    q: Mut[T, Cut[M, BM], Cut[N, tw.All]], scale: Mut[f32, Cut[M, BM], Cut[P, tw.All]],
    x: Ref[FROM, M, N],
    *, PART: Const[int] = 1024, GREATEST: Const[float] = 448.0,
) -> None:  # fmt: skip
    """`q = x / scale`, with a scale for each row."""
    tw.require(P == 1)
    i, _ = q.index
    xs, parts = x.partition(BM, PART, padding=math.inf), q.partition(BM, PART)
    size = tw.full((BM, 1), -math.inf, f32)
    for j in range(xs.num_tiles(1)):
        size = tw.maximum(size, tw.max(_sizes(xs[i, j]), axis=1, keepdims=True))
    by = _scale(size, GREATEST)
    for j in range(xs.num_tiles(1)):
        parts.store(_narrowed(xs[i, j], by, GREATEST, q.dtype), 0, j)
    scale.partition(BM, 1).store(by, 0, 0)


@tw.kernel(deny_checks=True)
def quantise_blocks(
    q: Mut[T, Cut[M, BM], Cut[N, BN]], scale: Mut[f32, Cut[P, ACROSS], Cut[Q, Literal[1]]],
    x: Ref[FROM, M, N],
    *, GREATEST: Const[float] = 448.0,
) -> None:  # fmt: skip
    """`q = x / scale`, with a scale for each BN columns of each row, or of BM rows."""
    i, j = q.index
    tile = x.partition(BM, BN, padding=math.inf)[i, j]
    size = tw.max(_sizes(tile), axis=1, keepdims=True)
    if ACROSS == 1:
        size = tw.max(size, axis=0, keepdims=True)
    by = _scale(size, GREATEST)
    q.store(_narrowed(tile, by, GREATEST, q.dtype))
    scale.store(by)


@tw.kernel(deny_checks=True)
def sizes_of_rows(
    sizes: Mut[f32, Cut[P, Literal[1]]], x: Ref[FROM, M, N],
    *, ROWS: Const[int] = 4, PART: Const[int] = 1024,
) -> None:  # fmt: skip
    """The greatest absolute value of each ROWS rows."""
    tw.require(tw.cdiv(M, ROWS) == P)
    (i,) = sizes.index
    xs = x.partition(ROWS, PART, padding=math.inf)
    size = tw.full((ROWS, PART), -math.inf, f32)
    for j in range(xs.num_tiles(1)):
        size = tw.maximum(size, _sizes(xs[i, j]))
    sizes.store(tw.max(size.reshape(1, ROWS * PART), axis=1))


@tw.kernel(deny_checks=True)
def scale_of_sizes(
    scale: Mut[f32, Literal[1]], sizes: Ref[f32, P],
    *, PART: Const[int] = 1024, GREATEST: Const[float] = 448.0,
) -> None:  # fmt: skip
    """The scale of the greatest of all sizes."""
    parts = sizes.partition(PART, padding=-math.inf)
    size = tw.full((PART,), -math.inf, f32)
    for j in range(parts.num_tiles(0)):
        size = tw.maximum(size, parts[j])
    scale.store(_scale(tw.max(size.reshape(1, PART), axis=1), GREATEST))


@tw.kernel(deny_checks=True)
def quantise_by_scale(
    q: Mut[T, Cut[M, BM], Cut[N, BN]], x: Ref[FROM, M, N], scale: Ref[f32, Literal[1]],
    *, GREATEST: Const[float] = 448.0,
) -> None:  # fmt: skip
    """`q = x / scale` with one scale for the tensor."""
    i, j = q.index
    by = scale.partition(1)[0].reshape(1, 1)
    q.store(_narrowed(x.partition(BM, BN)[i, j], by, GREATEST, q.dtype))


# --- the function ---------------------------------------------------------------------------------


@tw.function
def quantise(
    x: tw.Tensor,
    kind: str = "row",
    *,
    dtype: type[tw.DType] = f8e4m3fn,
    scale: tw.Tensor | None = None,
    out: tuple[tw.Tensor, tw.Tensor] | None = None,
) -> tw.DeviceOp[tuple[tw.Tensor, tw.Tensor]]:
    """8-bit floats `q` and f32 scales, with `x` about `q * scale`; the scales of `scaled_matmul`.

    `x` is `[..., M, N]` of f16, bf16 or f32. For M rows in all, the `kind` of the scales is

    - "tensor": `[1]`, one for all elements, or `scale`, if that is given;
    - "row": `[M, 1]`, one for each row, as for activations, or for the channels of a weight;
    - "part": `[M, N/128]`, one for 128 elements of a row, as for activations beside blocks;
    - "block": `[M/128, N/128]`, one for 128 x 128 elements, as for weights.

    Axes in front of the last two stay, as axes of rows, with kinds "row" and "part" too. `dtype` is
    f8e4m3fn or f8e5m2. Infinities become the greatest number of the dtype, NaN stays NaN, and
    neither counts for the scale.
    """
    caller = "quantise"
    check_tensor(caller, "x", x, SOURCES)
    _check_options(caller, kind, dtype, scale)
    rows = rows_of(caller, "x", x)
    given_q, given_scale = given_outputs(caller, out, 2)
    q = output(caller, given_q, x.shape, dtype, x)
    cut = reshaped(caller, "out", q, rows.shape)
    if scale is not None:
        check_tensor(caller, "scale", scale, (f32,))
        check_extents(caller, "scale", scale, (1,))
        check_one_device(caller, x=x, scale=scale)
        return giving(_by_scale(cut, rows, scale), (q, scale))
    shape = _scales_shape(kind, x.shape, rows.shape)
    scales = output(caller, given_scale, shape, f32, x)
    if not x.size:
        return tw.value((q, scales), device=x.device)
    return giving(_launched(kind, cut, scales, rows), (q, scales))


def _check_options(caller: str, kind: str, dtype: type[tw.DType], scale: tw.Tensor | None) -> None:
    if kind not in KINDS:
        known = ", ".join(map(repr, KINDS))
        raise tw.LaunchError(f"`kind` of {caller} is one of {known}, not {shown(kind)}")
    if dtype not in GREATEST:
        known = " or ".join(one.label for one in GREATEST)
        label = getattr(dtype, "label", None) or shown(dtype)
        raise tw.LaunchError(f"`dtype` of {caller} is {known}, not {label}")
    if scale is not None and kind != "tensor":
        raise tw.LaunchError(
            f'`scale` of {caller} is for kind "tensor", and this is {kind!r}: leave one of them out'
        )


def _scales_shape(kind: str, shape: tuple[int, ...], rows: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of the scales that the caller sees."""
    parts = -(-rows[1] // GROUP)
    if kind == "tensor":
        return (1,)
    if kind == "block":
        return (-(-rows[0] // GROUP), parts)
    return (*shape[:-1], 1 if kind == "row" else parts)


def _launched(kind: str, q: tw.Tensor, scales: tw.Tensor, x: tw.Tensor) -> tw.DeviceOp[Any]:
    """The launches of a kind, on matrices."""
    greatest = GREATEST[q.dtype]
    room, (m, n) = LARGE_TILE if on_cpu(x) else TILE, x.shape
    part = min(power_of_two(n), room // 4)
    height = max(1, min(power_of_two(m), room // part))
    if kind == "tensor":
        sizes = tw.empty((-(-m // height),), f32, device=x.device)
        found = sizes_of_rows(sizes.partition(1), x, ROWS=height, PART=part)
        scaled = found.then(lambda _: scale_of_sizes(scales.partition(1), sizes, GREATEST=greatest))
        return scaled.then(lambda _: _by_scale(q, x, scales))
    if kind == "row":
        by_row = reshaped("quantise", "out", scales, (m, 1))
        height = max(1, min(height, room // part // 4))
        pieces = (q.partition(height, None), by_row.partition(height, None))
        return quantise_rows(*pieces, x, PART=part, GREATEST=greatest)
    by_part = (
        scales if kind == "block" else reshaped("quantise", "out", scales, (m, scales.shape[-1]))
    )
    height = GROUP if kind == "block" else max(1, min(power_of_two(m), room // GROUP))
    across = 1 if kind == "block" else height
    pieces = (q.partition(height, GROUP), by_part.partition(across, 1))
    return quantise_blocks(*pieces, x, GREATEST=greatest)


def _by_scale(q: tw.Tensor, x: tw.Tensor, scale: tw.Tensor) -> tw.DeviceOp[Any]:
    room, (m, n) = LARGE_TILE if on_cpu(x) else TILE, x.shape
    width = min(power_of_two(n), room)
    cut = q.partition(max(1, min(power_of_two(m), room // width)), width)
    return quantise_by_scale(cut, x, scale, GREATEST=GREATEST[q.dtype])
