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
from typing import Any, NamedTuple, TypeVar, Union, cast, get_args, get_origin, get_type_hints

__all__ = ["Schema", "TextContext", "Unreadable", "Unwritable"]

MOST_BYTES = 16 << 20  # of an encoded text
MOST_ROWS = 1 << 17
MOST_DEEP = 200  # nesting of objects; visitors of decoded objects recurse
MOST_BITS = 1024  # of an integer

Wanted = TypeVar("Wanted")


class Unreadable(Exception):
    """A text that encodes no object of the expected class."""


class Unwritable(Exception):
    """An object without an encoding: its class is not admitted, or it is too deep or too large."""


class TextContext:
    """Knowledge that writer and reader have beside a text; by default none."""

    rules: Mapping[type, Callable[[Any], bool]] = {}  # whether a decoded object is valid

    def number(self, value: Any) -> int:
        """The number of an object that both sides have; raises `Unwritable` if it has none."""
        raise Unwritable(f"{type(value).__name__} has no number")

    def object(self, number: int) -> Any:
        """The object of a number; raises `Unreadable` if there is none."""
        raise Unreadable(f"nothing has the number {number}")


_NOTHING = TextContext()


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

        Objects of the class `outside` are shared, and encoded as numbers.

        Equal objects of `united` classes are interned, so that comparing them is cheap.
        """
        self.classes = {cls.__name__: cls for cls in classes}
        self.outside = outside
        self.united = united
        known = {**self.classes, **(names or {})}
        self.forms = {cls: self._forms_of(cls, known) for cls in self.classes.values()}

    def write(self, value: object, context: TextContext = _NOTHING) -> bytes:
        """Encode an object; raises `Unwritable`, also for a text beyond the limits of reading."""
        writer = _Writer(self, context)
        writer.row(value)
        data = f"[{','.join(writer.rows)}]".encode()
        try:
            self.read(data, type(value), context)
        except Unreadable as error:
            raise Unwritable(str(error)) from error
        return data

    def read(self, data: bytes, wanted: type[Wanted], context: TextContext = _NOTHING) -> Wanted:
        """Decode and validate an object; raises `Unreadable`, and nothing else."""
        if len(data) > MOST_BYTES:
            raise Unreadable("the text is too long")
        try:
            rows = json.loads(data, parse_constant=_refuse)
        except (ValueError, RecursionError) as error:
            raise Unreadable(f"this is no text of ours: {error}") from error
        if not isinstance(rows, list) or not 0 < len(rows) <= MOST_ROWS:
            raise Unreadable("this is no list of rows")
        reader = _Reader(self, context)
        for row in rows:
            reader.read(row)
        found = reader.objects[-1]
        if not isinstance(found, wanted):
            raise Unreadable(f"this is a {type(found).__name__}, not a {wanted.__name__}")
        return found

    def _forms_of(self, cls: type, known: dict[str, Any]) -> tuple[tuple[str, _Form], ...]:
        hints = get_type_hints(cls, localns=known)
        declared = fields(cast("Any", cls))
        return tuple((field.name, self._form(hints[field.name])) for field in declared)

    def _form(self, declared: Any) -> _Form:
        """The form of a declared type."""
        origin, parts = get_origin(declared), get_args(declared)
        if origin in (Union, UnionType):
            return self._union(parts)
        if origin is frozenset or (origin is tuple and parts[1:] == (Ellipsis,)):
            return _many(origin, self._form(parts[0]))
        if origin is tuple:
            return _row(tuple(map(self._form, parts)))
        if isinstance(origin, type) and issubclass(origin, Mapping):
            return _map(_row(tuple(map(self._form, parts))))
        if not isinstance(declared, type):
            raise TypeError(f"{declared!r} has no form")
        if declared in _PLAIN:
            return _PLAIN[declared]
        if issubclass(declared, Enum):
            return _member(declared)
        if declared is self.outside:
            return _OUTSIDE
        if not any(issubclass(cls, declared) for cls in self.classes.values()):
            raise TypeError(f"no class that is listed is a {declared.__name__}")
        return _reference((declared,))

    def _union(self, parts: tuple[Any, ...]) -> _Form:
        forms = [self._form(part) for part in parts if part is not NoneType]
        if all(form.classes for form in forms):  # the row names the class
            forms = [_reference(tuple(cls for form in forms for cls in form.classes))]
        form = forms[0] if len(forms) == 1 else _choice(forms)
        return _optional(form) if NoneType in parts else form


class _Writer:
    def __init__(self, schema: Schema, context: TextContext) -> None:
        self.rows: list[str] = []
        self.context = context
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
    def __init__(self, schema: Schema, context: TextContext) -> None:
        self.objects: list[Any] = []
        self.context = context
        self._schema = schema
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
            rule = self.context.rules.get(cls)
            is_sound = rule is None or rule(made)
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


# --- forms ----------------------------------------------------------------------------------------


class _Form(NamedTuple):
    """The encoding of a declared type's values as JSON data; `read` refuses data of other forms."""

    write: Callable[[Any, _Writer], Any]
    read: Callable[[Any, _Reader], Any]
    classes: tuple[type, ...] = ()  # of objects with rows of their own


