"""Reading text: what is printed comes back, and what is wrong is told with line and column."""

import random
import re
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tile_ir_cases import CASES
from tile_ir_equality import assert_same
from tile_ir_programs import Case, Entry, gemm, tile
from tile_ir_random import RandomProgram

from tilewright.dtypes import Element
from tilewright.errors import MalformedTextError, TilewrightError
from tilewright.ir.attributes import Dictionary, IntIdentity, SameElements, TargetHints, Visibility
from tilewright.ir.elements import numbers_of_bits
from tilewright.ir.function import Global, Module
from tilewright.ir.op import DEEPEST_NESTING
from tilewright.ir.ops import TILE_IR_OPS
from tilewright.ir.ops.control import Assert, Continue, Yield
from tilewright.ir.ops.shape import Constant
from tilewright.ir.text import module_text, parse_module
from tilewright.ir.text.assembly import FieldSlot, OptionalGroup, parse_assembly
from tilewright.ir.types import FunctionType, TileType, scalar

E = Element


def _round_trip(module: Module) -> Module:
    text = module_text(module)
    read = parse_module(text)
    assert_same(module, read)
    assert module_text(read) == text
    return read


def _body(*lines: str, params: str = "%a: tile<i32>, %p: tile<ptr<f32>>, %x: tile<f32>") -> str:
    """An entry with these ops."""
    inner = "".join(f"  {line}\n" for line in lines)
    return f"entry @f({params}) {{\n{inner}  return\n}}\n"


# --- what is printed comes back -------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_op_comes_back(case: Case):
    _round_trip(case.module())


@given(st.randoms(use_true_random=False))
def test_random_programs_come_back(source: random.Random):
    _round_trip(RandomProgram(source).module())


def test_a_whole_kernel():
    assert_same(parse_module(module_text(Module((gemm(),)))), Module((gemm(),)))


def test_the_white_space_of_the_printer_means_nothing():
    text = module_text(Module((gemm(),)))
    squeezed = re.sub(r"\s+", " ", text)
    spread = re.sub(r"(?<![\w%#@-])([=:,(){}\[\]])(?![\w>-])", r" \1 // why not\n ", text)
    assert squeezed != text != spread
    for other in (squeezed, spread):
        assert_same(parse_module(other), Module((gemm(),)))


@pytest.mark.parametrize("element", list(E), ids=str)
def test_constants_of_any_bits(element: Element):
    rng = np.random.default_rng(4)
    width = 19 if element is E.TF32 else element.bits
    bits = rng.integers(0, 1 << min(width, 63), 256, dtype=np.uint64) << np.uint64(width == 64)
    numbers = numbers_of_bits(bits, element)
    entry = Entry()
    entry.add(Constant(value=numbers.reshape(2, 128), to=tile(element, 2, 128)))  # as bytes
    entry.add(Constant(value=numbers[:32].reshape(4, 8), to=tile(element, 4, 8)))
    for number in numbers[:40]:
        entry.add(Constant(value=number, to=tile(element, 4)))
    _round_trip(entry.module())


@pytest.mark.parametrize("text", ["", "plain", 'a "b" \\ c', "é漢", "tab\tnew\nline\x00", "// %d"])
def test_strings(text: str):
    entry = Entry(f"named {text}" if text else "f")
    entry.add(Assert(condition=entry.param(scalar(E.I1)), message=text))
    read = _round_trip(entry.module())
    assert read.functions[0].body.ops[0].message == text


def test_globals():
    held = (
        Global("plain", tile(E.F32, 4), 1.5),
        Global(
            "not plain", tile(E.I8, 2), np.array([1, -2]), 16, Visibility.PRIVATE, constant=True
        ),
    )
    read = _round_trip(Module((Entry("f").function(),), globals=held))
    assert [one.alignment for one in read.globals] == [0, 16]


def test_hints_of_every_kind():
    inner = Dictionary((("a b", -1), ("long", IntIdentity(E.I64, 2**40)), ("yes", True)))
    things = (
        IntIdentity(E.I32, 7), "text", E.F32, tile(E.F16, 4), (IntIdentity(E.I1, 1),),
        FunctionType((scalar(E.I32),), (scalar(E.F32),)), FunctionType((), ()), inner,
        SameElements((1, 2)), TargetHints.of("sm_90", latency=3),
    )  # fmt: skip
    function = Entry("f").function()
    function.hints = TargetHints(
        (("default", Dictionary((("list", things), ("number", 3), ("on", False)))),)
    )
    _round_trip(Module((function,)))


def test_who_wrote_it():
    text = module_text(Module((gemm(),), producer="somebody 1.2"))
    assert text.startswith("// Producer: somebody 1.2\n")
    assert parse_module(text).producer == "somebody 1.2"
    assert parse_module("// a comment\n").producer is None


