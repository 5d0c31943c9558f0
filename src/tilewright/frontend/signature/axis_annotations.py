"""The axes of a tensor's annotation: a dim, a number, `All`, and `Cut` with two of them.

An extent and a tile have the same syntax; the kind of the tensor decides which one it is.
"""

from __future__ import annotations

from typing import Any, Literal, get_args, get_origin

from tilewright.errors import CompileError
from tilewright.frontend.signature.shown_annotations import shown_annotation
from tilewright.lang.dimensions import All, Cut, Dim

__all__ = ["DimSpec", "ExtentSpec", "read_cuts", "read_dim", "refuse_cut"]

DimSpec = int | str | None  # a fixed extent, the name of a dim, or None: the whole axis
ExtentSpec = int | str | None  # the same of a whole tensor; None: not in the signature


def read_cuts(
    kernel: str, name: str, axes: tuple[Any, ...]
) -> tuple[tuple[ExtentSpec, ...], tuple[Any, ...]]:
    """The declared extent of each axis of an output, and its tile as annotated."""
    cuts: list[ExtentSpec] = []
    tiles: list[Any] = []
    for axis in axes:
        if axis is not Cut and get_origin(axis) is not Cut:
            cuts.append(None)
            tiles.append(axis)
            continue
        args = get_args(axis)
        if len(args) != 2 or any(arg is Cut or get_origin(arg) is Cut for arg in args):
            raise CompileError(
                f"`{name}` of kernel `{kernel}`: Cut says the extent of an axis and the tile that "
                f"it is cut into, `Cut[M, BM]`; got {shown_annotation(axis)}"
            )
        extent = read_dim(kernel, name, args[0])
        if extent is None:
            raise CompileError(
                f"`{name}` of kernel `{kernel}`: {shown_annotation(axis)} does not say the extent "
                f"of the axis: name it with a dim, `Cut[N, {shown_annotation(args[1])}]`"
            )
        cuts.append(extent)
        tiles.append(args[1])
    return tuple(cuts), tuple(tiles)


def refuse_cut(kernel: str, name: str, origin: Any, axes: tuple[Any, ...]) -> None:
    """Refuse a `Cut` in the annotation of a tensor that a block sees whole."""
    for axis in axes:
        if axis is Cut or get_origin(axis) is Cut:
            extent = shown_annotation(get_args(axis)[0]) if get_args(axis) else "N"
            raise CompileError(
                f"`{name}` of kernel `{kernel}` is a {origin.__name__}, which every block sees "
                f"whole: name the extent alone, `{extent}`; Cut is for Mut and Mapped"
            )


def read_dim(kernel: str, name: str, dim: Any) -> DimSpec:
    """The spec of one axis of an annotation."""
    if get_origin(dim) is Literal and len(get_args(dim)) == 1:
        dim = get_args(dim)[0]
    if isinstance(dim, int) and not isinstance(dim, bool):
        return dim
    if dim is All:
        return None
    if isinstance(dim, type) and issubclass(dim, Dim):
        return dim.__name__
    raise CompileError(
        f"`{name}` of kernel `{kernel}`: a dim is a class derived from tw.Dim, `Literal[n]` or a "
        f"number; got {shown_annotation(dim)}"
    )
