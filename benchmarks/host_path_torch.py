"""The launch paths of `host_path` with torch tensors: known ones, and new ones.

A torch program makes new tensors in every step, on memory that its allocator reuses.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import tilewright as tw

__all__ = ["TorchCases"]


class TorchCases:
    """Each path returns a function to repeat, made anew for every round."""

    def __init__(self, add: Any, theirs: str, length: int, launches: int) -> None:
        self.add = add
        self.theirs = theirs  # torch device of the tensors
        self._length, self._launches = length, launches

    @functools.cached_property
    def _of_torch(self) -> list[Any]:
        import torch  # noqa: PLC0415

        size = self._length
        made = [torch.zeros(size, dtype=torch.float16, device=self.theirs) for _ in range(3)]
        for _ in range(3):
            self.add(tw.partition(made[0], size), *made[1:]).sync()
        return made

    def torch_tensors(self) -> Callable[[], object]:
        add, size, (z, x, y) = self.add, self._length, self._of_torch
        return lambda: add(tw.partition(z, size), x, y).submit()

    def torch_views(self) -> Callable[[], object]:
        return self._each_of_torch(lambda one: one[:])

    def torch_new(self) -> Callable[[], object]:
        return self._each_of_torch(lambda one: one.clone())

    def _each_of_torch(self, make: Callable[[Any], Any]) -> Callable[[], object]:
        """A launch for each of some outputs and inputs, made before and kept."""
        add, size, tensors = self.add, self._length, self._of_torch
        fresh = iter([tuple(map(make, tensors)) for _ in range(self._launches)])

        def launch() -> None:
            z, x, y = next(fresh)
            add(tw.partition(z, size), x, y).submit()

        return launch

    def torch_outputs(self) -> Callable[[], object]:
        add, size, (z, x, y) = self.add, self._length, self._of_torch
        return lambda: add(tw.partition(z.new_empty(size), size), x, y).submit()
