"""Equal scalars, constants and views become one; what only looks equal stays apart."""

import numpy as np
import pytest
from ir_samples import Sample, mnemonics, only

from tilewright.dtypes import Element, i32, u32
from tilewright.ir.attributes import Rounding
from tilewright.ir.builder import Builder
from tilewright.ir.function import Function
from tilewright.ir.op import Block
from tilewright.ir.ops.control import Return
from tilewright.ir.ops.elementwise import AddI, DivI
from tilewright.ir.ops.memory import LoadView, MakeTensorView, MakeToken
from tilewright.ir.ops.shape import Constant
from tilewright.ir.types import TileType, scalar
from tilewright.passes.merge_duplicates import merge_duplicates


def constants(*values, element=Element.F32, dtypes=(None,)):
    builder = Builder(Block())
    for value in values:
        for dtype in dtypes:
            builder.add(Constant(value=value, to=scalar(element), dtype=dtype))
    builder.add(Return())
    return len(only(merge_duplicates(Function("sample", builder.block)), Constant))


def test_equal_constants_become_one():
    assert constants(1.0, 1.0, 2.0) == 2
    assert constants(float("nan"), float("nan")) == 1


def test_zeros_of_different_sign_stay_apart():
    assert constants(0.0, -0.0) == 2
    assert constants(np.float32(0.0), np.float32(-0.0)) == 2


def test_a_number_keeps_its_sign_rules():
    assert constants(1, 1, element=Element.I32, dtypes=(i32, u32)) == 2


@pytest.mark.parametrize(
    ("second", "left"), [([0, 1, 2, 3], 1), ([0, 1, 2, 4], 2)], ids=["equal", "different"]
)
def test_equal_arrays_of_elements_become_one(second, left):
    builder = Builder(Block())
    for numbers in ([0, 1, 2, 3], second):
        elements = np.array(numbers, np.int32)
        builder.add(Constant(value=elements, to=TileType(Element.I32, (4,))))
    builder.add(Return())
    assert len(only(merge_duplicates(Function("sample", builder.block)), Constant)) == left


def test_equal_views_become_one_and_loads_stay():
    s = Sample()
    at = s.index(0)
    s.store(s.sum(s.load(s.view("x"), at), s.load(s.view("x"), at)), s.view("z"), at)
    function = merge_duplicates(s.done())
    assert len(only(function, MakeTensorView)) == 2
    assert len(only(function, LoadView)) == 2


def test_chains_of_equal_scalars_become_one():
    s = Sample()
    places = [s.sum(s.scalar("i"), s.index(2)) for _ in range(2)]
    for place in places:
        s.store(s.tile(0), s.view("z"), place)
    assert len(only(merge_duplicates(s.done()), AddI)) == 1


def test_attributes_count():
    s = Sample()
    for rounding in (Rounding.ZERO, Rounding.NEGATIVE_INF):
        division = DivI(lhs=s.scalar("i"), rhs=s.index(2), rounding=rounding)
        s.store(s.tile(0), s.view("z"), s.add(division).result)
    assert len(only(merge_duplicates(s.done()), DivI)) == 2


def test_a_copy_in_a_branch_names_the_one_before_but_not_the_one_beside_it():
    s = Sample()
    z = s.view("z")

    def branch():
        s.store(s.tile(0), z, s.sum(s.scalar("i"), s.index(9)))

    s.choose(s.scalar("c"), branch, branch)
    branch()
    assert len(only(merge_duplicates(s.done()), AddI)) == 3

    s = Sample()
    z = s.view("z")
    branch()
    s.choose(s.scalar("c"), branch, branch)
    assert len(only(merge_duplicates(s.done()), AddI)) == 1


def test_tokens_and_large_tiles_stay_apart():
    s = Sample()
    s.add(MakeToken())
    s.add(MakeToken())
    x, at = s.load(s.view("x"), s.index(0)), s.index(0)
    for _ in range(2):
        s.store(s.sum(x, x), s.view("z"), at)
    function = merge_duplicates(s.done())
    assert mnemonics(function).count("make_token") == 2
    assert len(only(function, AddI)) == 2
