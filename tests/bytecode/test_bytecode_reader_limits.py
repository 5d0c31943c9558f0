"""Files that ask for more than they hold: nesting, and little bytes that stand for much."""

import struct
import time
from contextlib import suppress

from bytecode_container import HEADER, SectionBytes, framed, sections_of, varint
from hand_made_files import DEBUG, PLACE, RETURN, debug_section, hand_made, refused
from tile_ir_programs import Entry, at, gemm, tile

from tilewright.bytecode import decode, encode
from tilewright.dtypes import Element
from tilewright.errors import MalformedBytecodeError
from tilewright.ir.attributes import DivBy, TargetHints
from tilewright.ir.function import Module
from tilewright.ir.op import DEEPEST_NESTING, Block
from tilewright.ir.ops.control import Assume, If, Loop, Return, Yield
from tilewright.ir.ops.elementwise import AbsI, AddF
from tilewright.ir.ops.shape import Constant
from tilewright.ir.types import TileType, scalar

E = Element


def _nested_ifs(depth: int) -> Module:
    entry = Entry("f")
    condition = entry.param(scalar(E.I1))
    ops = [Return()]
    for _ in range(depth):
        other = Block((), [Yield()])
        inner = Block((), ops)
        ops = [If(condition=condition, then_body=inner, else_body=other), Yield()]
    entry.block.ops += [ops[0], Return()]
    return entry.module()


def test_nesting_has_a_limit():
    module = decode(encode(_nested_ifs(DEEPEST_NESTING)).data).module
    assert sum(1 for _ in module.functions[0].walk()) == 3 * DEEPEST_NESTING + 1
    error = refused(encode(_nested_ifs(DEEPEST_NESTING + 1)).data)
    assert error.reason == f"regions are nested more than {DEEPEST_NESTING} deep"


def test_attributes_nest_to_a_limit():
    deep: object = 1
    for _ in range(40):
        deep = (deep,)
    entry = Entry("f")
    function = entry.function()
    function.hints = TargetHints.of(deep=deep)
    assert "nested more than 16 deep" in refused(encode(Module((function,)), (13, 3)).data).reason


def _quickly(data: bytes) -> None:
    started = time.process_time()
    with suppress(MalformedBytecodeError):
        decode(data)
    assert time.process_time() - started < 3  # linear: well under one on a quiet machine


def test_a_signature_used_by_many_functions():
    """A hundred thousand functions of ten thousand parameters in a few hundred kilobytes."""
    params = b"\x10" + varint(10_000) + b"\x02" * 10_000 + b"\x00"
    functions = varint(100_000) + (bytes((0, 0, 2, 0, 3)) + RETURN) * 100_000
    data = hand_made(functions=functions, types=[params, b"\x03", b"\x0d\x01\x00"])
    _quickly(data)
    assert refused(data).reason == "an entry has too many parameters"


def test_a_list_of_locations_used_by_many_functions():
    functions = varint(30_000) + (bytes((0, 0, 2, 1, 3)) + RETURN) * 30_000
    data = hand_made(functions=functions)
    debug = SectionBytes(0x80 | DEBUG, 8, debug_section([PLACE], [1] * 30_000))
    _quickly(framed(data[:HEADER], [*sections_of(data), debug]))


def test_one_constant_used_by_many_ops():
    types = [b"\x10\x00\x00", b"\x03", b"\x0d\x01\x01" + struct.pack("<q", 65_536)]
    item = varint(4 * 65_536) + bytes(4 * 65_536)
    _quickly(hand_made(b"\x10\x02\x00" * 30_000 + RETURN, types, constants=[item]))


def test_a_shape_of_many_axes():
    shape = varint(50_000) + struct.pack("<q", 2**62) * 50_000
    types = [b"\x10\x00\x00", b"\x03", b"\x0d\x01" + shape]
    data = hand_made(b"\x10\x02\x00" * 1_000 + RETURN, types, constants=[b"\x04" + bytes(4)])
    _quickly(data)
    assert "cannot have 50000 axes" in refused(data).reason


def test_a_refusal_does_not_print_a_file():
    shape = varint(5_000) + struct.pack("<q", 2) * 5_000
    types = [b"\x10\x01\x01\x00", b"\x0d\x02" + shape, b"\x03"]
    body = b"\x06\x02\x00\x00"
    assert len(str(refused(hand_made(body, types)))) < 300


def test_values_count_in_many_blocks():
    """Numbers of more than one byte, and blocks that end."""
    entry = Entry("f")
    value = entry.index()
    for _ in range(300):
        value = entry.add(AbsI(source=value)).result
    body = Block((), [Return()])
    entry.add(Loop(body=body))
    entry.add(Assume(value=value, predicate=DivBy(300)))
    entry.add(Constant(value=2.5, to=TileType(E.F32, (2,))))
    entry.add(AddF(lhs=entry.param(tile(E.F32)), rhs=entry.block.args[-1], loc=at(3)))
    read = decode(encode(entry.module()).data).module
    assert read.functions[0].body.ops[301].value is read.functions[0].body.ops[299].results[0]


def test_gemm_cut_anywhere_is_refused():
    data = encode(Module((gemm(),)), (13, 4)).data
    for end in range(0, len(data), 7):
        refused(data[:end])
