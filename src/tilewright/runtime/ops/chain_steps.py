"""Steps of a chain: functions of the result so far, and the use of their results.

An invalid step is refused when the chain is made, as far as it is known by then. `operation` runs
the steps. A result exists when the operation runs, so of a cut, `op.partition(128)`, the tile alone
is checked before, and the rest then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, NamedTuple

from tilewright.errors import LaunchError
from tilewright.given import int_or, shown
from tilewright.runtime.memory.partition import HostPartition, PersistentPartition, tensor_maker

__all__ = [
    "CutResult",
    "Given",
    "How",
    "Item",
    "Step",
    "as_cut",
    "check_count",
    "choose_one",
    "make_step",
    "uncut",
]


_MOST_RESULTS = 1 << 16  # of one operation


class How(Enum):
    """The use of the value that a step's function gives."""

    THEN = auto()  # it is an operation, which runs next
    MAP = auto()  # it is the new result
    INSPECT = auto()  # it is dropped


class Step(NamedTuple):
    """A function of the result so far."""

    how: How
    function: Callable[[Any], Any]


def make_step(how: How, function: Callable[[Any], Any]) -> Step:
    """A step, if the function is callable."""
    if not callable(function):
        word = how.name.lower()
        raise LaunchError(
            f"`{word}` takes a function of the result, and {type(function).__name__} is none:"
            f" `.{word}(lambda result: …)`"
        )
    return Step(how, function)


class Given:
    """A function that gives a known result."""

    __slots__ = ("result",)

    def __init__(self, result: Any) -> None:
        self.result = result

    def __call__(self, _: object) -> Any:
        """The known result; the argument is dropped."""
        return self.result


class Item:
    """A function that gives one item of a tuple."""

    __slots__ = ("position",)

    def __init__(self, position: int) -> None:
        self.position = position

    def __call__(self, result: Any) -> Any:
        """The item, if the result has it."""
        if not isinstance(result, (tuple, list)):
            raise LaunchError(
                f"`first`, `last` and `unzip` give items of a tuple, and the result is an object of"
                f" type {type(result).__name__}: use it as it is"
            )
        if not -len(result) <= self.position < len(result):
            wanted = "an item" if self.position < 0 else f"item {self.position}"
            raise LaunchError(f"{wanted} is wanted of a result that has {len(result)}")
        return result[self.position]


def check_count(name: str, count: Any, known: int | None) -> int:
    """The number of results of an operation: the given one, or else the known one."""
    if count is None:
        if known is None:
            raise LaunchError(f"{name} does not say how many results it has: unzip(2), say")
        return known
    number = int_or(count, -1)
    if not 0 <= number <= _MOST_RESULTS:
        raise LaunchError(
            f"unzip({shown(count)}): it is the number of results, {_MOST_RESULTS} at most"
        )
    if known is not None and number != known:
        raise LaunchError(f"{name} has {known} results, not {shown(number)}")
    return number


# --- partitions of results ------------------------------------------------------------------------


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
