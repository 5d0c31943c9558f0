"""Loops that are one product: recognised, right at every edge, and left alone when they are not."""

import numpy as np
import pytest
from cpu_programs import I32, Program, run

from tilewright.dtypes import Element
from tilewright.errors import UndefinedBehaviourError
from tilewright.ir.op import Block, Value
from tilewright.ir.ops.control import Continue, For
from tilewright.ir.ops.elementwise import AddI, FToF, MulF
from tilewright.ir.ops.memory import MakeToken
from tilewright.ir.ops.reduction import MmaF
from tilewright.ir.ops.shape import Permute
from tilewright.ir.types import Padding, TileType

ROWS, COLUMNS, DEPTH = 8, 16, 4
F32 = Element.F32


def loop_kernel(
    body_of,
    element=F32,
    out=F32,
    rhs_tile=(DEPTH, COLUMNS),
    padding=None,
    step=1,
):
    """z = sum over k in [lower, upper) of what `body_of` makes of x[0, k], y and the sum so far."""
    program = Program("products")
    z, x, y = program.tensor(out, 2), program.tensor(element, 2), program.tensor(element, 2)
    lower, upper = program.param(Element.I32), program.param(Element.I32)
    xs, ys = program.partition(x, (ROWS, DEPTH), padding), program.partition(y, rhs_tile, padding)
    zeros = program.b.constant(0.0, out, (ROWS, COLUMNS))
    token = program.add(MakeToken())
    k, acc, order = Value(I32), Value(zeros.type), Value(token.type)
    body = Block((k, acc, order))
    with program.b.inside(body):
        total = body_of(program, xs, ys, k, acc)
        program.b.add(Continue(values=(total, order)))
    op = For(
        lower_bound=lower,
        upper_bound=upper,
        step=program.b.index(step),
        init_values=(zeros, token),
        body=body,
    )
    zero = program.b.index(0)
    program.store(program.add(op), program.partition(z, (ROWS, COLUMNS)), zero, zero)
    return program.finish()


def product(program, xs, ys, k, acc):
    zero = program.b.index(0)
    lhs, rhs = program.load(xs, zero, k), program.load(ys, k, zero)
    return program.add(MmaF(lhs=lhs, rhs=rhs, acc=acc))


def transposed(program, xs, ys, k, acc):
    zero = program.b.index(0)
    lhs, rhs = program.load(xs, zero, k), program.load(ys, zero, k)
    turned = program.add(Permute(source=rhs, permutation=(1, 0)))
    return program.add(MmaF(lhs=lhs, rhs=turned, acc=acc))


def converted(program, xs, ys, k, acc):
    zero = program.b.index(0)
    tiles = [program.load(xs, zero, k), program.load(ys, k, zero)]
    short = [program.add(FToF(source=t, to=TileType(Element.TF32, t.type.shape))) for t in tiles]
    return program.add(MmaF(lhs=short[0], rhs=short[1], acc=acc))


def scaled(program, xs, ys, k, acc):
    zero = program.b.index(0)
    lhs, rhs = program.load(xs, zero, k), program.load(ys, k, zero)
    double = program.add(MulF(lhs=lhs, rhs=lhs))
    return program.add(MmaF(lhs=double, rhs=rhs, acc=acc))


def shifted(program, xs, ys, k, acc):
    zero = program.b.index(0)
    later = program.add(AddI(lhs=k, rhs=program.b.index(0)))
    lhs, rhs = program.load(xs, zero, later), program.load(ys, k, zero)
    return program.add(MmaF(lhs=lhs, rhs=rhs, acc=acc))


def is_one_product(kernel):
    return "panel" in kernel.source


def numbers(*shape, dtype=np.float32):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


def padded(x, rows, columns):
    """A tensor as the loop sees it: zeros outside."""
    return np.pad(x.astype(np.float64), ((0, rows - x.shape[0]), (0, columns - x.shape[1])))


