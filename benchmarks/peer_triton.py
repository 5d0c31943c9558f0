"""Plain memory-bound kernels in Triton: a row or a block of elements to a program.

Triton's own tuner chooses the number of warps and the block size. Each function here returns a
launch on torch tensors, outputs first. Needs torch and triton.
"""

# ruff: noqa: ANN001, ANN202, N803, PLR0917 (the style of Triton kernels)

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import triton
import triton.language as tl
from triton.language.extra import libdevice

__all__ = ["LAUNCHES"]

_tuned = partial(triton.autotune, do_bench=partial(triton.testing.do_bench, warmup=5, rep=20))
_WARPS = [triton.Config({}, num_warps=warps) for warps in (4, 8, 16)]
_BLOCKS = [
    triton.Config({"B": block}, num_warps=warps)
    for block, warps in ((1024, 4), (2048, 4), (2048, 8), (4096, 8), (8192, 8))
]
_LONG = [
    triton.Config({"B": block}, num_warps=warps)
    for block, warps in ((2048, 4), (4096, 8), (8192, 8), (8192, 16), (16384, 16))
]
_SQUARES = [
    triton.Config({"BM": rows, "BN": columns}, num_warps=warps)
    for rows, columns, warps in ((32, 32, 4), (64, 64, 4), (64, 64, 8), (128, 64, 8), (128, 128, 8))
]
_PLACES = [
    triton.Config({"B": places}, num_warps=warps)
    for places, warps in ((16, 4), (32, 4), (32, 8), (64, 8))
]


