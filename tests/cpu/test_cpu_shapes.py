"""Ops that make tiles or change their shape, and values that are broadcast without a copy."""

import numpy as np
import pytest
from cpu_programs import Program, run

from tilewright.dtypes import Element
from tilewright.errors import UndefinedBehaviourError
from tilewright.ir.ops.elementwise import AddF, AddI, MulF, MulI
from tilewright.ir.ops.shape import Broadcast, Cat, Constant, Extract, Iota, Permute, Reshape
from tilewright.ir.types import TileType


def through(build, shape, result_shape, element=Element.F32):
    """What `build` makes of a tile that counts up."""
    program = Program()
    source, target = program.tensor(element, len(shape)), program.tensor(element, len(result_shape))
    x = np.arange(np.prod(shape)).reshape(shape).astype(element.numpy)
    tile = program.load(program.partition(source, shape), *(program.b.index(0) for _ in shape))
    result = build(program, tile)
    view = program.partition(target, result_shape)
    program.store(result, view, *(program.b.index(0) for _ in result_shape))
    out = np.zeros(result_shape, element.numpy)
    run(program.finish(), (1, 1, 1), x, out)
    return x, out


def test_reshape_goes_row_by_row():
    x, out = through(
        lambda p, t: p.add(Reshape(source=t, to=t.type.with_shape((2, 4, 4)))), (8, 4), (2, 4, 4)
    )
    np.testing.assert_array_equal(out, x.reshape(2, 4, 4))


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0), (2, 1, 0)])
def test_permute(order):
    shape = (2, 4, 8)
    result = tuple(shape[a] for a in order)
    x, out = through(lambda p, t: p.add(Permute(source=t, permutation=order)), shape, result)
    np.testing.assert_array_equal(out, x.transpose(order))


@pytest.mark.parametrize("dim", [0, 1])
def test_cat(dim):
    shape = [4, 8]
    shape[dim] *= 2
    x, out = through(lambda p, t: p.add(Cat(lhs=t, rhs=t, dim=dim)), (4, 8), tuple(shape))
    np.testing.assert_array_equal(out, np.concatenate((x, x), dim))


@pytest.mark.parametrize("at", [(0, 0), (1, 1), (3, 0)])
def test_extract_takes_a_part_by_its_number(at):
    def build(p, t):
        indices = tuple(p.b.index(i) for i in at)
        return p.add(Extract(source=t, indices=indices, to=t.type.with_shape((2, 4))))

    x, out = through(build, (8, 8), (2, 4))
    np.testing.assert_array_equal(out, x[2 * at[0] : 2 * at[0] + 2, 4 * at[1] : 4 * at[1] + 4])


@pytest.mark.parametrize(("at", "axis", "count"), [((4, 0), 0, 4), ((0, 2), 1, 2), ((-1, 0), 0, 4)])
def test_a_part_outside_the_tile_is_reported(at, axis, count):
    def build(p, t):
        indices = tuple(p.b.index(i) for i in at)
        return p.add(Extract(source=t, indices=indices, to=t.type.with_shape((2, 4))))

    expected = f"extract takes part .* on axis {axis}, and the tile has {count} parts there"
    with pytest.raises(UndefinedBehaviourError, match=expected):
        through(build, (8, 8), (2, 4))


@pytest.mark.parametrize("element", [Element.I8, Element.I32, Element.I64], ids=repr)
def test_iota_counts(element):
    _, out = through(
        lambda p, t: p.add(AddI(lhs=p.add(Iota(to=t.type)), rhs=t)), (16,), (16,), element
    )
    assert out.tolist() == [2 * n for n in range(16)]


def test_constants_of_many_elements():
    numbers = np.arange(8, dtype=np.float32) * 0.5

    def build(p, t):
        return p.add(AddF(lhs=t, rhs=p.add(Constant(value=numbers, to=t.type))))

    x, out = through(build, (8,), (8,))
    np.testing.assert_array_equal(out, x + numbers)


@pytest.mark.parametrize(
    ("element", "value", "stored"),
    [
        (Element.I8, 255, -1),
        (Element.I32, 2**32 - 2, -2),
        (Element.I64, -1, -1),
        (Element.F16, 0.1, float(np.float16(0.1))),
        (Element.F32, float("-inf"), float("-inf")),
    ],
)
def test_constants_of_one_number(element, value, stored):
    def build(p, t):
        return p.b.constant(value, element, (4,))

    _, out = through(build, (4,), (4,), element)
    assert out.tolist() == [stored] * 4


def test_broadcasts_meet_in_arithmetic_and_are_whole_where_they_must_be():
    def build(p, t):
        column = p.add(Reshape(source=t, to=t.type.with_shape((8, 1))))
        row = p.add(Reshape(source=t, to=t.type.with_shape((1, 8))))
        square = t.type.with_shape((8, 8))
        columns = p.add(Broadcast(source=column, to=square))
        rows = p.add(Broadcast(source=row, to=square))
        # Permuted, reshaped and concatenated while they are still thin.
        flipped = p.add(Permute(source=columns, permutation=(1, 0)))
        flat = p.add(Reshape(source=rows, to=t.type.with_shape((64,))))
        again = p.add(Reshape(source=flat, to=square))
        product = p.add(MulF(lhs=columns, rhs=again))
        total = p.add(AddF(lhs=product, rhs=flipped))
        return p.add(Cat(lhs=columns, rhs=total, dim=0))

    x, out = through(build, (8,), (16, 8))
    columns = np.broadcast_to(x[:, None], (8, 8))
    np.testing.assert_array_equal(out, np.concatenate((columns, columns * x + x)))


def test_a_scalar_integer_becomes_a_tile_of_its_width():
    program = Program()
    target, given = program.tensor(Element.I32, 1), program.param(Element.I32)
    thin = program.add(Reshape(source=given, to=TileType(Element.I32, (1,))))
    tile = program.add(Broadcast(source=thin, to=TileType(Element.I32, (4,))))
    squared = program.add(MulI(lhs=tile, rhs=tile))
    program.store(squared, program.partition(target, (4,)), program.b.index(0))
    out = np.zeros(4, np.int32)
    kernel = program.finish()
    for number in (3, -5, 2**31 - 1, 2**31 + 7):
        run(kernel, (1, 1, 1), out, number)
        exact = number**2
        assert out.tolist() == [(exact + 2**31) % 2**32 - 2**31] * 4
