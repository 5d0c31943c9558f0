"""The text of modules: names, numbers, strings and forms, held against NVIDIA's disassembler."""

import random

import numpy as np
import pytest
from tile_ir_programs import I32, TOKEN, Entry, gemm, tile

from tilewright.backends.cuda.toolchain import find_toolchain
from tilewright.bytecode import encode
from tilewright.dtypes import Element
from tilewright.ir.attributes import Bounded, IntIdentity
from tilewright.ir.check_sites import CheckSite
from tilewright.ir.function import EntryHints, Function, Module
from tilewright.ir.op import Block, Value
from tilewright.ir.ops import control as c
from tilewright.ir.ops import elementwise as e
from tilewright.ir.ops import memory as m
from tilewright.ir.ops import reduction as r
from tilewright.ir.ops import shape as s
from tilewright.ir.ops.internal import BoundsCheck, FloorMod, Walk
from tilewright.ir.text import function_text, least_length, module_text
from tilewright.ir.text.assembly import FieldSlot, Literal, OptionalGroup, parse_assembly
from tilewright.ir.text.numbers import number_text, quoted, symbol_text
from tilewright.ir.types import PtrType, TensorViewType, TileType, scalar

E = Element
# NVIDIA's disassembler crashes when it is to print a number of fnv8E5M3FNU.
_FLOATS = [element for element in E if element.is_float and not element.is_held_as_bits]


def _disassembled(module: Module) -> str:
    """The vendor's text without the line that names the producer."""
    text = find_toolchain().disassemble(encode(module, (13, 4)))
    first, rest = text.split("\n", 1)
    assert first.startswith("// Producer: tilewright ")
    return rest.rstrip("\n") + "\n"


def _assert_same(module: Module) -> None:
    ours, theirs = module_text(module).splitlines(), _disassembled(module).splitlines()
    assert [pair for pair in zip(ours, theirs, strict=True) if pair[0] != pair[1]] == []


# --- numbers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("element", _FLOATS, ids=str)
def test_floats_of_any_bits(element: Element):
    rng = np.random.default_rng(5)
    width = 32 if element is E.TF32 else element.bits
    bits = rng.integers(0, 1 << min(width, 63), 300, dtype=np.uint64)
    if width == 64:
        bits |= rng.integers(0, 2, 300, dtype=np.uint64) << np.uint64(63)
    held = bits.astype(np.dtype(f"u{max(width, 8) // 8}")).view(element.numpy)
    entry = Entry()
    for value in held:
        entry.build.constant(value, element, (2,))
    _assert_same(entry.module())


@pytest.mark.parametrize("element", _FLOATS, ids=str)
def test_floats_that_people_write(element: Element):
    numbers = [0.0, -0.0, 1.0, -1.0, 0.5, 1 / 3, 3.14159, 1e-5, 1e5, 123456.0, 1234567.0, 65504.0]
    numbers += [1e20, 2.0**70, 1e-30, 0.1, 448.0, float("inf"), float("-inf"), float("nan")]
    entry = Entry()
    for number in numbers:
        entry.build.constant(number, element, (2,))
    _assert_same(entry.module())


@pytest.mark.parametrize("element", [E.I1, E.I8, E.I16, E.I32, E.I64], ids=str)
def test_integers(element: Element):
    entry = Entry()
    for number in (0, 1, -1, 2 ** (element.bits - 1), 2**element.bits - 1):
        entry.build.constant(number, element)
    _assert_same(entry.module())


def test_arrays():
    rng = np.random.default_rng(3)
    entry = Entry()
    for values, element in (
        (np.array([True, False, True, True]), E.I1),
        (np.array([True, True]), E.I1),
        (np.array([[1, -2], [3, 4]]), E.I64),
        (np.array([[1.5, -2.0]]), E.F32),
        (np.array([1.5, np.inf, np.nan, 0.1]), E.F16),
        (np.array([3, 3]), E.I8),
        (np.arange(128), E.I32),
        (rng.integers(0, 2, 256).astype(bool), E.I1),
        (rng.normal(size=(2, 128)), E.TF32),
    ):
        entry.add(s.Constant(value=values, to=TileType(element, values.shape)))
    _assert_same(entry.module())


