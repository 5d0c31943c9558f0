"""Binding of a call: its arguments are matched to the kernel's signature and checked.

All refusals that need no compiler are here, cheapest first: kinds, ranks, dtypes, devices, dims,
partitions, the grid, overlaps. Binding allocates and borrows nothing. The signature is valid;
launch checks, which the compiler derives, are evaluated later by `launch`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tilewright.frontend.signature.signature import Signature, TensorParam
from tilewright.frontend.signature.specialization import MAX_WHOLE_EXTENT
from tilewright.ir.launch_terms import Extent, LaunchTerm
from tilewright.jit.bind.binding import Binding, bind_arguments, inferable
from tilewright.jit.bind.grid import choose_grid
from tilewright.lang.hints import KernelHints
from tilewright.runtime.order.access import Access, Mode, check_accesses

__all__ = ["bind_launch", "check_devices", "rules_for_extents"]


def bind_launch(
    signature: Signature,
    call: inspect.BoundArguments,
    grid: tuple[int, ...] | None = None,
    hints: KernelHints | None = None,
) -> Binding:
    """Bind a call's arguments; raises `LaunchError` with the argument's name and the way out."""
    binding = Binding(signature, hints or KernelHints())
    params: tuple[Any, ...] = (
        *signature.tensors, *signature.pointers, *signature.numbers, *signature.constants
    )  # fmt: skip
    bind_arguments(binding, params, call)
    check_devices(binding)
    _bind_static_dims(binding)
    for name, (param, axis) in inferable(signature, call.signature).items():
        if name not in binding.constants:
            binding.constants[name] = binding.tensors[param].shape[axis]
    _check_extents(binding)
    choose_grid(binding, grid)
    _check_overlap(binding)
    return binding


def _check_overlap(binding: Binding) -> None:
    """Refuse outputs that share memory with other arguments, before the compiler runs."""
    written = binding.written
    accesses = (
        Access(tensor, Mode.UPDATE if name in written else Mode.READ, name)
        for name, tensor in binding.tensors.items()
    )
    check_accesses(tuple(accesses), binding.signature.kernel, binding.device)


def check_devices(binding: Binding) -> None:
    """Refuse tensors on different devices."""
    device = binding.device
    for name, tensor in binding.tensors.items():
        if tensor.device is not device:
            first = next(iter(binding.tensors))
            raise binding.refused(
                name,
                f"lives on {tensor.device.name}, but `{first}` on {device.name}: all tensors of a "
                "launch must be on one device",
            )


def _bind_static_dims(binding: Binding) -> None:
    """Bind the dims of outputs to the extents of their tiles; each dim has one value in a call."""
    for param in binding.signature.cut_outputs:
        tile = binding.partitions[param.name].tile
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
                raise binding.refused(
                    param.name,
                    f"is cut into tiles of {extent} along axis {axis}, but {why}",
                )


def _check_whole_axis(binding: Binding, param: TensorParam, axis: int, extent: int | None) -> None:
    """Require that an axis is uncut exactly where the annotation has `tw.All`."""
    dim = param.dims[axis]
    if dim is None and extent is not None:
        raise binding.refused(
            param.name,
            f"is cut into tiles of {extent} along axis {axis}, which a block owns whole (tw.All): "
            "pass None there",
        )
    if dim is not None:
        raise binding.refused(
            param.name,
            f"is cut as {binding.partitions[param.name].tile}, but the kernel takes tiles of {dim} "
            f"along axis {axis}: give a number there; a whole axis is tw.All in the annotation",
        )
    _reachable_extent(binding, param, axis)


def _reachable_extent(binding: Binding, param: TensorParam, axis: int) -> int:
    """The extent of an axis that the kernel may cut into tiles of any size; bounded for that."""
    extent = binding.tensors[param.name].shape[axis]
    if extent > MAX_WHOLE_EXTENT:
        raise binding.refused(
            param.name,
            f"has extent {extent} along axis {axis}, and a tile at its end would be out of "
            f"reach of 32-bit indices: {MAX_WHOLE_EXTENT} are allowed, so split the axis",
        )
    return extent


def rules_for_extents(
    signature: Signature, constants: Mapping[str, Any], text_of: Callable[[LaunchTerm], str]
) -> Iterator[str]:
    """The conditions of `_check_extents` and of whole axes as Python expressions."""
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


def _check_extents(binding: Binding) -> None:
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
            raise binding.refused(param.name, f"has extent {extent} along axis {axis}, but {why}")
