"""Whole modules: the container, ops, constants, debug information and versions."""

import re

import pytest
from bytecode_container import payloads_of
from tile_ir_programs import I32, Entry, at, gemm, tile

from tilewright.backends.cuda.toolchain import find_toolchain
from tilewright.bytecode import encode, required_version
from tilewright.dtypes import Element
from tilewright.errors import CompileError, InternalError
from tilewright.ir.attributes import FloatIdentity, TargetHints
from tilewright.ir.check_sites import CheckSite
from tilewright.ir.function import EntryHints, Function, Module
from tilewright.ir.op import Block, Value
from tilewright.ir.ops.control import Assert, Return, Yield
from tilewright.ir.ops.elementwise import AbsI, AddI, FToI, MaxF
from tilewright.ir.ops.internal import BoundsCheck
from tilewright.ir.ops.memory import LoadView
from tilewright.ir.ops.reduction import Reduce
from tilewright.ir.types import scalar
from tilewright.version import VERSION

E = Element


def _disassemble(module: Module, version: tuple[int, int] = (13, 3)) -> str:
    return find_toolchain().disassemble(encode(module, version), debug_info=True)


def test_the_smallest_module():
    encoded = encode(Module((Function("f", Block((), [Return()])),)))
    producer = f"tilewright {VERSION}".encode()
    assert encoded.data[8:12] == bytes((13, 3, 0, 0))
    assert payloads_of(encoded.data) == {
        # one function: name 0, type 0, an entry, no location, three bytes: return, 0 results, none
        2: bytes((1, 0, 0, 2, 0, 3, 0x5C, 0, 0)),
        5: bytes.fromhex("01cbcbcb 00000000 100000"),
        7: b"\x01",
        1: bytes.fromhex("02cbcbcb 00000000 01000000") + b"f" + producer,
    }


def test_an_op_in_bytes():
    """Opcode, result type, attribute, operands; the parameters are values 0 and 1."""
    n = Entry("f")
    n.add(AddI(lhs=n.index(), rhs=n.index()))
    functions = payloads_of(encode(n.module()).data)[2]
    assert functions.endswith(bytes((0x03, 1, 0, 0, 1)) + bytes((0x5C, 0, 0)))


def test_equal_modules_give_equal_bytes():
    assert encode(Module((gemm(),))).data == encode(Module((gemm(),))).data


def test_a_version_that_cannot_hold_it():
    n = Entry()
    n.add(FToI(source=n.given(tile(E.F32, 8)), to=tile(E.I32, 8), saturating=True))
    with pytest.raises(CompileError, match="`saturating` of `ftoi` needs 13"):
        encode(n.module(), (13, 3))
    assert required_version(n.module()) == (13, 4)
    assert "saturating" in _disassemble(n.module(), (13, 4))


def test_an_internal_op_is_our_mistake():
    n = Entry()
    n.add(BoundsCheck(index=n.index(), count=n.index(), site=CheckSite("x", 0, 8)))
    with pytest.raises(InternalError, match="`bounds_check` is an internal op"):
        encode(n.module())


def test_a_value_that_nothing_defines_is_our_mistake():
    n = Entry()
    n.add(AbsI(source=Value(I32)))
    with pytest.raises(InternalError, match="`absi` uses <value: tile<i32>>, which nothing"):
        encode(n.module())


def test_the_sign_of_an_f64_identity_is_kept():
    """Minus infinity, the identity of a maximum."""
    n = Entry()
    body = Block((Value(scalar(E.F64)), Value(scalar(E.F64))))
    larger = MaxF(lhs=body.args[0], rhs=body.args[1])
    body.ops += [larger, Yield(values=(larger.result,))]
    identities = (FloatIdentity(E.F64, float("-inf")),)
    source = n.given(tile(E.F64, 8))
    n.add(Reduce(sources=(source,), dim=0, identities=identities, body=body))
    assert "identities=[0xFFF0000000000000 : f64]" in _disassemble(n.module())


