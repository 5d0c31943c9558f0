"""The small language in which an op's text form is declared (`assembly=` of its class).

    RoundedBinary   {lhs}, {rhs} {?rounding_mode}rounding<{rounding_mode}>{/} : {result:type}
    MakeTensorView  tview := {base}, shape = [{to.shape/dynamic_shape}], …

Text outside braces is literal; the mnemonic is printed before it.

    {field}          the values, or the attribute, of a field
    {field:type}     the type of its first value        {field:types}   the types of all of them
    {field:kinds}    the types of all of them, or one type if they all have it
    {field:block}    a region in braces, without its implied terminator
    {field:body}     a region on a new line, its arguments first
    {field:counter}  the first argument of a region     {field:carried} argument = initial value, …
    {path/field}     a list whose gaps (None) are filled with the values of a field
    {?field} … {/}   printed only if the field is present: not absent, empty or its default; or if a
                     property of the op of that name is not None
    {a+b}            the values of two fields together, in every form
    name other :=    at the front: the names of the results (`name_0` when one is taken)

A form determines the op: it names each field once, in a position from which the parser recovers it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

__all__ = ["Assembly", "FieldSlot", "Literal", "Node", "OptionalGroup", "parse_assembly"]

_BRACED = re.compile(r"\{([^{}]*)\}")
_NAMES = re.compile(r"^([\w ]+) := ")


@dataclass(frozen=True)
class Literal:
    """Text printed as it stands."""

    text: str


@dataclass(frozen=True)
class FieldSlot:
    """A placeholder for parts of an op."""

    fields: tuple[str, ...]
    form: str = ""
    gaps_of: tuple[str, ...] = ()  # path to a list whose gaps the values fill


@dataclass(frozen=True)
class OptionalGroup:
    """Nodes that are printed only if one of the fields is present."""

    fields: tuple[str, ...]
    nodes: tuple[Node, ...]


Node = Literal | FieldSlot | OptionalGroup  # one element of a form


@dataclass(frozen=True)
class Assembly:
    """A parsed form."""

    names: tuple[str, ...]
    nodes: tuple[Node, ...]


@cache
def parse_assembly(form: str) -> Assembly:
    """Parse a form."""
    named = _NAMES.match(form)
    names = tuple(named[1].split()) if named else ()
    parts = iter(_BRACED.split(form[named.end() :] if named else form))
    nodes = tuple(_nodes(parts))
    if next(parts, None) is not None:
        raise ValueError(f"a group is closed that was not opened: {form!r}")
    return Assembly(names, nodes)


def _nodes(parts: Iterator[str]) -> Iterator[Node]:
    """Iterate over the nodes up to the end of the form or of the group."""
    for text in parts:
        if text:
            yield Literal(text)
        braced = next(parts, None)
        if braced is None or braced == "/":
            return
        if braced.startswith("?"):
            yield OptionalGroup(tuple(braced[1:].split("+")), tuple(_nodes(parts)))
        else:
            yield _slot(braced)


def _slot(braced: str) -> FieldSlot:
    path, _, filler = braced.partition("/")
    if filler:
        return FieldSlot((filler,), gaps_of=tuple(path.split(".")))
    fields, _, form = braced.partition(":")
    return FieldSlot(tuple(fields.split("+")), form)
