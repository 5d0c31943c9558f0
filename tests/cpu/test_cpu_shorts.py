"""Tiles at an edge are computed without their padding, and nothing shows it."""

import itertools

import numpy as np
import pytest
from cpu_programs import Program, fold, run

from tilewright.backends.cpu import planning, shorts
from tilewright.dtypes import Element
from tilewright.ir.attributes import FloatIdentity, Ordering, Predicate
from tilewright.ir.op import Block
from tilewright.ir.ops.control import If, Yield
from tilewright.ir.ops.elementwise import AddF, CmpF, DivF, FToF, MaxF, MulF, Select, SubF
from tilewright.ir.ops.reduction import Scan
from tilewright.ir.ops.shape import Permute, Reshape
from tilewright.ir.types import Padding, TileType

ROWS, COLUMNS = 4, 16
TILE = (ROWS, COLUMNS)
F32 = Element.F32
NUMBERS = {None: 0.0, Padding.ZERO: 0.0, Padding.NEG_INF: -np.inf, Padding.NAN: np.nan}


@pytest.fixture(autouse=True)
def _any_size(monkeypatch):
    """Tiles of any size may be short."""
    monkeypatch.setattr(planning, "SMALLEST_SHORT", 1)


def kernel(body_of, *, paddings=(None, None), out=TILE):
    """z = what `body_of` makes of the first tiles of x and y."""
    program = Program("shorts")
    z, x, y = (program.tensor(F32, 2) for _ in range(3))
    zero = program.b.index(0)
    tiles = [
        program.load(program.partition(tensor, TILE, padding), zero, zero)
        for tensor, padding in zip((x, y), paddings, strict=True)
    ]
    program.store(body_of(program, *tiles), program.partition(z, out), zero, zero)
    return program.finish()


def numbers(rows, columns):
    return np.random.default_rng(rows * 100 + columns).standard_normal((rows, columns), np.float32)


def whole(x, padding):
    """A tile as the program sees it."""
    tile = np.full(TILE, NUMBERS[padding], np.float32)
    tile[: x.shape[0], : x.shape[1]] = x
    return tile


def rows_over(program, value, op, identity):
    total = fold(program, value, 1, op, FloatIdentity(F32, identity))
    return program.spread(total, TILE, (ROWS, 1))


def arithmetic(program, x, y):
    two = program.b.constant(2.0, F32, TILE)
    return program.add(MulF(lhs=program.add(AddF(lhs=x, rhs=y)), rhs=two))


def normalised(program, x, y):
    total = program.add(AddF(lhs=x, rhs=y))
    top = rows_over(program, total, MaxF, -np.inf)
    shifted = program.add(SubF(lhs=total, rhs=top))
    squares = program.add(MulF(lhs=shifted, rhs=shifted))
    return program.add(DivF(lhs=squares, rhs=rows_over(program, squares, AddF, 0.0)))


def chosen(program, x, y):
    flags = program.add(
        CmpF(
            lhs=x,
            rhs=y,
            comparison_predicate=Predicate.LESS_THAN,
            comparison_ordering=Ordering.ORDERED,
        )
    )
    return program.add(Select(cond=flags, val_if_true=y, val_if_false=x))


def turned(program, x, y):
    thin = TileType(F32, (COLUMNS, ROWS))
    sides = [program.add(Permute(source=side, permutation=(1, 0))) for side in (x, y)]
    total = program.add(AddF(lhs=sides[0], rhs=sides[1]))
    deep = program.add(Reshape(source=total, to=thin.with_shape((COLUMNS, 1, ROWS))))
    back = program.add(Reshape(source=deep, to=thin))
    return program.add(Permute(source=back, permutation=(1, 0)))


def rounded(program, x, y):
    short = program.add(FToF(source=x, to=TileType(Element.F16, TILE)))
    wide = program.add(FToF(source=short, to=TileType(F32, TILE)))
    return program.add(MulF(lhs=wide, rhs=y))


