"""Argument checks of attention, made before any launch.

Queries, keys and values have the axes (sequence, head, position, channel). Packed tensors and those
without a position axis are brought into that form first (`varlen`, `decode`); shapes in messages
are the caller's own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import tilewright as tw
from tilewright import bf16, f16, f32
from tilewright.kernels.arguments import (
    check_extents,
    check_one_device,
    check_tensor,
    real_number,
    whole_number,
)
from tilewright.kernels.arithmetic import LOG2_E
from tilewright.kernels.cutting import power_of_two

__all__ = [
    "FARTHEST",
    "WIDEST",
    "Heads",
    "check_attention",
    "check_axes",
    "check_lse",
    "scale_of",
    "width_of",
    "window_of",
]

DTYPES = (f16, bf16, f32)
WIDEST = 256  # channels of a head; a tile of them is held in registers
FARTHEST = 1 << 30  # positions; no window and no start of a sequence lies further away


@dataclass(frozen=True)
class Heads:
    """Extents of an attention problem."""

    dtype: type[tw.DType]
    target: str  # the GPU to compile for
    batch: int
    key_heads: int
    group: int  # query heads that share a key head
    queries: int
    length: int
    channels: int

    @property
    def width(self) -> int:
        """The extent of a tile of channels."""
        return width_of(self.channels)


def width_of(channels: int) -> int:
    """The extent of a tile of channels; the tensor cores need 16."""
    return max(16, power_of_two(channels))


def check_axes(
    caller: str, axes: str, dtypes: tuple[type[tw.DType], ...] = DTYPES, /, **tensors: tw.Tensor
) -> None:
    """Refuse tensors that differ in dtype, or that lack one of the axes named in `axes`."""
    for name, tensor in tensors.items():
        check_tensor(caller, name, tensor, dtypes)
        dtypes = (tensor.dtype,)
        if tensor.ndim != len(axes.split()):
            raise tw.LaunchError(
                f"`{name}` of {caller} has the axes ({', '.join(axes.split())}), not shape"
                f" {tensor.shape}"
            )
    check_one_device(caller, **tensors)


def check_attention(caller: str, q: tw.Tensor, k: tw.Tensor, v: tw.Tensor) -> Heads:
    """Check queries (B, H, S, D) with keys and values (B, K, L, D)."""
    check_axes(caller, "sequence head place channel", q=q, k=k, v=v)
    batch, heads, queries, channels = q.shape
    key_heads, length = k.shape[1:3]
    check_extents(caller, "k", k, (batch, key_heads, length, channels))
    check_extents(caller, "v", v, k.shape)
    if not key_heads or heads % key_heads:
        raise tw.LaunchError(
            f"{caller} shares each key head between as many query heads, and {heads} query heads"
            f" cannot share {key_heads}"
        )
    if not 1 <= channels <= WIDEST:
        raise tw.LaunchError(f"a head of {caller} has 1 to {WIDEST} channels, not {channels}")
    group = max(heads // key_heads, 1)  # at least 1, also without heads
    return Heads(q.dtype, q.device.target, batch, key_heads, group, queries, length, channels)


def check_lse(caller: str, lse: tw.Tensor, shape: tuple[int, ...], like: tw.Tensor) -> tw.Tensor:
    """Check the tensor of log-sum-exps, one for each query."""
    check_tensor(caller, "lse", lse, (f32,))
    check_extents(caller, "lse", lse, shape)
    check_one_device(caller, q=like, lse=lse)
    return lse


def scale_of(caller: str, scale: float | None, heads: Heads) -> float:
    """The scale of the scores for powers of two."""
    if scale is None:
        scale = 1 / math.sqrt(heads.channels)
    scale = real_number(caller, "scale", scale)
    if not 0 < scale < math.inf:
        raise tw.LaunchError(
            f"`scale` of {caller} is a positive number, not {scale}: for another sign, negate q"
        )
    return scale * LOG2_E


def window_of(caller: str, window: int | None) -> int:
    """The window as a number of positions."""
    if window is None:
        return FARTHEST
    window = whole_number(caller, "window", window)
    if window < 1:
        raise tw.LaunchError(
            f"`window` of {caller} is a number of places, 1 or more, not {window}: without it"
            " all are seen"
        )
    return min(window, FARTHEST)
