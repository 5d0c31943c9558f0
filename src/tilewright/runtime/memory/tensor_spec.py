"""What a tensor is like: all that kernels are compiled and launches are checked by.

Handles come and go, and most are like others before them. So what one is like is an object of its
own, the same for all that are alike, and launches made before are found by it without looking at
its parts. Where a tensor lies is no part of it, but for what kernels may rely on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, cast

from tilewright.dtypes import DType
from tilewright.runtime.devices.device import Device
from tilewright.runtime.memory.regions import strides_are_disjoint

if TYPE_CHECKING:
    from tilewright.runtime.memory.tilings import Tiling

__all__ = ["TensorSpec", "find_spec"]

_KEPT = 4096  # what is like nothing that was seen lately is found by nobody, and looked at again


@dataclass(frozen=True, slots=True, eq=False)
class TensorSpec:
    """Compared by identity: two that are equal may be two after a long time, which is harmless."""

    dtype: type[DType]
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    place: int  # of the first byte, modulo the alignment that kernels are compiled for
    device: Device
    is_owned: bool  # its bytes are ours
    is_disjoint: bool  # no two of its elements share bytes
    tiling: Tiling | None = field(default=None, init=False)  # how one of them was cut last


def _make(
    dtype: type[DType],
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    place: int,
    device: Device,
    is_owned: bool,
) -> TensorSpec:
    is_disjoint = strides_are_disjoint(shape, strides)
    return TensorSpec(dtype, shape, strides, place, device, is_owned, is_disjoint)


# The spec of a handle, by the fields that are not computed.
find_spec = cast("Callable[..., TensorSpec]", lru_cache(maxsize=_KEPT)(_make))
