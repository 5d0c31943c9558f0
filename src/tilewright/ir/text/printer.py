"""Modules as text, in the dialect of `tileirdisasm`: for the same module the two agree.

The `assembly` of an op is its text form (see `assembly.py`); internal ops have none and are printed
with all their parts and names. The text is for readers and for tests; tileiras reads bytecode.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from tilewright.deep_calls import with_room
from tilewright.ir.attributes import Visibility
from tilewright.ir.codecs import BoolArrayCodec
from tilewright.ir.function import Function, Global, Module
from tilewright.ir.op import Block, Field, FieldKind, Op, Value
from tilewright.ir.ops.control import Continue, For, If, Loop, Yield
from tilewright.ir.ops.shape import Constant
from tilewright.ir.text.assembly import FieldSlot, Literal, Node, OptionalGroup, parse_assembly
from tilewright.ir.text.attributes import attribute_text, hints_text
from tilewright.ir.text.names import Names, name_values
from tilewright.ir.text.numbers import constant_text, long_constant_length, symbol_text
from tilewright.ir.types import TileType

__all__ = ["IMPLIED_ENDINGS", "function_text", "least_length", "module_text"]

_INDENT = "  "
# Terminators that are not printed if they pass on no values, by the op of the region.
IMPLIED_ENDINGS: dict[type[Op], type[Op]] = {If: Yield, For: Continue, Loop: Continue}


def module_text(module: Module) -> str:
    """Return the text of a module: its producer, if known, then its globals and its functions."""
    producer = f"// Producer: {_on_one_line(module.producer)}\n" if module.producer else ""
    parts = [*map(_global_text, module.globals), *map(function_text, module.functions)]
    return producer + ("".join(parts) or "\n")


def _on_one_line(text: str) -> str:
    """Escape characters that would end the comment or control a terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def least_length(module: Module) -> int:
    """Return a lower bound of the length of a module's text: that of its long constants.

    The bytecode holds a constant once, the text repeats it at each use, so that a text may be many
    thousand times as long as its file.
    """
    held = [(one.value, one.type) for one in module.globals]
    for function in module.functions:
        held += with_room(partial(_constants, function))
    return sum(long_constant_length(value, type_) for value, type_ in held)


def _constants(function: Function) -> list[tuple[Any, TileType]]:
    return [(op.value, op.to) for op in function.walk() if isinstance(op, Constant)]


def function_text(function: Function) -> str:
    """Return the text of a function, ending in a newline, at any depth of nesting."""
    return with_room(partial(_function_text, function))


def _function_text(function: Function) -> str:
    printer = _Printer(name_values(function.body))
    params = printer.arguments(function.body)
    advice = ""
    if function.hints is not None and function.hints.targets:
        advice = f" optimization_hints={hints_text(function.hints)}"
    body = printer.block(function.body, 0, None)
    return f"entry {symbol_text(function.name)}({params}){advice} {body}\n"


def _global_text(held: Global) -> str:
    """Return the text of a global, with a final newline, in the spacing of the vendor's printer."""
    visibility = "private " if held.visibility is Visibility.PRIVATE else ""
    constant = " constant" if held.constant else ""
    alignment = f" alignment = {held.alignment}" if held.alignment else ""
    value = constant_text(held.value, held.type)
    name = symbol_text(held.name)
    return f"global {visibility}{constant} {name}{alignment} {value} : {held.type}\n"


