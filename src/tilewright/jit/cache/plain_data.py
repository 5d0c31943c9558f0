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
from typing import Any, NoReturn, TypeVar, Union, cast, get_args, get_origin, get_type_hints

__all__ = ["Schema", "TextContext", "Unreadable", "Unwritable"]

MOST_BYTES = 16 << 20  # of an encoded text
MOST_ROWS = 1 << 17
MOST_DEEP = 200  # nesting of objects; visitors of decoded objects recurse
MOST_BITS = 1024  # of an integer

Wanted = TypeVar("Wanted")
# Reads JSON data of one type.
Read = Callable[[Any, "_Reader"], Any]


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


class _Form(dict[type, Read]):
    """The forms of a declared type's values, by the type of the JSON data.

    A union has the forms of its parts, which differ in that type.
    """

    def __missing__(self, kind: type) -> NoReturn:
        wanted = " or ".join(known.__name__ for known in self)
        raise Unreadable(f"a {kind.__name__} stands for a {wanted}")


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
        try:
            writer.row(value)
            data = f"[{','.join(writer.rows)}]".encode()
            self.read(data, type(value), context)
        except (RecursionError, Unreadable) as error:
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
        """The forms of a declared type, which may be a union."""
        is_union = get_origin(declared) in (Union, UnionType)
        parts = get_args(declared) if is_union else (declared,)
        listed = tuple(part for part in parts if self._is_listed(part))
        found = _Form({int: _reference(listed)} if listed else {})
        for part in parts:
            if part not in listed:
                data, read = self._form_of_one(part)
                if data in found:
                    raise TypeError(f"two parts of {declared} are written as {data.__name__}")
                found[data] = read
        return found

    def _is_listed(self, declared: Any) -> bool:
        is_class = isinstance(declared, type) and get_origin(declared) is None
        return is_class and any(issubclass(cls, declared) for cls in self.classes.values())

    def _form_of_one(self, declared: Any) -> tuple[type, Read]:
        origin, parts = get_origin(declared), get_args(declared)
        if origin is frozenset or (origin is tuple and parts[1:] == (Ellipsis,)):
            return list, _many(origin, self._form(parts[0]))
        if origin is tuple:
            return list, _row(tuple(map(self._form, parts)))
        if isinstance(origin, type) and issubclass(origin, Mapping):
            return list, _map(_many(tuple, _Form({list: _row(tuple(map(self._form, parts)))})))
        if declared in _PLAIN:
            return _PLAIN[declared]
        if declared is self.outside:
            return int, lambda data, reader: reader.context.object(data)
        if isinstance(declared, type) and issubclass(declared, Enum):
            return str, _member(declared)
        raise TypeError(f"no class that is listed is a {getattr(declared, '__name__', declared)}")


class _Writer:
    def __init__(self, schema: Schema, context: TextContext) -> None:
        self.rows: list[str] = []
        self._context = context
        self._outside = schema.outside
        self._forms = schema.forms
        self._known: dict[int, int] = {}  # by identity; the root keeps all objects alive
        self._same: dict[str, int] = {}

    def row(self, value: object) -> int:
        """The row of an object, written if it is new."""
        known = self._known.get(id(value))
        if known is not None:
            return known
        forms = self._forms.get(type(value))
        if forms is None:
            raise Unwritable(f"{type(value).__name__} is not listed")
        row = [type(value).__name__, *(self._data(getattr(value, name)) for name, _ in forms)]
        text = json.dumps(row, separators=(",", ":"))
        number = self._same.setdefault(text, len(self.rows))
        if number == len(self.rows):
            self.rows.append(text)
        self._known[id(value)] = number
        return number

    def _data(self, value: Any) -> Any:
        """A value as JSON data; reading the text holds it to the declared type."""
        if type(value) in (int, bool, str, NoneType):
            return value
        if type(value) is float:
            return value.hex()
        if isinstance(value, Enum):
            return value.name
        if isinstance(value, tuple):
            return [self._data(one) for one in value]
        if isinstance(value, frozenset):
            return sorted(self._data(one) for one in value)
        if isinstance(value, Mapping):
            return [self._data(pair) for pair in value.items()]
        if isinstance(value, self._outside):
            return self._context.number(value)
        return self.row(value)


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
        pairs = zip(row[1:], forms, strict=True)
        values = [form[type(data)](data, self) for data, (_, form) in pairs]
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


def _same(data: Any, _: _Reader) -> Any:
    return data


def _read_int(data: int, _: _Reader) -> int:
    if data.bit_length() > MOST_BITS:
        raise Unreadable("a number is too large")
    return data


def _read_float(data: str, _: _Reader) -> float:
    try:
        return float.fromhex(data)
    except (ValueError, OverflowError) as error:
        raise Unreadable(f"{data!r:.40} is no number") from error


_PLAIN: dict[Any, tuple[type, Read]] = {
    int: (int, _read_int),
    bool: (bool, _same),
    str: (str, _same),
    NoneType: (NoneType, _same),
    float: (str, _read_float),  # by its bits
}


def _member(cls: type[Enum]) -> Read:
    """A member of an enumeration, by its name."""

    def read(data: str, _: _Reader) -> Enum:
        found = cls.__members__.get(data)
        if found is None:
            raise Unreadable(f"{cls.__name__} has no member of that name")
        return found

    return read


def _reference(classes: tuple[type, ...]) -> Read:
    """An object with a row of its own, by its number."""

    def read(data: int, reader: _Reader) -> Any:
        found = reader.object(data)
        if not isinstance(found, classes):
            raise Unreadable(f"a {type(found).__name__} has no place here")
        return found

    return read


def _many(cls: type, item: _Form) -> Read:
    """A tuple or a frozenset of any length, of one form."""
    return lambda data, reader: cls([item[type(one)](one, reader) for one in data])


def _row(items: tuple[_Form, ...]) -> Read:
    """A tuple of fixed length, with a form for each item."""

    def read(data: list[Any], reader: _Reader) -> tuple[Any, ...]:
        if len(data) != len(items):
            raise Unreadable(f"there are {len(data)} values for {len(items)}")
        pairs = zip(items, data, strict=True)
        return tuple([item[type(one)](one, reader) for item, one in pairs])

    return read


def _map(pairs: Read) -> Read:
    """A mapping, in its order, from its pairs."""

    def read(data: list[Any], reader: _Reader) -> dict[Any, Any]:
        found = dict(pairs(data, reader))
        if len(found) != len(data):
            raise Unreadable("a key is there twice")
        return found

    return read
