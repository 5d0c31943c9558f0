"""Binding of a call: its arguments are matched to the kernel's signature and checked.

All refusals that need no compiler are here, cheapest first: kinds, ranks, dtypes, devices, dims,
partitions, the grid, overlaps. Binding allocates and borrows nothing. The signature is valid;
launch checks, which the compiler derives, are evaluated later by `launch`.

The grid has the number of blocks along each axis. Outputs with one piece for each block (`Mut`,
unless cut with `prefix=True`) define the grid and must agree. Without such an output the grid comes
from the call, or from the walked outputs. The specialisation has the properties of the tensors that
the compiler relies on.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import zip_longest
from math import prod
from typing import Any

from tilewright.errors import LaunchError
from tilewright.frontend.signature.signature import Signature, TensorParam
from tilewright.frontend.signature.specialization import (
    MAX_EXTENT,
    MAX_WHOLE_EXTENT,
    PointerSpec,
    Specialization,
    TensorSpecialization,
    divisor,
    extent_divisors,
    offsets_name,
)
from tilewright.given import int_or, shown
from tilewright.ir.function import EntryHints
from tilewright.ir.launch_terms import Extent, LaunchTerm
from tilewright.jit.bind.binding import Binding, bind_arguments, inferable
from tilewright.lang.hints import KernelHints
from tilewright.runtime.devices.backend import ALIGNMENT
from tilewright.runtime.memory.partition import HostPartition, PersistentPartition
from tilewright.runtime.memory.tensor import Tensor
from tilewright.runtime.order.access import Access, Mode, check_accesses

__all__ = [
    "MAX_BLOCKS",
    "bind_launch",
    "check_devices",
    "check_grid",
    "choose_grid",
    "choose_grid_again",
    "common_grid",
    "rules_for_extents",
    "specialize",
]


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


# --- the grid -------------------------------------------------------------------------------------


# The device launches a one-dimensional grid, whose block numbers have 32 bits.
MAX_BLOCKS = 2**31 - 1

Extents = tuple[int, ...]


def check_grid(kernel: str, extents: tuple[Any, ...]) -> Extents:
    """Check the extents of `k.grid(…)`: at least one extent, none negative."""
    if not extents:
        raise LaunchError(f"{kernel}.grid() needs the number of blocks along each axis")
    checked = tuple(int_or(extent, -1) for extent in extents)
    if min(checked) < 0:
        given = ", ".join(map(shown, extents))
        raise LaunchError(f"{kernel}.grid({given}): numbers of blocks are integers, not negative")
    return checked


def choose_grid(binding: Binding, given: Extents | None) -> None:
    """Choose the grid and the block numbering; `given` is the grid of the call, if it has one."""
    cut = {param.name: binding.partitions[param.name] for param in binding.signature.mut_outputs}
    exact = {name: part.grid for name, part in cut.items() if not part.is_prefix}
    if exact:
        binding.grid = _common_grid(binding, exact, given)
        order = binding.partitions[next(iter(exact))].order
        binding.descending = tuple(at for at, axis in enumerate(order) if axis < 0)
    elif given is not None:
        binding.grid, binding.is_grid_given = given, True
    else:
        binding.grid = (_walking_blocks(binding),)
    binding.blocks = prod(binding.grid)
    for name, part in cut.items():
        if part.is_prefix:
            _check_prefix(binding, name, part)
    _check_number(binding, exact)
    _check_walks(binding, exact)


def choose_grid_again(binding: Binding, given: Extents | None, hints: EntryHints) -> None:
    """Choose the grid by the hints of the compiled kernel: a walk has all blocks that fit."""
    if binding.walked and hints != binding.compiled_hints:
        binding.compiled_hints = hints
        choose_grid(binding, given)


def _check_number(binding: Binding, exact: Iterable[str]) -> None:
    """Refuse a launch of 2**31 blocks or more, wherever the number comes from."""
    if binding.blocks <= MAX_BLOCKS:
        return
    kernel, blocks = binding.signature.kernel, shown(binding.blocks)
    owner = next(iter(exact), None)
    if owner is None:
        raise LaunchError(
            f"the grid of kernel `{kernel}` has {blocks} blocks, more than a launch can have, "
            f"{MAX_BLOCKS}: let each do more"
        )
    raise LaunchError(
        f"`{owner}` of kernel `{kernel}` has {blocks} pieces, more than a launch can have: "
        "use larger ones"
    )


def common_grid(partitions: Iterable[HostPartition]) -> Extents | None:
    """The grid of a launch all of whose outputs have one piece for each block, and equal grids.

    None in every other case, which `choose_grid` handles.
    """
    found: Extents | None = None
    for cut in partitions:
        tiling = cut.tiling
        if tiling.is_prefix or (found is not None and tiling.grid != found):
            return None
        found = tiling.grid
    return None if found is None or prod(found) > MAX_BLOCKS else found


# --- outputs with one piece for each block --------------------------------------------------------


def _common_grid(binding: Binding, exact: dict[str, Extents], given: Extents | None) -> Extents:
    """The common grid of the outputs with one piece for each block."""
    first, *others = exact
    for name in others:
        if not _are_equal(exact[name], exact[first]):
            raise binding.refused(
                name,
                f"has a grid of {exact[name]} pieces, but `{first}` has {exact[first]}: one block "
                "writes one piece of each, so the grids must be equal",
            )
    if given is not None and not _are_equal(given, exact[first]):
        raise binding.refused(
            first,
            f"has a grid of {exact[first]} pieces, one for each block, but the call gives"
            f" {shown(given)}: leave .grid(…) out, or cut the output with prefix=True",
        )
    return exact[first]


def _are_equal(left: Extents, right: Extents) -> bool:
    """Whether two grids are equal up to trailing axes of extent one."""
    return all(one == other for one, other in zip_longest(left, right, fillvalue=1))


# --- outputs with at least one piece for each block -----------------------------------------------


def _check_prefix(binding: Binding, name: str, part: HostPartition) -> None:
    """Refuse a grid with more blocks than an output with `prefix=True` has pieces."""
    pairs = zip_longest(part.grid, binding.grid, fillvalue=1)
    for axis, (pieces, blocks) in enumerate(pairs):
        if blocks > pieces:
            raise binding.refused(
                name,
                f"has a grid of {part.grid} pieces, but the launch has {shown(binding.grid)}"
                f" blocks: {shown(blocks)} along axis {axis}, each of which needs a piece",
            )


# --- walked outputs -------------------------------------------------------------------------------


def _walking_blocks(binding: Binding) -> int:
    """The number of blocks of a launch all of whose outputs are walked."""
    if not binding.walked:
        name = binding.signature.kernel
        raise LaunchError(
            f"kernel `{name}` has no output with exactly one piece for each block, which would say "
            f"how many run: launch it as `{name}.grid(n)(…)`"
        )
    limit = _block_limit(binding)
    # The same blocks walk all outputs: some blocks have no tile of an output with fewer tiles.
    return max(walked.blocks(limit) for walked in binding.walked.values())


def _block_limit(binding: Binding) -> int:
    """The number of blocks that the call requests, by default as many as are resident at once."""
    given = {name: w.max_blocks for name, w in binding.walked.items() if w.max_blocks is not None}
    hints = binding.compiled_hints or binding.hints.of(binding.device.target)
    limit = binding.device.backend.resident_blocks(hints.occupancy or 1, hints.num_ctas or 1)
    for number, (name, blocks) in enumerate(given.items()):
        if number and blocks != limit:
            first = next(iter(given))
            raise binding.refused(
                name,
                f"is walked by {shown(blocks)} blocks, but `{first}` by {shown(limit)}: one"
                " launch has one number of blocks, so say the same blocks=… or say it once",
            )
        limit = blocks
    return limit


def _check_walks(binding: Binding, exact: Iterable[str]) -> None:
    """Refuse a walk with fewer blocks than the grid, if another argument defines the grid."""
    owner = next((f"`{name}` has" for name in exact), "the launch has")
    for name, walked in binding.walked.items():
        if walked.max_blocks is not None and walked.max_blocks < binding.blocks:
            raise binding.refused(
                name,
                f"is walked by at most {walked.max_blocks} blocks, but {owner} {binding.blocks} "
                f"{'pieces, one for each block' if exact else 'of them'}: leave out blocks=…",
            )
        tiles = prod(walked.grid)
        if tiles + binding.blocks > MAX_BLOCKS:
            text = (
                f"is walked by {binding.blocks} blocks, which with its {tiles} tiles are more than "
                f"can be counted, {MAX_BLOCKS}: launch fewer"
            )
            if tiles > MAX_BLOCKS // 2:
                text = f"has {tiles} tiles, more than can be counted: use larger ones"
            raise binding.refused(name, text)


# --- the specialisation ---------------------------------------------------------------------------


def specialize(binding: Binding) -> Specialization:
    """The specialisation of a call; it has no extent in it."""
    signature, target = binding.signature, binding.device.target
    return Specialization(
        tensors=tuple(_tensor_spec(binding, param) for param in signature.tensors),
        constants=tuple(sorted(binding.constants.items())),
        scalars=tuple(binding.dtype(param.dtype) for param in signature.scalars),
        target=target,
        grid_rank=len(binding.grid) if binding.is_grid_given else None,
        hints=binding.hints.of(target),
        pointers=tuple(
            PointerSpec(pointed.dtype, _address_divisor(pointed))
            for pointed in (binding.tensors[param.name] for param in signature.pointers)
        ),
    )


def _address_divisor(tensor: Tensor) -> int:
    return divisor(tensor.offset * tensor.itemsize or ALIGNMENT)


def _tensor_spec(binding: Binding, param: TensorParam) -> TensorSpecialization:
    spec = _plain_spec(binding.tensors[param.name])
    partition = binding.partitions.get(param.name)
    if partition is None:
        return spec
    offsets = binding.tensors.get(offsets_name(param.name))
    walked = binding.walked.get(param.name)
    return replace(
        spec,
        tile=partition.tile,
        order=partition.order,
        is_prefix=partition.is_prefix,
        segments=None if offsets is None else _plain_spec(offsets),
        group=(1, 1) if walked is None else _group(walked),
    )


def _group(walked: PersistentPartition) -> tuple[int, int] | None:
    """The group of a walk along the last two axes; None if the call gives none."""
    if walked.group is None:
        return None
    *_, rows, columns = (1, *walked.group)
    return rows, columns


def _plain_spec(tensor: Tensor) -> TensorSpecialization:
    """The properties that every tensor has, cut or not."""
    shape, strides = tensor.shape, tensor.strides
    wide = any(stride > MAX_EXTENT for stride in strides)
    last_element = sum((n - 1) * stride for n, stride in zip(shape, strides, strict=True))
    # The contiguous axis is the last one with stride one.
    along = max((axis for axis, stride in enumerate(strides) if stride == 1), default=None)
    runs_along = tuple(axis == along for axis in range(tensor.ndim))
    return TensorSpecialization(
        dtype=tensor.dtype,
        unit_strides=runs_along,
        address_divisor=_address_divisor(tensor),
        extent_divisors=extent_divisors(shape, runs_along),
        stride_divisors=tuple(divisor(stride) for stride in strides),
        wide=wide,
        far=wide or last_element > MAX_EXTENT,
    )
