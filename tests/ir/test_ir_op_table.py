"""The declarations say what Tile IR says: every op, enum and tag, against a table kept apart."""

from collections.abc import Iterator
from enum import Enum
from pathlib import Path

import pytest

from tilewright.bytecode.tags import AttributeTag, TypeTag
from tilewright.bytecode.write.ops import layout_of
from tilewright.dtypes import Element
from tilewright.ir import codecs
from tilewright.ir.attributes import (
    AtomicMode,
    MemoryOrder,
    MemoryScope,
    Ordering,
    Overflow,
    Predicate,
    Rounding,
    Signedness,
    Visibility,
)
from tilewright.ir.op import Field, FieldKind, Op
from tilewright.ir.ops import TILE_IR_OPS
from tilewright.ir.types import Padding

_NEWEST = (13, 4)
_ROWS = {
    line.split(" ")[1]: line
    for line in Path(__file__).with_name("op_table.txt").read_text().splitlines()
    if not line.startswith("#")
}
_KINDS: dict[type[codecs.AttributeCodec], str] = {
    codecs.StringCodec: "string",
    codecs.SymbolCodec: "symbol",
    codecs.ConstantCodec: "constant",
    codecs.IntCodec: "int",
    codecs.Int32ArrayCodec: "ints",
    codecs.BoolCodec: "bool",
    codecs.BoolArrayCodec: "bools",
    codecs.ArrayCodec: "attributes",
    codecs.PredicateCodec: "promise",
    codecs.HintsCodec: "hints",
}
_MARKS = {
    FieldKind.OPERAND: ".",
    FieldKind.OPERANDS: "*",
    FieldKind.OPTIONAL_OPERAND: "?",
    FieldKind.RESULT: ".",
    FieldKind.RESULTS: "*",
}


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))


def _since(field: Field, op: type[Op]) -> str:
    return f"@{_dotted(field.since)}" if field.since > op.since else ""


def _attributes(op: type[Op]) -> Iterator[tuple[Field, str]]:
    for field in op.fields:
        if field.kind is FieldKind.FLAG:
            yield field, f"flag{_since(field, op)}"
        elif field.codec is not None:
            kind = _KINDS.get(type(field.codec))
            if isinstance(field.codec, codecs.EnumCodec):
                kind = field.codec.enum.__name__
            yield field, f"{kind}{'?' if field.optional else ''}{_since(field, op)}"


def _row(op: type[Op]) -> str:
    """A declaration as the table writes it."""
    layout = layout_of(op, _NEWEST)
    attributes = list(_attributes(op))
    operands = [field for field in op.fields if field.kind.is_operand]
    results = [f for f in op.fields if f.kind in (FieldKind.RESULT, FieldKind.RESULTS)]
    places = {field: f"a{place}" for place, (field, _) in enumerate(attributes)}
    places |= {field: f"o{place}" for place, field in enumerate(operands)}
    assert op.opcode is not None
    head = [f"{op.opcode:02x}", op.mnemonic, _dotted(op.since)]
    head += (
        ["SEG"] * op.segmented + ["RC"] * layout.counts_results + ["OC"] * layout.counts_operands
    )
    columns = [
        head,
        [text for _, text in attributes],
        [_MARKS[field.kind] + _since(field, op) for field in operands],
        [_MARKS[field.kind] + _since(field, op) for field in results],
        [places[field] for field in layout.bits],
        [str(len(op.region_fields))],
    ]
    return " ".join(" | ".join(" ".join(column) for column in columns).split())


@pytest.mark.parametrize("op", TILE_IR_OPS, ids=lambda op: op.mnemonic)
def test_an_op_is_declared_as_the_format_has_it(op: type[Op]):
    assert _row(op) == _ROWS[op.mnemonic]


def test_there_are_no_other_ops():
    assert {op.mnemonic for op in TILE_IR_OPS} == set(_ROWS)
    assert len({op.opcode for op in TILE_IR_OPS}) == len(TILE_IR_OPS) == 102


# Members in the order of their numbers, from 0 on.
_ENUMS: dict[type[Enum], str] = {
    Signedness: "unsigned signed",
    Overflow: "none nsw nuw nw",
    Rounding: (
        "nearest_even zero negative_inf positive_inf approx full nearest_int_to_zero nearest_away"
    ),
    Predicate: "equal not_equal less_than less_than_or_equal greater_than greater_than_or_equal",
    Ordering: "unordered ordered",
    MemoryOrder: "weak relaxed acquire release acq_rel",
    MemoryScope: "tl_blk device sys",
    AtomicMode: "and or xor add addf max min umax umin xchg",
    Padding: "zero neg_zero nan pos_inf neg_inf",
    Visibility: "public private",
}


@pytest.mark.parametrize("enum", _ENUMS, ids=lambda enum: enum.__name__)
def test_an_enum_has_the_numbers_of_the_format(enum: type[Enum]):
    expected = dict(enumerate(_ENUMS[enum].split()))
    assert {member.value: member.name.lower() for member in enum} == expected


def test_elements_have_the_tags_of_the_format():
    tags = {
        "i1": 0, "i8": 1, "i16": 2, "i32": 3, "i64": 4, "f16": 5, "bf16": 6, "f32": 7, "tf32": 8,
        "f64": 9, "f8E4M3FN": 10, "f8E5M2": 11, "f8E8M0FNU": 18, "f4E2M1FN": 19, "i4": 22,
        "fnv8E5M3FNU": 130,
    }  # fmt: skip
    assert {element.spelling: element.value.tag for element in Element} == tags


def test_types_and_attributes_have_the_tags_of_the_format():
    assert [tag.name.lower() for tag in sorted(TypeTag)] == [
        "pointer", "tile", "tensor_view", "partition_view", "function", "token",
        "gather_scatter_view", "strided_view",
    ]  # fmt: skip
    assert sorted(TypeTag) == [*range(12, 18), 20, 21]
    assert [tag.name.lower() for tag in sorted(AttributeTag)] == [
        "integer", "float", "bool", "type", "string", "array", "dense_elements", "div_by",
        "same_elements", "dictionary", "hints", "bounded",
    ]  # fmt: skip
    assert sorted(AttributeTag) == list(range(1, 13))
