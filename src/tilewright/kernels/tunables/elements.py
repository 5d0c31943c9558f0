"""Element-wise kernels: sums, gates, activations, and transposes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tilewright as tw
from tilewright import f16, f32
from tilewright.kernels.cutting import line_config, square_config
from tilewright.kernels.elements.pointwise import (
    add,
    add_elements,
    gelu,
    gelu_elements,
    silu_mul,
    silu_mul_elements,
)
from tilewright.kernels.elements.transposes import transpose, transpose_tiles
from tilewright.kernels.reference import memory_bound as reference
from tilewright.kernels.tunables.beginnings import TARGET, Rule, dtype_of, rule_by
from tilewright.kernels.tunables.signed_sums import Array, checked_trial, copied, spread
from tilewright.tune import Key, Space, Trial, Tunable, key_of

__all__ = ["ADD", "GELU", "HINTS", "SILU_MUL", "TRANSPOSE", "line_rule", "part_space"]

SIZES = (1 << 22, 8192 * 12288, 1 << 28)
SQUARES = (2048, 8192)
# Hints of all memory-bound kernels: warps, blocks, and TMA or not.
HINTS: dict[str, tuple[object, ...]] = {
    "num_worker_warps": (4, 8),
    "occupancy": (None, 4, 8, 16),
    "allow_tma": (None, False),
}

# Two inputs and the output.
Launch = Callable[[tw.Tensor, tw.Tensor, tw.Tensor], tw.DeviceOp[Any]]
Reference = Callable[[Array, Array], Array]


def line_rule(name: str) -> Rule:
    """The configuration of a function on contiguous tensors."""
    return rule_by(name, line_config, lambda key: key.shape[1:])


def line_space(rule: Rule) -> Callable[[Key], Space]:
    """Tiles of contiguous tensors."""

    def space(key: Key) -> Space:
        axes = {"PART": (512, 1024, 2048, 4096), **HINTS}
        return Space.around(rule(key, TARGET), **axes)

    return space


def part_space(rule: Rule) -> Callable[[Key], Space]:
    """Tiles of one row, for strided rows."""

    def space(key: Key) -> Space:
        axes = {"PART": (1024, 2048, 4096, 8192), **HINTS}
        return Space.around(rule(key, TARGET), **axes)

    return space


def _tile_space(key: Key) -> Space:
    axes = {"BM": (32, 64, 128), "BN": (32, 64, 128), **HINTS}
    return Space.around(_TRANSPOSE(key, TARGET), **axes)


def _line_trial(launch: Launch, exact: Reference) -> Callable[[Key, tw.Device], Trial]:
    def trial(key: Key, device: tw.Device) -> Trial:
        dtype = dtype_of(key)
        x, y = (tw.randn(key.shape, dtype, seed=seed, device=device) for seed in (1, 2))
        out = tw.empty(key.shape, dtype, device=device)

        def sample() -> tuple[Array, Array]:
            parts = [(slice(None), some) for some in spread(key.shape[1], 5, 512)]
            expected = [exact(copied(x[part]), copied(y[part])) for part in parts]
            return np.stack([copied(out[part]) for part in parts]), np.stack(expected)

        return checked_trial(lambda: launch(x, y, out), out, sample)

    return trial


def _transpose_trial(key: Key, device: tw.Device) -> Trial:
    _, rows, columns = key.shape
    dtype = dtype_of(key)
    x = tw.randn((rows, columns), dtype, seed=1, device=device)
    out = tw.empty((columns, rows), dtype, device=device)

    def sample() -> tuple[Array, Array]:
        some = spread(rows, 5, 8)
        found = [copied(out[:, part]) for part in some]
        return np.stack(found), np.stack([copied(x[part]).T for part in some])

    return checked_trial(lambda: transpose(x, out=out), out, sample)


_ADD, _SILU_MUL, _GELU = map(line_rule, ("add", "silu_mul", "gelu"))
_TRANSPOSE = rule_by("transpose", square_config)
_LINES = tuple(key_of(dtype, (1, size)) for dtype in (f16, f32) for size in SIZES)

# Two tensors, element by element.
ADD = Tunable(
    name="add",
    kernels=(add_elements,),
    rule=_ADD,
    space=line_space(_ADD),
    keys=_LINES,
    trial=_line_trial(lambda x, y, out: add(x, y, out=out), reference.add),
    flush=True,
)
# The gate of a feed-forward layer.
SILU_MUL = Tunable(
    name="silu_mul",
    kernels=(silu_mul_elements,),
    rule=_SILU_MUL,
    space=line_space(_SILU_MUL),
    keys=_LINES[: len(SIZES)],
    trial=_line_trial(lambda x, y, out: silu_mul(x, y, out=out), reference.silu_mul),
    flush=True,
)
# Exact, without the tanh approximation.
GELU = Tunable(
    name="gelu",
    kernels=(gelu_elements,),
    rule=_GELU,
    space=line_space(_GELU),
    keys=_LINES[: len(SIZES)],
    trial=_line_trial(lambda x, _, out: gelu(x, out=out), lambda x, _: reference.gelu(x)),
    flush=True,
)
# Squares, read along one axis and written along the other.
TRANSPOSE = Tunable(
    name="transpose",
    kernels=(transpose_tiles,),
    rule=_TRANSPOSE,
    space=_tile_space,
    keys=tuple(key_of(dtype, (1, size, size)) for dtype in (f16, f32) for size in SQUARES),
    trial=_transpose_trial,
    flush=True,
)