def test_forms_can_be_read_back():
    """Each op's form names every field that is not known from the results, once for its value."""
    silent = []
    for op in TILE_IR_OPS:
        named = set(_named(parse_assembly(op.assembly).nodes))
        wanted = {field.name for field in (*op.operand_fields, *op.region_fields)}
        wanted |= {field.name for field in op.fields if field.codec is not None}
        silent += [f"{op.mnemonic}: {name}" for name in wanted - named - {"init_values"}]
    assert silent == []


def _named(nodes):
    for node in nodes:
        if isinstance(node, OptionalGroup):
            yield from node.fields
            yield from _named(node.nodes)
        elif isinstance(node, FieldSlot):
            yield from node.fields


# --- what people write ----------------------------------------------------------------------------


def test_endings_that_say_nothing_can_be_left_out():
    text = _body(
        "%c = cmpi equal %a, %a, signed : tile<i32> -> tile<i1>",
        "if %c {",
        "} else {",
        "}",
        "if %c {",
        "}",
        "for %i in (%a to %a, step %a) : tile<i32> {",
        "}",
    )
    _, with_else, without, loop, _ = parse_module(text).functions[0].body.ops
    for branch in (with_else.then_body, with_else.else_body, without.else_body):
        assert [type(op) for op in branch.ops] == [Yield]
    assert [type(op) for op in loop.body.ops] == [Continue]
    assert loop.body.args[0].type == scalar(E.I32)


def test_the_older_name_of_a_power():
    (power, _) = parse_module(_body("%y = pow %x, %x : tile<f32>")).functions[0].body.ops
    assert power.mnemonic == "fpowf"


def test_names_are_forgotten_with_their_block():
    ops = ["%c = constant <i1: true> : tile<i1>"]
    ops += ["if %c {", "  %n = absi %a : tile<i32>", "}"] * 2
    assert len(parse_module(_body(*ops, "%n = absi %a : tile<i32>")).functions[0].body.ops) == 5


