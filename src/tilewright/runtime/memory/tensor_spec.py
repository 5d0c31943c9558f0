"""Tensor specs: the properties that kernels are compiled for and launches are checked by.

Most handles are like earlier ones. Equal handles share one spec object, so plans are found by its
identity, without comparing its fields. The address is not part of a spec, except for the alignment
that kernels rely on.
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

_KEPT = 4096  # size of the LRU; a miss makes a new spec, and its launches are planned again


@dataclass(frozen=True, slots=True, eq=False)
class TensorSpec:
    """Compared by identity: after an eviction two equal specs may exist, at the cost of a plan."""

    dtype: type[DType]
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    place: int  # address of the first byte, modulo the alignment that kernels are compiled for
    device: Device
    is_owned: bool  # its bytes come from our pools
    is_disjoint: bool  # no two of its elements share bytes
    # The last tiling of a handle with this spec.
    tiling: Tiling | None = field(default=None, init=False)


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
