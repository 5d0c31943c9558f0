"""Forms: the encoding of a value as JSON data by its declared type, one class for each kind.

A form encodes a value as JSON numbers, strings and lists, and decodes it. Decoding validates: data
of another form is `Unreadable`. `plain_data` combines forms; an object is a reference here.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Protocol

__all__ = [
    "OUTSIDE",
    "PLAIN",
    "Choice",
    "DataForm",
    "Many",
    "Map",
    "MemberForm",
    "Optional",
    "Outside",
    "Reading",
    "Reference",
    "Row",
    "Unreadable",
    "Unwritable",
    "Writing",
]

MOST_BITS = 1024  # of an integer


class Unreadable(Exception):
    """A text that encodes no object of the expected class."""


class Unwritable(Exception):
    """An object without an encoding: its class is not admitted, or it is too deep or too large."""


class Outside(Protocol):
    """Objects that writer and reader share, encoded as numbers."""

    def number(self, value: Any) -> int:
        """The number of an object; raises `Unwritable` if it has none."""

    def object(self, number: int) -> Any:
        """The object of a number; raises `Unreadable` if there is none."""


class Writing(Protocol):
    """The state of an encoding, as forms use it."""

    @property
    def outside(self) -> Outside:
        """The objects that both sides have."""

    def row(self, value: object) -> int:
        """The row of an object, written if it is new."""


class Reading(Protocol):
    """The state of a decoding, as forms use it."""

    @property
    def outside(self) -> Outside:
        """The objects that both sides have."""

    def object(self, number: int) -> Any:
        """The object of an earlier row."""


class DataForm(Protocol):
    """The encoding of the values of a declared type."""

    def write(self, value: Any, writer: Writing, /) -> Any:
        """Encode a value as JSON data."""

    def read(self, data: Any, reader: Reading, /) -> Any:
        """Decode a value; raises `Unreadable` for data of another form."""


class Plain(DataForm):
    """A value that is JSON data itself, of exactly this class."""

    def __init__(self, cls: type) -> None:
        self._cls = cls

    def write(self, value: Any, _: Writing) -> Any:
        if type(value) is not self._cls:
            raise Unwritable(f"{value!r} is no {self._cls.__name__}")
        return value

    def read(self, data: Any, _: Reading) -> Any:
        if type(data) is not self._cls:
            raise Unreadable(f"a {type(data).__name__} stands for a {self._cls.__name__}")
        if isinstance(data, int) and data.bit_length() > MOST_BITS:
            raise Unreadable("a number is too large")
        return data


class Float(DataForm):
    """A float, by its bits."""

    def write(self, value: Any, _: Writing) -> str:
        return float(value).hex()

    def read(self, data: Any, _: Reading) -> float:
        try:
            return float.fromhex(data)
        except (TypeError, ValueError, OverflowError) as error:
            raise Unreadable(f"{data!r:.40} is no number") from error


class MemberForm(DataForm):
    """A member of an enumeration, by its name."""

    def __init__(self, cls: type[Enum]) -> None:
        self._cls = cls

    def write(self, value: Any, _: Writing) -> str:
        if type(value) is not self._cls:
            raise Unwritable(f"{value!r} is no {self._cls.__name__}")
        name: str = value.name
        return name

    def read(self, data: Any, _: Reading) -> Enum:
        found = self._cls.__members__.get(data) if isinstance(data, str) else None
        if found is None:
            raise Unreadable(f"{self._cls.__name__} has no member of that name")
        return found


class Reference(DataForm):
    """An object with a row of its own, by its number."""

    def __init__(self, classes: tuple[type, ...]) -> None:
        self.classes = classes

    def write(self, value: Any, writer: Writing) -> int:
        if not isinstance(value, self.classes):
            raise Unwritable(f"{type(value).__name__} has no place here")
        return writer.row(value)

    def read(self, data: Any, reader: Reading) -> Any:
        found = reader.object(_INT.read(data, reader))
        if not isinstance(found, self.classes):
            raise Unreadable(f"a {type(found).__name__} has no place here")
        return found


class FromOutside(DataForm):
    """An object that writer and reader share."""

    def write(self, value: Any, writer: Writing) -> int:
        return writer.outside.number(value)

    def read(self, data: Any, reader: Reading) -> Any:
        return reader.outside.object(_INT.read(data, reader))


class Many(DataForm):
    """A tuple of any length, of one form."""

    def __init__(self, cls: type, item: DataForm) -> None:
        self._cls = cls
        self._item = item

    def write(self, value: Any, writer: Writing) -> list[Any]:
        found = [self._item.write(one, writer) for one in value]
        return found if self._cls is tuple else sorted(found)

    def read(self, data: Any, reader: Reading) -> Any:
        return self._cls([self._item.read(one, reader) for one in _list(data)])


class Row(DataForm):
    """A tuple of fixed length, with a form for each item."""

    def __init__(self, items: tuple[DataForm, ...]) -> None:
        self._items = items

    def write(self, value: Any, writer: Writing) -> list[Any]:
        pairs = zip(self._items, value, strict=True)
        return [item.write(one, writer) for item, one in pairs]

    def read(self, data: Any, reader: Reading) -> tuple[Any, ...]:
        if len(_list(data)) != len(self._items):
            raise Unreadable(f"there are {len(data)} values for {len(self._items)}")
        return tuple(item.read(one, reader) for item, one in zip(self._items, data, strict=True))


class Map(DataForm):
    """A mapping, in its order."""

    def __init__(self, pair: Row) -> None:
        self._pair = pair

    def write(self, value: Any, writer: Writing) -> list[Any]:
        return [self._pair.write(pair, writer) for pair in value.items()]

    def read(self, data: Any, reader: Reading) -> dict[Any, Any]:
        found = dict(self._pair.read(one, reader) for one in _list(data))
        if len(found) != len(data):
            raise Unreadable("a key is there twice")
        return found


class Optional(DataForm):
    """A value, or None."""

    def __init__(self, form: DataForm) -> None:
        self._form = form

    def write(self, value: Any, writer: Writing) -> Any:
        return None if value is None else self._form.write(value, writer)

    def read(self, data: Any, reader: Reading) -> Any:
        return None if data is None else self._form.read(data, reader)


class Choice(DataForm):
    """A union: the number of the form, and a value of that form."""

    def __init__(self, forms: tuple[DataForm, ...]) -> None:
        self._forms = forms

    def write(self, value: Any, writer: Writing) -> list[Any]:
        for number, form in enumerate(self._forms):
            try:
                return [number, form.write(value, writer)]
            except Unwritable:
                continue
        raise Unwritable(f"{type(value).__name__} has no place here")

    def read(self, data: Any, reader: Reading) -> Any:
        if len(_list(data)) != 2 or type(data[0]) is not int or data[0] not in self._numbers:
            raise Unreadable("this is none of several forms")
        return self._forms[data[0]].read(data[1], reader)

    @property
    def _numbers(self) -> range:
        return range(len(self._forms))


def _list(data: Any) -> list[Any]:
    if not isinstance(data, list):
        raise Unreadable(f"a {type(data).__name__} stands for a list")
    return data


_INT = Plain(int)
OUTSIDE = FromOutside()  # the form of objects that writer and reader share
# The forms of values that are JSON data themselves.
PLAIN: dict[type, DataForm] = {
    int: _INT,
    bool: Plain(bool),
    str: Plain(str),
    float: Float(),
}
