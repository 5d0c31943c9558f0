"""Modules from their text: the dialect of `tileirdisasm`, which the printer writes.

As in NVIDIA's own sources, keywords may have the prefix `cuda_tile.`, a module may have a header,
an entry may omit its `return`, and integers may be hexadecimal.

The parser builds ops without applying their rules; the verifier checks those. Malformed text is
refused with the line, the column and the expected token.
"""

from __future__ import annotations

import re
from functools import partial

from tilewright.deep_calls import with_room
from tilewright.ir.attributes import Visibility
from tilewright.ir.function import Function, Global, Module
from tilewright.ir.text.parse_attributes import parse_hints
from tilewright.ir.text.parse_numbers import parse_constant
from tilewright.ir.text.parse_ops import BodyParser
from tilewright.ir.text.parse_scanner import DIALECT, Scanner
from tilewright.ir.text.parse_types import parse_type
from tilewright.ir.types import TileType
from tilewright.source import SourceFile

__all__ = ["parse_module"]

_PRODUCER = re.compile(r"\s*// Producer: ([^\n]*)")


def parse_module(text: str, path: str | None = None) -> Module:
    """Parse a module. With a `path`, ops record their location in that file."""
    return with_room(partial(_module, text, path))


def _module(text: str, path: str | None) -> Module:
    scanner = Scanner(text)
    file = None if path is None else SourceFile(path, tuple(text.split("\n")))
    functions: list[Function] = []
    globals_: list[Global] = []
    is_wrapped = _opens_module(scanner)
    while not (scanner.accepts("}") if is_wrapped else scanner.at_end):
        scanner.accepts(DIALECT)
        if scanner.accepts("entry"):
            functions.append(_entry(scanner, file))
        elif scanner.accepts("global"):
            globals_.append(_global(scanner))
        else:
            scanner.fail("`entry` or `global`")
    if not scanner.at_end:
        scanner.fail("the end of the text")
    producer = _PRODUCER.match(text)
    return Module(
        tuple(functions), globals=tuple(globals_), producer=producer[1] if producer else None
    )


def _opens_module(scanner: Scanner) -> bool:
    """Parse the header of a module, `cuda_tile.module @name {`, which may be omitted."""
    start = scanner.position
    scanner.accepts(DIALECT)
    if not (scanner.accepts("module") and scanner.sees("@")):
        scanner.position = start
        return False
    scanner.symbol("the name of a module")
    scanner.expect("{")
    return True


def _entry(scanner: Scanner, file: SourceFile | None) -> Function:
    parser = BodyParser(scanner, file)
    loc = parser.location(scanner.position)
    name = scanner.symbol("the name of an entry")
    params = parser.arguments()
    hints = None
    if scanner.accepts("optimization_hints"):
        scanner.expect("=")
        hints = parse_hints(scanner)
    return Function(name, parser.block(params, None, 0), hints, loc)


def _global(scanner: Scanner) -> Global:
    private, constant = scanner.accepts("private"), scanner.accepts("constant")
    name = scanner.symbol("the name of a global")
    alignment = 0
    if scanner.accepts("alignment"):
        scanner.expect("=")
        alignment = scanner.whole()
    elements = parse_constant(scanner)
    scanner.expect(":")
    start = scanner.position
    type_ = parse_type(scanner)
    if not isinstance(type_, TileType):
        scanner.refuse("a global is a tile", start)
    visibility = Visibility.PRIVATE if private else Visibility.PUBLIC
    value = elements.value(type_, scanner)
    return Global(name, type_, value, alignment, visibility, constant)
