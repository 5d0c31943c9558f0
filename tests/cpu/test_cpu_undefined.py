"""What Tile IR leaves undefined is reported with the op, the place, the block and the numbers."""

import numpy as np
import pytest
from cpu_programs import Program, apply, apply_to_scalars, run

from tilewright.dtypes import Element
from tilewright.errors import UndefinedBehaviourError
from tilewright.ir.attributes import Bounded, DivBy, Overflow, Rounding, Signedness
from tilewright.ir.ops.control import Assume
from tilewright.ir.ops.elementwise import AddI, DivI, NegI, RemI, ShLI, ShRI, TruncI
from tilewright.ir.ops.shape import Reshape
from tilewright.ir.types import TileType
from tilewright.source import Location, SourceFile, Span

I32 = Element.I32
LOW, HIGH = -(2**31), 2**31 - 1


def located(op):
    """The same op, said to stand at line 7 of a file."""
    file = SourceFile("kernels.py", ("x = a // b + c",) * 10)
    op.loc = Location(Span(file, 7, 8, 7, 12))
    return op


def binary(op, **attributes):
    return lambda a, b: located(op(lhs=a, rhs=b, **attributes))


CASES = [
    # op, operands that are fine, operands that are not, what is said
    (binary(DivI), (7, 2), (7, 0), "divi divides by zero: 7 / 0"),
    (binary(DivI), (LOW, 1), (LOW, -1), f"divi overflows: {LOW} / -1"),
    (binary(DivI, rounding=Rounding.NEGATIVE_INF), (-7, 2), (-7, 0), "divi divides by zero"),
    (binary(DivI, rounding=Rounding.POSITIVE_INF), (LOW, 2), (LOW, -1), "divi overflows"),
    (binary(DivI, signedness=Signedness.UNSIGNED), (LOW, -1), (-1, 0), "divi divides by zero"),
    (binary(RemI), (7, -2), (7, 0), "remi divides by zero: 7 / 0"),
    (binary(RemI), (LOW, 2), (LOW, -1), "remi overflows"),
    (binary(ShLI), (1, 31), (1, 32), "shli shifts by 32, and the width is 32"),
    (binary(ShRI), (1, 0), (1, 40), "shri shifts by 40, and the width is 32"),
    (binary(ShLI, overflow=Overflow.NSW), (1, 30), (1, 31), "shli wraps, and promises not to"),
    (binary(ShLI, overflow=Overflow.NUW), (1, 31), (2, 31), "shli wraps, and promises not to"),
    (binary(AddI, overflow=Overflow.NSW), (HIGH, 0), (HIGH, 1), f"{HIGH + 1} is not in"),
    (binary(AddI, overflow=Overflow.NUW), (LOW, HIGH), (-1, 1), f"{2**32} is not in"),
]


@pytest.mark.parametrize(("op", "good", "bad", "said"), CASES)
def test_each_kind_is_reported_and_its_neighbour_runs(op, good, bad, said):
    out = np.zeros(4, np.int32)
    tiles = apply(op, [I32, I32], I32, (4,))
    scalars = apply_to_scalars(op, [I32, I32], I32)
    for kernel, blocks, where in ((tiles, 1, (0, 0, 0)), (scalars, 4, (2, 0, 0))):
        x, y = np.full(4, good[0], np.int32), np.full(4, good[1], np.int32)
        run(kernel, (blocks, 1, 1), x, y, out)
        x[2], y[2] = bad
        with pytest.raises(UndefinedBehaviourError) as caught:
            run(kernel, (blocks, 1, 1), x, y, out)
        text = str(caught.value)
        assert said in text
        assert f"undefined behaviour in kernel `{kernel.name}`, block {where}: " in text
        assert text.endswith("\n  at kernels.py:7:9")
        assert ("at element (2,)" in text) == (blocks == 1)


def unary(op, **attributes):
    return lambda a: op(source=a, **attributes)


@pytest.mark.parametrize(
    ("build", "to", "good", "bad", "said"),
    [
        (unary(NegI, overflow=Overflow.NSW), I32, LOW + 1, LOW, "negi wraps"),
        (
            lambda a: TruncI(
                source=a, to=TileType(Element.I8, a.type.shape), overflow=Overflow.NSW
            ),
            Element.I8,
            -128,
            128,
            "trunci",
        ),
        (
            lambda a: TruncI(
                source=a, to=TileType(Element.I8, a.type.shape), overflow=Overflow.NUW
            ),
            Element.I8,
            255,
            -1,
            "trunci",
        ),
    ],
)
def test_promises_of_ops_with_one_operand(build, to, good, bad, said):
    out = np.zeros(4, to.numpy)
    for kernel, blocks in (
        (apply(build, [I32], to, (4,)), 1),
        (apply_to_scalars(build, [I32], to), 4),
    ):
        run(kernel, (blocks, 1, 1), np.full(4, good, np.int32), out)
        with pytest.raises(UndefinedBehaviourError, match=said) as caught:
            run(kernel, (blocks, 1, 1), np.full(4, bad, np.int32), out)
        assert "promises not to" in str(caught.value)


ASSUMPTIONS = [
    (DivBy(8), 16, 12, "assume promises a multiple of 8, and has 12"),
    (Bounded(0, None), 0, -1, "assume promises [0, ], and has -1"),
    (Bounded(None, 10), 10, 11, "assume promises [, 10], and has 11"),
    (Bounded(-4, 4), -4, 5, "assume promises [-4, 4], and has 5"),
]


@pytest.mark.parametrize(("predicate", "good", "bad", "said"), ASSUMPTIONS)
def test_a_false_assumption_is_reported(predicate, good, bad, said):
    def build(a):
        return Assume(value=a, predicate=predicate)

    out = np.zeros(4, np.int32)
    for kernel, blocks in (
        (apply(build, [I32], I32, (4,)), 1),
        (apply_to_scalars(build, [I32], I32), 4),
    ):
        run(kernel, (blocks, 1, 1), np.full(4, good, np.int32), out)
        assert out.tolist() == [good] * 4
        with pytest.raises(UndefinedBehaviourError) as caught:
            run(kernel, (blocks, 1, 1), np.full(4, bad, np.int32), out)
        assert said in str(caught.value)


def test_what_is_wrong_for_all_blocks_is_reported_for_the_first():
    program = Program("uniform")
    given, out = program.param(I32), program.tensor(I32, 1)
    assumed = program.add(Assume(value=given, predicate=DivBy(4)))
    tile = program.add(Reshape(source=assumed, to=TileType(I32, (1,))))
    i, _, _ = program.block_id()
    program.store(tile, program.partition(out, (1,)), i)
    kernel = program.finish()
    found = np.zeros(3, np.int32)
    run(kernel, (3, 1, 1), 8, found)
    assert found.tolist() == [8, 8, 8]
    with pytest.raises(UndefinedBehaviourError, match=r"`uniform`, block \(0, 0, 0\): assume"):
        run(kernel, (3, 1, 1), 9, found)


def test_the_error_comes_alone():
    kernel = apply(binary(DivI), [I32, I32], I32, (4,))
    zeros = np.zeros(4, np.int32)
    with pytest.raises(UndefinedBehaviourError) as caught:
        run(kernel, (1, 1, 1), zeros, zeros.copy(), zeros.copy())
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