def test_hints_stand_under_every_target():
    n = Entry()
    view = n.view(E.F32, 8)
    n.add(LoadView(view=view, index=(n.index(),), hints=TargetHints.of(latency=7, allow_tma=False)))
    module = Module((n.function(EntryHints(num_ctas=2, occupancy=4, num_worker_warps=8)),))
    text = _disassemble(module)
    entry = "default = {num_cta_in_cga = 2, num_worker_warps_per_cta = 8, occupancy = 4}"
    assert f"optimization_hints=<{entry}>" in text
    assert "optimization_hints = <default = {allow_tma = false, latency = 7}>" in text


def test_the_producer_is_named():
    assert _disassemble(Entry().module()).startswith(f"// Producer: tilewright {VERSION}\n")


def test_equal_constants_are_kept_once():
    n = Entry()
    for value in (1, 1, 2, 1):
        n.build.index(value)
    count = payloads_of(encode(n.module()).data)[4][0]
    assert count == 2


def test_no_constants_no_section():
    assert 4 not in payloads_of(encode(Entry().module()).data)


# --- locations -----------------------------------------------------------------------------------


def test_locations_are_written():
    text = _disassemble(Module((gemm(),)))
    assert re.search(r'loc\("/kernels/sample.py":31:5\)', text)
    assert 'di_subprogram<file = #di_file, line = 20, name = "gemm", linkageName = "gemm"' in text


def test_calls_are_written_from_the_inside_out():
    n = Entry("outer")
    n.add(AbsI(source=n.index(), loc=at(11, 22, 33)))
    text = _disassemble(n.module())
    (name,) = re.findall(r"absi %arg0 : tile<i32> loc\(#(loc\d+)\)", text)
    assert _lines(text, name) == [11, [22, 33]]


def _lines(text: str, name: str) -> int | list[object]:
    """A location by its lines: a number, or a callee and its caller."""
    definition = re.search(rf"^#{name} = (.*)$", text, re.MULTILINE)
    assert definition is not None
    if place := re.fullmatch(r'loc\("/kernels/sample.py":(\d+):5\)', definition[1]):
        return int(place[1])
    parts = re.findall(r"#(loc\d*)\b", definition[1])
    return [_lines(text, part) for part in parts] if len(parts) > 1 else _lines(text, parts[0])


def test_ops_can_have_locations_in_a_function_that_has_none():
    n = Entry()
    n.add(AbsI(source=n.index()))
    n.add(AbsI(source=n.index(), loc=at(12, 40)))
    assert '"/kernels/sample.py":40:5' in _disassemble(n.module())


def test_several_functions_have_their_own_scopes():
    first, second = gemm(), gemm()
    second.name = "other"
    text = _disassemble(Module((first, second)))
    assert 'linkageName = "gemm"' in text
    assert 'linkageName = "other"' in text


def test_without_locations_the_place_of_the_source_does_not_matter():
    plain = gemm()
    for op in plain.walk():
        op.loc = None
    plain.loc = None
    bare = encode(Module((gemm(),)), locations=False)
    assert bare.data == encode(Module((plain,))).data
    assert 3 not in payloads_of(bare.data)
    assert 3 in payloads_of(encode(Module((gemm(),))).data)


def test_columns_count_characters():
    n = Entry()
    place = at(5)
    text = "é漢 = x"
    file = type(place.span.file)("/wide.py", ("", "", "", "", text))
    span = type(place.span)(file, 5, len("é漢 = ".encode()), 5, len(text.encode()))
    n.add(AbsI(source=n.index(), loc=type(place)(span)))
    assert '"/wide.py":5:6' in _disassemble(n.module())


# --- the way back --------------------------------------------------------------------------------


def test_an_offset_leads_back_to_its_op():
    function = gemm()
    encoded = encode(Module((function,)))
    assert [op for _, op in encoded.places] == list(function.walk())
    for (start, op), (following, _) in zip(encoded.places, encoded.places[1:], strict=False):
        assert encoded.data[start] == op.opcode
        assert encoded.op_at(start) is op
        assert encoded.op_at(following - 1) is op
    assert encoded.op_at(0) is None
    assert encoded.bodies["gemm"] == encoded.places[0][0]


def test_bodies_are_found_by_name():
    first, second = Entry("a"), Entry("b")
    second.add(Assert(condition=second.param(scalar(E.I1)), message="no"))
    encoded = encode(Module((first.function(), second.function())))
    assert [encoded.op_at(encoded.bodies[name]).mnemonic for name in "ab"] == ["return", "assert"]
