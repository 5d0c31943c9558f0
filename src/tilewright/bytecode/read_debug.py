"""The debug section as it is read: where each op comes from, through the calls that were inlined.

Files are known by name only. Scopes are not kept: a location has its own file, line and column.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.bytecode.read_cursor import Cursor
from tilewright.bytecode.read_tables import Items, StringReader
from tilewright.bytecode.tags import DebugTag
from tilewright.source import Location, Span, UnseenFile

__all__ = ["DebugReader", "LocationList"]

_UNKNOWN = 0
_MOST_CALLS = 64  # inlined into one another
Spans = tuple[Span, ...]  # the innermost first


class DebugReader:
    """The lists of locations, one for each function that has any."""

    def __init__(self, cursor: Cursor | None, strings: StringReader) -> None:
        self._strings = strings
        self._files: dict[str, UnseenFile] = {}
        self._known: dict[int, Location | None] = {}
        self._spans_known: dict[int, Spans] = {_UNKNOWN: ()}
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
        """The locations of a function; `user` has just read the number of its list, 0 for none."""
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
        """The location at a place of all the lists."""
        index = self._indices[place]
        if index not in self._known:
            spans = self._spans(index, self._cursor, 0)
            self._known[index] = Location(spans[0], spans[1:]) if spans else None
        return self._known[index]

    def _spans(self, index: int, user: Cursor, depth: int) -> Spans:
        found = self._spans_known.get(index)
        if found is not None:
            return found
        window = self._attributes.item(index, user)
        start = window.position
        if depth > _MOST_CALLS:
            window.fail(f"calls are nested more than {_MOST_CALLS} deep", start)
        tag = window.varint()
        if tag == DebugTag.LOCATION:
            found = (self._place_of(window),)
        elif tag == DebugTag.CALL_SITE:
            callee, caller = window.varint(), window.varint()
            found = self._spans(callee, window, depth + 1) + self._spans(caller, window, depth + 1)
            if len(found) > _MOST_CALLS:
                window.fail(f"calls are nested more than {_MOST_CALLS} deep", start)
        else:
            window.fail(f"debug attribute {index} is no location", start)
        self._spans_known[index] = found
        return found

    def _place_of(self, window: Cursor) -> Span:
        window.varint()  # the scope
        path = self._strings.text(window.varint(), window)
        file = self._files.setdefault(path, UnseenFile(path))
        line, column = window.varint(), window.varint()
        return Span(file, line, column - 1, line, column)


@dataclass(frozen=True)
class LocationList:
    """The locations of one function, looked up one by one: several functions may share a list."""

    debug: DebugReader
    start: int
    end: int

    def of_function(self) -> Location | None:
        """Its own place."""
        return self.of_op(-1)

    def of_op(self, number: int) -> Location | None:
        """The place of an op, by its number in the order written."""
        place = self.start + 1 + number
        return self.debug.location(place) if place < self.end else None
