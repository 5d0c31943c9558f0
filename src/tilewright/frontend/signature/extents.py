"""Extents of tensors by the names that the signature gives them.

An extent that is fixed, by a number or by a constant, is a number here. Any other is passed: an
input's as that of the axis which is the home of its name, and an output's as its own, which
launch values know to be equal (`Signature.home_of`).
"""

from __future__ import annotations

from tilewright.frontend.lowering import Lowering
from tilewright.frontend.signature.signature import TensorParam, WholeParam
from tilewright.ir.launch_terms import Extent, TileCount
from tilewright.ir.op import Value

__all__ = ["extent_term", "fixed_extent", "tiles_along"]


def fixed_extent(lo: Lowering, param: TensorParam, axis: int) -> int | None:
    """An extent that is known now; none in a type is zero, so that one is passed like others."""
    dim = param.extents[axis]
    if dim is None or (isinstance(dim, str) and dim not in lo.signature.static_dims):
        return None
    extent = dim if isinstance(dim, int) else int(lo.specialization.constant(dim))
    return extent if extent > 0 else None


def extent_term(lo: Lowering, name: str, axis: int) -> Extent:
    """What an extent is passed as."""
    param = lo.signature.by_name.get(name)  # none for offsets that travel with an output
    if isinstance(param, WholeParam):
        dim = param.dims[axis]
        if isinstance(dim, str):
            return Extent(*lo.signature.homes.get(dim, (name, axis)))
    return Extent(name, axis)


def tiles_along(lo: Lowering, name: str, axis: int, tile: int) -> Value:
    """How many tiles of this extent an axis has."""
    param = lo.signature.by_name.get(name)
    fixed = fixed_extent(lo, param, axis) if isinstance(param, TensorParam) else None
    if fixed is not None:
        return lo.builder.index(-(-fixed // tile))
    extent = extent_term(lo, name, axis)
    return lo.launch_value(TileCount(extent.param, extent.axis, tile))
