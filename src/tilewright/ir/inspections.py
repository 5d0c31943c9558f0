"""Inspections: the named values of a block at one line, for an observer on the host.

The front end describes how names are made of values; the CPU backend, the only one that has the
values at hand, gives them to the observer as NumPy arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tilewright.dtypes import DType
from tilewright.source import Span

__all__ = ["InspectedNames", "Observer", "Sighting"]


@dataclass(frozen=True, eq=False)
class Sighting:
    """The names of one block at one line; tiles are arrays of their own."""

    kernel: str
    span: Span
    next_line: int  # of the statement behind
    block: tuple[int, ...]
    names: Mapping[str, Any]


# Is called on the thread that runs the block.
Observer = Callable[[Sighting], None]


@dataclass(frozen=True, eq=False)
class InspectedNames:
    """Names by the values that they are made of.

    The first `rank` values are the coordinates of the block. A name has the number of its value, a
    tuple of such, or a `Fixed` object.
    """

    kernel: str
    span: Span
    next_line: int
    rank: int
    dtypes: tuple[type[DType], ...]  # of the values, in order
    names: tuple[tuple[str, Any], ...]
    observer: Observer | None  # None: the debugger

    @dataclass(frozen=True, eq=False)
    class Fixed:
        """An object that is known when the kernel is compiled."""

        value: Any

    def sighting(self, values: tuple[Any, ...]) -> Sighting:
        """The names with their values."""
        block = tuple(int(value) for value in values[: self.rank])
        named = {name: self._value(entry, values) for name, entry in self.names}
        return Sighting(self.kernel, self.span, self.next_line, block, named)

    def _value(self, entry: Any, values: tuple[Any, ...]) -> Any:
        if isinstance(entry, tuple):
            return tuple(self._value(one, values) for one in entry)
        return entry.value if isinstance(entry, InspectedNames.Fixed) else values[entry]
