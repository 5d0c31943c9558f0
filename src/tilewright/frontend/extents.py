"""Extents of tensors by the names that the signature gives them: one term for all that are equal.

An extent that is fixed, by a number or by a constant, is a number here; any other is that of the
axis which is the home of its name, so that what is known of one axis is known of all that share it.
"""

from __future__ import annotations

from tilewright.frontend.lowering import Lowering
from tilewright.frontend.signature import TensorParam
from tilewright.ir.launch_terms import Extent, TileCount
from tilewright.ir.op import Value

__all__ = ["canonical_extent", "fixed_extent", "tiles_along"]


def fixed_extent(lo: Lowering, param: TensorParam, axis: int) -> int | None:
    """An extent that is known now; none in a type is zero, so that one is passed like others."""
    dim = param.extents[axis]
    if dim is None or (isinstance(dim, str) and dim not in lo.signature.static_dims):
        return None
    extent = dim if isinstance(dim, int) else int(lo.specialization.constant(dim))
    return extent if extent > 0 else None


def canonical_extent(lo: Lowering, name: str, axis: int) -> Extent:
    """The one term for an extent that several axes share by name."""
    param = lo.signature.by_name.get(name)  # none for offsets that travel with an output
    if isinstance(param, TensorParam):
        dim = param.extents[axis]
        if isinstance(dim, str):
            return Extent(*lo.signature.homes.get(dim, (name, axis)))
    return Extent(name, axis)


def tiles_along(lo: Lowering, name: str, axis: int, tile: int) -> Value:
    """How many tiles of this extent an axis has."""
    param = lo.signature.by_name.get(name)
    fixed = fixed_extent(lo, param, axis) if isinstance(param, TensorParam) else None
    if fixed is not None:
        return lo.builder.index(-(-fixed // tile))
    home = canonical_extent(lo, name, axis)
    return lo.launch_value(TileCount(home.param, home.axis, tile))
