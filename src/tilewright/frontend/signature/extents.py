"""Extents of a tensor, by the names in the signature.

An extent fixed by a number or by a constant is a number here. Any other is a launch term: an
input's is that of the home axis of its dim, an output's its own, which launch values treat as equal
(`Signature.home_of`).
"""

from __future__ import annotations

from tilewright.frontend.lowering import Lowering
from tilewright.frontend.signature.signature import TensorParam, WholeParam
from tilewright.ir.launch_terms import Extent, TileCount
from tilewright.ir.op import Value

__all__ = ["extent_term", "fixed_extent", "tiles_along"]


def fixed_extent(lo: Lowering, param: TensorParam, axis: int) -> int | None:
    """The compile-time extent; None for a dynamic one, and for zero, which no type has."""
    dim = param.extents[axis]
    if dim is None or (isinstance(dim, str) and dim not in lo.signature.static_dims):
        return None
    extent = dim if isinstance(dim, int) else int(lo.specialization.constant(dim))
    return extent if extent > 0 else None


def extent_term(lo: Lowering, name: str, axis: int) -> Extent:
    """The launch term of an extent."""
    param = lo.signature.by_name.get(name)  # None for the hidden offsets of an output
    if isinstance(param, WholeParam):
        dim = param.dims[axis]
        if isinstance(dim, str):
            return Extent(*lo.signature.homes.get(dim, (name, axis)))
    return Extent(name, axis)


def tiles_along(lo: Lowering, name: str, axis: int, tile: int) -> Value:
    """Number of tiles of this extent along an axis."""
    param = lo.signature.by_name.get(name)
    fixed = fixed_extent(lo, param, axis) if isinstance(param, TensorParam) else None
    if fixed is not None:
        return lo.builder.index(-(-fixed // tile))
    extent = extent_term(lo, name, axis)
    return lo.launch_value(TileCount(extent.param, extent.axis, tile))
