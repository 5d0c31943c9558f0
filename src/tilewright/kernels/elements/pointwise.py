"""Element-wise functions: sum, SiLU-mul, GELU, dropout; computed in f32 (f64 for f64).

Contiguous tensors are processed as one line, other tensors row by row.
"""

from __future__ import annotations

import math
from typing import Any, Literal, SupportsIndex

import tilewright as tw
from tilewright import Const, Cut, Mut, Ref, f32, u64
from tilewright.dims import BM, BN, B, K, L, M, N, T
from tilewright.kernels.arguments import (
    FLOATS,
    INTEGERS,
    as_lines,
    check_extents,
    check_one_device,
    check_tensor,
    elements_together,
    giving,
    lines_of,
    output,
    real_number,
    shown,
    whole_number,
)
from tilewright.kernels.arithmetic import (
    gated,
    lies_inside,
    normal_share,
    store_whole,
    whole_at,
    wide,
)
from tilewright.kernels.cutting import element_config, line_config
from tilewright.kernels.elements.dense import densely, has_rows
from tilewright.kernels.large_tiles import on_cpu

__all__ = [
    "add",
    "add_elements",
    "add_rows",
    "add_strided",
    "dropout",
    "dropout_elements",
    "dropout_groups",
    "dropout_rows",
    "gelu",
    "gelu_elements",
    "gelu_rows",
    "gelu_strided",
    "silu_mul",
    "silu_mul_elements",
    "silu_mul_rows",
    "silu_mul_strided",
]

_MASK = (1 << 64) - 1

# One position of the generator gives four random numbers. They belong to elements LANES apart, so
# that no thread needs a number made by another thread.
WORDS = 4
LANES = 1024
GROUP = WORDS * LANES

# Factors of 2 sqrt(2 / pi) (x + 0.044715 x³).
TANH_SLOPE = 2 * math.sqrt(2 / math.pi)
TANH_CUBE = TANH_SLOPE * 0.044715


def _silu_mul(gate: Any, up: Any) -> Any:
    g = wide(gate)
    return (gated(g, g) * wide(up)).astype(gate.dtype)


def _gelu(x: Any, TANH: bool) -> Any:
    v = wide(x)
    if TANH:  # (1 + tanh y) / 2 is sigmoid(2 y)
        return gated(v, v * (TANH_SLOPE + TANH_CUBE * (v * v))).astype(x.dtype)
    return normal_share(v).astype(x.dtype)


def _sum(x: Any, y: Any) -> Any:
    return x + y


def _store_of_two(z: Any, x: Any, y: Any, at: Any, function: Any) -> None:
    """A function of two tensors at piece `at` of the output."""
    if lies_inside(z, at):
        store_whole(z, function(whole_at(x, at, z), whole_at(y, at, z)))
    else:
        z.store(function(x.partition(z.tile)[at], y.partition(z.tile)[at]))


def _store_gelu(z: Any, x: Any, at: Any, TANH: bool) -> None:
    """GELU at piece `at` of the output."""
    if lies_inside(z, at):
        store_whole(z, _gelu(whole_at(x, at, z), TANH))
    else:
        z.store(_gelu(x.partition(z.tile)[at], TANH))


@tw.kernel(deny_checks=True)
def add_elements(
    z: Mut[T, Cut[N, B]], x: Ref[T, N], y: Ref[T, N], *, EXACT: Const[bool] = False
) -> None:
    """`z = x + y` of contiguous tensors. EXACT: tiles cover `z` exactly."""
    i = z.index[0]
    xs, ys = x.partition(B, exact=EXACT), y.partition(B, exact=EXACT)
    z.partition(B, exact=EXACT).store(xs[i] + ys[i], 0)


@tw.kernel(deny_checks=True)
def add_rows(z: Mut[T, Cut[M, BM], Cut[N, BN]], x: Ref[T, M, N], y: Ref[T, M, N]) -> None:
    """`z = x + y` of strided rows."""
    _store_of_two(z, x, y, z.index, _sum)


