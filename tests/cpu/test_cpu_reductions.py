"""Reductions and scans: every axis, every element, known bodies and any other."""

import math
from functools import reduce

import numpy as np
import pytest
from cpu_programs import Program, fold, run

from tilewright.backends.cpu.reductions import accumulate
from tilewright.dtypes import Element
from tilewright.errors import UndefinedBehaviourError
from tilewright.ir.attributes import (
    FloatIdentity,
    IntIdentity,
    Overflow,
    Predicate,
    Rounding,
    Signedness,
)
from tilewright.ir.op import Block, Value
from tilewright.ir.ops.control import If, Yield
from tilewright.ir.ops.elementwise import (
    AbsI,
    AddF,
    AddI,
    AndI,
    CmpF,
    CmpI,
    DivI,
    MaxF,
    MaxI,
    MinF,
    MinI,
    MulF,
    MulI,
    OrI,
    Select,
    SubF,
    XOrI,
)
from tilewright.ir.ops.reduction import Reduce, Scan
from tilewright.ir.ops.shape import Iota, Reshape
from tilewright.ir.types import TileType, scalar

FLOATS = [Element.F16, Element.BF16, Element.F32, Element.F64]
INTEGERS = [Element.I8, Element.I16, Element.I32, Element.I64]


def over_tile(build, x, element, result_shape, to=None):
    """Run `build` on one tile and store what it gives."""
    program = Program()
    to = to or element
    source, target = program.tensor(element, x.ndim), program.tensor(to, max(1, len(result_shape)))
    tile = program.load(program.partition(source, x.shape), *(program.b.index(0) for _ in x.shape))
    result = build(program, tile)
    if not result_shape:
        result_shape = (1,)
        result = program.add(Reshape(source=result, to=TileType(to, (1,))))
    view = program.partition(target, result_shape)
    program.store(result, view, *(program.b.index(0) for _ in result_shape))
    out = np.zeros(result_shape, np.uint8 if to is Element.I1 else to.numpy)
    run(program.finish(), (1, 1, 1), x, out)
    return out


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("element", FLOATS, ids=repr)
@pytest.mark.parametrize(
    ("op", "expected"), [(AddF, np.sum), (MaxF, np.max), (MinF, np.min), (MulF, np.prod)]
)
def test_float_reductions_over_each_axis(op, expected, element, axis):
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((4, 8, 16)) * 0.5 + 1).astype(element.numpy)
    shape = tuple(n for a, n in enumerate(x.shape) if a != axis)
    identity = FloatIdentity(element, 0.0)
    out = over_tile(lambda p, t: fold(p, t, axis, op, identity), x, element, shape)
    rtol = {Element.F16: 0.02, Element.BF16: 0.1, Element.F32: 1e-5, Element.F64: 1e-13}[element]
    wide = expected(x.astype(np.float64), axis=axis)
    np.testing.assert_allclose(out.astype(np.float64), wide, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("element", INTEGERS, ids=repr)
@pytest.mark.parametrize(
    ("op", "exact"),
    [
        (AddI, lambda a, b: a + b),
        (MulI, lambda a, b: a * b),
        (MaxI, max),
        (MinI, min),
        (AndI, lambda a, b: a & b),
        (OrI, lambda a, b: a | b),
        (XOrI, lambda a, b: a ^ b),
    ],
)
def test_integer_reductions_wrap(op, exact, element, axis):
    info = np.iinfo(element.numpy)
    x = np.random.default_rng(1).integers(info.min, info.max, (8, 4), element.numpy, endpoint=True)
    shape = (x.shape[1 - axis],)
    out = over_tile(lambda p, t: fold(p, t, axis, op, IntIdentity(element, 0)), x, element, shape)
    rows = x.T if axis == 0 else x
    half = 1 << element.bits - 1
    expected = [(reduce(exact, [int(n) for n in row]) + half) % (2 * half) - half for row in rows]
    assert out.tolist() == expected


@pytest.mark.parametrize(("op", "exact"), [(MaxI, max), (MinI, min)])
def test_unsigned_extrema_reduce_by_their_bits(op, exact):
    x = np.array([1, -1, 5, -128], np.int8)

    def build(p, t):
        return fold(p, t, 0, op, IntIdentity(Element.I8, 0), signedness=Signedness.UNSIGNED)

    out = over_tile(build, x, Element.I8, ())
    assert out[0] == exact(x.tolist(), key=lambda n: n % 256)


@pytest.mark.parametrize(("op", "any_"), [(AndI, False), (OrI, True)])
def test_truth_values_reduce(op, any_):
    x = np.array([[1, 1, 1, 1], [1, 0, 0, 1], [0, 0, 0, 0], [0, 0, 0, 1]], np.uint8)
    out = over_tile(lambda p, t: fold(p, t, 1, op, IntIdentity(Element.I1, 0)), x, Element.I1, (4,))
    assert out.tolist() == (x.any(1) if any_ else x.all(1)).tolist()


def test_a_sum_of_many_halves_does_not_get_stuck():
    # Added one by one, f16 stops at 2048 and bf16 at 256: a tree goes on.
    for element in (Element.F16, Element.BF16):
        x = np.ones(4096, element.numpy)
        identity = FloatIdentity(element, 0.0)
        out = over_tile(lambda p, t, i=identity: fold(p, t, 0, AddF, i), x, element, ())
        assert float(out[0]) == 4096


@pytest.mark.parametrize(("op", "greatest"), [(MaxF, True), (MinF, False)])
@pytest.mark.parametrize("propagate", [False, True])
def test_extrema_reduce_nan_and_zeros_as_the_op_does(op, greatest, propagate):
    x = np.array([[np.nan, 1, -2, 0], [0.0, -0.0, -0.0, 0.0], [-0.0] * 4, [np.nan] * 4])
    x[1] = x[1] if greatest else np.abs(x[1]) * np.array([1, -1, 1, 1])

    def build(p, t):
        return fold(p, t, 1, op, FloatIdentity(Element.F64, 0.0), propagate_nan=propagate)

    out = over_tile(build, x, Element.F64, (4,))
    if propagate:
        assert math.isnan(out[0])
    else:
        assert out[0] == (1 if greatest else -2)
    assert out[1] == 0
    assert np.signbit(out[1]) == (not greatest)
    assert out[2] == 0
    assert np.signbit(out[2])
    assert math.isnan(out[3])


def test_rounding_and_promises_of_a_body_are_kept():
    x = np.full((4,), 0.1, np.float32)

    def up(p, t):
        identity = FloatIdentity(Element.F32, 0.0)
        return fold(p, t, 0, AddF, identity, rounding_mode=Rounding.POSITIVE_INF)

    assert float(over_tile(up, x, Element.F32, ())[0]) > 4 * 0.1

    def promising(p, t):
        return fold(p, t, 0, AddI, IntIdentity(Element.I8, 0), overflow=Overflow.NSW)

    assert over_tile(promising, np.array([60, 60, -1, 2], np.int8), Element.I8, ())[0] == 121
    with pytest.raises(UndefinedBehaviourError, match="addi wraps"):
        over_tile(promising, np.array([60, 60, 5, 9], np.int8), Element.I8, ())


# --- bodies of several ops ---------------------------------------------------------------------


def argmax(program, tile, dim):
    """The greatest element and where it is, as one reduction of two operands."""
    shape = tile.type.shape
    places = program.add(Iota(to=TileType(Element.I32, (shape[dim],))))
    ones = tuple(n if a == dim else 1 for a, n in enumerate(shape))
    places = program.spread(places, shape, ones)
    element, best = Value(scalar(Element.F32)), Value(scalar(Element.F32))
    at, best_at = Value(scalar(Element.I32)), Value(scalar(Element.I32))
    body = Block((element, best, at, best_at))
    with program.b.inside(body):
        better = program.add(
            CmpF(lhs=element, rhs=best, comparison_predicate=Predicate.GREATER_THAN)
        )
        top = program.add(Select(cond=better, val_if_true=element, val_if_false=best))
        top_at = program.add(Select(cond=better, val_if_true=at, val_if_false=best_at))
        program.b.add(Yield(values=(top, top_at)))
    op = Reduce(
        sources=(tile, places),
        dim=dim,
        identities=(FloatIdentity(Element.F32, -math.inf), IntIdentity(Element.I32, 0)),
        body=body,
    )
    program.b.add(op)
    return op.totals


@pytest.mark.parametrize("dim", [0, 1])
def test_a_reduction_of_two_operands_finds_the_first_greatest(dim):
    x = np.random.default_rng(2).integers(0, 5, (16, 8)).astype(np.float32)
    out = over_tile(
        lambda p, t: argmax(p, t, dim)[1], x, Element.F32, (x.shape[1 - dim],), Element.I32
    )
    assert out.tolist() == x.argmax(dim).tolist()
    top = over_tile(lambda p, t: argmax(p, t, dim)[0], x, Element.F32, (x.shape[1 - dim],))
    assert top.tolist() == x.max(dim).tolist()


def affine_body(program, op_type):
    """Composition of `a * x + b`: associative, and not commutative."""
    (a, acc_a), (b, acc_b) = ([Value(scalar(Element.F64)) for _ in range(2)] for _ in range(2))
    body = Block((acc_a, a, acc_b, b) if op_type is Scan else (a, acc_a, b, acc_b))
    with program.b.inside(body):
        slope = program.add(MulF(lhs=a, rhs=acc_a))
        shift = program.add(AddF(lhs=program.add(MulF(lhs=a, rhs=acc_b)), rhs=b))
        program.b.add(Yield(values=(slope, shift)))
    return body


def affine(program, tile, op_type, **more):
    body = affine_body(program, op_type)
    identities = (FloatIdentity(Element.F64, 1.0), FloatIdentity(Element.F64, 0.0))
    halved = program.add(MulF(lhs=tile, rhs=program.b.constant(0.5, Element.F64, tile.type.shape)))
    op = op_type(sources=(tile, halved), dim=0, identities=identities, body=body, **more)
    program.b.add(op)
    return op.totals[1]


def composed(x):
    """The running composition, element after element."""
    slope, shift, found = 1.0, 0.0, []
    for a in x:
        slope, shift = a * slope, a * shift + a / 2
        found.append(shift)
    return np.array(found)


def test_a_body_need_not_be_commutative():
    x = np.random.default_rng(3).standard_normal(16)
    total = over_tile(lambda p, t: affine(p, t, Reduce), x, Element.F64, ())
    np.testing.assert_allclose(total[0], composed(x)[-1])
    scan = over_tile(lambda p, t: affine(p, t, Scan), x, Element.F64, (16,))
    np.testing.assert_allclose(scan, composed(x))
    back = over_tile(lambda p, t: affine(p, t, Scan, reverse=True), x, Element.F64, (16,))
    np.testing.assert_allclose(back, composed(x[::-1])[::-1])


def test_a_body_may_use_constants_and_values_from_outside():
    program = Program()
    source, target = program.tensor(Element.I32, 1), program.tensor(Element.I32, 1)
    outside = program.param(Element.I32)
    tile = program.load(program.partition(source, (8,)), program.b.index(0))
    element, acc = Value(scalar(Element.I32)), Value(scalar(Element.I32))
    body = Block((element, acc))
    with program.b.inside(body):
        total = program.add(AddI(lhs=element, rhs=acc))
        limit = program.add(MulI(lhs=outside, rhs=program.b.index(2)))
        program.b.add(Yield(values=(program.add(MinI(lhs=total, rhs=limit)),)))
    op = Reduce(sources=(tile,), dim=0, identities=(IntIdentity(Element.I32, 0),), body=body)
    result = program.add(op)
    thin = program.add(Reshape(source=result, to=TileType(Element.I32, (1,))))
    program.store(thin, program.partition(target, (1,)), program.b.index(0))
    kernel = program.finish()
    out = np.zeros(1, np.int32)
    for limit, expected in ((7, 14), (100, 36)):
        run(kernel, (1, 1, 1), np.arange(1, 9, dtype=np.int32), out, limit)
        assert out[0] == expected


def test_a_body_may_branch():
    """The greatest by magnitude, and the sign of it, chosen by an `if`."""

    def build(p, t):
        element, acc = Value(scalar(Element.I32)), Value(scalar(Element.I32))
        body, then, other = Block((element, acc)), Block(), Block()
        with p.b.inside(body):
            sizes = [p.add(AbsI(source=value)) for value in (element, acc)]
            larger = p.add(
                CmpI(lhs=sizes[0], rhs=sizes[1], comparison_predicate=Predicate.GREATER_THAN)
            )
            for block, value in ((then, element), (other, acc)):
                with p.b.inside(block):
                    p.b.add(Yield(values=(value,)))
            choice = If(condition=larger, then_body=then, else_body=other, types=(element.type,))
            p.b.add(choice)
            p.b.add(Yield(values=choice.result_values))
        identity = IntIdentity(Element.I32, 0)
        return p.add(Reduce(sources=(t,), dim=1, identities=(identity,), body=body))

    x = np.random.default_rng(5).integers(-100, 100, (4, 16)).astype(np.int32)
    out = over_tile(build, x, Element.I32, (4,))
    assert out.tolist() == [max(row.tolist(), key=abs) for row in x]


def test_undefined_behaviour_in_a_body_is_reported():
    def build(p, t):
        return fold(p, t, 0, DivI, IntIdentity(Element.I32, 1))

    assert over_tile(build, np.array([2, 100], np.int32), Element.I32, ())[0] == 50
    with pytest.raises(UndefinedBehaviourError, match="divi divides by zero"):
        over_tile(build, np.array([0, 100], np.int32), Element.I32, ())


# --- scans -------------------------------------------------------------------------------------


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(
    ("element", "op", "ufunc"),
    [
        (Element.F32, AddF, np.add),
        (Element.F64, MulF, np.multiply),
        (Element.F32, MaxF, np.maximum),
        (Element.I32, AddI, np.add),
        (Element.I64, MaxI, np.maximum),
        (Element.I32, SubF, None),
    ],
)
def test_scans_run_along_each_axis(element, op, ufunc, axis, reverse):
    if ufunc is None:  # a tile of extent one is its own scan, whatever the body
        x = np.array([[3]], np.int32)
        op, ufunc = AddI, np.add
    else:
        x = (np.random.default_rng(4).standard_normal((8, 16)) * 4).astype(element.numpy)

    def build(p, t):
        (a, acc) = (Value(scalar(element)) for _ in range(2))
        body = Block((a, acc))
        with p.b.inside(body):
            p.b.add(Yield(values=(p.add(op(lhs=a, rhs=acc)),)))
        identity = FloatIdentity(element, 0.0) if element.is_float else IntIdentity(element, 0)
        return p.add(
            Scan(sources=(t,), dim=axis, reverse=reverse, identities=(identity,), body=body)
        )

    out = over_tile(build, x, element, x.shape)
    flipped = np.flip(x, axis) if reverse else x
    expected = ufunc.accumulate(flipped, axis, dtype=x.dtype)
    np.testing.assert_allclose(out, np.flip(expected, axis) if reverse else expected, rtol=1e-5)


@pytest.mark.parametrize("extent", [1, 2, 4, 8])
@pytest.mark.parametrize(
    ("element", "op", "identity"),
    [
        (Element.F32, AddF, FloatIdentity(Element.F32, 0.0)),
        (Element.F32, MaxF, FloatIdentity(Element.F32, -math.inf)),
        (Element.I8, AddI, IntIdentity(Element.I8, 0)),
    ],
    ids=["sum", "max", "wrapped sum"],
)
def test_few_neighbours_of_many(element, op, identity, extent):
    """A short last axis of a large tile; integers wrap around."""
    x = np.random.default_rng(extent).integers(-100, 100, (512, 2, extent)).astype(element.numpy)
    out = over_tile(lambda p, t: fold(p, t, 2, op, identity), x, element, x.shape[:2])
    expected = x.max(axis=2) if op is MaxF else x.sum(axis=2, dtype=x.dtype)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shape", [(1, 8, 256), (64, 4, 8), (512, 2, 1)], ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.int8])
def test_running_sums_of_wide_slices_are_numpys(shape, dtype, reverse):
    """A slice at a time, in the order of the axis: equal to the last bit, and integers wrap."""
    x = (np.random.default_rng(0).standard_normal(shape) * 50).astype(dtype)
    found = accumulate(np.add, x, 1, reverse, np.dtype(dtype))
    one_way = x[:, ::-1] if reverse else x
    expected = np.add.accumulate(one_way, 1, dtype)
    np.testing.assert_array_equal(found, expected[:, ::-1] if reverse else expected)
    assert found.dtype == dtype
