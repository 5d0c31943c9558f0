"""Products meet their sums where that changes one rounding and nothing else."""

import pytest
from ir_samples import mnemonics, only

from tilewright.dtypes import Element
from tilewright.ir.attributes import Predicate, Rounding
from tilewright.ir.builder import Builder
from tilewright.ir.function import Function
from tilewright.ir.launch_terms import ScalarArgument
from tilewright.ir.op import Block
from tilewright.ir.ops.control import Assert, Return
from tilewright.ir.ops.elementwise import AddF, CmpF, Fma, MulF, NegF, SubF
from tilewright.ir.ops.internal import LaunchValue
from tilewright.ir.types import scalar
from tilewright.passes.drop_dead_code import drop_dead_code
from tilewright.passes.fuse_fma import fuse_fma


class Floats(Builder):
    def __init__(self, element=Element.F32):
        super().__init__(Block())
        self.a, self.b, self.c, self.d = (
            self.add(LaunchValue(term=ScalarArgument(name), to=scalar(element))).result
            for name in "abcd"
        )

    def op(self, kind, lhs, rhs, **modes):
        return self.add(kind(lhs=lhs, rhs=rhs, **modes)).result

    def fused(self, *used):
        """The function in which some values are seen, after the pass."""
        for value in used:
            seen = self.op(CmpF, value, value, comparison_predicate=Predicate.EQUAL)
            self.add(Assert(condition=seen, message=""))
        self.add(Return())
        return drop_dead_code(fuse_fma(Function("sample", self.block)))


@pytest.mark.parametrize("element", [Element.F16, Element.BF16, Element.F32, Element.F64])
@pytest.mark.parametrize("product_first", [True, False])
def test_a_sum_of_a_product(element, product_first):
    f = Floats(element)
    product = f.op(MulF, f.a, f.b)
    operands = (product, f.c) if product_first else (f.c, product)
    function = f.fused(f.op(AddF, *operands))
    (fma,) = only(function, Fma)
    assert fma.operands == (f.a, f.b, f.c)
    assert "mulf" not in mnemonics(function)


def test_a_product_less_something():
    f = Floats()
    function = f.fused(f.op(SubF, f.op(MulF, f.a, f.b), f.c))
    (fma,), (negative,) = only(function, Fma), only(function, NegF)
    assert negative.source is f.c
    assert fma.operands == (f.a, f.b, negative.result)


def test_something_less_a_product():
    f = Floats()
    function = f.fused(f.op(SubF, f.c, f.op(MulF, f.a, f.b)))
    (fma,), (negative,) = only(function, Fma), only(function, NegF)
    assert negative.source is f.a
    assert fma.operands == (negative.result, f.b, f.c)


@pytest.mark.parametrize("kind", [AddF, SubF])
def test_of_two_products_the_left_one_is_fused(kind):
    f = Floats()
    left, right = f.op(MulF, f.a, f.b), f.op(MulF, f.c, f.d)
    function = f.fused(f.op(kind, left, right))
    (fma,), (product,) = only(function, Fma), only(function, MulF)
    assert fma.operands[:2] == (f.a, f.b)
    assert product.operands == (f.c, f.d)


def test_a_chain_of_products():
    f = Floats()
    inner = f.op(AddF, f.op(MulF, f.a, f.b), f.c)
    function = f.fused(f.op(AddF, f.op(MulF, inner, f.b), f.d))
    first, second = only(function, Fma)
    assert second.lhs is first.result


def test_a_product_with_two_uses_stays():
    f = Floats()
    product = f.op(MulF, f.a, f.b)
    function = f.fused(f.op(AddF, product, f.c), product)
    assert not only(function, Fma)
    square = Floats()
    product = square.op(MulF, square.a, square.b)
    assert not only(square.fused(square.op(AddF, product, product)), Fma)


@pytest.mark.parametrize(
    "modes", [{"rounding_mode": Rounding.ZERO}, {"flush_to_zero": True}], ids=["rounding", "ftz"]
)
def test_both_must_round_alike(modes):
    f = Floats()
    assert not only(f.fused(f.op(AddF, f.op(MulF, f.a, f.b, **modes), f.c)), Fma)
    f = Floats()
    function = f.fused(f.op(AddF, f.op(MulF, f.a, f.b, **modes), f.c, **modes))
    (fma,) = only(function, Fma)
    assert {name: getattr(fma, name) for name in modes} == modes


def test_narrow_floats_are_left_alone():
    f = Floats(Element.F8E4M3FN)
    assert not only(f.fused(f.op(AddF, f.op(MulF, f.a, f.b), f.c)), Fma)
