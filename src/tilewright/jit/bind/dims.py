"""Consistency of a binding: all tensors are on one device, and each dim has one value."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tilewright.frontend.signature.signature import Signature, TensorParam
from tilewright.frontend.signature.specialization import MAX_WHOLE_EXTENT
from tilewright.ir.launch_terms import Extent, LaunchTerm
from tilewright.jit.bind.binding import Binding, refused

__all__ = ["bind_static_dims", "check_devices", "check_extents", "rules_for_extents"]


def check_devices(binding: Binding) -> None:
    """Refuse tensors on different devices."""
    device = binding.device
    for name, tensor in binding.tensors.items():
        if tensor.device is not device:
            first = next(iter(binding.tensors))
            raise refused(
                binding, name,
                f"lives on {tensor.device.name}, but `{first}` on {device.name}: all tensors of a "
                "launch must be on one device",
            )  # fmt: skip


def bind_static_dims(binding: Binding) -> None:
    """Bind the dims of outputs to the extents of their tiles; each dim has one value in a call."""
    for param in binding.signature.cut_outputs:
        tile = binding.tiles[param.name]
        for axis, (dim, extent) in enumerate(zip(param.dims, tile, strict=True)):
            if dim is None or extent is None:
                _check_whole_axis(binding, param, axis, extent)
                continue
            if isinstance(dim, int):
                wanted, why = dim, f"the signature fixes it at {dim}"
            else:
                wanted = binding.constants.setdefault(dim, extent)
                why = f"{dim} is {wanted} in this call"
            if wanted != extent:
                raise refused(
                    binding,
                    param.name,
                    f"is cut into tiles of {extent} along axis {axis}, but {why}",
                )


def _check_whole_axis(binding: Binding, param: TensorParam, axis: int, extent: int | None) -> None:
    """Require that an axis is uncut exactly where the annotation has `tw.All`."""
    dim = param.dims[axis]
    if dim is None and extent is not None:
        raise refused(
            binding, param.name,
            f"is cut into tiles of {extent} along axis {axis}, which a block owns whole (tw.All): "
            "pass None there",
        )  # fmt: skip
    if dim is not None:
        raise refused(
            binding, param.name,
            f"is cut as {binding.tiles[param.name]}, but the kernel takes tiles of {dim} along "
            f"axis {axis}: give a number there; a whole axis is tw.All in the annotation",
        )  # fmt: skip
    _reachable_extent(binding, param, axis)


def _reachable_extent(binding: Binding, param: TensorParam, axis: int) -> int:
    """The extent of an axis that the kernel may cut into tiles of any size; bounded for that."""
    extent = binding.tensors[param.name].shape[axis]
    if extent > MAX_WHOLE_EXTENT:
        raise refused(
            binding, param.name,
            f"has extent {extent} along axis {axis}, and a tile at its end would be out of "
            f"reach of 32-bit indices: {MAX_WHOLE_EXTENT} are allowed, so split the axis",
        )  # fmt: skip
    return extent


def rules_for_extents(
    signature: Signature, constants: Mapping[str, Any], text_of: Callable[[LaunchTerm], str]
) -> Iterator[str]:
    """The conditions of `check_extents` and of whole axes as Python expressions."""
    for output in signature.cut_outputs:
        for axis, dim in enumerate(output.dims):
            if dim is None:
                yield f"{text_of(Extent(output.name, axis))} <= {MAX_WHOLE_EXTENT}"
    for param, axis, dim in signature.named_axes():
        extent = text_of(Extent(param.name, axis))
        if isinstance(dim, int):
            wanted = str(dim)
        elif dim in constants:
            wanted = str(constants[dim])
        else:
            wanted = text_of(Extent(*signature.homes[dim]))
        yield f"{extent} == {wanted} <= {MAX_WHOLE_EXTENT}"


def check_extents(binding: Binding) -> None:
    """Check the extent of every axis with a dim: a literal, or one value for each name."""
    homes = binding.signature.homes
    for param, axis, dim in binding.signature.named_axes():
        extent = _reachable_extent(binding, param, axis)
        if isinstance(dim, int):
            wanted, why = dim, f"the signature fixes it at {dim}"
        elif dim in binding.constants:
            wanted = binding.constants[dim]
            why = f"{dim} is {wanted} in this call"
        else:
            home, home_axis = homes[dim]
            wanted = binding.tensors[home].shape[home_axis]
            why = f"{dim} is {wanted}, the extent of `{home}` along axis {home_axis}"
        if extent != wanted:
            raise refused(binding, param.name, f"has extent {extent} along axis {axis}, but {why}")