@_tuned(_BLOCKS, key=["n"])
@triton.jit
def _add(z, x, y, n, B: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    inside = at < n
    tl.store(z + at, tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)


@_tuned(_BLOCKS, key=["n"])
@triton.jit
def _silu_mul(z, gate, up, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    inside = at < n
    g = tl.load(gate + at, mask=inside).to(tl.float32)
    u = tl.load(up + at, mask=inside).to(tl.float32)
    tl.store(z + at, (g * tl.sigmoid(g) * u).to(z.dtype.element_ty), mask=inside)


@_tuned(_BLOCKS, key=["n"])
@triton.jit
def _gelu(z, x, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    inside = at < n
    v = tl.load(x + at, mask=inside).to(tl.float32)
    share = 0.5 * (1 + tl.erf(v * 0.7071067811865476))
    tl.store(z + at, (v * share).to(z.dtype.element_ty), mask=inside)


@_tuned(_BLOCKS, key=["n"])
@triton.jit
def _gelu_tanh(z, x, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    inside = at < n
    v = tl.load(x + at, mask=inside).to(tl.float32)
    inner = 0.7978845608028654 * (v + 0.044715 * v * v * v)
    tl.store(z + at, (0.5 * v * (1 + libdevice.tanh(inner))).to(z.dtype.element_ty), mask=inside)


@_tuned(_BLOCKS, key=["n"])
@triton.jit
def _dropout(z, x, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    inside = at < n
    v = tl.load(x + at, mask=inside).to(tl.float32)
    kept = tl.rand(7, at) >= 0.1
    tl.store(z + at, tl.where(kept, v * (1 / 0.9), 0.0).to(z.dtype.element_ty), mask=inside)


@_tuned(_BLOCKS, key=["n"], reset_to_zero=["z"])
@triton.jit
def _histogram(z, x, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    counts = tl.histogram(tl.load(x + at, mask=at < n), 256, mask=at < n)
    tl.atomic_add(z + tl.arange(0, 256), counts, sem="relaxed")


@_tuned(_WARPS, key=["columns"])
@triton.jit
def _softmax(z, x, columns, B: tl.constexpr):
    row, at = tl.program_id(0).to(tl.int64) * columns, tl.arange(0, B)
    inside = at < columns
    v = tl.load(x + row + at, mask=inside, other=-float("inf")).to(tl.float32)
    powers = tl.exp(v - tl.max(v, 0))
    tl.store(z + row + at, (powers / tl.sum(powers, 0)).to(z.dtype.element_ty), mask=inside)


@_tuned(_WARPS, key=["columns"])
@triton.jit
def _rms_norm(z, x, weight, columns, B: tl.constexpr):
    row, at = tl.program_id(0).to(tl.int64) * columns, tl.arange(0, B)
    inside = at < columns
    v = tl.load(x + row + at, mask=inside, other=0.0).to(tl.float32)
    w = tl.load(weight + at, mask=inside, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(v * v, 0) / columns + 1e-6)
    tl.store(z + row + at, (v * scale * w).to(z.dtype.element_ty), mask=inside)


@_tuned(_WARPS, key=["columns"])
@triton.jit
def _add_rms_norm(z, total, x, y, weight, columns, B: tl.constexpr):
    row, at = tl.program_id(0).to(tl.int64) * columns, tl.arange(0, B)
    inside = at < columns
    v = tl.load(x + row + at, mask=inside, other=0.0).to(tl.float32)
    v += tl.load(y + row + at, mask=inside, other=0.0).to(tl.float32)
    rounded = v.to(z.dtype.element_ty)
    tl.store(total + row + at, rounded, mask=inside)
    v = rounded.to(tl.float32)
    w = tl.load(weight + at, mask=inside, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(v * v, 0) / columns + 1e-6)
    tl.store(z + row + at, (v * scale * w).to(z.dtype.element_ty), mask=inside)


@_tuned(_WARPS, key=["columns"])
@triton.jit
def _layer_norm(z, x, weight, bias, columns, B: tl.constexpr):
    row, at = tl.program_id(0).to(tl.int64) * columns, tl.arange(0, B)
    inside = at < columns
    v = tl.load(x + row + at, mask=inside, other=0.0).to(tl.float32)
    w = tl.load(weight + at, mask=inside, other=0.0).to(tl.float32)
    b = tl.load(bias + at, mask=inside, other=0.0).to(tl.float32)
    v = tl.where(inside, v - tl.sum(v, 0) / columns, 0.0)
    scale = tl.rsqrt(tl.sum(v * v, 0) / columns + 1e-5)
    tl.store(z + row + at, (v * scale * w + b).to(z.dtype.element_ty), mask=inside)


@_tuned(_LONG, key=["columns"])
@triton.jit
def _cross_entropy(loss, log_sum, x, labels, columns, B: tl.constexpr):
    number = tl.program_id(0)
    row = number.to(tl.int64) * columns
    top = tl.full((), -float("inf"), tl.float32)
    total = tl.zeros((), tl.float32)
    for start in range(0, columns, B):
        at = start + tl.arange(0, B)
        v = tl.load(x + row + at, mask=at < columns, other=-float("inf")).to(tl.float32)
        higher = tl.maximum(top, tl.max(v, 0))
        total = total * tl.exp(top - higher) + tl.sum(tl.exp(v - higher), 0)
        top = higher
    log = top + tl.log(total)
    picked = tl.load(x + row + tl.load(labels + number)).to(tl.float32)
    tl.store(loss + number, log - picked)
    tl.store(log_sum + number, log)


@_tuned(_BLOCKS, key=["columns"])
@triton.jit
def _cross_entropy_gradient(dx, x, labels, log_sum, dloss, columns, B: tl.constexpr):
    number = tl.program_id(0)
    row, at = number.to(tl.int64) * columns, tl.program_id(1) * B + tl.arange(0, B)
    inside = at < columns
    v = tl.load(x + row + at, mask=inside, other=0.0).to(tl.float32)
    share = tl.exp(v - tl.load(log_sum + number))
    share = tl.where(at == tl.load(labels + number), share - 1.0, share)
    tl.store(dx + row + at, (share * tl.load(dloss + number)).to(dx.dtype.element_ty), mask=inside)


@_tuned(_WARPS, key=["columns"])
@triton.jit
def _embedding(z, ids, table, columns, B: tl.constexpr):
    number, at = tl.program_id(0).to(tl.int64), tl.arange(0, B)
    inside = at < columns
    row = tl.load(ids + number) * columns
    tl.store(z + number * columns + at, tl.load(table + row + at, mask=inside), mask=inside)


@_tuned(_PLACES, key=["places"])
@triton.jit
def _rope(z, x, cosines, sines, places, B: tl.constexpr, HALF: tl.constexpr):
    head = tl.program_id(1).to(tl.int64) * places * 2 * HALF
    place = tl.program_id(0) * B + tl.arange(0, B)
    channel = tl.arange(0, HALF)
    inside = (place < places)[:, None] & (channel < HALF)[None, :]
    angle = place[:, None] * HALF + channel[None, :]
    at = head + place[:, None] * 2 * HALF + channel[None, :]
    cos = tl.load(cosines + angle, mask=inside)
    sin = tl.load(sines + angle, mask=inside)
    u = tl.load(x + at, mask=inside).to(tl.float32)
    v = tl.load(x + at + HALF, mask=inside).to(tl.float32)
    tl.store(z + at, (u * cos - v * sin).to(z.dtype.element_ty), mask=inside)
    tl.store(z + at + HALF, (v * cos + u * sin).to(z.dtype.element_ty), mask=inside)


@_tuned(_SQUARES, key=["rows", "columns"])
@triton.jit
def _transpose(z, x, rows, columns, BM: tl.constexpr, BN: tl.constexpr):
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    j = tl.program_id(1) * BN + tl.arange(0, BN)
    inside = (i < rows)[:, None] & (j < columns)[None, :]
    tile = tl.load(x + i[:, None] * columns + j[None, :], mask=inside)
    tl.store(z + j[:, None] * rows + i[None, :], tl.trans(tile), mask=tl.trans(inside))


@_tuned(_WARPS, key=["columns"])
@triton.jit
def _sum(z, x, columns, B: tl.constexpr):
    number, at = tl.program_id(0), tl.arange(0, B)
    row = number.to(tl.int64) * columns
    v = tl.load(x + row + at, mask=at < columns, other=0.0).to(tl.float32)
    tl.store(z + number, tl.sum(v, 0).to(z.dtype.element_ty))


@_tuned(_WARPS, key=["columns"])
@triton.jit
def _argmax(z, x, columns, B: tl.constexpr):
    number, at = tl.program_id(0), tl.arange(0, B)
    row = number.to(tl.int64) * columns
    v = tl.load(x + row + at, mask=at < columns, other=-float("inf")).to(tl.float32)
    tl.store(z + number, tl.argmax(v, 0).to(tl.int64))


@_tuned(_PLACES, key=["places"])
@triton.jit
def _append(keys, values, k, v, starts, heads, length, places, B: tl.constexpr, D: tl.constexpr):
    head = tl.program_id(1).to(tl.int64)
    place = tl.program_id(0) * B + tl.arange(0, B)
    channel = tl.arange(0, D)[None, :]
    start = tl.load(starts + head // heads)
    source = (head * places + place)[:, None] * D + channel
    target = (head * length + start + place)[:, None] * D + channel
    inside = (place < places)[:, None] & (start + place < length)[:, None]
    tl.store(keys + target, tl.load(k + source, mask=inside), mask=inside)
    tl.store(values + target, tl.load(v + source, mask=inside), mask=inside)


@_tuned(_WARPS, key=["columns"])
@triton.jit
def _cumsum(z, x, columns, B: tl.constexpr):
    row, at = tl.program_id(0).to(tl.int64) * columns, tl.arange(0, B)
    inside = at < columns
    v = tl.load(x + row + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(z + row + at, tl.cumsum(v, 0).to(z.dtype.element_ty), mask=inside)


def _elements(kernel: Any) -> Callable[..., Callable[[], object]]:
    def launch(outs: Sequence[Any], ins: Sequence[Any]) -> Callable[[], object]:
        n = ins[0].numel()
        return lambda: kernel[lambda chosen: (triton.cdiv(n, chosen["B"]),)](*outs, *ins, n)

    return launch


def _counts(outs: Sequence[Any], ins: Sequence[Any]) -> Callable[[], object]:
    launch = _elements(_histogram)(outs, ins)

    def run() -> object:
        outs[0].zero_()
        return launch()

    return run


def _whole_rows(kernel: Any) -> Callable[..., Callable[[], object]]:
    def launch(outs: Sequence[Any], ins: Sequence[Any]) -> Callable[[], object]:
        rows, columns = next(one.shape for one in (*outs, *ins) if one.ndim == 2)
        block = triton.next_power_of_2(columns)
        return lambda: kernel[(rows,)](*outs, *ins, columns, B=block)

    return launch


def _rows_in_parts(outs: Sequence[Any], ins: Sequence[Any]) -> Callable[[], object]:
    rows, columns = ins[0].shape
    return lambda: _cross_entropy[(rows,)](*outs, *ins, columns)


def _gradient(outs: Sequence[Any], ins: Sequence[Any]) -> Callable[[], object]:
    rows, columns = ins[0].shape
    grid = lambda chosen: (rows, triton.cdiv(columns, chosen["B"]))  # noqa: E731
    return lambda: _cross_entropy_gradient[grid](*outs, *ins, columns)


def _tiles(outs: Sequence[Any], ins: Sequence[Any]) -> Callable[[], object]:
    rows, columns = ins[0].shape
    grid = lambda at: (triton.cdiv(rows, at["BM"]), triton.cdiv(columns, at["BN"]))  # noqa: E731
    return lambda: _transpose[grid](*outs, *ins, rows, columns)


def _heads(outs: Sequence[Any], ins: Sequence[Any]) -> Callable[[], object]:
    batch, heads, places, channels = ins[0].shape
    grid = lambda at: (triton.cdiv(places, at["B"]), batch * heads)  # noqa: E731
    return lambda: _rope[grid](*outs, *ins, places, HALF=channels // 2)


def _cached(outs: Sequence[Any], ins: Sequence[Any]) -> Callable[[], object]:
    (batch, heads, places, channels), length = ins[0].shape, outs[0].shape[2]
    grid = lambda at: (triton.cdiv(places, at["B"]), batch * heads)  # noqa: E731
    return lambda: _append[grid](*outs, *ins, heads, length, places, D=channels)


# By the name of our function: the maker of a launch on outputs and inputs.
LAUNCHES: dict[str, Callable[..., Callable[[], object]]] = {
    "add": _elements(_add),
    "add_rms_norm": _whole_rows(_add_rms_norm),
    "append_kv": _cached,
    "argmax": _whole_rows(_argmax),
    "cross_entropy": _rows_in_parts,
    "cross_entropy_gradient": _gradient,
    "cumsum": _whole_rows(_cumsum),
    "dropout": _elements(_dropout),
    "embedding": _whole_rows(_embedding),
    "gelu": _elements(_gelu),
    "gelu_tanh": _elements(_gelu_tanh),
    "histogram": _counts,
    "layer_norm": _whole_rows(_layer_norm),
    "rms_norm": _whole_rows(_rms_norm),
    "rope": _heads,
    "silu_mul": _elements(_silu_mul),
    "softmax": _whole_rows(_softmax),
    "sum": _whole_rows(_sum),
    "transpose": _tiles,
}
