"""Names of values in a text, and their scopes.

A name is visible after the op that defines it, in the same block and in all nested ones. Several
results of one op may share a name (`%3:2`); a use adds the number of the result (`%3#1`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from tilewright.ir.op import Value
from tilewright.ir.text.parse_scanner import Scanner

__all__ = ["VALUE", "VisibleValues"]

VALUE = re.compile(r"%([\w$.-]+)(?:#(\d{1,9}))?")  # the use of a value
_NAME = re.compile(r"%([\w$.-]+)")
_NAMES = re.compile(r"%([\w$.-]+)(?::(\d{1,9}))?")


class VisibleValues:
    """Values by name, as visible at a position in the text."""

    def __init__(self) -> None:
        self._named: dict[str, tuple[Value, ...]] = {}
        self._order: list[str] = []  # names in order of definition

    @contextmanager
    def nested(self) -> Iterator[None]:
        """Enter a block, whose names are released at its end."""
        outside = len(self._order)
        yield
        for name in self._order[outside:]:
            del self._named[name]
        del self._order[outside:]

    def define(self, name: str, values: tuple[Value, ...], scanner: Scanner, position: int) -> None:
        """Bind a name to values."""
        if name in self._named:
            scanner.refuse(f"%{name} is already defined", position)
        self._named[name] = values
        self._order.append(name)

    def use(self, scanner: Scanner) -> Value:
        """Parse the use of a value."""
        start = scanner.position
        found = scanner.read(VALUE, "a value such as `%0`")
        values, number = self._named.get(found[1]), int(found[2] or 0)
        if values is None:
            scanner.refuse(f"%{found[1]} is not defined here", start)
        if number >= len(values):
            scanner.refuse(f"%{found[1]} has {len(values)} parts, so no #{number}", start)
        return values[number]

    def name(self, scanner: Scanner) -> tuple[str, int]:
        """Parse the name of a new value; return it with its position."""
        start = scanner.position
        return scanner.read(_NAME, "a name such as `%0`")[1], start

    def results(self, scanner: Scanner) -> tuple[tuple[str, int, int], ...]:
        """Parse the names before an op: each with its number of values and its position."""
        names: list[tuple[str, int, int]] = []
        while not names or scanner.accepts(","):
            start = scanner.position
            found = scanner.read(_NAMES, "a name such as `%0`")
            names.append((found[1], int(found[2] or 1), start))
        scanner.expect("=")
        return tuple(names)
