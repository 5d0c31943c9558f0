"""Functions of torch that launches call, looked up at their first call. Imports no torch."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

__all__ = ["TORCH", "find_torch"]


def find_torch() -> Any:
    """The module, if it has been imported: a call that passes a torch tensor has done so."""
    return sys.modules.get("torch")


class _Torch:
    """Functions of torch: each is at first a lookup, which replaces itself."""

    __slots__ = ("current_number", "raise_versions")

    current_number: Callable[[int], int]  # the driver's number of a GPU's current stream
    raise_versions: Callable[[tuple[Any, ...]], None]  # marks tensors as written

    def __init__(self) -> None:
        self.current_number = self._find_current_number
        self.raise_versions = self._find_raise_versions

    def _find_current_number(self, ordinal: int) -> int:
        torch = find_torch()
        inside = getattr(torch, "_C", None)
        found: Callable[[int], int] | None = getattr(inside, "_cuda_getCurrentRawStream", None)
        if found is None:
            found = lambda ordinal: int(torch.cuda.current_stream(ordinal).cuda_stream)  # noqa: E731
        self.current_number = found  # it makes no stream object
        return found(ordinal)

    def _find_raise_versions(self, tensors: tuple[Any, ...]) -> None:
        inside: Any = getattr(find_torch(), "_C", None)
        try:
            # Called by torch's public function, in a third of its time.
            inside._increment_version(())  # noqa: SLF001
        except (AttributeError, TypeError):  # older versions take one tensor at a time
            self.raise_versions = _raise_one_by_one
        else:
            self.raise_versions = inside._increment_version  # noqa: SLF001
        self.raise_versions(tensors)


def _raise_one_by_one(tensors: tuple[Any, ...]) -> None:
    for tensor in tensors:
        find_torch().autograd.graph.increment_version(tensor)


# The functions of the process's torch.
TORCH = _Torch()
