"""Attributes from their text: one parser for each codec class, as in the bytecode and the printer.

The context decides how a self-describing number is read: in a list it keeps its element, as
identities do; in a dictionary it is a plain number, as in hints.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

from tilewright.dtypes import Element
from tilewright.ir import codecs
from tilewright.ir.attributes import (
    Attribute,
    Bounded,
    DenseElements,
    Dictionary,
    DivBy,
    FloatIdentity,
    IntIdentity,
    Promise,
    SameElements,
    TargetHints,
)
from tilewright.ir.elements import element_bits
from tilewright.ir.text.attributes import spelling
from tilewright.ir.text.parse_numbers import NUMBER, number_of, parse_constant
from tilewright.ir.text.parse_scanner import IDENTIFIER, INTEGER, Scanner
from tilewright.ir.text.parse_types import parse_any_type, parse_element, parse_type
from tilewright.ir.types import FunctionType, TileType, Type

__all__ = ["begins", "parse_attribute", "parse_hints"]

_DEEPEST = 16

_Item = TypeVar("_Item")


def parse_attribute(scanner: Scanner, codec: codecs.AttributeCodec) -> Any:
    """Parse one attribute of an op; a constant is returned as its `ConstantText`."""
    return _PARSERS[type(codec)](scanner, codec)


def begins(scanner: Scanner, codec: codecs.AttributeCodec) -> bool:
    """Whether an optional attribute comes next; only keywords can be recognised."""
    found = IDENTIFIER.match(scanner.text, scanner.position)
    return isinstance(codec, codecs.EnumCodec) and found is not None and found[0] in _members(codec)


def parse_hints(scanner: Scanner) -> TargetHints:
    """Parse hints by target, in angle brackets."""
    scanner.expect("<")
    return TargetHints(_named(scanner, ">", _advice))


def _enum(scanner: Scanner, codec: codecs.EnumCodec) -> Any:
    members = _members(codec)
    start = scanner.position
    word = scanner.word(" or ".join(f"`{name}`" for name in members))
    if word not in members:
        known = ", ".join(f"`{name}`" for name in members)
        scanner.refuse(f"expected one of {known}, found `{word}`", start)
    return members[word]


@cache
def _members(codec: codecs.EnumCodec) -> dict[str, Any]:
    return {spelling(member): member for member in codec.enum}


def _integer(scanner: Scanner, _codec: codecs.AttributeCodec) -> int:
    return scanner.whole()


def _bool(scanner: Scanner, _codec: codecs.AttributeCodec) -> bool:
    return _truth(scanner)


def _string(scanner: Scanner, _codec: codecs.AttributeCodec) -> str:
    return scanner.string()


def _symbol(scanner: Scanner, _codec: codecs.AttributeCodec) -> str:
    return scanner.symbol("the name of a global")


def _integers(scanner: Scanner, _codec: codecs.AttributeCodec) -> tuple[int, ...]:
    return tuple(_listed(scanner, Scanner.integer))


def _bools(scanner: Scanner, _codec: codecs.AttributeCodec) -> tuple[bool, ...]:
    return tuple(_listed(scanner, _truth))


def _items(scanner: Scanner, _codec: codecs.AttributeCodec) -> tuple[Attribute, ...]:
    return tuple(_listed(scanner, _tagged))


def _constant(scanner: Scanner, _codec: codecs.AttributeCodec) -> Any:
    return parse_constant(scanner)


def _promise(scanner: Scanner, _codec: codecs.AttributeCodec) -> Promise:
    for word, parse in _PROMISES.items():
        if scanner.accepts(word):
            return parse(scanner)
    scanner.fail(" or ".join(f"`{word}`" for word in _PROMISES))


def _hints(scanner: Scanner, _codec: codecs.AttributeCodec) -> TargetHints:
    return parse_hints(scanner)


_PARSERS: dict[type[codecs.AttributeCodec], Callable[[Scanner, Any], Any]] = {
    codecs.EnumCodec: _enum,
    codecs.IntCodec: _integer,
    codecs.BoolCodec: _bool,
    codecs.StringCodec: _string,
    codecs.SymbolCodec: _symbol,
    codecs.Int32ArrayCodec: _integers,
    codecs.BoolArrayCodec: _bools,
    codecs.ConstantCodec: _constant,
    codecs.ArrayCodec: _items,
    codecs.PredicateCodec: _promise,
    codecs.HintsCodec: _hints,
}


def _listed(scanner: Scanner, parse: Callable[[Scanner], Any]) -> list[Any]:
    """Parse items separated by commas, up to a closing bracket."""
    if scanner.sees("]"):
        return []
    items = [parse(scanner)]
    while scanner.accepts(","):
        items.append(parse(scanner))
    return items


def _truth(scanner: Scanner) -> bool:
    if scanner.accepts("true"):
        return True
    if not scanner.accepts("false"):
        scanner.fail("`true` or `false`")
    return False


# --- promises -------------------------------------------------------------------------------------


def _div_by(scanner: Scanner) -> DivBy:
    every = along = None
    scanner.expect("<")
    divisor = scanner.whole()
    if scanner.accepts(", every"):
        every = scanner.whole()
    if scanner.accepts("along"):
        along = scanner.whole()
    scanner.expect(">")
    return DivBy(divisor, every, along)


def _same_elements(scanner: Scanner) -> SameElements:
    scanner.expect("<[")
    groups = tuple(_listed(scanner, Scanner.integer))
    scanner.expect("]>")
    return SameElements(groups)


def _bounded(scanner: Scanner) -> Bounded:
    scanner.expect("<")
    lower = _bound(scanner)
    scanner.expect(",")
    upper = _bound(scanner)
    scanner.expect(">")
    return Bounded(lower, upper)


def _bound(scanner: Scanner) -> int | None:
    return None if scanner.accepts("?") else scanner.whole("a number or `?`")


_PROMISES: dict[str, Callable[[Scanner], Promise]] = {
    "div_by": _div_by,
    "same_elements": _same_elements,
    "bounded": _bounded,
}


# --- self-describing attributes -------------------------------------------------------------------


def _named(
    scanner: Scanner, closing: str, parse: Callable[[Scanner], _Item]
) -> tuple[tuple[str, _Item], ...]:
    """Parse names and values up to a closing bracket."""
    items: list[tuple[str, _Item]] = []
    while not scanner.accepts(closing):
        if items:
            scanner.expect(",")
        name = scanner.string() if scanner.sees('"') else scanner.word("a name")
        scanner.expect("=")
        items.append((name, parse(scanner)))
    return tuple(items)


def _advice(scanner: Scanner) -> Dictionary:
    """Parse the hints for one target; an integer among them has 32 bits."""
    scanner.expect("{")
    return Dictionary(_named(scanner, "}", _hint))


def _hint(scanner: Scanner) -> Attribute:
    return _plain(_tagged(scanner, 1), Element.I64)  # the element of an untyped number


def _plain(found: Attribute, element: Element) -> Attribute:
    """Return a truth value, or an integer of `element` as a plain number."""
    if not isinstance(found, IntIdentity):
        return found
    if found.element is Element.I1:
        return bool(found.value)
    above = found.value >> (element.bits - 1) << element.bits
    return found.value - above if found.element is element else found


def _tagged(scanner: Scanner, depth: int = 0) -> Attribute:
    """Parse any self-describing attribute."""
    if depth > _DEEPEST:
        scanner.fail(f"at most {_DEEPEST} attributes in one another")
    for beginning, parse in _BEGINNINGS.items():
        if scanner.accepts(beginning):
            return parse(scanner, depth + 1)
    if scanner.sees('"'):
        return scanner.string()
    return _number(scanner) if scanner.matches(NUMBER) else parse_element(scanner)


def _array(scanner: Scanner, depth: int) -> tuple[Attribute, ...]:
    array = tuple(_listed(scanner, lambda inner: _tagged(inner, depth)))
    scanner.expect("]")
    return array


def _dictionary(scanner: Scanner, depth: int) -> Dictionary:
    return Dictionary(_named(scanner, "}", lambda inner: _in_dictionary(inner, depth)))


def _in_dictionary(scanner: Scanner, depth: int) -> Attribute:
    return _plain(_tagged(scanner, depth), Element.I32)


def _function(scanner: Scanner, _depth: int) -> FunctionType:
    params = _types(scanner)
    scanner.expect("->")
    results = _types(scanner) if scanner.accepts("(") else (_type(scanner),)
    return FunctionType(params, results)


def _types(scanner: Scanner) -> tuple[Type, ...]:
    """Parse types up to a closing parenthesis."""
    types: list[Type] = []
    while not scanner.accepts(")"):
        if types:
            scanner.expect(",")
        types.append(_type(scanner))
    return tuple(types)


def _type(scanner: Scanner) -> Type:
    scanner.expect("!cuda_tile.")
    return parse_type(scanner)


def _number(scanner: Scanner) -> Attribute:
    """Parse a number and its element, which may be omitted where MLIR assumes it."""
    text = scanner.read(NUMBER, "a number")[0]
    if scanner.accepts(":"):
        return _typed(text, parse_element(scanner), scanner)
    if text in ("true", "false"):
        return _typed(text, Element.I1, scanner)
    return _typed(text, Element.I64 if INTEGER.fullmatch(text) else Element.F64, scanner)


def _typed(text: str, element: Element, scanner: Scanner) -> Attribute:
    value = number_of(text, element, scanner, scanner.position)
    if element.is_integer:
        return IntIdentity(element, int(element_bits([value], element)[0]))
    return FloatIdentity(element, value)


def _dense(scanner: Scanner, _depth: int) -> DenseElements:
    elements = parse_constant(scanner)
    scanner.expect(":")
    start = scanner.position
    type_ = _type(scanner)
    if not isinstance(type_, TileType):
        scanner.refuse("only tiles have elements", start)
    return DenseElements(type_, elements.value(type_, scanner))


# Parsers by first token; a string, a number or an element begins with itself.
_BEGINNINGS: dict[str, Callable[[Scanner, int], Attribute]] = {
    "[": _array,
    "{": _dictionary,
    "(": _function,
    "dense": _dense,
    "!cuda_tile.": lambda scanner, _depth: parse_any_type(scanner),
    "#cuda_tile.optimization_hints": lambda scanner, _depth: parse_hints(scanner),
    "#cuda_tile.": lambda scanner, _depth: _promise(scanner, codecs.PredicateCodec()),
}
