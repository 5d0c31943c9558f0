"""Reading bytecode: what was written comes back, in every version, whatever the program."""

import gc
import random

import numpy as np
import pytest
from bytecode_container import HEADER, SectionBytes, framed, sections_of, varint
from hypothesis import given
from hypothesis import strategies as st
from tile_ir_cases import CASES
from tile_ir_equality import assert_same
from tile_ir_programs import Case, Entry, at, gemm, tile
from tile_ir_random import RandomProgram

from tilewright.backends.cuda.toolchain import find_toolchain
from tilewright.bytecode import VERSIONS, decode, encode
from tilewright.bytecode.write.ops import layout_of
from tilewright.dtypes import Element
from tilewright.errors import CompileError, MalformedBytecodeError
from tilewright.ir.attributes import Dictionary, FloatIdentity, IntIdentity, TargetHints, Visibility
from tilewright.ir.elements import numbers_of_bits
from tilewright.ir.function import Function, Global, Module
from tilewright.ir.op import Block, Value
from tilewright.ir.ops import TILE_IR_OPS
from tilewright.ir.ops.control import If, Print, Return, Yield
from tilewright.ir.ops.elementwise import AbsI, AddF
from tilewright.ir.ops.reduction import Reduce
from tilewright.ir.ops.shape import Constant
from tilewright.ir.text import module_text
from tilewright.ir.types import TOKEN, scalar
from tilewright.ir.versions import needs
from tilewright.source import Location, SourceFile, Span

E = Element


def _round_trip(module: Module, version: tuple[int, int], *, locations: bool = False) -> Module:
    """Read what was written, and check that writing it again gives the same bytes."""
    data = encode(module, version).data
    read = decode(data)
    assert read.version == version
    assert_same(module, read.module, locations=locations)
    assert encode(read.module, version).data == data
    return read.module


def _held(module: Module, version: tuple[int, int]) -> bool:
    return all(need.version <= version for need in needs(module))


# --- programs -------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS, ids=str)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_op_comes_back(case: Case, version: tuple[int, int]):
    module = case.module()
    if not _held(module, version):
        with pytest.raises(CompileError):
            encode(module, version)
        return
    _round_trip(module, version)


@given(st.randoms(use_true_random=False))
def test_random_programs_come_back(source: random.Random):
    module = RandomProgram(source).module()
    for version in VERSIONS:
        if _held(module, version):
            _round_trip(module, version)
    _round_trip(module, (13, 4))


def test_random_programs_hold_every_op():
    """Or the test above would say little."""
    modules = [RandomProgram(random.Random(seed)).module() for seed in range(400)]
    seen = {type(op) for module in modules for f in module.functions for op in f.walk()}
    assert seen == set(TILE_IR_OPS)


@pytest.mark.parametrize("version", VERSIONS, ids=str)
def test_all_cases_in_one_module(version: tuple[int, int]):
    """Several entries, shared tables; what is read disassembles as what was written."""
    held = [case for case in CASES if _held(case.module(), version) and not case.globals]
    module = Module(tuple(case.function() for case in held))
    data = encode(module, version).data
    read = decode(data).module
    toolchain = find_toolchain()
    assert toolchain.disassemble(encode(read, version)) == toolchain.disassemble(data)
    assert [function.name for function in read.functions] == [case.name for case in held]


def test_the_empty_module():
    assert decode(encode(Module(())).data).module.functions == ()


# --- parts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("element", list(E), ids=str)
def test_constants_of_any_bits(element: Element):
    rng = np.random.default_rng(2)
    width = 19 if element is E.TF32 else element.bits
    bits = rng.integers(0, 1 << min(width, 63), 24, dtype=np.uint64) << np.uint64(width == 64)
    numbers = numbers_of_bits(bits, element)
    entry = Entry()
    entry.add(Constant(value=numbers.reshape(3, 8), to=tile(element, 3, 8)))
    entry.add(Constant(value=numbers[:1], to=tile(element, 1)))
    for number in numbers:
        entry.add(Constant(value=number, to=tile(element, 4)))
    _round_trip(entry.module(), (13, 4))


def test_a_constant_is_a_python_number_or_an_array():
    entry = Entry()
    entry.build.constant(1.5, E.F16, (4,))
    entry.build.constant(-1, E.I32, (4,))
    entry.build.constant(1, E.I1, (16,))
    entry.add(Constant(value=np.array([[1, 2], [3, 4]]), to=tile(E.I64, 2, 2)))
    entry.build.constant(float("nan"), E.F32)
    *ops, nan, _ = _round_trip(entry.module(), (13, 3)).functions[0].body.ops
    assert [repr(op.value) for op in ops[:3]] == ["1.5", "-1", "True"]
    assert ops[3].value.tolist() == [[1, 2], [3, 4]]
    assert isinstance(nan.value, np.float32)  # which keeps the bits


