"""The encoder of ops, driven by the declared fields.

Every op has the same encoding: opcode, result types, flags, attributes, operands, regions. The
declaration determines the number of each, once for each op class and version (`OpLayout`).
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.bytecode.write.attributes import AttributeContext, Tables, put_attribute
from tilewright.bytecode.write.stream import ByteStream
from tilewright.errors import InternalError
from tilewright.ir.op import Block, Field, FieldKind, Op, Value, Version

__all__ = ["BodyWriter", "OpLayout", "layout_of"]


@dataclass(frozen=True)
class OpLayout:
    """The parts of an op class that one bytecode version writes, in its order."""

    opcode: int
    counts_results: bool
    results: int | None  # number of results written; None: all of them
    bits: tuple[Field, ...]  # optional parts, from the lowest flag bit up
    attributes: tuple[Field, ...]
    operands: tuple[Field, ...]
    counts_operands: bool
    regions: tuple[Field, ...]


_LAYOUTS: dict[tuple[type[Op], Version], OpLayout] = {}


def layout_of(op: type[Op], version: Version) -> OpLayout:
    """Return the layout of an op class in one version, derived from the declaration once."""
    found = _LAYOUTS.get((op, version))
    if found is None:
        found = _LAYOUTS[op, version] = _derive_layout(op, version)
    return found


def _derive_layout(op: type[Op], version: Version) -> OpLayout:
    if op.opcode is None:
        raise InternalError(f"`{op.mnemonic}` is an internal op and cannot be encoded")
    fields = [field for field in op.fields if field.since <= version]
    operands = [field for field in fields if field.kind.is_operand]
    dropped = any(f.kind is FieldKind.RESULT for f in op.fields if f not in fields)
    fixed = sum(f.kind is FieldKind.RESULT for f in fields)
    variadic = any(f.kind in (FieldKind.OPERANDS, FieldKind.RESULTS) for f in op.fields)
    open_ended = any(f.kind is not FieldKind.OPERAND for f in operands)
    return OpLayout(
        opcode=op.opcode,
        counts_results=variadic,
        results=fixed if dropped else None,
        bits=_flag_bits(op, fields),
        attributes=tuple(f for f in fields if f.kind is FieldKind.ATTR and f.codec is not None),
        operands=tuple(operands),
        counts_operands=open_ended and not op.segmented,
        regions=tuple(f for f in fields if f.kind is FieldKind.REGION),
    )


def _flag_bits(op: type[Op], fields: list[Field]) -> tuple[Field, ...]:
    """Return the optional fields: by version, attributes before operands, as declared."""
    attributes = [f for f in fields if f.kind is FieldKind.FLAG or f.optional]
    operands = [f for f in fields if f.kind is FieldKind.OPTIONAL_OPERAND and op.segmented]
    return tuple(sorted(attributes + operands, key=lambda field: field.since))


class BodyWriter:
    """Writes the ops of one function and numbers its values."""

    def __init__(self, tables: Tables) -> None:
        self.stream = ByteStream()
        self.places: list[tuple[int, Op]] = []  # offset of each op, in the order written
        self._tables = tables
        self._numbers: dict[Value, int] = {}
        self._next = 0

    def write_body(self, body: Block) -> None:
        """Write a function's body: its parameters are the first values; ops are not counted."""
        self._number_values(body.args)
        for op in body.ops:
            self._write_op(op)

    def _number_values(self, values: tuple[Value, ...]) -> None:
        for value in values:
            self._numbers[value] = self._next
            self._next += 1

    def _write_op(self, op: Op) -> None:
        layout = layout_of(type(op), self._tables.version)
        self.places.append((len(self.stream), op))
        self.stream.put_varint(layout.opcode)
        results = op.results[: layout.results]
        self._write_result_types(results, layout)
        present = self._write_flags(op, layout)
        for field in layout.attributes:
            if not field.optional or field in present:
                self._write_attribute(op, field)
        self._write_operands(op, layout)
        self._write_regions(op, layout)
        self._number_values(results)

    def _write_result_types(self, results: tuple[Value, ...], layout: OpLayout) -> None:
        if layout.counts_results:
            self.stream.put_varint(len(results))
        for value in results:
            self.stream.put_varint(self._tables.types.type(value.type))

    def _write_flags(self, op: Op, layout: OpLayout) -> frozenset[Field]:
        """Write one bit for each optional field; return the fields that are present."""
        if not layout.bits:
            return frozenset()
        present = [getattr(op, field.name) not in (None, False) for field in layout.bits]
        self.stream.put_varint(sum(bit << position for position, bit in enumerate(present)))
        return frozenset(f for f, there in zip(layout.bits, present, strict=True) if there)

    def _write_attribute(self, op: Op, field: Field) -> None:
        assert field.codec is not None
        put_attribute(
            self.stream, getattr(op, field.name), AttributeContext(op, field.codec, self._tables)
        )

    def _write_operands(self, op: Op, layout: OpLayout) -> None:
        if layout.counts_operands:
            self.stream.put_varint(len(op.operands))
        for field in layout.operands:
            values = _values_of(op, field)
            if field.kind is FieldKind.OPERANDS and op.segmented:
                self.stream.put_varint(len(values))
            for value in values:
                self._write_value(value, op)

    def _write_value(self, value: Value, op: Op) -> None:
        number = self._numbers.get(value)
        if number is None:
            raise InternalError(f"`{op.mnemonic}` uses {value!r}, which nothing before it defines")
        self.stream.put_varint(number)

    def _write_regions(self, op: Op, layout: OpLayout) -> None:
        if not layout.regions:
            return
        self.stream.put_varint(len(layout.regions))
        for field in layout.regions:
            self.stream.put_varint(1)
            self._write_block(getattr(op, field.name))

    def _write_block(self, block: Block) -> None:
        """Write a nested block. Its values are numbered after the outer ones, up to its end."""
        first = self._next
        self._number_values(block.args)
        self.stream.put_varint(len(block.args))
        for value in block.args:
            self.stream.put_varint(self._tables.types.type(value.type))
        self.stream.put_varint(len(block.ops))
        for op in block.ops:
            self._write_op(op)
        self._next = first


def _values_of(op: Op, field: Field) -> tuple[Value, ...]:
    held = getattr(op, field.name)
    if field.kind is FieldKind.OPERANDS:
        return tuple(held)
    return () if held is None else (held,)
