"""Floor division and modulo mean what Python means, and nothing in them is undefined."""

import numpy as np
import pytest
from block_interpreter import World, as_unsigned, run, wrapped
from ir_samples import I32, Sample, mnemonics, only

from tilewright.dtypes import Element, i8, i32, i64, u8, u32
from tilewright.ir.attributes import Rounding, Signedness
from tilewright.ir.launch_terms import Extent, ScalarArgument
from tilewright.ir.ops.control import For
from tilewright.ir.ops.elementwise import DivI, RemI
from tilewright.ir.ops.internal import BlockIndex, CeilDiv, FloorDiv, FloorMod, LaunchValue
from tilewright.ir.rewrite import with_parts
from tilewright.ir.types import TileType
from tilewright.passes.lower_arithmetic import lower_arithmetic

MEANINGS = {
    CeilDiv: lambda a, b: -(-a // b),
    FloorDiv: lambda a, b: a // b,
    FloorMod: lambda a, b: a % b,
}
EDGES = (-(2**31), -(2**31) + 1, -7, -2, -1, 0, 1, 2, 3, 7, 2**31 - 1)


def numbers(values):
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found


def lowered_on(kind, pairs, dtype):
    """What the lowered op gives for many pairs at once, whose values are unknown to the pass."""
    to = TileType(dtype.element, (len(pairs),))
    sample = Sample()
    lhs, rhs = (
        sample.add(LaunchValue(term=ScalarArgument(name), to=to, dtype=dtype)).result
        for name in ("a", "b")
    )
    result = sample.add(kind(lhs=lhs, rhs=rhs, dtype=dtype)).result
    sample.store(result, sample.view("z"), sample.index(0))
    function = lower_arithmetic(sample.done())
    assert not only(function, kind)
    left, right = zip(*pairs, strict=True)
    element = dtype.element
    terms = {
        ScalarArgument("a"): wrapped(numbers(left), element),
        ScalarArgument("b"): wrapped(numbers(right), element),
        Extent("z", 0): 4,
    }
    return list(run(function, World(terms)).tiles["z", (0,)])


@pytest.mark.parametrize("kind", MEANINGS)
@pytest.mark.parametrize("dtype", [i32, i64, i8, u32, u8])
def test_every_pair_of_edges_is_pythons(kind, dtype):
    element = dtype.element
    edges = wrapped(numbers(EDGES), element)
    if not dtype.signed:
        edges = as_unsigned(edges, element)
    pairs = [(a, b) for a in edges for b in edges if b]
    expected = wrapped(numbers([MEANINGS[kind](a, b) for a, b in pairs]), element)
    assert lowered_on(kind, pairs, dtype) == list(expected)


@pytest.mark.parametrize("kind", MEANINGS)
@pytest.mark.parametrize("dtype", [i8, u8])
def test_all_pairs_of_bytes(kind, dtype):
    every = range(-128, 128) if dtype.signed else range(256)
    pairs = [(a, b) for a in every for b in every if b]
    expected = wrapped(numbers([MEANINGS[kind](a, b) for a, b in pairs]), dtype.element)
    assert lowered_on(kind, pairs, dtype) == list(expected)


def test_the_least_integer_by_minus_one_wraps():
    assert lowered_on(FloorDiv, [(-(2**31), -1)], i32) == [-(2**31)]
    assert lowered_on(FloorMod, [(-(2**31), -1)], i32) == [0]


def divided(build, kind=FloorDiv, dtype=None):
    sample = Sample()
    lhs, rhs = build(sample)
    result = sample.add(kind(lhs=lhs, rhs=rhs, dtype=dtype)).result
    sample.store(sample.tile(0), sample.view("z"), result)
    return lower_arithmetic(sample.done())


def block_index(sample):
    return sample.add(BlockIndex(counts=(sample.count("z"),))).indices[0]


NATURAL = {
    "constant": lambda s: s.index(7),
    "extent": lambda s: s.extent("z"),
    "tile count": lambda s: s.count("z"),
    "block index": block_index,
}


@pytest.mark.parametrize("lhs", NATURAL)
@pytest.mark.parametrize("rhs", ["constant", "extent"])
def test_numbers_that_cannot_be_negative_take_one_instruction(lhs, rhs):
    quotient = divided(lambda s: (NATURAL[lhs](s), NATURAL[rhs](s)))
    (division,) = only(quotient, DivI)
    assert (division.rounding, division.signedness) == (Rounding.ZERO, Signedness.SIGNED)
    assert "select" not in mnemonics(quotient)
    remainder = divided(lambda s: (NATURAL[lhs](s), NATURAL[rhs](s)), FloorMod)
    assert len(only(remainder, RemI)) == 1
    assert not {"select", "cmpi"} & set(mnemonics(remainder))


def test_a_loop_counter_counts_from_its_first_value():
    def loop(lower):
        sample = Sample()
        view = sample.view("z")
        with sample.loop(sample.count("z"), lower) as number:
            half = sample.add(FloorDiv(lhs=number, rhs=sample.index(2))).result
            sample.store(sample.tile(0), view, half)
        return only(lower_arithmetic(sample.done()), DivI)[0].rounding

    assert loop(0) is Rounding.ZERO
    assert loop(-1) is Rounding.NEGATIVE_INF


def test_a_counter_compared_as_unsigned_may_pass_the_greatest_signed_number():
    sample = Sample()
    view = sample.view("z")
    with sample.loop(sample.count("z")) as number:
        half = sample.add(FloorDiv(lhs=number, rhs=sample.index(2))).result
        sample.store(sample.tile(0), view, half)
    function = sample.done()
    place = next(n for n, op in enumerate(function.body.ops) if isinstance(op, For))
    function.body.ops[place] = with_parts(function.body.ops[place], unsigned_cmp=True)
    assert only(lower_arithmetic(function), DivI)[0].rounding is Rounding.NEGATIVE_INF


def test_walk_coordinates_are_natural():
    sample = Sample()
    view = sample.view("z", 2)
    with sample.walk(sample.count("z", 0), sample.count("z", 1)) as (i, j):
        half = sample.add(FloorMod(lhs=i, rhs=sample.index(2))).result
        sample.store(sample.tile(0, 2), view, half, j)
    assert "select" not in mnemonics(lower_arithmetic(sample.done()))


def test_a_scalar_argument_may_be_negative():
    quotient = divided(lambda s: (s.scalar("a"), s.index(4)))
    (division,) = only(quotient, DivI)
    assert division.rounding is Rounding.NEGATIVE_INF
    assert "select" not in mnemonics(quotient)  # a divisor of 4 is not -1
    assert "select" in mnemonics(divided(lambda s: (s.scalar("a"), s.index(-1))))
    assert "select" in mnemonics(divided(lambda s: (s.index(4), s.scalar("a"))))


def test_an_unsigned_constant_with_its_top_bit_set_is_not_natural_as_signed():
    def build(sample):
        large = sample.constant(2**31, Element.I32)
        return sample.scalar("a"), large

    assert "select" in mnemonics(divided(build, FloorMod))


def test_unsigned_divisions_never_round_down():
    for kind, op in ((FloorDiv, DivI), (FloorMod, RemI)):
        function = divided(lambda s: (s.scalar("a"), s.scalar("b")), kind, u32)
        (lowered,) = only(function, op)
        assert lowered.signedness is Signedness.UNSIGNED
        assert getattr(lowered, "rounding", Rounding.ZERO) is Rounding.ZERO
        assert lowered.result.type == I32