def test_ops_know_their_place_in_a_file():
    text = _body("%é = absi %a : tile<i32>", "%n = absi %é : tile<i32>").replace("%é", "%e")
    (function,) = parse_module(text, "hand.tileir").functions
    assert [str(op.loc) for op in function.body.ops] == [
        "hand.tileir:2:8", "hand.tileir:3:8", "hand.tileir:4:3",
    ]  # fmt: skip
    assert str(function.loc) == "hand.tileir:1:7"
    assert parse_module(text).functions[0].loc is None


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "reason", "column"),
    [
        ("%y = absi %b : tile<i32>", "%b is not defined here", 13),
        ("%y = absi %a#1 : tile<i32>", "%a has 1 parts, so no #1", 13),
        ("%a = absi %a : tile<i32>", "%a is already defined", 3),
        ("%y = absy %a : tile<i32>", "expected an op, found `absy`", 8),
        ("%y = absi %a ; tile<i32>", "expected `:`, found `;`", 16),
        ("%y = absi %a : tile<i33>", "there is no element `i33`", 23),
        ("%y = absi %a : i32", "expected the type of a value, found `i32`", 18),
        ("%y, %z = absi %a : tile<i32>", "`absi` defines 1 values, not 2", 12),
        ("%y = cmpi less %a, %a, signed : tile<i32> -> tile<i1>", "expected one of `equal`", 13),
        (
            "%y = cmpi equal %a, %a, signed : tile<f32> -> tile<i1>",
            "the operand is tile<i32>, not tile<f32>",
            36,
        ),
        ("%y = constant <i32: 1.5> : tile<i32>", "1.5 is no i32", 17),
        ("%y = constant <f32: true> : tile<f32>", "true is no f32", 17),
        ("%y = constant <f32: 1.5> : tile<i32>", "elements of f32 are no tile<i32>", 17),
        ("%y = constant <i32: [1, 2]> : tile<3xi32>", "the lists do not have the shape of", 17),
        ("%y = constant <i32: [[1], 2]> : tile<2xi32>", "the lists do not have the shape of", 17),
        ('%y = constant <i32: "0x0102"> : tile<2xi32>', "2 bytes are no tile<2xi32>", 17),
        ("%y = constant <i32: > : tile<i32>", "expected a number, or `[`, found `>`", 23),
        ("%y = constant <i32: 1> : token", "only tiles have elements", 17),
        ("%y = assume nothing<3>, %a : tile<i32>", "expected `div_by` or `same_elements`", 15),
        ("%y = assume bounded<x, 3>, %a : tile<i32>", "expected a number or `?`, found `x`", 23),
        (
            "%y = make_tensor_view %p, shape = [4], strides = [] : tensor_view<8xf32>",
            "the list does not agree with tensor_view<8xf32, strides=[]>",
            38,
        ),
        ("%y = iota : tile<?xi32>", "a tile has no extents that are known only at launch", 20),
        ("%y = iota : tile<8xi32", "expected `>`, found `return`", None),
        ("assert %a, 7 : tile<i32>", "expected a string in quotes, found `7`", 14),
        ('assert %a, "\\ff" : tile<i32>', "a string is not UTF-8", 14),
        ('assert %a, "open : tile<i32>', 'expected a string in quotes, found `"open', 14),
        ("continue %a : tile<f32>", "the operand is tile<i32>, not tile<f32>", 17),
        ("%y = get_tile_block_id : tile<i32>", "`get_tile_block_id` defines 3 values, not 1", 8),
        ("7", "expected an op, found `7`", 3),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_a_line_that_is_wrong(line: str, reason: str, column: int | None):
    with pytest.raises(MalformedTextError) as caught:
        parse_module(_body(line))
    assert reason in caught.value.reason
    if column is not None:
        assert (caught.value.line, caught.value.column) == (2, column)
        assert str(caught.value).startswith(f"line 2, column {column}: ")


@pytest.mark.parametrize(
    ("text", "reason", "line", "column"),
    [
        ("module {}", "expected `entry` or `global`, found `module`", 1, 1),
        ("entry f() {}", "expected `@`, found `f`", 1, 7),
        ("entry @f(%a tile<i32>) {}", "expected `:`, found `tile`", 1, 13),
        ("entry @f(%a: tile<i32>, %a: tile<i32>) {}", "%a is already defined", 1, 25),
        ("// only\nentry @f() {\n  return\n", "expected an op, found the end of the text", 4, 1),
        ("entry @f() optimization_hints=<sm_90 = 3> {}", "expected `{`, found `3`", 1, 40),
        ("global @g <i32: 1> : token", "a global is a tile", 1, 22),
        ("global @g <i32: 1> : tile<i32>\nentry", "expected `@`, found the end of the text", 2, 6),
        ("entry @f() { %x = iota : partition_view<tile=(8y)> }", "expected `x` or `)`", 1, 48),
        (f"entry @f(%a: tile<{'9' * 50}xi32>) {{}}", "expected an element such as `f32`", 1, 19),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_a_text_that_is_wrong(text: str, reason: str, line: int, column: int):
    with pytest.raises(MalformedTextError) as caught:
        parse_module(text)
    assert isinstance(caught.value, TilewrightError)
    assert reason in caught.value.reason
    assert (caught.value.line, caught.value.column) == (line, column)


def _ifs(depth: int) -> str:
    return _body("%c = constant <i1: true> : tile<i1>", *["if %c {"] * depth, *["}"] * depth)


def test_nesting_has_a_limit():
    assert parse_module(_ifs(DEEPEST_NESTING)).functions
    with pytest.raises(MalformedTextError, match=f"at most {DEEPEST_NESTING} regions"):
        parse_module(_ifs(DEEPEST_NESTING + 1))
    lists = "[" * 40 + "1" + "]" * 40
    with pytest.raises(MalformedTextError, match="at most 32 lists"):
        parse_module(_body(f"%y = constant <i32: {lists}> : tile<i32>"))
    hints = "{a = " * 40 + "1" + "}" * 40
    with pytest.raises(MalformedTextError, match="at most 16 attributes"):
        parse_module(f"entry @f() optimization_hints=<sm_90 = {hints}> {{}}")


@given(st.randoms(use_true_random=False))
def test_texts_with_mistakes_are_refused_or_read(source: random.Random):
    """Characters lost, doubled or swapped: nothing but our own error."""
    text = source.choice(_TEXTS)
    for _ in range(source.randint(1, 3)):
        place = source.randrange(len(text))
        kept, moved = text[:place], text[place + 1 :]
        text = (
            kept
            + source.choice(["", text[place] * 2, source.choice(' %{}<>[]():,=x-0a@"#\n')])
            + moved
        )
    with suppress(MalformedTextError):
        assert module_text(parse_module(text))


_TEXTS = [module_text(case.module()) for case in CASES[::7]] + [module_text(Module((gemm(),)))]


def test_ops_whose_results_are_not_printed_can_have_any_operands():
    """The reader asks their type rule, which must not fail on what it has not checked."""
    silent = [op for op in TILE_IR_OPS if op.result_names and not _prints_results(op)]
    odd = scalar(E.F32), TileType(E.I1, (2, 2))
    for op in silent:
        entry = Entry()
        operands = {field.name: entry.param(odd[0]) for field in op.operand_fields}
        parts = {field.name: None for field in op.fields if field.codec is not None}
        assert op.restored({**parts, **operands}, ()).results
    assert len(silent) >= 4


def _prints_results(op) -> bool:
    named = set(_named(parse_assembly(op.assembly).nodes))
    return op.result_names[0] in named
