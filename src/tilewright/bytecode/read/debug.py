"""Reader of the debug section: the source location of each op, through inlined calls.

Files are known by name only. Scopes are dropped: a location has its own file, line and column.
Debug information never causes a refusal for its depth: the outermost of too many nested calls are
dropped.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.bytecode.read.cursor import Cursor
from tilewright.bytecode.read.tables import Items, StringReader
from tilewright.bytecode.tags import DebugTag
from tilewright.source import Location, Span, UnseenFile

__all__ = ["DebugReader", "LocationList"]

_UNKNOWN = 0
_MOST_CALLS = 64  # nested inlined calls that are kept
_MOST_STEPS = 256  # attributes read for one location, since references may be cyclic
Spans = tuple[Span, ...]  # innermost first


class DebugReader:
    """Lists of locations, one for each function that has any."""

    def __init__(self, cursor: Cursor | None, strings: StringReader) -> None:
        self._strings = strings
        self._files: dict[str, UnseenFile] = {}
        self._known: dict[int, Location | None] = {}
        self._starts: tuple[int, ...] = ()
        self._indices: tuple[int, ...] = ()
        self._attributes = Items(None, "debug attribute")
        if cursor is not None:
            self._read_lists(cursor)

    def _read_lists(self, cursor: Cursor) -> None:
        origin = cursor.position
        count = cursor.count("lists of locations", 4)
        cursor.align(4, origin)
        self._place = cursor.position
        self._starts = cursor.numbers(count, "I", "the lists of locations")
        total = cursor.count("locations", 8)
        cursor.align(8, origin)
        self._indices = cursor.numbers(total, "Q", "locations")
        self._attributes = Items(cursor, "debug attribute", first=1)
        self._cursor = cursor

    def list_of(self, number: int, user: Cursor) -> LocationList | None:
        """Return the locations of a function; `user` has just read the list's index, 0 for none."""
        if number == 0:
            return None
        if number > len(self._starts):
            user.fail_number(f"there is no list of locations {number}")
        start = self._starts[number - 1]
        end = self._starts[number] if number < len(self._starts) else len(self._indices)
        if not start <= end <= len(self._indices):
            reason = f"list of locations {number} runs from {start} to {end}"
            self._cursor.fail(f"{reason} of {len(self._indices)}", self._place + 4 * (number - 1))
        return LocationList(self, start, end)

    def location(self, place: int) -> Location | None:
        """Return the location at an index into the concatenated lists."""
        index = self._indices[place]
        if index not in self._known:
            spans = self._spans(index)
            self._known[index] = Location(spans[0], spans[1:]) if spans else None
        return self._known[index]

    def _spans(self, index: int) -> Spans:
        """Return the span of an op and of the calls around it, innermost first, up to a limit."""
        found: list[Span] = []
        open_, steps, start = [(index, self._cursor)], 0, 0
        while open_ and len(found) < _MOST_CALLS:
            number, user = open_.pop()
            if number == _UNKNOWN:
                continue
            window = self._attributes.item(number, user)
            start, steps = window.position, steps + 1
            tag = window.varint()
            if tag == DebugTag.LOCATION:
                found.append(self._place_of(window))
            elif tag == DebugTag.CALL_SITE:
                callee, caller = window.varint(), window.varint()
                open_ += [(caller, window), (callee, window)]
            else:
                window.fail(f"debug attribute {number} is no location", start)
            if steps > _MOST_STEPS:
                if not found:
                    window.fail("calls lead to no location", start)
                break
        return tuple(found)

    def _place_of(self, window: Cursor) -> Span:
        window.varint()  # the scope
        path = self._strings.text(window.varint(), window)
        file = self._files.setdefault(path, UnseenFile(path))
        line, column = window.varint(), window.varint()
        return Span(file, line, column - 1, line, column)


@dataclass(frozen=True)
class LocationList:
    """Locations of one function, decoded on demand: several functions may share a list."""

    debug: DebugReader
    start: int
    end: int

    def of_function(self) -> Location | None:
        """Return the location of the function itself."""
        return self.of_op(-1)

    def of_op(self, number: int) -> Location | None:
        """Return the location of an op, by its index in the order written."""
        place = self.start + 1 + number
        return self.debug.location(place) if place < self.end else None
