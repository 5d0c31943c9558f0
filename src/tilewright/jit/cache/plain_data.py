"""Data classes as plain text and back: numbers, words and lists, and no name of any code.

    [["Interval", 0, 9], ["Known", 2, 0], …]

A text is a list of rows. A row is an object: the name of its class and its fields in order, each
in the form of its declared type. Another object is referred to by its row, which stands further up:
shared objects stay shared, circles cannot be written, and reading is one loop. Only listed classes
are read, every field is held to its declared type, and size, depth and numbers are bounded, so
reading any text gives an object of the wanted class or `Unreadable`. Not for data that has to
outlive a release: there is no second version of a text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from enum import Enum
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from tilewright.jit.cache.plain_forms import (
    OUTSIDE,
    PLAIN,
    Choice,
    DataForm,
    Many,
    Map,
    MemberForm,
    Optional,
    Outside,
    Reference,
    Row,
    Unreadable,
    Unwritable,
)

__all__ = ["Schema"]

MOST_BYTES = 16 << 20  # of an encoded text
MOST_ROWS = 1 << 17
MOST_DEEP = 200  # nesting of objects; visitors of decoded objects recurse

Wanted = TypeVar("Wanted")
Check = Callable[[Any], bool]  # whether a decoded object is valid


def _is_sound(_: Any) -> bool:
    return True


class _NothingOutside:
    def number(self, value: Any) -> int:
        raise Unwritable(f"{type(value).__name__} has no number")

    def object(self, number: int) -> Any:
        raise Unreadable(f"nothing has the number {number}")


_NOTHING = _NothingOutside()


class Schema:
    """The admitted classes, and the forms of their fields."""

    def __init__(
        self,
        classes: Iterable[type],
        *,
        outside: type = NoneType,
        names: Mapping[str, Any] | None = None,
        united: tuple[type, ...] = (),
    ) -> None:
        """`names` resolves the names in annotations that are no admitted classes.

        Equal objects of `united` classes are interned, so that comparing them is cheap.
        """
        self.classes = {cls.__name__: cls for cls in classes}
        self.outside = outside
        self.united = united
        known = {**self.classes, **(names or {})}
        self.forms = {cls: self._forms_of(cls, known) for cls in self.classes.values()}

    def write(
        self, value: object, outside: Outside = _NOTHING, is_sound: Check = _is_sound
    ) -> bytes:
        """Encode an object; raises `Unwritable`, also for a text beyond the limits of reading."""
        writer = _Writer(self, outside)
        writer.row(value)
        data = f"[{','.join(writer.rows)}]".encode()
        try:
            self.read(data, type(value), outside, is_sound)
        except Unreadable as error:
            raise Unwritable(str(error)) from error
        return data

    def read(
        self,
        data: bytes,
        wanted: type[Wanted],
        outside: Outside = _NOTHING,
        is_sound: Check = _is_sound,
    ) -> Wanted:
        """Decode and validate an object; raises `Unreadable`, and nothing else."""
        if len(data) > MOST_BYTES:
            raise Unreadable("the text is too long")
        try:
            rows = json.loads(data, parse_constant=_refuse)
        except (ValueError, RecursionError) as error:
            raise Unreadable(f"this is no text of ours: {error}") from error
        if not isinstance(rows, list) or not 0 < len(rows) <= MOST_ROWS:
            raise Unreadable("this is no list of rows")
        reader = _Reader(self, outside, is_sound)
        for row in rows:
            reader.read(row)
        found = reader.objects[-1]
        if not isinstance(found, wanted):
            raise Unreadable(f"this is a {type(found).__name__}, not a {wanted.__name__}")
        return found

    def _forms_of(self, cls: type, known: dict[str, Any]) -> tuple[tuple[str, DataForm], ...]:
        hints = get_type_hints(cls, localns=known)
        declared = fields(cast("Any", cls))
        return tuple((field.name, self._form(hints[field.name])) for field in declared)

    def _form(self, declared: Any) -> DataForm:
        origin, parts = get_origin(declared), get_args(declared)
        if origin in (Union, UnionType):
            return self._choice(parts)
        if origin is tuple and len(parts) == 2 and parts[1] is Ellipsis:
            return Many(tuple, self._form(parts[0]))
        if origin is tuple:
            return Row(tuple(map(self._form, parts)))
        if origin is frozenset:
            return Many(frozenset, self._form(parts[0]))
        if isinstance(origin, type) and issubclass(origin, Mapping):
            return Map(Row(tuple(map(self._form, parts))))
        if not isinstance(declared, type):
            raise TypeError(f"{declared!r} has no form")
        return self._simple(declared)

    def _simple(self, declared: type) -> DataForm:
        if declared in PLAIN:
            return PLAIN[declared]
        if issubclass(declared, Enum):
            return MemberForm(declared)
        if declared is self.outside:
            return OUTSIDE
        if not any(issubclass(cls, declared) for cls in self.classes.values()):
            raise TypeError(f"no class that is listed is a {declared.__name__}")
        return Reference((declared,))

    def _choice(self, parts: tuple[Any, ...]) -> DataForm:
        forms = [self._form(part) for part in parts if part is not NoneType]
        if all(isinstance(form, Reference) for form in forms):  # the row names the class
            classes = (cls for form in forms for cls in cast("Reference", form).classes)
            forms = [Reference(tuple(classes))]
        form = forms[0] if len(forms) == 1 else Choice(tuple(forms))
        return Optional(form) if NoneType in parts else form


class _Writer:
    def __init__(self, schema: Schema, outside: Outside) -> None:
        self.rows: list[str] = []
        self.outside = outside
        self._forms = schema.forms
        self._known: dict[int, int] = {}  # by identity; the root keeps all objects alive
        self._same: dict[str, int] = {}
        self._depth = 0

    def row(self, value: object) -> int:
        """The row of an object, written if it is new."""
        known = self._known.get(id(value))
        if known is not None:
            return known
        forms = self._forms.get(type(value))
        if forms is None or self._depth == MOST_DEEP:
            raise Unwritable(f"{type(value).__name__} at depth {self._depth}")
        self._depth += 1
        row = [type(value).__name__, *(form.write(getattr(value, n), self) for n, form in forms)]
        self._depth -= 1
        text = json.dumps(row, separators=(",", ":"))
        number = self._same.setdefault(text, len(self.rows))
        if number == len(self.rows):
            self.rows.append(text)
        self._known[id(value)] = number
        return number


class _Reader:
    def __init__(self, schema: Schema, outside: Outside, is_sound: Check) -> None:
        self.objects: list[Any] = []
        self.outside = outside
        self._schema = schema
        self._is_sound = is_sound
        self._depths: list[int] = []
        self._deepest = 0
        self._united: dict[Any, Any] = {}

    def read(self, row: Any) -> None:
        """Make the object of the next row."""
        name = row[0] if isinstance(row, list) and row else None
        cls = self._schema.classes.get(name) if isinstance(name, str) else None
        if cls is None:
            raise Unreadable(f"row {len(self.objects)} has no class that is listed")
        forms = self._schema.forms[cls]
        if len(row) != 1 + len(forms):
            raise Unreadable(f"a {cls.__name__} has {len(forms)} fields, not {len(row) - 1}")
        self._deepest = 0
        values = [form.read(data, self) for data, (_, form) in zip(row[1:], forms, strict=True)]
        if self._deepest == MOST_DEEP:
            raise Unreadable("too many objects are inside one another")
        try:
            made = cls(*values)
            if isinstance(made, self._schema.united):
                made = self._united.setdefault(made, made)
            is_sound = self._is_sound(made)
        except Exception as error:  # a constructor may raise anything
            raise Unreadable(f"this makes no {cls.__name__}: {error!r}") from error
        if not is_sound:
            raise Unreadable(f"this {cls.__name__} does not belong here")
        self.objects.append(made)
        self._depths.append(self._deepest + 1)

    def object(self, number: int) -> Any:
        """The object of an earlier row."""
        if not 0 <= number < len(self.objects):
            raise Unreadable(f"there is no row {number} above row {len(self.objects)}")
        self._deepest = max(self._deepest, self._depths[number])
        return self.objects[number]


def _refuse(text: str) -> Any:
    raise ValueError(f"{text} is no number")