def test_numbers_by_hand():
    assert number_text(1.0, E.FNV8E5M3FNU) == "1.000000e+00"
    assert number_text(np.uint8(255), E.FNV8E5M3FNU) == "0xFF"
    assert number_text(1.5, E.F32) == "1.500000e+00"
    assert number_text(1 / 3, E.F32) == "0.333333343"
    assert number_text(float("-inf"), E.F64) == "0xFFF0000000000000"
    assert number_text(2**32 - 1, E.I32) == "-1"
    assert number_text(1, E.I1) == "true"


# --- strings -------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["plain", 'a "b" \\ c', "é漢", "tab\tnew\nline\x00", "100 %"])
def test_strings(text: str):
    entry = Entry()
    entry.add(c.Assert(condition=entry.param(scalar(E.I1)), message=text))
    _assert_same(entry.module())
    assert quoted(text) in module_text(entry.module())


@pytest.mark.parametrize("name", ["f", "_f1", "a.b$c", "with space", "é", "1st", "a-b"])
def test_names_of_functions(name: str):
    entry = Entry(name)
    _assert_same(entry.module())
    assert f"entry {symbol_text(name)}(" in module_text(entry.module())


def test_hints_of_functions():
    hints = EntryHints(num_ctas=2, occupancy=1, num_worker_warps=8)
    _assert_same(Module((Entry("a").function(hints), Entry("b").function())))


# --- names ---------------------------------------------------------------------------------------


def _assumed(entry: Entry, value: Value) -> Value:
    return entry.add(c.Assume(value=value, predicate=Bounded(0, None))).result


def test_assumptions_are_called_after_what_they_assume():
    n = Entry()
    x, p = n.index(), n.param(scalar(PtrType(E.I32)))
    block = n.add(c.GetTileBlockId())
    total = n.add(e.AddI(lhs=x, rhs=x)).result
    flat = n.add(s.Reshape(source=x, to=tile(E.I32, 1))).result
    view = n.add(
        m.MakeTensorView(base=p, dynamic_shape=(x,), to=TensorViewType(E.I32, (None,), (1,)))
    ).result
    values = [x, block.x, block.y, total, flat, n.build.index(-3), n.build.index(7)]
    values += [n.add(m.LoadPtr(source=p)).result, *n.add(m.GetTensorShape(src=view)).extents]
    for value in values:
        _assumed(n, _assumed(n, value))
    _assert_same(n.module())


