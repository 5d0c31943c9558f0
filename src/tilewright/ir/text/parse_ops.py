"""Ops from their text, by the same form (`assembly`) that prints them.

The parser reads each node of a form as the printer writes it. A group is present if its first node
is, unless the text before has settled that. Operand types are compared with the values; result
types are taken as written, or from the type rule where they are omitted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tilewright.ir.op import DEEPEST_NESTING, Block, Effect, Field, FieldKind, Op, Value
from tilewright.ir.ops import TILE_IR_OPS
from tilewright.ir.ops.control import Return
from tilewright.ir.text.assembly import FieldSlot, Literal, Node, OptionalGroup, parse_assembly
from tilewright.ir.text.parse_attributes import begins, parse_attribute
from tilewright.ir.text.parse_numbers import ConstantText
from tilewright.ir.text.parse_scanner import DIALECT, Scanner
from tilewright.ir.text.parse_types import is_type, parse_type
from tilewright.ir.text.parse_values import VALUE, VisibleValues
from tilewright.ir.text.printer import IMPLIED_ENDINGS
from tilewright.ir.types import TileType, Type
from tilewright.source import Location, SourceFile, Span

__all__ = ["BodyParser"]

_OPS = {op.mnemonic: op for op in TILE_IR_OPS} | {
    "pow": next(op for op in TILE_IR_OPS if op.mnemonic == "fpowf")  # its name before 13.4
}


@dataclass(frozen=True)
class BlockArgument:
    """A block argument: its name, the position of the name, and its type."""

    name: str
    place: int
    type: Type


@dataclass
class _Reading:
    """The parsed parts of an op."""

    op: type[Op]
    start: int
    stated: int | None  # number of results named before the op
    depth: int
    fields: dict[str, Field] = field(init=False)
    parts: dict[str, Any] = field(default_factory=dict)
    absent: set[str] = field(default_factory=set)  # fields of groups that are not present
    types: dict[str, tuple[Type, ...]] = field(default_factory=dict)  # of results
    args: list[BlockArgument] = field(default_factory=list)  # of a region
    counter: tuple[str, int] | None = None  # of a loop: name and position
    gaps: list[tuple[FieldSlot, tuple[int | None, ...], int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.fields = {field.name: field for field in self.op.fields}

    @property
    def flags(self) -> set[str]:
        """Fields of the op that are flags."""
        return {name for name, held in self.fields.items() if held.kind is FieldKind.FLAG}

    def derived(self, name: str) -> Any:
        """Return a property of the op that follows from the parsed parts."""
        op = self.op.__new__(self.op)
        op.__dict__.update(self.op.defaults)
        op.__dict__.update(self.parts)
        return getattr(op, name)

    def values(self, names: Sequence[str]) -> tuple[Value, ...]:
        """Return the operands of parsed fields."""
        found: list[Value] = []
        for name in names:
            held = self.parts.get(name, ())
            found.extend(held if isinstance(held, tuple) else (held,))
        return tuple(found)


class BodyParser:
    """Parses the blocks of one function."""

    def __init__(self, scanner: Scanner, file: SourceFile | None) -> None:
        self._scanner = scanner
        self._file = file
        self._visible = VisibleValues()
        self._forms: dict[str, Callable[[_Reading, tuple[str, ...]], None]] = {
            "": self._read_parts,
            "type": self._read_first_type,
            "types": self._read_types,
            "kinds": self._read_kinds,
            "block": self._read_block,
            "body": self._read_combination,
            "counter": self._read_counter,
            "carried": self._read_carried,
        }

    def location(self, position: int) -> Location | None:
        """Return a location in the text, if the text is a file."""
        if self._file is None:
            return None
        line, characters = self._scanner.place(position)
        column = len(self._file.line(line)[:characters].encode())
        return Location(Span(self._file, line, column, line, column + 1))

    def arguments(self) -> list[BlockArgument]:
        """Parse names and types in parentheses."""
        scanner = self._scanner
        found: list[BlockArgument] = []
        scanner.expect("(")
        while not scanner.accepts(")"):
            if found:
                scanner.expect(",")
            name, place = self._visible.name(scanner)
            scanner.expect(":")
            found.append(BlockArgument(name, place, parse_type(scanner)))
        return found

    def block(self, args: list[BlockArgument], parent: type[Op] | None, depth: int) -> Block:
        """Parse a block in braces."""
        scanner = self._scanner
        if depth > DEEPEST_NESTING:
            scanner.fail(f"at most {DEEPEST_NESTING} regions in one another")
        values = tuple(Value(arg.type) for arg in args)
        ops: list[Op] = []
        with self._visible.nested():
            for arg, value in zip(args, values, strict=True):
                self._visible.define(arg.name, (value,), scanner, arg.place)
            scanner.expect("{")
            while not scanner.accepts("}"):
                ops.append(self._op(depth))
        ending = Return if parent is None else IMPLIED_ENDINGS.get(parent)
        if ending is not None and not (ops and ops[-1].effect is Effect.CONTROL):
            ops.append(ending())
        return Block(values, ops)

    def _op(self, depth: int) -> Op:
        scanner = self._scanner
        names = self._visible.results(scanner) if scanner.matches(VALUE) else ()
        start = scanner.position
        kind = _OPS.get(scanner.word("an op").removeprefix(DIALECT))
        if kind is None:
            scanner.position = start
            scanner.fail("an op")
        stated = sum(count for _, count, _ in names) if names else None
        reading = _Reading(kind, start, stated, depth)
        reading.parts["loc"] = self.location(start)
        for node in parse_assembly(kind.assembly).nodes:
            self._read(node, reading)
        op = self._finish(reading)
        position = 0
        for name, count, place in names:
            values = op.results[position : position + count]
            self._visible.define(name, values, scanner, place)
            position += count
        return op

    def _finish(self, reading: _Reading) -> Op:
        scanner, kind, parts = self._scanner, reading.op, reading.parts
        types = self._result_types(reading)
        for region in kind.region_fields:
            if region.name not in parts:
                parts[region.name] = _empty_block(kind)
        for name, held in parts.items():
            if isinstance(held, ConstantText):
                parts[name] = self._constant(held, types)
        for name, declared in reading.fields.items():
            if declared.from_types is not None and types:
                parts[name] = declared.from_types(types)
        op = kind.restored(parts, types)
        if not reading.types.keys() >= {*kind.result_names, kind.rest_name} - {""}:
            op = kind.restored(parts, types + op.result_types()[len(types) :])
        self._check_gaps(op, reading)
        if reading.stated is not None and reading.stated != len(op.results):
            reason = f"`{kind.mnemonic}` defines {len(op.results)} values, not {reading.stated}"
            scanner.refuse(reason, reading.start)
        return op

    def _result_types(self, reading: _Reading) -> tuple[Type, ...]:
        found: list[Type] = []
        for name in (*reading.op.result_names, reading.op.rest_name):
            if name not in reading.types:
                break
            found.extend(reading.types[name])
        return tuple(found)

    def _constant(self, held: ConstantText, types: tuple[Type, ...]) -> Any:
        if not types or not isinstance(types[0], TileType):
            self._scanner.refuse("only tiles have elements", held.position)
        return held.value(types[0], self._scanner)

    def _check_gaps(self, op: Op, reading: _Reading) -> None:
        """Compare the numbers in a list with those of the result type."""
        for slot, written, start in reading.gaps:
            held: Any = op
            for name in slot.gaps_of:
                held = getattr(held, name, None)
            if held != written:
                self._scanner.refuse(f"the list does not agree with {op.results[0].type}", start)

    # --- parts of a form --------------------------------------------------------------------------

    def _read(self, node: Node, reading: _Reading) -> None:
        if isinstance(node, Literal):
            self._scanner.expect(node.text)
        elif isinstance(node, FieldSlot):
            if node.gaps_of:
                self._read_gaps(node, reading)
            else:
                self._forms[node.form](reading, node.fields)
        elif self._is_there(node, reading):
            for inner in node.nodes:
                self._read(inner, reading)
            for name in node.fields:
                if name in reading.flags:
                    reading.parts[name] = True
        else:
            reading.absent.update(name for name in node.fields if name not in reading.parts)

    def _is_there(self, group: OptionalGroup, reading: _Reading) -> bool:
        known = [self._is_known(name, reading) for name in group.fields]
        if any(known) or None not in known:
            return any(known)
        return self._begins(group.nodes, reading)

    def _is_known(self, name: str, reading: _Reading) -> bool | None:
        """Whether a part is present, or None if the text before has not settled it."""
        if name in (*reading.op.result_names, reading.op.rest_name):
            return bool(reading.stated)
        if name not in reading.fields:
            return reading.derived(name) is not None
        if name in reading.absent:
            return False
        return reading.parts[name] != () if name in reading.parts else None

    def _begins(self, nodes: tuple[Node, ...], reading: _Reading) -> bool:
        """Whether the next token is the first of these nodes."""
        scanner = self._scanner
        for node in nodes:
            if isinstance(node, Literal):
                if node.text.strip():
                    return scanner.sees(node.text)
            elif isinstance(node, OptionalGroup):
                return self._begins(node.nodes, reading)
            elif node.form in ("type", "types", "kinds"):
                return is_type(scanner)
            else:
                codec = reading.fields[node.fields[0]].codec
                return scanner.matches(VALUE) if codec is None else begins(scanner, codec)
        return False

    def _read_parts(self, reading: _Reading, names: tuple[str, ...]) -> None:
        for name in names:
            declared = reading.fields[name]
            if declared.codec is not None:
                reading.parts[name] = parse_attribute(self._scanner, declared.codec)
            elif declared.kind is FieldKind.OPERANDS:
                reading.parts[name] = self._values()
            else:
                reading.parts[name] = self._visible.use(self._scanner)

    def _values(self) -> tuple[Value, ...]:
        scanner = self._scanner
        if not scanner.matches(VALUE):
            return ()
        found = [self._visible.use(scanner)]
        while scanner.accepts(","):
            found.append(self._visible.use(scanner))
        return tuple(found)

    def _read_gaps(self, slot: FieldSlot, reading: _Reading) -> None:
        """Parse a list of numbers and values; the values are the operands of the field."""
        scanner, start = self._scanner, self._scanner.position
        entries: list[int | None] = []
        values: list[Value] = []
        while not scanner.sees("]"):
            if entries:
                scanner.expect(",")
            if scanner.matches(VALUE):
                values.append(self._visible.use(scanner))
                entries.append(None)
            else:
                entries.append(scanner.whole("a number or a value"))
        reading.parts[slot.fields[0]] = tuple(values)
        reading.gaps.append((slot, tuple(entries), start))

    def _read_first_type(self, reading: _Reading, names: tuple[str, ...]) -> None:
        self._take_types(reading, names, 1)

    def _read_types(self, reading: _Reading, names: tuple[str, ...]) -> None:
        self._take_types(reading, names, None)

    def _read_kinds(self, reading: _Reading, names: tuple[str, ...]) -> None:
        alike = len({value.type for value in reading.values(names)}) == 1
        self._take_types(reading, names, 1 if alike else None)

    def _take_types(self, reading: _Reading, names: tuple[str, ...], count: int | None) -> None:
        """Parse `count` types, or any number: keep those of results, check those of operands."""
        scanner, start = self._scanner, self._scanner.position
        if names[0] in reading.op.result_names:
            reading.types[names[0]] = (parse_type(scanner),)
            return
        if names[0] == reading.op.rest_name:
            stated = reading.stated or 0
            types = self._listed_types(stated if count is None else min(count, stated))
            reading.types[names[0]] = types * stated if count == 1 else types
            return
        wanted = tuple(value.type for value in reading.values(names))[:count]
        for type_, found in zip(wanted, self._listed_types(len(wanted)), strict=True):
            if type_ != found:
                scanner.refuse(f"the operand is {type_}, not {found}", start)

    def _listed_types(self, count: int) -> tuple[Type, ...]:
        types: list[Type] = []
        while len(types) < count:
            if types:
                self._scanner.expect(",")
            types.append(parse_type(self._scanner))
        return tuple(types)

    # --- regions ----------------------------------------------------------------------------------

    def _read_block(self, reading: _Reading, names: tuple[str, ...]) -> None:
        args, reading.args = reading.args, []
        if reading.counter is not None:
            counted = reading.values([field.name for field in reading.op.operand_fields])[0]
            args = [BlockArgument(*reading.counter, counted.type), *args]
        reading.parts[names[0]] = self.block(args, reading.op, reading.depth + 1)

    def _read_combination(self, reading: _Reading, names: tuple[str, ...]) -> None:
        reading.args = self.arguments()
        self._read_block(reading, names)

    def _read_counter(self, reading: _Reading, _names: tuple[str, ...]) -> None:
        """Parse the counter; its type is that of the first operand, which follows later."""
        reading.counter = self._visible.name(self._scanner)

    def _read_carried(self, reading: _Reading, _names: tuple[str, ...]) -> None:
        scanner = self._scanner
        initial: list[Value] = []
        while not initial or scanner.accepts(","):
            name, place = self._visible.name(scanner)
            scanner.expect("=")
            initial.append(self._visible.use(scanner))
            reading.args.append(BlockArgument(name, place, initial[-1].type))
        reading.parts["init_values"] = tuple(initial)


def _empty_block(parent: type[Op]) -> Block:
    """Return an omitted region, with its implied terminator."""
    return Block((), [IMPLIED_ENDINGS[parent]()])
