"""Integers of other widths: extension, truncation, truth values and four bits."""

from itertools import combinations

import numpy as np
import pytest
from cpu_programs import Program, evaluate, run
from test_cpu_integers import SIGNS, WIDTHS, numbers, read, wrapped

from tilewright.dtypes import Element
from tilewright.ir.attributes import Signedness
from tilewright.ir.ops.elementwise import (
    AddI,
    AndI,
    ExtI,
    MaxI,
    MinI,
    MulI,
    OrI,
    SubI,
    TruncI,
    XOrI,
)
from tilewright.ir.types import TileType


@pytest.mark.parametrize("sign", SIGNS)
@pytest.mark.parametrize(("narrow", "wide"), list(combinations(WIDTHS, 2)))
def test_extension_keeps_the_number_and_truncation_the_low_bits(narrow, wide, sign):
    x = numbers(narrow, 18)

    def extend(a):
        return ExtI(source=a, to=TileType(wide, a.type.shape), signedness=sign)

    for found in evaluate(extend, wide, (narrow, x)):
        assert found.tolist() == [wrapped(read(n, narrow.bits, sign), wide.bits) for n in x]
    y = numbers(wide, 19)

    def truncate(a):
        return TruncI(source=a, to=TileType(narrow, a.type.shape))

    for found in evaluate(truncate, narrow, (wide, y)):
        assert found.tolist() == [wrapped(int(n), narrow.bits) for n in y]


@pytest.mark.parametrize("sign", SIGNS)
def test_truth_values_extend_to_one_or_all_ones(sign):
    x = np.array([0, 1, 1, 0], np.uint8)

    def extend(a):
        return ExtI(source=a, to=TileType(Element.I32, a.type.shape), signedness=sign)

    one = -1 if sign is Signedness.SIGNED else 1
    for found in evaluate(extend, Element.I32, (Element.I1, x)):
        assert found.tolist() == [0, one, one, 0]

    def truncate(a):
        return TruncI(source=a, to=TileType(Element.I1, a.type.shape))

    y = np.array([0, 1, 2, 3], np.int32)
    for found in evaluate(truncate, Element.I1, (Element.I32, y)):
        assert found.tolist() == [0, 1, 0, 1]


def test_four_bit_integers_wrap_and_extend():
    x = np.arange(-16, 16, dtype=np.int32)
    for sign, expected in (
        (Signedness.SIGNED, [wrapped(int(n), 4) for n in x]),
        (Signedness.UNSIGNED, [int(n) % 16 for n in x]),
    ):
        program = Program()
        source, out = (program.tensor(Element.I32, 1) for _ in range(2))
        zero = program.b.index(0)
        tile = program.load(program.partition(source, (32,)), zero)
        small = program.add(TruncI(source=tile, to=TileType(Element.I4, (32,))))
        wide = program.add(ExtI(source=small, to=TileType(Element.I32, (32,)), signedness=sign))
        program.store(wide, program.partition(out, (32,)), zero)
        found = np.zeros_like(x)
        run(program.finish(), (1, 1, 1), x, found)
        assert found.tolist() == expected


TRUTH = np.array([0, 0, 1, 1], np.uint8), np.array([0, 1, 0, 1], np.uint8)


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        (AddI, [0, 1, 1, 0]),
        (SubI, [0, 1, 1, 0]),
        (MulI, [0, 0, 0, 1]),
        (AndI, [0, 0, 0, 1]),
        (OrI, [0, 1, 1, 1]),
        (XOrI, [0, 1, 1, 0]),
        (MaxI, [0, 0, 0, 1]),  # signed: true is -1
        (MinI, [0, 1, 1, 1]),
    ],
)
def test_truth_values_are_integers_of_one_bit(op, expected):
    operands = [(Element.I1, array) for array in TRUTH]
    for found in evaluate(lambda a, b: op(lhs=a, rhs=b), Element.I1, *operands):
        assert found.tolist() == expected
