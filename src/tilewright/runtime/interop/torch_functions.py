"""Functions of torch that launches call, looked for when one first does. Imports nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

__all__ = ["TORCH", "find_torch"]


def find_torch() -> Any:
    """The module, if anybody has imported it: whoever passes a tensor of it has."""
    return sys.modules.get("torch")


class _Torch:
    """Functions of torch: at first one that looks for it, and takes its place."""

    __slots__ = ("current_number", "raise_versions")

    current_number: Callable[[int], int]  # of the current stream of a GPU
    raise_versions: Callable[[tuple[Any, ...]], None]  # says that tensors have been written

    def __init__(self) -> None:
        self.current_number = self._find_current_number
        self.raise_versions = self._find_raise_versions

    def _find_current_number(self, ordinal: int) -> int:
        torch = find_torch()
        inside = getattr(torch, "_C", None)
        found: Callable[[int], int] | None = getattr(inside, "_cuda_getCurrentRawStream", None)
        if found is None:
            found = lambda ordinal: int(torch.cuda.current_stream(ordinal).cuda_stream)  # noqa: E731
        self.current_number = found  # which makes no object of the stream
        return found(ordinal)

    def _find_raise_versions(self, tensors: tuple[Any, ...]) -> None:
        inside: Any = getattr(find_torch(), "_C", None)
        try:
            inside._increment_version(())  # noqa: SLF001 (what torch's function calls, in a third)
        except (AttributeError, TypeError):  # an older one takes tensors one by one
            self.raise_versions = _raise_one_by_one
        else:
            self.raise_versions = inside._increment_version  # noqa: SLF001
        self.raise_versions(tensors)


def _raise_one_by_one(tensors: tuple[Any, ...]) -> None:
    for tensor in tensors:
        find_torch().autograd.graph.increment_version(tensor)


# The ones there are.
TORCH = _Torch()