@tw.kernel(deny_checks=True)
def add_strided(
    z: Mut[T, Cut[K, Literal[1]], Cut[L, Literal[1]], Cut[M, BM], Cut[N, BN]],
    x: Ref[T, K, L, M, N],
    y: Ref[T, K, L, M, N],
) -> None:
    """`add_rows` of rows with three axes, which have a stride each."""
    k, h, i, j = z.index
    _store_of_two(z[k, h], x[k, h], y[k, h], (i, j), _sum)


@tw.kernel(deny_checks=True)
def silu_mul_elements(
    z: Mut[T, Cut[N, B]], gate: Ref[T, N], up: Ref[T, N], *, EXACT: Const[bool] = False
) -> None:
    """`z = gate * sigmoid(gate) * up` of contiguous tensors. EXACT: tiles cover `z` exactly."""
    i = z.index[0]
    gates, ups = gate.partition(B, exact=EXACT), up.partition(B, exact=EXACT)
    z.partition(B, exact=EXACT).store(_silu_mul(gates[i], ups[i]), 0)


@tw.kernel(deny_checks=True)
def silu_mul_rows(z: Mut[T, Cut[M, BM], Cut[N, BN]], gate: Ref[T, M, N], up: Ref[T, M, N]) -> None:
    """`z = gate * sigmoid(gate) * up` of strided rows."""
    _store_of_two(z, gate, up, z.index, _silu_mul)


@tw.kernel(deny_checks=True)
def silu_mul_strided(
    z: Mut[T, Cut[K, Literal[1]], Cut[L, Literal[1]], Cut[M, BM], Cut[N, BN]],
    gate: Ref[T, K, L, M, N],
    up: Ref[T, K, L, M, N],
) -> None:
    """`silu_mul_rows` of rows with three axes, which have a stride each."""
    k, h, i, j = z.index
    _store_of_two(z[k, h], gate[k, h], up[k, h], (i, j), _silu_mul)


@tw.kernel(deny_checks=True)
def gelu_elements(
    z: Mut[T, Cut[N, B]], x: Ref[T, N], *, TANH: Const[bool] = False, EXACT: Const[bool] = False
) -> None:
    """`z = x * P(X < x)` for a normally distributed X, of contiguous tensors.

    TANH: the usual tanh approximation. EXACT: tiles cover `z` exactly.
    """
    xs = x.partition(B, exact=EXACT)
    z.partition(B, exact=EXACT).store(_gelu(xs[z.index[0]], TANH), 0)


@tw.kernel(deny_checks=True)
def gelu_rows(
    z: Mut[T, Cut[M, BM], Cut[N, BN]], x: Ref[T, M, N], *, TANH: Const[bool] = False
) -> None:
    """GELU of strided rows."""
    _store_gelu(z, x, z.index, TANH)


@tw.kernel(deny_checks=True)
def gelu_strided(
    z: Mut[T, Cut[K, Literal[1]], Cut[L, Literal[1]], Cut[M, BM], Cut[N, BN]],
    x: Ref[T, K, L, M, N],
    *,
    TANH: Const[bool] = False,
) -> None:
    """`gelu_rows` of rows with three axes, which have a stride each."""
    k, h, i, j = z.index
    _store_gelu(z[k, h], x[k, h], (i, j), TANH)


def _dropped(x: Any, number: Any, share: Any, scale: Any) -> Any:
    return tw.where(number >= share, x.astype(f32) * scale, 0.0).astype(x.dtype)


@tw.kernel(deny_checks=True)
def dropout_elements(
    z: Mut[T, Cut[N, B]], x: Ref[T, N], share: f32, scale: f32, seed: u64, first: u64,
    *, EXACT: Const[bool] = False,
) -> None:  # fmt: skip
    """`z = x * scale`, or 0 where the random number of the element is below `share`.

    A block has GROUP elements; `first` is the position of the first random numbers. EXACT: groups
    cover `z` exactly.
    """
    tw.static_assert(B == GROUP)
    i = z.index[0]
    parts, xs = z.partition(LANES, exact=EXACT), x.partition(LANES, exact=EXACT)
    places = first + u64(i) * LANES + tw.arange(LANES).astype(u64)
    numbers = tw.rand4x(places, f32, seed=seed)
    given: tuple[Any, ...] = ()
    for k in tw.static_range(WORDS):
        given = (*given, xs[xs.clip(i * WORDS + k, 0)])
    for k in tw.static_range(WORDS):
        if EXACT or k < parts.num_tiles(0):
            parts.store(_dropped(given[k], numbers[k], share, scale), k)


