"""Writer of the debug section: the source location of each op, through inlined calls.

Without any location the section is omitted. An entry has one scope, a subprogram, for each file it
draws on, which line tables and remarks need; scopes do not describe the user's functions.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import PurePath

from tilewright.bytecode.tags import DebugTag
from tilewright.bytecode.write.stream import ByteStream
from tilewright.bytecode.write.tables import NumberedTable, StringTable
from tilewright.ir.function import Function
from tilewright.source import Location, Span

__all__ = ["DebugWriter"]

_UNKNOWN = 0


class DebugWriter:
    """Collects the locations of every function."""

    def __init__(self, strings: StringTable) -> None:
        self._strings = strings
        self._attributes = NumberedTable(first=1)
        self._lists: list[list[int]] = []

    def add_function(self, function: Function, locations: Sequence[Location | None]) -> int:
        """Record the locations of a function's ops in written order; return the list's index."""
        start = function.loc or next(loc for loc in locations if loc is not None)
        # The reader requires a simple location of the function itself, and the outermost call of
        # each op in the function's own scope.
        outermost = (start.span, *start.calls)[-1]
        scope = self._subprogram(outermost, function)
        entries = [self._place(outermost, scope)]
        entries += [self._location(loc, function, scope) for loc in locations]
        self._lists.append(entries)
        return len(self._lists)

    def section(self) -> bytes:
        """Return the start of each function's list, the lists, then the table they refer to."""
        stream = ByteStream()
        stream.put_varint(len(self._lists))
        stream.pad_to(4)
        start = 0
        for entries in self._lists:
            stream += struct.pack("<I", start)
            start += len(entries)
        stream.put_varint(start)
        stream.pad_to(8)
        for entries in self._lists:
            stream += struct.pack(f"<{len(entries)}Q", *entries)
        return bytes(stream + self._attributes.section())

    def _location(self, loc: Location | None, function: Function, scope: int) -> int:
        if loc is None:
            return _UNKNOWN
        *inner, outermost = (loc.span, *loc.calls)
        number = self._place(outermost, scope)
        for span in reversed(inner):
            place = self._place(span, self._subprogram(span, function))
            number = self._attribute(DebugTag.CALL_SITE, place, number)
        return number

    def _place(self, span: Span, scope: int) -> int:
        column = span.file.characters(span.line, span.column) + 1
        path = self._strings.text(span.file.path)
        return self._attribute(DebugTag.LOCATION, scope, path, span.line, column)

    def _subprogram(self, span: Span, function: Function) -> int:
        path = PurePath(span.file.path)
        name, folder = (self._strings.text(part) for part in (path.name, str(path.parent)))
        file = self._attribute(DebugTag.FILE, name, folder)
        line = function.loc.span.line if function.loc and function.loc.span.file is span.file else 1
        title = self._strings.text(function.name)
        unit = self._attribute(DebugTag.COMPILE_UNIT, file)
        return self._attribute(DebugTag.SUBPROGRAM, file, line, title, title, unit, line)

    def _attribute(self, *numbers: int) -> int:
        item = ByteStream()
        for number in numbers:
            item.put_varint(number)
        return self._attributes.number(bytes(item))
