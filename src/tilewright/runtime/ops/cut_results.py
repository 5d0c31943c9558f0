"""Partitions of tensors that are results of operations: `op.partition(128)`.

A result exists when the operation runs, so the tile alone is checked before, and the rest then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilewright.errors import LaunchError
from tilewright.runtime.memory.partition import HostPartition, PersistentPartition, tensor_maker

__all__ = ["CutResult", "as_cut", "choose_one", "uncut"]


@dataclass(frozen=True, slots=True)
class CutResult:
    """The cut of an operation's result."""

    tile: tuple[int | None, ...]
    order: tuple[int, ...]
    prefix: bool
    segments: Any

    def __call__(self, result: Any) -> HostPartition:
        """The partition of a tensor or an array."""
        if isinstance(result, (HostPartition, PersistentPartition)):
            raise LaunchError(
                "the result to cut is a partition already: pass it as it is, or"
                " `.unpartition().partition(…)` for another cut"
            )
        tensor = tensor_maker.make(result)
        if tensor is None:
            raise _no_tensor("the result to cut", "a tensor", result)
        offsets = None if self.segments is None else tensor_maker.make(self.segments)
        if self.segments is not None and offsets is None:
            raise _no_tensor("segments=", "a tensor of offsets", self.segments)
        made: HostPartition = tensor.partition(
            *self.tile, order=self.order, prefix=self.prefix, segments=offsets
        )
        return made


def as_cut(result: Any) -> HostPartition:
    """The result, which must be a plain partition."""
    if not isinstance(result, HostPartition):
        raise _no_tensor("the result to walk", "a partition, made by `.partition(…)`,", result)
    return result


def uncut(result: Any) -> Any:
    """The tensor of the result, which must be a partition."""
    if not isinstance(result, (HostPartition, PersistentPartition)):
        raise _no_tensor("the result of which the tensor is wanted", "a partition", result)
    return result.tensor


def choose_one(what: str, number: int) -> str:
    """The message about an operation with several results in place of one."""
    results = "a tuple of one" if number == 1 else f"{number} results"
    return f"{what} has {results}: choose one, `.first()`, `.last()` or an item of `.unzip()`"


def _no_tensor(what: str, wanted: str, got: Any) -> LaunchError:
    if isinstance(got, tuple):
        return LaunchError(choose_one("the operation", len(got)))
    return LaunchError(f"{what} must be {wanted}, not an object of type {type(got).__name__}")