@tw.kernel(deny_checks=True)
def dropout_groups(
    z: Mut[T, Cut[N, B]], x: Ref[T, N], share: f32, scale: f32, seed: u64, first: u64,
    *, EXACT: Const[bool] = False,
) -> None:  # fmt: skip
    """Dropout of several groups in a block, whose random numbers are made at once."""
    tw.static_assert(B % GROUP == 0)
    i = z.index[0]
    places = first + u64(i) * (B // WORDS) + tw.arange(B // WORDS).astype(u64)
    a, b, c, d = tw.rand4x(places, f32, seed=seed)
    number = tw.cat((_beside(a, b), _beside(c, d)), axis=1).reshape(B)
    xs, whole = x.partition(B, exact=EXACT), z.partition(B, exact=EXACT)
    whole.store(_dropped(xs[i], number, share, scale), 0)


def _beside(one: Any, two: Any) -> Any:
    """The random numbers of two neighbouring words of each group, side by side."""
    groups = one.shape[0] // LANES
    return tw.cat((one.reshape(groups, 1, LANES), two.reshape(groups, 1, LANES)), axis=1)


@tw.kernel(deny_checks=True)
def dropout_rows(
    z: Mut[T, Cut[M, Literal[1]], Cut[N, BN]],
    x: Ref[T, M, N],
    share: f32,
    scale: f32,
    seed: u64,
    first: u64,
) -> None:
    """Dropout of strided rows, or of elements that begin anywhere in a group."""
    i, j = z.index
    n = first + u64(i) * u64(N) + u64(j) * u64(BN) + tw.arange(BN).astype(u64)
    a, b, c, d = tw.rand4x(n // GROUP * LANES + n % LANES, f32, seed=seed)
    word = n // LANES % WORDS
    number = tw.where(word < 2, tw.where(word == 0, a, b), tw.where(word == 2, c, d))
    z.store(_dropped(x.load_like(z), number.reshape(1, BN), share, scale))


# --- functions of tensors -------------------------------------------------------------------------


@tw.function
def add(x: tw.Tensor, y: tw.Tensor, *, out: tw.Tensor | None = None) -> tw.DeviceOp[tw.Tensor]:
    """`x + y` of two tensors with one shape and dtype."""
    kernels = (add_elements, add_rows, add_strided)
    return _pointwise("add", kernels, {"x": x, "y": y}, out, (*FLOATS, *INTEGERS))


@tw.function
def silu_mul(
    gate: tw.Tensor, up: tw.Tensor, *, out: tw.Tensor | None = None
) -> tw.DeviceOp[tw.Tensor]:
    """`gate * sigmoid(gate) * up`, the gate of a feed-forward layer; both have one shape."""
    kernels = (silu_mul_elements, silu_mul_rows, silu_mul_strided)
    return _pointwise("silu_mul", kernels, {"gate": gate, "up": up}, out, FLOATS)


@tw.function
def gelu(
    x: tw.Tensor, *, approximate: Literal["none", "tanh"] = "none", out: tw.Tensor | None = None
) -> tw.DeviceOp[tw.Tensor]:
    """GELU: `x * P(X < x)` of every element, for a normally distributed X.

    With `approximate="tanh"`, `x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x³)))`.
    """
    if approximate not in ("none", "tanh"):
        raise tw.LaunchError(f"`approximate` of gelu is 'none' or 'tanh', not {shown(approximate)}")
    kernels, is_tanh = (gelu_elements, gelu_rows, gelu_strided), approximate == "tanh"
    return _pointwise("gelu", kernels, {"x": x}, out, FLOATS[:3], TANH=is_tanh)


@tw.function
def dropout(
    x: tw.Tensor,
    share: float,
    *,
    seed: SupportsIndex,
    offset: SupportsIndex = 0,
    out: tw.Tensor | None = None,
) -> tw.DeviceOp[tw.Tensor]:
    """Drop every element with probability `share`; the others are divided by `1 - share`.

    Element `n` in row-major order is dropped where its random number is below `share`. The number
    depends on `seed` and `p = offset + n` alone: it is number `p // 1024 % 4` of the four that
    `tw.rand4x` has at `p // 4096 * 1024 + p % 1024`. The gradient is therefore the same function,
    applied to the gradient of the result: `dropout(dz, share, seed=seed, offset=offset)`.
    Contiguous tensors, and offsets that are multiples of 4096, are faster.
    """
    share = real_number("dropout", "share", share)
    if not 0 <= share < 1:
        raise tw.LaunchError(f"`share` of dropout is a probability below 1, not {share}")
    key = whole_number("dropout", "seed", seed) & _MASK
    first = whole_number("dropout", "offset", offset) & _MASK
    check_tensor("dropout", "x", x, FLOATS[:3])
    z = output("dropout", out, x.shape, x.dtype, x)
    if not z.size:
        return tw.value(z, device=z.device)
    numbers = (share, 1 / (1 - share), key)
    lines = as_lines(z, x)
    if lines is not None and first % GROUP == 0 and first + z.size <= _MASK:
        config = line_config("dropout", lines[0])
        large = on_cpu(z)
        size = max(config["PART"], GROUP) if large else GROUP
        kernel = config.applied_to(dropout_groups if large else dropout_elements)
        pieces, exact = lines[0].partition(size), z.size % size == 0
        return giving(kernel(pieces, lines[1], *numbers, first // WORDS, EXACT=exact), z)
    if not has_rows(x):
        return densely(x, lambda copy: dropout(copy, share, seed=seed, offset=offset, out=z))
    result, rows = lines_of("dropout", out=z, x=x)
    config = element_config("dropout", rows)
    pieces, kernel = result.partition(1, config["PART"]), config.applied_to(dropout_rows)
    return giving(kernel(pieces, rows, *numbers, first), z)


def _with_copy(copy: tw.Tensor, *how: Any) -> tw.DeviceOp[tw.Tensor]:
    """`_pointwise` with a contiguous copy in place of one input."""
    name, kernels, inputs, place, z, dtypes, constants = how
    return _pointwise(name, kernels, inputs | {place: copy}, z, dtypes, **constants)


def _pointwise(
    name: str,
    kernels: tuple[tw.Kernel, tw.Kernel, tw.Kernel],
    inputs: dict[str, tw.Tensor],
    out: tw.Tensor | None,
    dtypes: tuple[type[tw.DType], ...],
    **constants: Any,
) -> tw.DeviceOp[tw.Tensor]:
    """Apply a kernel to tensors of one shape and dtype: as lines, or as rows with any strides."""
    (first_name, first), *others = inputs.items()
    check_tensor(name, first_name, first, dtypes)
    for other_name, other in others:
        check_tensor(name, other_name, other, (first.dtype,))
        check_extents(name, other_name, other, first.shape)
    check_one_device(name, **inputs)
    z = output(name, out, first.shape, first.dtype, first)
    if not z.size:
        return tw.value(z, device=z.device)
    lines = as_lines(z, *inputs.values())
    if lines is not None:
        config, kernel = line_config(name, lines[0]), kernels[0]
        pieces, rows = lines[0].partition(config["PART"]), lines
        constants["EXACT"] = z.size % config["PART"] == 0
    else:
        try:
            rows = elements_together(name, out=z, **inputs)
        except tw.LaunchError:
            place = next((place for place, one in inputs.items() if not one.is_contiguous), None)
            if place is None:  # `out` is at fault
                raise
            how = (name, kernels, inputs, place, z, dtypes, constants)
            return densely(inputs[place], lambda copy: _with_copy(copy, *how))
        config, units = element_config(name, *rows), (1,) * (rows[0].ndim - 2)
        kernel = kernels[2 if units else 1]
        pieces = rows[0].partition(*units, config["BM"], config["PART"])
    return giving(config.applied_to(kernel)(pieces, *rows[1:], **constants), z)