@pytest.mark.parametrize(
    ("body_of", "options"),
    [
        (product, {}),
        (product, {"padding": Padding.ZERO}),
        (transposed, {"rhs_tile": (COLUMNS, DEPTH)}),
        (converted, {}),
        (product, {"element": Element.F16}),
    ],
)
def test_a_loop_of_products_is_one_product(body_of, options):
    kernel = loop_kernel(body_of, **options)
    assert is_one_product(kernel)
    element = options.get("element", F32)
    for depth, (lower, upper) in ((16, (0, 4)), (16, (1, 3)), (13, (0, 4)), (16, (2, 2))):
        x, y = (
            numbers(ROWS, depth, dtype=element.numpy),
            numbers(depth, COLUMNS, dtype=element.numpy),
        )
        z = np.ones((ROWS, COLUMNS), np.float32)
        given = np.ascontiguousarray(y.T) if body_of is transposed else y
        run(kernel, (1, 1, 1), z, x, given, lower, upper)
        part = slice(lower * DEPTH, upper * DEPTH)
        expected = x[:, part].astype(np.float64) @ y[part].astype(np.float64)
        rtol = 1e-2 if body_of is converted else 1e-4
        np.testing.assert_allclose(z, expected, rtol=rtol, atol=rtol)


def test_rows_and_columns_outside_are_zero_and_meet_nan_and_infinity():
    kernel = loop_kernel(product)
    for rows, columns in ((5, COLUMNS), (ROWS, 9), (1, 1)):
        for wrong in (None, np.inf, np.nan):
            x, y = numbers(rows, 16), numbers(16, columns)
            if wrong is not None:
                x[0, 3] = y[2, 0] = wrong
            z = np.ones((ROWS, COLUMNS), np.float32)
            run(kernel, (1, 1, 1), z, x, y, 0, 4)
            with np.errstate(invalid="ignore"):
                expected = padded(x, ROWS, 16) @ padded(y, 16, COLUMNS)
            np.testing.assert_allclose(z, expected, rtol=1e-4, atol=1e-4)


def test_what_is_not_the_same_in_both_panels_goes_through_the_loop():
    kernel = loop_kernel(product)
    # Extents of the summed axis that differ: padding takes part.
    for rows, x_depth, y_depth, columns in ((5, 16, 16, 16), (8, 14, 15, 16), (8, 16, 16, 9)):
        x, y = numbers(rows, x_depth), numbers(y_depth, columns)
        z = np.zeros((ROWS, COLUMNS), np.float32)
        run(kernel, (1, 1, 1), z, x, y, 0, 4)
        expected = padded(x, ROWS, 16) @ padded(y, 16, COLUMNS)
        np.testing.assert_allclose(z, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("lower", "upper", "index"), [(0, 5, 4), (-1, 2, -1)])
def test_an_index_outside_is_reported_by_the_loop(lower, upper, index):
    x, y, z = numbers(ROWS, 16), numbers(16, COLUMNS), np.zeros((ROWS, COLUMNS), np.float32)
    with pytest.raises(UndefinedBehaviourError, match=rf"load_view_tko has index \(0, {index}\)"):
        run(loop_kernel(product), (1, 1, 1), z, x, y, lower, upper)
    assert not z.any()


@pytest.mark.parametrize(
    ("body_of", "options"),
    [
        (product, {"padding": Padding.NAN}),
        (product, {"element": Element.F16, "out": Element.F16}),
        (product, {"step": 2}),
        (scaled, {}),
        (shifted, {}),
    ],
    ids=["padding", "narrow sum", "step", "other work", "computed index"],
)
def test_anything_else_stays_a_loop(body_of, options):
    kernel = loop_kernel(body_of, **options)
    assert not is_one_product(kernel)
    element, out = options.get("element", F32), options.get("out", F32)
    x, y = numbers(ROWS, 16, dtype=element.numpy), numbers(16, COLUMNS, dtype=element.numpy)
    z = np.zeros((ROWS, COLUMNS), out.numpy)
    run(kernel, (1, 1, 1), z, x, y, 0, 4)
    wide = x.astype(np.float64)
    if body_of is scaled:
        wide = wide * wide
    if options.get("step") == 2:
        wide = wide * np.repeat([1, 0, 1, 0], DEPTH)
    rtol = 1e-2 if out is Element.F16 else 1e-4
    np.testing.assert_allclose(
        z.astype(np.float64), wide @ y.astype(np.float64), rtol=rtol, atol=5 * rtol
    )
