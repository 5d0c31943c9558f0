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
        _check_limits(binding, exact[0])
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
    limit = _block_limit(binding)
    # All outputs are walked by the same blocks: where one has fewer tiles, some have none of it.
    binding.blocks = max(walked.blocks(limit) for walked in binding.walked.values())
    binding.grid = (binding.blocks,)


def _block_limit(binding: Binding) -> int:
    """The number of blocks that the call asks for, or else what fits the device at once."""
    given = {name: w.max_blocks for name, w in binding.walked.items() if w.max_blocks is not None}
    limit = binding.device.backend.resident_blocks
    for number, (name, blocks) in enumerate(given.items()):
        if number and blocks != limit:
            first = next(iter(given))
            raise refused(
                binding, name,
                f"is walked by {blocks} blocks, but `{first}` by {limit}: one launch has one "
                "number of blocks, so say the same blocks=… or say it once",
            )  # fmt: skip
        limit = blocks
    return limit


def _check_limits(binding: Binding, exact: str) -> None:
    """Where pieces say how many blocks run, a walk may not ask for fewer."""
    for name, walked in binding.walked.items():
        if walked.max_blocks is not None and walked.max_blocks < binding.blocks:
            raise refused(
                binding, name,
                f"is walked by at most {walked.max_blocks} blocks, but `{exact}` has "
                f"{binding.blocks} pieces, one for each block: leave out blocks=…",
            )  # fmt: skip