class _Printer:
    def __init__(self, names: Names) -> None:
        self._names = names
        self._forms: dict[str, Callable[[Op, tuple[str, ...], int], str]] = {
            "": self._parts,
            "type": self._first_type,
            "types": self._types,
            "kinds": self._kinds,
            "block": self._nested,
            "body": self._combination,
            "counter": self._counter,
            "carried": self._carried,
        }

    def arguments(self, block: Block) -> str:
        """Return the arguments of a block, with their types."""
        return ", ".join(f"{self._names.of(value)}: {value.type}" for value in block.args)

    def block(self, block: Block, depth: int, parent: Op | None) -> str:
        """Return a block in braces."""
        shown = block.ops
        implied = None if parent is None else IMPLIED_ENDINGS.get(type(parent))
        if shown and type(shown[-1]) is implied and not shown[-1].operands:
            shown = shown[:-1]
        inner = [f"{_INDENT * (depth + 1)}{self.op(op, depth + 1)}\n" for op in shown]
        return f"{{\n{''.join(inner)}{_INDENT * depth}}}"

    def op(self, op: Op, depth: int) -> str:
        """Return one op, with all ops nested in it."""
        results = self._names.results.get(op)
        form = parse_assembly(op.assembly)
        rest = self._render(op, form.nodes, depth) if op.assembly else self._generic(op, depth)
        text = f"{op.mnemonic} {rest}" if rest else op.mnemonic
        return f"{results} = {text}" if results else text

    def _render(self, op: Op, nodes: tuple[Node, ...], depth: int) -> str:
        texts = [self._node(op, node, depth) for node in nodes]  # before `join`: see `deep_calls`
        return "".join(texts)

    def _node(self, op: Op, node: Node, depth: int) -> str:
        if isinstance(node, Literal):
            return node.text
        if isinstance(node, OptionalGroup):
            there = any(_is_present(op, name) for name in node.fields)
            return self._render(op, node.nodes, depth) if there else ""
        if node.gaps_of:
            return self._filled(op, node)
        return self._forms[node.form](op, node.fields, depth)

    def _parts(self, op: Op, names: tuple[str, ...], _depth: int) -> str:
        fields = {field.name: field for field in op.fields}
        return ", ".join(self._part(op, fields[name]) for name in names)

    def _part(self, op: Op, field: Field) -> str:
        if field.codec is not None:
            return attribute_text(field.codec, getattr(op, field.name), op)
        return ", ".join(map(self._names.of, _values(op, field.name)))

    def _first_type(self, op: Op, names: tuple[str, ...], _depth: int) -> str:
        values = [value for name in names for value in _values(op, name)]
        return str(values[0].type) if values else ""

    def _types(self, op: Op, names: tuple[str, ...], _depth: int) -> str:
        return ", ".join(str(value.type) for name in names for value in _values(op, name))

    def _kinds(self, op: Op, names: tuple[str, ...], depth: int) -> str:
        values = [value for name in names for value in _values(op, name)]
        alike = len({value.type for value in values}) == 1
        return self._first_type(op, names, depth) if alike else self._types(op, names, depth)

    def _filled(self, op: Op, slot: FieldSlot) -> str:
        held: object = op
        for name in slot.gaps_of:
            held = getattr(held, name)
        assert isinstance(held, tuple)
        values = iter(_values(op, slot.fields[0]))
        return ", ".join(
            self._names.of(next(values)) if part is None else str(part) for part in held
        )

    def _nested(self, op: Op, names: tuple[str, ...], depth: int) -> str:
        return self.block(getattr(op, names[0]), depth, op)

    def _combination(self, op: Op, names: tuple[str, ...], depth: int) -> str:
        body: Block = getattr(op, names[0])
        return f"\n{_INDENT * depth}({self.arguments(body)}) {self.block(body, depth, op)}"

    def _counter(self, op: Op, names: tuple[str, ...], _depth: int) -> str:
        body: Block = getattr(op, names[0])
        return self._names.of(body.args[0])

    def _carried(self, op: Op, names: tuple[str, ...], _depth: int) -> str:
        body: Block = getattr(op, names[0])
        initial = _values(op, "init_values")
        arguments = body.args[len(body.args) - len(initial) :]
        pairs = zip(arguments, initial, strict=True)
        return ", ".join(f"{self._names.of(a)} = {self._names.of(v)}" for a, v in pairs)

    def _generic(self, op: Op, depth: int) -> str:
        """Return every part of an op by name, for ops without an assembly form."""
        parts = [part for field in op.fields for part in self._generic_part(op, field)]
        types = ", ".join(str(value.type) for value in op.results)
        blocks = [self.arguments_and_block(block, depth, op) for block in op.regions]
        return " ".join([", ".join(parts), *([f": {types}"] if types else []), *blocks]).strip()

    def arguments_and_block(self, block: Block, depth: int, parent: Op) -> str:
        """Return a block after its arguments."""
        return f"({self.arguments(block)}) {self.block(block, depth, parent)}"

    def _generic_part(self, op: Op, field: Field) -> Iterator[str]:
        if field.kind.is_operand and _values(op, field.name):
            yield f"{field.name}={self._part(op, field)}"
        elif field.kind in (FieldKind.ATTR, FieldKind.FLAG):
            yield f"{field.name}={getattr(op, field.name)}"


def _values(op: Op, name: str) -> tuple[Value, ...]:
    held = getattr(op, name)
    if isinstance(held, tuple):
        return held
    return () if held is None else (held,)


def _is_present(op: Op, name: str) -> bool:
    """Whether a part is present: not absent, empty or its default."""
    held = getattr(op, name)
    field = next((field for field in op.fields if field.name == name), None)
    if field is None:
        return held is not None
    if isinstance(field.codec, BoolArrayCodec):
        return any(held)
    if field.kind in (FieldKind.ATTR, FieldKind.FLAG):
        return bool(held != field.default)
    return held not in (None, ())