def _plain(cls: type) -> _Form:
    """A value that is JSON data itself, of exactly this class."""

    def write(value: Any, _: _Writer) -> Any:
        if type(value) is not cls:
            raise Unwritable(f"{value!r} is no {cls.__name__}")
        return value

    def read(data: Any, _: _Reader) -> Any:
        if type(data) is not cls:
            raise Unreadable(f"a {type(data).__name__} stands for a {cls.__name__}")
        if isinstance(data, int) and data.bit_length() > MOST_BITS:
            raise Unreadable("a number is too large")
        return data

    return _Form(write, read)


def _read_float(data: Any, _: _Reader) -> float:
    try:
        return float.fromhex(data)
    except (TypeError, ValueError, OverflowError) as error:
        raise Unreadable(f"{data!r:.40} is no number") from error


def _member(cls: type[Enum]) -> _Form:
    """A member of an enumeration, by its name."""

    def write(value: Any, _: _Writer) -> str:
        if type(value) is not cls:
            raise Unwritable(f"{value!r} is no {cls.__name__}")
        return str(value.name)

    def read(data: Any, _: _Reader) -> Enum:
        found = cls.__members__.get(data) if isinstance(data, str) else None
        if found is None:
            raise Unreadable(f"{cls.__name__} has no member of that name")
        return found

    return _Form(write, read)


def _reference(classes: tuple[type, ...]) -> _Form:
    """An object with a row of its own, by its number."""

    def write(value: Any, writer: _Writer) -> int:
        if not isinstance(value, classes):
            raise Unwritable(f"{type(value).__name__} has no place here")
        return writer.row(value)

    def read(data: Any, reader: _Reader) -> Any:
        found = reader.object(_INT.read(data, reader))
        if not isinstance(found, classes):
            raise Unreadable(f"a {type(found).__name__} has no place here")
        return found

    return _Form(write, read, classes)


def _many(cls: type, item: _Form) -> _Form:
    """A tuple or a frozenset of any length, of one form."""

    def write(value: Any, writer: _Writer) -> list[Any]:
        found = [item.write(one, writer) for one in value]
        return found if cls is tuple else sorted(found)

    return _Form(write, lambda data, reader: cls([item.read(one, reader) for one in _list(data)]))


def _row(items: tuple[_Form, ...]) -> _Form:
    """A tuple of fixed length, with a form for each item."""

    def write(value: Any, writer: _Writer) -> list[Any]:
        return [item.write(one, writer) for item, one in zip(items, value, strict=True)]

    def read(data: Any, reader: _Reader) -> tuple[Any, ...]:
        if len(_list(data)) != len(items):
            raise Unreadable(f"there are {len(data)} values for {len(items)}")
        return tuple(item.read(one, reader) for item, one in zip(items, data, strict=True))

    return _Form(write, read)


def _map(pair: _Form) -> _Form:
    """A mapping, in its order."""

    def read(data: Any, reader: _Reader) -> dict[Any, Any]:
        found = dict(pair.read(one, reader) for one in _list(data))
        if len(found) != len(data):
            raise Unreadable("a key is there twice")
        return found

    return _Form(lambda value, writer: [pair.write(one, writer) for one in value.items()], read)


def _optional(form: _Form) -> _Form:
    """A value, or None."""
    return _Form(
        lambda value, writer: None if value is None else form.write(value, writer),
        lambda data, reader: None if data is None else form.read(data, reader),
    )


def _choice(forms: list[_Form]) -> _Form:
    """A union: the number of the form, and a value of that form."""

    def write(value: Any, writer: _Writer) -> list[Any]:
        for number, form in enumerate(forms):
            try:
                return [number, form.write(value, writer)]
            except Unwritable:
                continue
        raise Unwritable(f"{type(value).__name__} has no place here")

    def read(data: Any, reader: _Reader) -> Any:
        if len(_list(data)) != 2 or type(data[0]) is not int or not 0 <= data[0] < len(forms):
            raise Unreadable("this is none of several forms")
        return forms[data[0]].read(data[1], reader)

    return _Form(write, read)


def _list(data: Any) -> list[Any]:
    if not isinstance(data, list):
        raise Unreadable(f"a {type(data).__name__} stands for a list")
    return data


_INT = _plain(int)
_OUTSIDE = _Form(
    lambda value, writer: writer.context.number(value),
    lambda data, reader: reader.context.object(_INT.read(data, reader)),
)
_PLAIN: dict[type, _Form] = {
    int: _INT,
    bool: _plain(bool),
    str: _plain(str),
    float: _Form(lambda value, _: float(value).hex(), _read_float),  # by its bits
}
