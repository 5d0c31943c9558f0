"""Functions of torch that launches call, looked for when one first does. Imports nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cached_property
from typing import Any

__all__ = ["TORCH", "find_torch"]


def find_torch() -> Any:
    """The module, if anybody has imported it: whoever passes a tensor of it has."""
    return sys.modules.get("torch")


class _Torch:
    """Functions of torch."""

    @cached_property
    def current_number(self) -> Callable[[int], int]:
        """Gives the number of the current stream of a GPU, without making an object of it."""
        torch = find_torch()
        inside = getattr(torch, "_C", None)
        found: Callable[[int], int] | None = getattr(inside, "_cuda_getCurrentRawStream", None)
        return found or (lambda ordinal: int(torch.cuda.current_stream(ordinal).cuda_stream))

    @cached_property
    def raise_versions(self) -> Callable[[tuple[Any, ...]], None]:
        """Tells autograd that tensors have been written."""
        torch = find_torch()
        inside: Any = getattr(torch, "_C", None)
        try:
            inside._increment_version(())  # noqa: SLF001 (what torch's function calls, in a third)
        except (AttributeError, TypeError):  # an older one takes tensors one by one
            return _raise_one_by_one
        found: Callable[[tuple[Any, ...]], None] = inside._increment_version  # noqa: SLF001
        return found


def _raise_one_by_one(tensors: tuple[Any, ...]) -> None:
    for tensor in tensors:
        find_torch().autograd.graph.increment_version(tensor)


# The ones there are.
TORCH = _Torch()