def test_truth_values_are_packed():
    truths = np.array([True, False, True, True, False, True, True, True, False, True, True, True])
    entry = Entry()
    entry.add(Constant(value=truths, to=tile(E.I1, 12)))
    (constant, _) = _round_trip(entry.module(), (13, 1)).functions[0].body.ops
    assert constant.value.tolist() == truths.tolist()


@pytest.mark.parametrize(
    "identity",
    [
        FloatIdentity(E.F64, float("-inf")),
        FloatIdentity(E.F32, -0.0),
        FloatIdentity(E.BF16, float("nan")),
        FloatIdentity(E.F8E5M2, 2.0),
        IntIdentity(E.I64, 2**64 - 1),
        IntIdentity(E.I32, 2**31),
        IntIdentity(E.I1, 1),
    ],
    ids=str,
)
def test_identities(identity: FloatIdentity | IntIdentity):
    entry = Entry()
    type_ = scalar(identity.element)
    body = Block((Value(type_), Value(type_)))
    body.ops.append(Yield(values=(body.args[0],)))
    source = entry.param(tile(identity.element, 8))
    entry.add(Reduce(sources=(source,), dim=0, identities=(identity,), body=body))
    _round_trip(entry.module(), (13, 2))


def test_hints_by_target():
    nested = Dictionary((("list", (IntIdentity(E.I32, 3), "x", True, E.F32)), ("none", -1)))
    hints = TargetHints((("sm_100", nested), ("default", Dictionary()), ("sm_90", Dictionary())))
    function = Entry("f").function()
    function.hints = hints
    assert _round_trip(Module((function,)), (13, 4)).functions[0].hints == hints


def test_globals():
    held = (
        Global("a", tile(E.F32, 4), 1.5, 16, Visibility.PRIVATE, constant=True),
        Global("b", tile(E.I8, 4), np.array([1, -2, 3, 4])),
    )
    module = Module((Entry("f").function(),), globals=held)
    _round_trip(module, (13, 3))
    module = Module((Entry("f").function(),), globals=held[1:])
    _round_trip(module, (13, 1))


def test_the_producer():
    module = decode(encode(Entry("f").module(), (13, 3)).data)
    assert module.producer.startswith("tilewright ")
    assert decode(encode(Entry("f").module(), (13, 2)).data).producer is None


def test_a_result_that_the_version_lacks():
    """`print_tko` gives no token in 13.1: it is there, but nothing can refer to it."""
    entry = Entry("f")
    entry.add(Print(str="x", args=()))
    entry.add(AbsI(source=entry.index()))
    printed, absolute, _ = _round_trip(entry.module(), (13, 1)).functions[0].body.ops
    assert [value.type for value in printed.results] == [TOKEN]
    assert absolute.results[0].type == scalar(E.I32)
    assert layout_of(Print, (13, 1)).results == 0


def test_a_type_that_does_not_follow_is_kept_for_the_verifier():
    entry = Entry("f")
    left, right = entry.param(scalar(E.F32)), entry.param(scalar(E.F16))
    entry.block.ops.append(AddF.restored({"lhs": left, "rhs": right}, (scalar(E.F64),)))
    (added, _) = _round_trip(entry.module(), (13, 1)).functions[0].body.ops
    assert added.result.type == scalar(E.F64)
    assert added.result_types() == (scalar(E.F32),)


# --- locations ------------------------------------------------------------------------------------


def test_locations_come_back():
    entry = Entry("f")
    entry.add(AbsI(source=entry.index(), loc=at(11, 22, 33)))
    entry.add(AbsI(source=entry.index()))
    function = entry.function()
    function.loc = at(7)
    read = _round_trip(Module((function, gemm())), (13, 3), locations=True)
    first, second, _ = read.functions[0].body.ops
    assert [str(first.loc), *map(str, first.loc.calls)] == [
        "/kernels/sample.py:11:5",
        "/kernels/sample.py:22:5",
        "/kernels/sample.py:33:5",
    ]
    assert second.loc is None
    assert str(read.functions[0].loc) == "/kernels/sample.py:7:5"


