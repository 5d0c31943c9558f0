"""One device for all tensors, and one value for each dim wherever the signature names it."""

from __future__ import annotations

from tilewright.frontend.specialization import MAX_WHOLE_EXTENT
from tilewright.jit.binding import Binding, refused

__all__ = ["bind_static_dims", "check_devices", "check_extents"]


def check_devices(binding: Binding) -> None:
    """All tensors of a launch live in one place."""
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
    """A dim of an output is the extent of its tile, the same wherever it stands."""
    for param in binding.signature.cut_outputs:
        tile = binding.tiles[param.name]
        for axis, (dim, extent) in enumerate(zip(param.dims, tile, strict=True)):
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


def check_extents(binding: Binding) -> None:
    """A dim of an input is its extent: fixed, static, or one value for every axis that names it."""
    homes = binding.signature.homes
    for param, axis, dim in binding.signature.whole_axes():
        extent = binding.tensors[param.name].shape[axis]
        if extent > MAX_WHOLE_EXTENT:
            raise refused(
                binding, param.name,
                f"has extent {extent} along axis {axis}, and a tile at its end would be out of "
                f"reach of 32-bit indices: {MAX_WHOLE_EXTENT} are allowed, so split the axis",
            )  # fmt: skip
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
