"""Indices of one access in integers of several widths: each is read in its own."""

import itertools

import numpy as np
import pytest
from cpu_programs import Program, run

from tilewright.dtypes import Element
from tilewright.errors import UndefinedBehaviourError
from tilewright.ir.attributes import AtomicMode
from tilewright.ir.ops.views import AtomicRedView, MakeGatherScatterView
from tilewright.ir.types import GatherScatterViewType

WIDTHS = (Element.I8, Element.I16, Element.I32, Element.I64)
PAIRS = list(itertools.product(WIDTHS, WIDTHS))
I32 = Element.I32


def summing(first, second):
    program = Program("sums")
    target = program.tensor(I32, 2)
    i, j = program.param(first), program.param(second)
    one = program.b.constant(1, I32, (1, 1))
    view = program.partition(target, (1, 1))
    program.add(AtomicRedView(view=view, index=(i, j), value=one, mode=AtomicMode.ADD))
    return program.finish()


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_a_sum_goes_to_the_element_that_both_indices_name(first, second):
    kernel = summing(first, second)
    places = [min(300, 2**element.bits - 1) for element in (first, second)]
    out = np.zeros((301, 301), np.int32)
    run(kernel, (1, 1, 1), out, *places)
    assert np.argwhere(out).tolist() == [places]


@pytest.mark.parametrize("index", [(0, 2**32), (0, 256), (255, 0)])
def test_a_sum_outside_is_reported_by_the_width_of_its_index(index):
    out = np.zeros((2, 2), np.int32)
    with pytest.raises(UndefinedBehaviourError, match=f"on axis {0 if index[0] else 1}"):
        run(summing(Element.I8, Element.I64), (1, 1, 1), out, *index)
    assert not out.any()


@pytest.mark.parametrize("sparse", [0, 1])
@pytest.mark.parametrize(("rows", "other"), PAIRS)
def test_rows_and_first_elements_of_several_widths(rows, other, sparse):
    program = Program("gather")
    source, target = program.tensor(I32, 2), program.tensor(I32, 2)
    numbers, start = program.tensor(rows, 1), program.param(other)
    zero = program.b.index(0)
    picked = program.load(program.partition(numbers, (2,)), zero)
    to = GatherScatterViewType((2, 2), source.type, sparse)
    view = program.add(MakeGatherScatterView(tensor_view=source, to=to))
    index = (picked, start) if sparse == 0 else (start, picked)
    program.store(program.load(view, *index), program.partition(target, (2, 2)), zero, zero)
    kernel = program.finish()
    x = np.arange(400 * 400, dtype=np.int32).reshape(400, 400)
    chosen = [min(300, 2**rows.bits - 1), 7]
    first = min(300, 2**other.bits - 1)
    out = np.zeros((2, 2), np.int32)
    run(kernel, (1, 1, 1), x, out, np.array(chosen, f"u{rows.bits // 8}").view(rows.numpy), first)
    columns = [first, first + 1]
    wanted = x[np.ix_(chosen, columns)] if sparse == 0 else x[np.ix_(columns, chosen)]
    assert out.tolist() == wanted.tolist()
