"""The logical grid of a launch: how many blocks run, and which piece of each output is whose."""

from __future__ import annotations

from math import prod

from tilewright.errors import LaunchError
from tilewright.jit.binding import Binding, refused

__all__ = ["MAX_BLOCKS", "choose_grid"]

# Blocks are launched as a line, numbered in 32 bits.
MAX_BLOCKS = 2**31 - 1


def choose_grid(binding: Binding) -> None:
    """How many blocks run, and how they are numbered."""
    exact = [param.name for param in binding.signature.exact_outputs]
    if exact:
        _check_same_grid(binding, exact)
        binding.grid = _grid(binding, exact[0])
        binding.blocks = prod(binding.grid)
    else:
        _choose_blocks(binding)
    for name, walked in binding.walked.items():
        if prod(walked.grid) + binding.blocks > MAX_BLOCKS:
            raise refused(
                binding,
                name,
                f"has {prod(walked.grid)} tiles, more than can be counted: use larger ones",
            )
    if binding.blocks > MAX_BLOCKS:
        raise refused(
            binding,
            exact[0],
            f"has {binding.blocks} pieces, more than a launch can have: use larger ones",
        )


def _grid(binding: Binding, name: str) -> tuple[int, ...]:
    shape, tile = binding.tensors[name].shape, binding.tiles[name]
    return tuple(-(-extent // size) for extent, size in zip(shape, tile, strict=True))


def _check_same_grid(binding: Binding, exact: list[str]) -> None:
    first = _grid(binding, exact[0])
    for name in exact[1:]:
        grid = _grid(binding, name)
        rank = max(len(first), len(grid))
        padded = [(*g, *(1,) * (rank - len(g))) for g in (first, grid)]
        if padded[0] != padded[1]:
            raise refused(
                binding, name,
                f"has a grid of {grid} pieces, but `{exact[0]}` has {first}: one block writes one "
                "piece of each, so the grids must be equal",
            )  # fmt: skip


def _choose_blocks(binding: Binding) -> None:
    if not binding.walked:
        raise LaunchError(
            f"kernel `{binding.signature.kernel}` has no output that is cut into pieces, so "
            "nothing says how many blocks run"
        )
    fitting = binding.device.backend.resident_blocks
    counts = {name: walked.blocks(fitting) for name, walked in binding.walked.items()}
    first = next(iter(counts))
    for name, count in counts.items():
        if count != counts[first]:
            raise refused(
                binding, name,
                f"is walked by {count} blocks, but `{first}` by {counts[first]}: say blocks=… to "
                "make them equal",
            )  # fmt: skip
    binding.blocks = counts[first]
    binding.grid = (binding.blocks,)
