"""The decoder of ops, driven by the declared fields: the mirror of `write.ops`.

The parts of an op class to read in one version are derived once (`_Plan`). Results get the types
that the file states; the verifier compares them with the type rule. Values are visible by
construction: an index beyond the values defined so far, or into a block that has ended, is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, NoReturn

from tilewright.bytecode.read.attributes import AttributeReader, ReadTables, attribute_reader
from tilewright.bytecode.read.cursor import Cursor
from tilewright.bytecode.read.debug import LocationList
from tilewright.bytecode.write.ops import layout_of
from tilewright.ir.op import (
    DEEPEST_NESTING,
    Block,
    Field,
    FieldKind,
    Op,
    Value,
    Version,
)
from tilewright.ir.ops import TILE_IR_OPS
from tilewright.ir.text.printer import IMPLIED_ENDINGS
from tilewright.ir.types import Type

__all__ = ["BodyReader"]

_OPS = {op.opcode: op for op in TILE_IR_OPS}


@dataclass(frozen=True)
class _Plan:
    """Parts to read of one op class in one version."""

    op: type[Op]
    counts_results: bool
    results: int  # a lower bound if `more_results`, else exact
    more_results: bool
    has_flags: bool
    flags: tuple[tuple[str, int], ...]  # plain flags with their bit
    known_bits: int
    attributes: tuple[tuple[str, AttributeReader, int], ...]  # with the bit that marks its presence
    operands: tuple[tuple[str, FieldKind, int], ...]  # likewise
    plain_operands: tuple[str, ...]  # if all are required and not counted
    least: int  # minimum number of operands
    counts_operands: bool
    regions: tuple[str, ...]
    from_types: tuple[tuple[str, Callable[[tuple[Type, ...]], Any]], ...]


@cache
def _plans(version: Version) -> dict[int, _Plan]:
    """Return the plans of a version by opcode."""
    held = (op for op in TILE_IR_OPS if op.since <= version and op.opcode is not None)
    return {op.opcode: _plan(op, version) for op in held if op.opcode is not None}


def _plan(op: type[Op], version: Version) -> _Plan:
    layout = layout_of(op, version)
    bit = {field.name: 1 << position for position, field in enumerate(layout.bits)}
    declared = sum(field.kind is FieldKind.RESULT for field in op.fields)
    fixed = sum(field.kind is FieldKind.OPERAND for field in layout.operands)
    is_plain = fixed == len(layout.operands) and not layout.counts_operands
    return _Plan(
        op=op,
        counts_results=layout.counts_results,
        results=declared if layout.results is None else layout.results,
        more_results=any(field.kind is FieldKind.RESULTS for field in op.fields),
        has_flags=bool(layout.bits),
        flags=tuple((f.name, bit[f.name]) for f in layout.bits if f.kind is FieldKind.FLAG),
        known_bits=(1 << len(layout.bits)) - 1,
        attributes=tuple(
            (f.name, attribute_reader(_codec(f)), bit[f.name] if f.optional else 0)
            for f in layout.attributes
        ),
        operands=tuple((f.name, f.kind, bit.get(f.name, 0)) for f in layout.operands),
        plain_operands=tuple(f.name for f in layout.operands) if is_plain else (),
        least=fixed,
        counts_operands=layout.counts_operands,
        regions=tuple(field.name for field in layout.regions),
        from_types=tuple((f.name, f.from_types) for f in op.fields if f.from_types is not None),
    )


def _codec(field: Field) -> Any:
    assert field.codec is not None
    return field.codec


class BodyReader:
    """Reads the ops of one function."""

    def __init__(self, cursor: Cursor, tables: ReadTables, locations: LocationList | None) -> None:
        self._cursor = cursor
        self._tables = tables
        self._types = tables.types
        self._plans = _plans(tables.version)
        self._locations = locations
        self._ops_read = 0
        self._values: list[Value] = []  # visible values by index

    def read_body(self, params: tuple[Value, ...]) -> Block:
        """Read a function's body: ops to the end of the window."""
        cursor, ops = self._cursor, []
        self._values.extend(params)
        while cursor.position < cursor.end:
            ops.append(self._read_op(0))
        return Block(params, ops)

    def _read_op(self, depth: int) -> Op:
        cursor = self._cursor
        start = cursor.position
        plan = self._plans.get(cursor.varint())
        if plan is None:
            self._refuse_opcode(start)
        parts: dict[str, Any] = {}
        if self._locations is not None:
            parts["loc"] = self._locations.of_op(self._ops_read)
            self._ops_read += 1
        results = self._count_results(plan) if plan.counts_results else plan.results
        types = self._types.value_types(results, cursor)
        flags = self._flags(plan, parts) if plan.has_flags else 0
        for name, read, bit in plan.attributes:
            if not bit or flags & bit:
                parts[name] = read(cursor, self._tables, types)
        if plan.plain_operands:
            parts.update(zip(plan.plain_operands, self._read_values(plan.least), strict=True))
        elif plan.operands:
            self._read_operands(plan, flags, parts)
        if plan.regions:
            self._read_regions(plan, parts, depth)
        if types:
            for name, derive in plan.from_types:
                parts[name] = derive(types)
        op = plan.op.restored(parts, types)
        self._values += op.results[: len(types)]
        return op

    def _refuse_opcode(self, start: int) -> NoReturn:
        self._cursor.position = start
        opcode = self._cursor.varint()
        op = _OPS.get(opcode)
        if op is None:
            self._cursor.fail(f"there is no op {opcode:#x}", start)
        since, version = (".".join(map(str, v)) for v in (op.since, self._tables.version))
        self._cursor.fail(f"`{op.mnemonic}` came with {since}, but the file is {version}", start)

    def _count_results(self, plan: _Plan) -> int:
        stated = self._cursor.count("results")
        if stated < plan.results or (stated > plan.results and not plan.more_results):
            wanted = f"`{plan.op.mnemonic}` defines {plan.results} values"
            self._cursor.fail_number(f"{wanted}, not {stated}")
        return stated

    def _flags(self, plan: _Plan, parts: dict[str, Any]) -> int:
        flags = self._cursor.varint()
        if flags & ~plan.known_bits:
            unknown = f"flags that are not known: {flags:#x}"
            self._cursor.fail_number(f"`{plan.op.mnemonic}` has {unknown}")
        for name, bit in plan.flags:
            parts[name] = bool(flags & bit)
        return flags

    def _read_operands(self, plan: _Plan, flags: int, parts: dict[str, Any]) -> None:
        more = None  # rest of a common count, left for optional operands
        if plan.counts_operands:
            more = self._cursor.count("operands") - plan.least
            if more < 0:
                self._cursor.fail_number(f"`{plan.op.mnemonic}` has too few operands")
        for name, kind, bit in plan.operands:
            if kind is FieldKind.OPERAND:
                (parts[name],) = self._read_values(1)
            elif kind is FieldKind.OPERANDS:
                count = self._cursor.count("operands") if more is None else more
                parts[name] = tuple(self._read_values(count))
                more = None if more is None else 0
            elif flags & bit or more:
                (parts[name],) = self._read_values(1)
                more = None if more is None else more - 1
        if more:
            self._cursor.fail(f"`{plan.op.mnemonic}` has too many operands")

    def _read_values(self, count: int) -> list[Value]:
        cursor, values = self._cursor, self._values
        start = cursor.position
        try:
            return [values[number] for number in cursor.varints(count)]
        except IndexError:
            cursor.position = start
        while (number := cursor.varint()) < len(values):
            pass
        cursor.fail_number(f"value {number} is not defined: {len(values)} are visible here")

    def _read_regions(self, plan: _Plan, parts: dict[str, Any], depth: int) -> None:
        cursor = self._cursor
        if depth >= DEEPEST_NESTING:
            cursor.fail(f"regions are nested more than {DEEPEST_NESTING} deep")
        stated = cursor.varint()
        if stated != len(plan.regions):
            wanted = f"`{plan.op.mnemonic}` has {len(plan.regions)} regions"
            cursor.fail_number(f"{wanted}, not {stated}")
        for name in plan.regions:
            blocks = cursor.varint()
            if blocks == 1:
                parts[name] = self._read_block(depth + 1)
            elif blocks == 0 and plan.op in IMPLIED_ENDINGS:
                parts[name] = Block((), [IMPLIED_ENDINGS[plan.op]()])  # omitted
            else:
                cursor.fail_number(f"a region of `{plan.op.mnemonic}` has {blocks} blocks")

    def _read_block(self, depth: int) -> Block:
        """Read a nested block. Its values are numbered after the outer ones, up to its end."""
        cursor, types = self._cursor, self._types
        outside = len(self._values)
        count = cursor.count("arguments")
        args = tuple([Value(type_) for type_ in types.value_types(count, cursor)])
        self._values += args
        block = Block(args, [self._read_op(depth) for _ in range(cursor.count("ops"))])
        del self._values[outside:]
        return block
