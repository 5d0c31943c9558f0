"""The primitives of the format."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.bytecode.write.stream import PAD_BYTE, ByteStream
from tilewright.bytecode.write.tables import NumberedTable, StringTable, TypeTable
from tilewright.dtypes import Element
from tilewright.ir.types import Padding, PartitionViewType, PtrType, TensorViewType, TileType


def _varint(data: bytes) -> int:
    """An independent reader."""
    value = sum((byte & 0x7F) << (7 * place) for place, byte in enumerate(data))
    assert [byte >> 7 for byte in data] == [1] * (len(data) - 1) + [0]
    return value


@given(st.integers(0, 2**64 - 1))
def test_varints_read_back(value: int):
    stream = ByteStream()
    stream.put_varint(value)
    assert _varint(stream) == value
    assert len(stream) == max(1, -(-value.bit_length() // 7))


@pytest.mark.parametrize("value", [-1, 2**64])
def test_varints_have_64_bits(value: int):
    with pytest.raises(AssertionError):
        ByteStream().put_varint(value)


@given(st.integers(-(2**63), 2**63 - 1))
def test_signed_numbers_read_back(value: int):
    stream = ByteStream()
    stream.put_signed(value)
    folded = _varint(stream)
    assert (folded >> 1) ^ -(folded & 1) == value


def test_a_bit_pattern_with_the_sign_set_is_negative():
    """The f64 pattern of minus infinity, which must not lose its sign."""
    stream = ByteStream()
    stream.put_signed(0xFFF0000000000000)
    assert _varint(stream) == (1 << 53) - 1
    again = ByteStream()
    again.put_signed(-(1 << 52))
    assert stream == again


@given(st.lists(st.integers(-(2**31), 2**31 - 1), max_size=20))
def test_arrays_are_counted(values: list[int]):
    stream = ByteStream()
    stream.put_array(values, "i")
    assert stream[0] == len(values)
    assert list(struct.unpack(f"<{len(values)}i", stream[1:])) == values


@pytest.mark.parametrize(("length", "padded"), [(0, 0), (1, 8), (8, 8), (9, 16)])
def test_padding(length: int, padded: int):
    stream = ByteStream(b"\0" * length)
    stream.pad_to(8)
    assert len(stream) == padded
    assert set(stream[length:]) <= {PAD_BYTE}


# --- tables --------------------------------------------------------------------------------------


def test_items_are_kept_once_and_numbered_in_order():
    table = NumberedTable(first=1)
    assert [table.number(item) for item in (b"a", b"bc", b"a", b"")] == [1, 2, 1, 3]
    assert table.section() == b"\x03\xcb\xcb\xcb" + struct.pack("<III", 0, 1, 3) + b"abc"


def test_wide_offsets_are_aligned():
    table = NumberedTable(offset_code="Q")
    table.number(b"x")
    assert table.section() == b"\x01" + b"\xcb" * 7 + struct.pack("<Q", 0) + b"x"


def test_strings_are_utf8():
    strings = StringTable()
    assert (strings.text("é"), strings.text("e"), strings.text("é")) == (0, 1, 0)
    assert strings.section().endswith("ée".encode())


_VIEW = TensorViewType(Element.F16, (None, 64), (64, None))
_DYNAMIC = struct.pack("<q", -(2**63)).hex()
_64 = struct.pack("<q", 64).hex()


@pytest.mark.parametrize(
    ("type_", "version", "data"),
    [
        (Element.I4, (13, 3), "16"),
        (PtrType(Element.F32), (13, 3), "0c00"),
        (PtrType(Element.F32), (13, 4), "0c0000"),
        (TileType(Element.F32, (2,)), (13, 3), "0d00 01 0200000000000000"),
        (TileType(PtrType(Element.F32), ()), (13, 3), "0d01 00"),
        (_VIEW, (13, 3), f"0e00 02{_DYNAMIC}{_64} 02{_64}{_DYNAMIC}"),
        (_VIEW, (13, 4), f"0e0000 02{_DYNAMIC}{_64} 02{_64}{_DYNAMIC}"),
        (PartitionViewType((8, 4), _VIEW, (1, 0)), (13, 3),
         "0f00 02 08000000 04000000 01 02 01000000 00000000"),
        (PartitionViewType((8, 4), _VIEW, (1, 0), Padding.NAN), (13, 4),
         "0f01 02 08000000 04000000 01 02 01000000 00000000 02"),
        (PartitionViewType((8, 4), _VIEW, (1, 0), Padding.NAN), (13, 1),
         "0f 02 08000000 04000000 01 02 01000000 00000000 01 02"),
    ],
)  # fmt: skip
def test_types(type_: object, version: tuple[int, int], data: str):
    table = TypeTable(version)
    number = table.type(type_)
    items = list(table._numbers)
    assert number == len(items) - 1
    assert items[number].hex() == data.replace(" ", "")


def test_a_type_is_numbered_after_its_parts():
    table = TypeTable((13, 3))
    view = PartitionViewType((8,), TensorViewType(Element.F16, (None,), (1,)), (0,))
    assert table.type(view) == 2
    assert table.type(Element.F16) == 0
    assert table.type(view.view) == 1
    assert table.type(view) == 2
    assert len(table) == 3