def test_locations_of_nested_ops():
    plain, read = gemm(), _round_trip(Module((gemm(),)), (13, 4), locations=True).functions[0]
    lines = [None if op.loc is None else op.loc.span.line for op in plain.walk()]
    assert [None if op.loc is None else op.loc.span.line for op in read.walk()] == lines


def test_without_a_list_there_are_no_locations():
    read = decode(encode(Module((gemm(),)), locations=False).data).module
    assert all(op.loc is None for op in read.functions[0].walk())
    assert read.functions[0].loc is None


# --- the frame ------------------------------------------------------------------------------------


def _file() -> tuple[bytes, list[SectionBytes]]:
    data = encode(Module((gemm(),)), (13, 3)).data
    return data[:HEADER], sections_of(data)


@given(st.randoms(use_true_random=False))
def test_sections_in_any_order(source: random.Random):
    header, sections = _file()
    source.shuffle(sections)
    assert_same(decode(framed(header, sections)).module, Module((gemm(),)), locations=True)


def test_of_two_sections_the_last_counts():
    header, sections = _file()
    strings = next(section for section in sections if section.number == 1)
    other = SectionBytes(strings.identity, 4, strings.payload.replace(b"gemm", b"mmeg"))
    assert decode(framed(header, [*sections, other])).module.functions[0].name == "mmeg"
    assert decode(framed(header, [other, *sections])).module.functions[0].name == "gemm"


def test_a_greater_alignment():
    header, sections = _file()
    wide = [SectionBytes(s.identity, max(s.alignment, 64), s.payload) for s in sections]
    assert decode(framed(header, wide)).module.functions[0].name == "gemm"


def test_a_preview_is_read_like_any_other():
    header, sections = _file()
    assert decode(framed(header[:10] + b"\x01\x00", sections)).version == (13, 3)


def test_padding_behind_the_functions():
    header, sections = _file()
    padded = [
        SectionBytes(s.identity, s.alignment, s.payload + b"\xcb" * 5 * (s.number == 2))
        for s in sections
    ]
    assert decode(framed(header, padded)).module.functions[0].name == "gemm"


def test_a_region_that_was_left_out():
    """Writers may leave out an `else` that does nothing; ours never does."""
    entry = Entry("f")
    then, other = Block((), [Return()]), Block((), [Yield()])
    entry.add(If(condition=entry.param(scalar(E.I1)), then_body=then, else_body=other))
    data = encode(entry.module(), (13, 3)).data
    kept, left_out = bytes((1, 0, 1, 0x6D, 0, 0)), bytes((0,))
    sections = sections_of(data)
    number = next(n for n, section in enumerate(sections) if section.number == 2)
    functions = sections[number].payload.replace(kept, left_out)
    length = len(kept) - len(left_out)
    body = functions.index(0x32) - 1
    functions = functions[:body] + varint(functions[body] - length) + functions[body + 1 :]
    sections[number] = SectionBytes(sections[number].identity, 8, functions)
    shorter = framed(data[:HEADER], sections)
    assert len(shorter) < len(data)
    assert_same(decode(shorter).module, entry.module())
    assert "else" not in find_toolchain().disassemble(shorter)
    assert "else" in module_text(decode(shorter).module)


def test_bytes_like_things_are_read():
    data = encode(Module((gemm(),))).data
    for held in (bytearray(data), memoryview(data)):
        assert decode(held).module.functions[0].name == "gemm"


def test_the_collector_runs_again_afterwards():
    """It rests while a file is read, and stays as it was: on, off, or on after a refusal."""
    data = encode(Module((gemm(),))).data
    assert gc.isenabled()
    decode(data)
    with pytest.raises(MalformedBytecodeError):
        decode(data[:-1])
    assert gc.isenabled()
    gc.disable()
    try:
        decode(data)
        assert not gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.parametrize("depth", [1, 63, 64, 65, 300])
def test_of_very_many_inlined_calls_the_innermost_are_kept(depth):
    """Each call has a line of its own, the innermost the first."""
    file = SourceFile("deep.py", ("x = 1",) * (depth + 1))
    spans = [Span(file, line + 1, 0, line + 1, 1) for line in range(depth)]
    op = Return(loc=Location(spans[0], tuple(spans[1:])))
    function = Function("deep", Block((), [op]), None, Location(spans[-1]))
    decoded = decode(encode(Module((function,)), (13, 3), locations=True).data)
    loc = decoded.module.functions[0].body.ops[0].loc
    found = [span.line for span in (loc.span, *loc.calls)]
    assert found == list(range(1, min(depth, 64) + 1))
