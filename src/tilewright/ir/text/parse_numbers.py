"""Numbers and constants from their text.

A constant's elements are parsed before its type is known, as `ConstantText`; `value` converts them
once the type is known.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.dtypes import Element
from tilewright.ir.elements import element_bits, numbers_of_bits, numbers_of_bytes
from tilewright.ir.text.parse_scanner import Scanner
from tilewright.ir.text.parse_types import parse_element
from tilewright.ir.types import TileType

__all__ = ["NUMBER", "ConstantText", "number_of", "parse_constant"]

# Truth values, hexadecimal bits, and numbers with or without a fraction.
NUMBER = re.compile(
    r"true\b|false\b|0x[0-9A-Fa-f]{1,16}(?![0-9A-Fa-f])"
    r"|-?\d{1,400}(?!\d)(?:\.\d{1,400}(?!\d))?(?:[eE][+-]?\d{1,4}(?!\d))?"
)
_BYTES = re.compile(r'"0x((?:[0-9A-Fa-f]{2})*)"')
_DEEPEST = 32  # axes
_TF32_BITS = 19  # as Tile IR counts; NumPy holds tf32 in 32
_TRUTHS = {"true": 1, "false": 0}

Nested = str | list["Nested"]  # the text of one number, or a list of them


@dataclass(frozen=True)
class ConstantText:
    """The unconverted elements of a constant, and their position."""

    element: Element
    elements: Nested | bytes
    position: int

    def value(self, type_: TileType, scanner: Scanner) -> Any:
        """Return the constant as a tile of `type_` holds it."""
        if type_.element is not self.element:
            scanner.refuse(f"elements of {self.element} are no {type_}", self.position)
        if isinstance(self.elements, str):
            return number_of(self.elements, self.element, scanner, self.position)
        if isinstance(self.elements, bytes):
            return self._from_bytes(self.elements, type_, scanner)
        flat: list[str] = []
        if len(type_.shape) > _DEEPEST or not _flatten(self.elements, type_.shape, flat):
            scanner.refuse(f"the lists do not have the shape of {type_}", self.position)
        numbers = [number_of(text, self.element, scanner, self.position) for text in flat]
        return _array(numbers, self.element).reshape(type_.shape)

    def _from_bytes(self, data: bytes, type_: TileType, scanner: Scanner) -> Any:
        truths = self.element is Element.I1  # a byte each in the text
        numbers = (
            np.frombuffer(data, np.uint8) != 0 if truths else numbers_of_bytes(data, self.element)
        )
        if numbers is None or numbers.size != type_.size:
            scanner.refuse(f"{len(data)} bytes are no {type_}", self.position)
        return numbers.reshape(type_.shape)


def parse_constant(scanner: Scanner) -> ConstantText:
    """Parse the elements of a constant, such as `<f32: [1.5, 2.5]>`."""
    start = scanner.position
    scanner.expect("<")
    element = parse_element(scanner)
    scanner.expect(":")
    found = scanner.accept(_BYTES)
    elements = bytes.fromhex(found[1]) if found else _nested(scanner, 0)
    scanner.expect(">")
    return ConstantText(element, elements, start)


def number_of(text: str, element: Element, scanner: Scanner, position: int) -> Any:
    """Convert one number: to a Python number, or to a NumPy scalar that keeps the bits of a NaN."""
    if element.is_integer:
        if text in _TRUTHS and element is Element.I1:
            return bool(_TRUTHS[text])
        if text.startswith("0x"):
            return _folded(_bits_of(text, element, scanner, position), element)
        if not text.lstrip("-").isdigit():
            scanner.refuse(f"{text} is no {element}", position)
        return int(text)
    if text in _TRUTHS:
        scanner.refuse(f"{text} is no {element}", position)
    if not text.startswith("0x"):
        return float(text)
    bits = np.array([_bits_of(text, element, scanner, position)], np.uint64)
    held = numbers_of_bits(bits, element)[0]
    return held if element.is_held_as_bits or held != held else float(held)


def _bits_of(text: str, element: Element, scanner: Scanner, position: int) -> int:
    """Parse hexadecimal bits that must fit the element."""
    bits, width = int(text, 16), _TF32_BITS if element is Element.TF32 else element.bits
    if bits.bit_length() > width:
        scanner.refuse(f"{text} has more than the {width} bits of {element}", position)
    return bits


def _folded(bits: int, element: Element) -> int:
    """Return the bits as a signed number of their width; a truth value is unsigned."""
    return bits if element is Element.I1 else bits - (bits >> element.bits - 1 << element.bits)


def _nested(scanner: Scanner, depth: int) -> Nested:
    if not scanner.accepts("["):
        return scanner.read(NUMBER, "a number, or `[`")[0]
    if depth > _DEEPEST:
        scanner.fail(f"at most {_DEEPEST} lists in one another")
    items: list[Nested] = []
    while not scanner.accepts("]"):
        if items:
            scanner.expect(",")
        items.append(_nested(scanner, depth + 1))
    return items


def _flatten(items: Nested, shape: tuple[int, ...], found: list[str]) -> bool:
    """Flatten nested lists of numbers; return False if they do not have that shape."""
    if isinstance(items, str):
        found.append(items)
        return not shape
    if not shape or len(items) != shape[0]:
        return False
    return all(_flatten(item, shape[1:], found) for item in items)


def _array(numbers: list[Any], element: Element) -> np.ndarray[Any, Any]:
    """Convert element by element, because NumPy would promote mixed numbers to one type first."""
    bits = [int(element_bits([number], element)[0]) for number in numbers]
    return numbers_of_bits(np.array(bits, np.uint64), element)
