"""Which values are the same number at every visit, and which are only seen to be by chance."""

from tilewright.analysis.equal_values import EqualValues
from tilewright.dtypes import Element
from tilewright.ir.attributes import Predicate
from tilewright.ir.builder import Builder
from tilewright.ir.function import Function
from tilewright.ir.launch_terms import BaseAddress, ScalarArgument
from tilewright.ir.op import Block, Op, Value
from tilewright.ir.ops.control import Continue, For, If, Return, Yield
from tilewright.ir.ops.elementwise import AddI, CmpI, SubI
from tilewright.ir.ops.internal import LaunchValue
from tilewright.ir.ops.memory import LoadPtr, Offset, StorePtr
from tilewright.ir.types import PtrType, scalar

I32 = scalar(Element.I32)


class Kernel(Builder):
    """A function in the making."""

    def __init__(self) -> None:
        super().__init__(Block())
        self.body = self.block

    def scalar(self, name: str) -> Value:
        return self.add(LaunchValue(term=ScalarArgument(name), to=I32)).result

    def sum(self, lhs: Value, rhs: Value) -> Value:
        return self.add(AddI(lhs=lhs, rhs=rhs)).result

    def load(self, name: str, index: Value) -> Value:
        base = LaunchValue(term=BaseAddress(name), to=scalar(PtrType(Element.I32)))
        pointer = self.add(Offset(ptr=self.add(base).result, offset=index)).result
        return self.add(LoadPtr(source=pointer)).result

    def choose(self, condition: Value, then: Value, other: Value) -> Value:
        blocks = [Block((), [Yield(values=(value,))]) for value in (then, other)]
        op = If(condition=condition, then_body=blocks[0], else_body=blocks[1], types=(I32,))
        return self.add(op).results[0]

    def positive(self, value: Value) -> Value:
        op = CmpI(lhs=value, rhs=self.index(0), comparison_predicate=Predicate.GREATER_THAN)
        return self.add(op).result

    def loop(self, build) -> Op:
        """Three turns; what is built from the counter and the carried number is handed on."""
        counter, carried = Value(I32), Value(I32)
        with self.inside(Block((counter, carried))) as body:
            self.add(Continue(values=(build(counter, carried),)))
        zero, three, one = (self.index(n) for n in (0, 3, 1))
        bounds = {"lower_bound": zero, "upper_bound": three, "step": one}
        return self.add(For(**bounds, init_values=(zero,), body=body))

    def numbers(self, *values: Value, outputs: tuple[str, ...] = ()) -> list[int | None]:
        self.add(Return())
        found = EqualValues(Function("kernel", self.body), outputs)
        return [found.number(value) for value in values]


def test_equal_by_what_they_are_made_of():
    kernel = Kernel()
    n, again, m = kernel.scalar("n"), kernel.scalar("n"), kernel.scalar("m")
    one, two = kernel.sum(n, m), kernel.sum(again, m)
    turned = kernel.sum(m, n)
    other = kernel.add(SubI(lhs=n, rhs=m)).result
    a, b, c, d = kernel.numbers(one, two, turned, other)
    assert a == b
    assert len({a, c, d}) == 3


def test_loads_of_what_nobody_writes():
    kernel = Kernel()
    n = kernel.scalar("n")
    same, again = kernel.load("x", n), kernel.load("x", n)
    read, reread = kernel.load("z", n), kernel.load("z", n)
    a, b, c, d = kernel.numbers(same, again, read, reread, outputs=("z",))
    assert a == b
    assert c != d  # each is read once, but not at the same time


def test_a_write_to_an_unknown_place_may_be_anywhere():
    kernel = Kernel()
    loads = [kernel.load("x", kernel.scalar("n")) for _ in range(2)]
    kernel.add(StorePtr(destination=Value(scalar(PtrType(Element.I32))), value=loads[0]))
    a, b = kernel.numbers(*loads)
    assert a != b


def test_branches_by_what_they_choose_from():
    kernel = Kernel()
    n, m = kernel.scalar("n"), kernel.scalar("m")
    one, two = (kernel.choose(kernel.positive(n), n, m) for _ in range(2))
    turned = kernel.choose(kernel.positive(n), m, n)
    a, b, c = kernel.numbers(one, two, turned)
    assert a == b != c


def test_in_a_loop_only_what_does_not_change():
    kernel = Kernel()
    n, seen = kernel.scalar("n"), {}

    def build(counter, carried):
        seen["fixed"] = kernel.sum(n, n)
        seen["loaded"] = kernel.load("x", n)
        seen["counted"] = kernel.sum(n, counter)
        seen["carried"] = kernel.sum(n, carried)
        seen["read"] = kernel.load("z", n)
        seen["chosen"] = kernel.choose(kernel.positive(counter), n, seen["fixed"])
        return seen["fixed"]

    loop = kernel.loop(build)
    outside = kernel.sum(n, n)
    values = [*seen.values(), outside, loop.results[0]]
    numbers = kernel.numbers(*values, outputs=("z",))
    assert numbers[0] == numbers[6]
    assert numbers[1] is not None
    assert numbers[2:6] == [None] * 4
    assert numbers[7] is not None  # whatever the loop does, it runs once


def test_the_results_of_an_inner_loop_may_change():
    kernel = Kernel()
    n, inner = kernel.scalar("n"), []

    def build(counter, carried):
        inner.append(kernel.loop(lambda *_: n).results[0])
        return n

    kernel.loop(build)
    assert kernel.numbers(*inner) == [None]


def test_long_sums_are_numbered_quickly():
    kernel = Kernel()
    first, second = kernel.scalar("n"), kernel.scalar("n")
    for _ in range(3000):
        first, second = kernel.sum(first, first), kernel.sum(second, second)
    a, b = kernel.numbers(first, second)
    assert a == b is not None