class _Random:
    """Draws nested programs, for the names and the layout of regions."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._n = Entry(f"f{seed}")
        self._condition = self._n.param(scalar(E.I1))

    def function(self) -> Function:
        self._fill([self._n.index(), self._n.index()], 3)
        return self._n.function()

    def _fill(self, seen: list[Value], depth: int) -> list[Value]:
        seen = list(seen)
        shapes = [self._plain, self._plain, self._for, self._loop, self._if, self._sum, self._scan]
        for _ in range(self._rng.randint(1, 4)):
            make = self._rng.choice(shapes if depth else shapes[:2])
            seen += make(seen, depth)
        return seen

    def _plain(self, seen: list[Value], _depth: int) -> list[Value]:
        n, value = self._n, self._rng.choice(seen)
        kind = self._rng.randrange(4)
        if kind == 0:
            n.add(m.LoadPtr(source=n.param(scalar(PtrType(E.I32)))))
            return []
        if kind == 1:
            return [_assumed(n, value)]
        if kind == 2:
            return [n.build.index(self._rng.randint(0, 2))]
        return [n.add(e.AddI(lhs=value, rhs=value)).result]

    def _body(self, args: tuple[Value, ...], seen: list[Value], depth: int) -> Block:
        block = Block(args)
        with self._n.build.inside(block):
            self._fill([*seen, *(a for a in args if a.type == I32)], depth - 1)
        return block

    def _for(self, seen: list[Value], depth: int) -> list[Value]:
        init = tuple(self._rng.choices(seen, k=self._rng.randint(0, 2)))
        body = self._body(tuple(Value(I32) for _ in range(len(init) + 1)), seen, depth)
        body.ops.append(c.Continue(values=body.args[1:]))
        x = seen[0]
        loop = c.For(lower_bound=x, upper_bound=x, step=x, init_values=init, body=body)
        return list(self._n.add(loop).results)

    def _loop(self, seen: list[Value], depth: int) -> list[Value]:
        init = tuple(self._rng.choices(seen, k=self._rng.randint(0, 2)))
        body = self._body(tuple(Value(I32) for _ in init), seen, depth)
        given = tuple(self._rng.choices(seen, k=self._rng.randint(0, 2)))
        body.ops.append(c.Break(values=given))
        loop = c.Loop(init_values=init, body=body, types=(I32,) * len(given))
        return list(self._n.add(loop).results)

    def _if(self, seen: list[Value], depth: int) -> list[Value]:
        given = tuple(self._rng.choices(seen, k=self._rng.randint(0, 2)))
        branches = [self._body((), seen, depth) for _ in range(2)]
        for branch in branches:
            branch.ops.append(c.Yield(values=given))
        made = c.If(
            condition=self._condition, then_body=branches[0], else_body=branches[1],
            types=(I32,) * len(given),
        )  # fmt: skip
        return list(self._n.add(made).results)

    def _combined(self, op: type[r.Reduce] | type[r.Scan], count: int) -> list[Value]:
        body = Block(tuple(Value(I32) for _ in range(2 * count)))
        with self._n.build.inside(body):
            new = tuple(
                self._n.add(e.AddI(lhs=body.args[2 * i], rhs=body.args[2 * i + 1])).result
                for i in range(count)
            )
            self._n.add(c.Yield(values=new))
        sources = tuple(self._n.build.constant(1, E.I32, (8,)) for _ in range(count))
        identities = (IntIdentity(E.I32, 0),) * count
        made = op(sources=sources, dim=0, identities=identities, body=body)
        return list(self._n.add(made).results)

    def _sum(self, _seen: list[Value], _depth: int) -> list[Value]:
        return self._combined(r.Reduce, self._rng.randint(1, 2))

    def _scan(self, _seen: list[Value], _depth: int) -> list[Value]:
        self._combined(r.Scan, self._rng.randint(1, 2))
        return []


def test_names_in_nested_regions():
    _assert_same(Module(tuple(_Random(seed).function() for seed in range(60))))


def test_a_matrix_product():
    _assert_same(Module((gemm(),)))


# --- what has no bytecode ------------------------------------------------------------------------


def test_internal_ops_are_shown_with_their_parts():
    n = Entry("kernel")
    index, count = n.index(), n.index()
    checked = n.add(BoundsCheck(index=index, count=count, site=CheckSite("x", 0, 8))).result
    body = Block((Value(I32),), [c.Continue()])
    n.add(Walk(counts=(checked,), outputs=("z",), body=body))
    n.add(FloorMod(lhs=index, rhs=count))
    text = module_text(n.module())
    assert "%0 = bounds_check index=%arg0, count=%arg1, site=CheckSite(subject='x'" in text
    assert "walk counts=%0" in text
    assert "(%arg2: tile<i32>) {" in text
    assert "%1 = floor_mod lhs=%arg0, rhs=%arg1 : tile<i32>" in text


def test_a_value_from_nowhere_is_shown_as_such():
    n = Entry()
    n.add(e.AbsI(source=Value(I32)))
    assert "absi %<undefined> : tile<i32>" in function_text(n.function())


def test_tokens_have_no_name_of_their_own():
    n = Entry()
    assert n.add(m.MakeToken()).result.type == TOKEN
    assert "  %0 = make_token : token\n" in function_text(n.function())


# --- forms ---------------------------------------------------------------------------------------


def test_a_form_is_taken_apart():
    form = parse_assembly("a b := {x}, {?y+z}({y:type}{/}{to.shape/w}]")
    assert form.names == ("a", "b")
    assert form.nodes == (
        FieldSlot(("x",)),
        Literal(", "),
        OptionalGroup(("y", "z"), (Literal("("), FieldSlot(("y",), "type"))),
        FieldSlot(("w",), gaps_of=("to", "shape")),
        Literal("]"),
    )


def test_a_form_that_closes_too_much():
    with pytest.raises(ValueError, match="not opened"):
        parse_assembly("{x}{/} : {y}")


def test_regions_that_are_nested_deeper_than_python_calls():
    depth = 500  # each takes a few calls inside each other
    n = Entry("deep")
    condition = n.param(scalar(E.I1))
    then, other = Block(), Block()
    for _ in range(depth):
        outer, beside = Block(), Block()
        with n.build.inside(outer):
            n.add(c.If(condition=condition, then_body=then, else_body=other))
        then, other = outer, beside
    n.add(c.If(condition=condition, then_body=then, else_body=other))
    module = n.module()
    assert module_text(module).count("if %") == depth + 1
    assert least_length(module) == 0
