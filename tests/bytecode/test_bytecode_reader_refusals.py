"""What the reader refuses: each with its reason, and at the byte where it stands."""

import struct

import pytest
from bytecode_container import varint
from hand_made_files import (
    ENTRY,
    PLACE,
    RETURN,
    STRINGS,
    at_piece,
    changed,
    debug_section,
    hand_made,
    located,
    refused,
)
from tile_ir_programs import Entry

from tilewright.bytecode import decode, encode
from tilewright.dtypes import Element
from tilewright.errors import TilewrightError
from tilewright.ir.ops.elementwise import Atan2
from tilewright.ir.types import scalar

E = Element


def test_the_error_is_ours_and_says_where():
    error = refused(b"\x7fTileIR\x00\x0d\x09\x00\x00")
    assert isinstance(error, TilewrightError)
    assert error.offset == 8
    assert str(error).startswith("at byte 8: version 13.9 is not known; there are 13.1, 13.2")


def test_the_file_made_by_hand_can_be_read():
    assert decode(hand_made()).module.functions[0].name == "f"


# --- the frame ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "reason", "offset"),
    [
        (b"", "a header of 8 bytes does not fit", 0),
        (b"\x7fELF\x02\x01\x01\x00", "does not begin as Tile IR bytecode does", 0),
        (b"\x7fTileIR\x00\x0d", "the data ends where a byte is needed", 9),
        (b"\x7fTileIR\x00\x0d\x03\x00\x00", "the data ends where a byte is needed", 12),
        (hand_made()[:12] + b"\x00", "the section of strings is missing", 13),
        (hand_made() + b"\x00\x00", "2 bytes stand behind the end", len(hand_made())),
        (hand_made()[:12] + b"\x7f\x00\x00", "there is no section 127", 12),
        (hand_made()[:12] + b"\x01\x00\x00", "strings does not say its alignment", 12),
        (hand_made()[:12] + b"\x81\x00\x02\x00", "cannot be aligned to 2", 14),
        (hand_made()[:12] + b"\x81\x00\x0c\x00", "cannot be aligned to 12", 14),
        (hand_made()[:12] + b"\x81\x00\x00\x00", "cannot be aligned to 0", 14),
        (hand_made()[:12] + b"\x81\x09\x04\x00", "strings of 9 bytes does not fit in the 0", 16),
        (hand_made()[:12] + b"\x81" + b"\xff" * 10, "more than 64 bits", 13),
        (hand_made()[:12] + b"\x81" + b"\xff" * 3, "the data ends within a number", 13),
        (hand_made(version=b"\x0d\x02")[:12] + b"\x07\x00\x00", "there is no section 7", 12),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_frames(data: bytes, reason: str, offset: int):
    error = refused(data)
    assert reason in error.reason
    assert error.offset == offset


def test_a_table_whose_offsets_go_back():
    strings = b"\x02\xcb\xcb\xcb" + struct.pack("<2I", 3, 1) + b"abcdef"
    data = changed(hand_made(), STRINGS, lambda _: strings)
    error = refused(data)
    assert error.reason.startswith(
        "string 1 starts at 1, outside the 6 bytes of the table or before"
    )
    assert error.offset == at_piece(data, strings) + 8


def test_a_table_with_more_items_than_bytes():
    error = refused(changed(hand_made(), STRINGS, lambda _: varint(2**40)))
    assert error.reason == f"{2**40} offsets of strings do not fit in the 0 bytes that are left"


def test_a_string_that_is_no_text():
    data = hand_made(strings=[b"ab\xff"])
    error = refused(data)
    assert (error.reason, error.offset) == ("string 0 is not UTF-8", at_piece(data, b"ab\xff") + 2)


# --- types ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("types", "reason"),
    [
        ([b"\x63"], "type 0 is of a kind that is not known: 99"),
        ([b"\x10\x00\x00\x00"], "type 0 (a signature) has 1 bytes too many"),
        ([b"\x10\x01\x07\x00"], "there is no type 7; there are 1"),
        ([b"\x10\x01\x00\x00"], "type 0 (a signature) cannot stand here"),
        ([b"\x10\x01\x01\x00", b"\x03"], "type 1 (an element) cannot stand here"),
        ([b"\x10\x01\x01\x00", b"\x0d\x01\x00"], "type 1 (a tile) cannot stand here"),
        ([b"\x10\x01\x01\x00", b"\x0d\x02\x00", b"\x0c\x02"], "(a pointer) cannot stand here"),
        ([b"\x10\x01\x01\x00", b"\x0d\x02\x63", b"\x03"], "99 extents do not fit in the 0 bytes"),
        ([b"\x10\x00\x01\x01", b"\x11"], "an entry gives values"),
        ([b"\x10\x01\x01\x00", b"\x0f\x02\x00\x00\x00"], "flags of a type that are not known: 0x2"),
        ([b"\x03"], "type 0 (an element) cannot stand here"),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_types(types: list[bytes], reason: str):
    assert reason in refused(hand_made(types=types)).reason


def test_a_type_may_refer_to_a_later_one():
    data = hand_made(types=[b"\x10\x01\x02\x00", b"\x03", b"\x0d\x01\x00"])
    assert decode(data).module.functions[0].params[0].type == scalar(E.I32)


@pytest.mark.parametrize(
    ("element", "version"), [(E.F8E8M0FNU, 2), (E.F4E2M1FN, 3), (E.I4, 3), (E.FNV8E5M3FNU, 4)]
)
def test_an_element_of_a_later_version(element: Element, version: int):
    tag = varint(element.value.tag)
    types = [b"\x10\x01\x02\x00", tag, b"\x0d\x01\x00"]
    assert decode(hand_made(types=types, version=bytes((13, version)))).module
    error = refused(hand_made(types=types, version=bytes((13, version - 1))))
    assert error.reason == f"type 1 is of a kind that is not known: {element.value.tag}"


def test_padding_of_no_kind():
    view = b"\x0e\x01" + b"\x00\x00"
    partition = b"\x0f\x01" + b"\x00" + b"\x02" + b"\x00" + b"\x09"
    types = [b"\x10\x01\x03\x00", b"\x03", view, partition]
    assert refused(hand_made(types=types)).reason == "there is no Padding 9"


# --- ops ------------------------------------------------------------------------------------------

_TYPES = [b"\x10\x01\x02\x00", b"\x03", b"\x0d\x01\x00", b"\x0d\x04\x00", b"\x00"]  # 2: i32, 3: i1


@pytest.mark.parametrize(
    ("body", "reason", "place"),
    [
        (b"\x7f", "there is no op 0x7f", 0),
        (b"\x19", "there is no op 0x19", 0),
        (b"\x76", "`insert` came with 13.4, but the file is 13.3", 0),
        (b"\x01", "the data ends where a number is needed", 1),
        (b"\x01\x01\x00", "type 1 (an element) cannot stand here", 1),
        (b"\x01\x02\x05", "value 5 is not defined: 1 are visible here", 2),
        (b"\x03\x02\x09\x00\x00", "there is no Overflow 9", 2),
        (b"\x5c\x01\x00", "`return` defines 0 values, not 1", 1),
        (b"\x5c\x00\x05", "5 operands do not fit in the 0 bytes that are left", 2),
        (b"\x29\x00\x00\x02\x00\x00", "`for` has too few operands", 3),
        (b"\x02\x02\x08\x00\x00\x00", "`addf` has flags that are not known: 0x8", 2),
        (b"\x32\x00\x00\x01", "`if` has 2 regions, not 1", 3),
        (b"\x32\x00\x00\x02\x02", "a region of `if` has 2 blocks", 4),
        (b"\x06\x02\x01\x01\x05\x00", "this kind of attribute promises nothing", 2),
        (b"\x06\x02\x63\x00", "an attribute of a kind that is not known: 99", 2),
        (b"\x06\x02\x0c\x04\x00", "flags of an attribute that are not known", 3),
        (b"\x10\x02\x00", "there is no constant 0; there are 0", 2),
        (b"\x05\x09\x00", "there is no string 9; there are 1", 1),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_ops(body: bytes, reason: str, place: int):
    data = hand_made(body, _TYPES)
    error = refused(data)
    assert reason in error.reason
    start = ENTRY + varint(len(body))
    assert error.offset == at_piece(data, start + body) + len(start) + place


def test_a_value_of_a_block_that_has_ended():
    inner = b"\x01\x02\x00"  # absi of the parameter, inside: its result is value 1
    leave = b"\x6d\x00\x00"
    branch = b"\x01\x00\x02" + inner + leave
    used = b"\x01\x02\x01"
    body = b"\x32\x00\x00\x02" + branch + branch + used + RETURN
    data = hand_made(body, [b"\x10\x01\x02\x00", b"\x03", b"\x0d\x01\x00"])
    error = refused(data)
    assert error.reason == "value 1 is not defined: 1 are visible here"
    assert error.offset == at_piece(data, body) + 4 + 2 * len(branch) + 2


def test_a_body_that_is_longer_than_its_bytes():
    functions = ENTRY + varint(900) + RETURN
    assert "a body of 900 bytes" in refused(hand_made(functions=functions)).reason


@pytest.mark.parametrize("flags", [0, 1, 3, 8, 10])
def test_functions_that_are_no_entries(flags: int):
    functions = bytes((1, 0, 0, flags, 0)) + varint(len(RETURN)) + RETURN
    data = hand_made(functions=functions)
    error = refused(data)
    assert (error.reason, error.offset) == ("'f' is no public entry", at_piece(data, functions) + 3)


def test_more_functions_than_bytes():
    assert "1000 functions do not fit" in refused(hand_made(functions=varint(1000))).reason


def test_hints_that_are_none():
    functions = bytes((1, 0, 0, 6, 0)) + bytes((3, 1)) + varint(len(RETURN)) + RETURN
    assert "hints are of another kind" in refused(hand_made(functions=functions)).reason


def test_an_op_of_a_later_version():
    entry = Entry("f")
    entry.add(Atan2(x=entry.param(scalar(E.F32)), y=entry.param(scalar(E.F32))))
    data = encode(entry.module(), (13, 2)).data
    assert decode(data).version == (13, 2)
    older = data[:9] + b"\x01" + data[10:]
    assert refused(older).reason == "`atan2` came with 13.2, but the file is 13.1"


# --- constants ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("type_", "item", "reason"),
    [
        (b"\x0d\x01\x00", b"\x03abc", "3 bytes are no whole number of i32"),
        (b"\x0d\x01\x00", b"\x00", "0 bytes are no whole number of i32"),
        (b"\x0d\x01\x00", b"\x09abc", "9 bytes of a constant do not fit in the 3 bytes"),
        (
            b"\x0d\x01\x01" + struct.pack("<q", 4),
            b"\x08" + bytes(8),
            "constant 0 has 2 elements, which are no tile<4xi32>",
        ),
        (b"\x0d\x01\x21" + bytes(33 * 8), b"\x04" + bytes(4), "a constant cannot have 33 axes"),
        (b"\x11", b"\x04" + bytes(4), "only tiles of numbers can be constants"),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_constants(type_: bytes, item: bytes, reason: str):
    types = [b"\x10\x00\x00", b"\x03", type_]
    data = hand_made(b"\x10\x02\x00" + RETURN, types, constants=[item])
    assert reason in refused(data).reason


@pytest.mark.parametrize(
    ("byte", "count", "fits"), [(0xFF, 16, True), (0x01, 16, False), (1, 8, True)]
)
def test_one_byte_of_truth_values(byte: int, count: int, fits: bool):
    """All or none of the bits stand for every element; others are eight elements."""
    types = [b"\x10\x00\x00", b"\x00", b"\x0d\x01\x01" + struct.pack("<q", count)]
    data = hand_made(b"\x10\x02\x00" + RETURN, types, constants=[bytes((1, byte))])
    if not fits:
        assert "8 elements, which are no tile<16xi1>" in refused(data).reason
        return
    value = decode(data).module.functions[0].body.ops[0].value
    assert value is True if byte == 0xFF else value.tolist() == [True] + [False] * 7


# --- debug information ----------------------------------------------------------------------------


def test_locations_made_by_hand():
    (function,) = decode(located(debug_section([PLACE], [1, 1]))).module.functions
    assert str(function.loc) == str(function.body.ops[0].loc) == "f:12:7"
    (function,) = decode(located(debug_section([PLACE], [1, 0]))).module.functions
    assert function.body.ops[0].loc is None
    (function,) = decode(located(debug_section([PLACE], []))).module.functions
    assert function.loc is None


@pytest.mark.parametrize(
    ("debug", "number", "reason"),
    [
        (debug_section([PLACE], [1]), 2, "there is no list of locations 2"),
        (debug_section([PLACE], [1], [5]), 1, "list of locations 1 runs from 5 to 1 of 1"),
        (debug_section([PLACE], [9]), 1, "there is no debug attribute 9; there are 1"),
        (debug_section([b"\x02\x00\x00"], [1]), 1, "debug attribute 1 is no location"),
        (debug_section([PLACE[:3]], [1]), 1, "the data ends where a number is needed"),
        (debug_section([b"\x06\x01\x01"], [1]), 1, "calls lead to no location"),
        (varint(2**40), 1, "lists of locations do not fit"),
        (b"\x00" + bytes(3) + varint(2**40), 1, "locations do not fit"),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_debug_information(debug: bytes, number: int, reason: str):
    assert reason in refused(located(debug, number)).reason


def test_calls_that_would_grow_without_end():
    """Each call site calls the one before it twice: two to the sixty-fourth places."""
    sites = [PLACE, *(b"\x06" + varint(n) + varint(n) for n in range(1, 64))]
    (function,) = decode(located(debug_section(sites, [64]))).module.functions
    assert function.loc is not None
    assert len(function.loc.calls) == 63, "those kept are the innermost"