def running(program, x, y):
    total = program.add(AddF(lhs=x, rhs=y))
    body = Block(tuple(program.param(F32) for _ in range(2)))
    del program.params[-2:]
    with program.b.inside(body):
        both = program.add(AddF(lhs=body.args[0], rhs=body.args[1]))
        program.b.add(Yield(values=(both,)))
    zero = (FloatIdentity(F32, 0.0),)
    return program.add(Scan(sources=(total,), dim=1, reverse=False, identities=zero, body=body))


def branch(program, x, y):
    """A sum that a branch uses, and the tile behind it."""
    total = program.add(AddF(lhs=x, rhs=y))
    then, other = Block(()), Block(())
    with program.b.inside(then):
        program.b.add(Yield(values=(program.add(MulF(lhs=total, rhs=x)),)))
    with program.b.inside(other):
        program.b.add(Yield(values=(total,)))
    yes = program.b.constant(1, Element.I1, ())
    found = program.add(If(condition=yes, then_body=then, else_body=other, types=(total.type,)))
    return program.add(AddF(lhs=found, rhs=total))


def by_rows(function, x):
    return function(x, axis=1, keepdims=True)


def expected_normalised(x, y):
    total = x + y
    tops = np.fmax.reduce(total, axis=1, keepdims=True)
    squares = np.square(total - tops)
    return squares / by_rows(np.sum, squares)


EXPECTED = {
    arithmetic: lambda x, y: (x + y) * 2,
    normalised: expected_normalised,
    chosen: lambda x, y: np.where(x < y, y, x),
    turned: lambda x, y: x + y,
    rounded: lambda x, y: x.astype(np.float16).astype(np.float32) * y,
    running: lambda x, y: np.cumsum(x + y, axis=1),
    branch: lambda x, y: (x + y) * x + (x + y),
}
PADDINGS = [(None, None), (Padding.NEG_INF, None), (Padding.NAN, Padding.NEG_INF)]


@pytest.mark.parametrize("paddings", PADDINGS)
@pytest.mark.parametrize("body_of", EXPECTED, ids=lambda body_of: body_of.__name__)
def test_every_element_is_that_of_the_whole_tile(body_of, paddings):
    compiled = kernel(body_of, paddings=paddings)
    assert "load_along" in compiled.source
    widths = (1, 5, COLUMNS)
    for of_x, of_y, of_z in itertools.product(widths, widths, (3, COLUMNS)):
        for rows in (ROWS, 3):
            x, y = numbers(rows, of_x), numbers(ROWS, of_y)
            z = np.zeros((ROWS, of_z), np.float32)
            run(compiled, (1, 1, 1), z, x, y)
            with np.errstate(all="ignore"):
                tiles = [whole(side, pad) for side, pad in zip((x, y), paddings, strict=True)]
                found = EXPECTED[body_of](*tiles)[:, :of_z]
            np.testing.assert_allclose(
                z, found, rtol=1e-5, atol=1e-6, err_msg=f"{x.shape} {y.shape}"
            )


def test_tiles_of_one_extent_are_computed_without_padding(monkeypatch):
    def refuse(*_):
        raise AssertionError("a tile was padded")

    monkeypatch.setattr(shorts, "padded", refuse)
    compiled = kernel(arithmetic)
    x, y, z = numbers(ROWS, 5), numbers(ROWS, 6)[:, :5].copy(), np.zeros((ROWS, 5), np.float32)
    run(compiled, (1, 1, 1), z, x, y)
    np.testing.assert_array_equal(z, (x + y) * 2)


def test_a_store_of_another_tile_has_the_padding():
    """The last axis of several elements differs between the tile and the view of the result."""
    program = Program("column")
    z, x = (program.tensor(F32, 2) for _ in range(2))
    zero = program.b.index(0)
    tile = program.load(program.partition(x, (1, 8), Padding.NEG_INF), zero, zero)
    total = program.add(AddF(lhs=tile, rhs=tile))
    column = program.add(Permute(source=total, permutation=(1, 0)))
    program.store(column, program.partition(z, (8, 1)), zero, zero)
    found = np.zeros((8, 1), np.float32)
    run(program.finish(), (1, 1, 1), found, np.ones((1, 3), np.float32))
    np.testing.assert_array_equal(found[:, 0], [2, 2, 2, *[-np.inf] * 5])
