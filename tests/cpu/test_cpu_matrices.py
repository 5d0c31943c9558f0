"""Matrix products of every dtype against float64 and exact integers."""

import numpy as np
import pytest
from cpu_programs import Program, gemm, run

from tilewright.backends.cpu.matrices import integers
from tilewright.dtypes import Element
from tilewright.ir.attributes import Signedness
from tilewright.ir.ops.elementwise import FToF
from tilewright.ir.ops.reduction import MmaF, MmaI
from tilewright.ir.types import TileType


def multiply(element, out, shapes, build=None):
    """One product over whole tensors: z = x @ y + z."""
    program = Program()
    tensors = [
        program.tensor(e, len(s)) for e, s in zip((element, element, out), shapes, strict=True)
    ]
    views = [program.partition(t, s) for t, s in zip(tensors, shapes, strict=True)]
    zero = [program.b.index(0) for _ in shapes[0]]
    x, y, z = (program.load(view, *zero) for view in views)
    build = build or (lambda p, a, b, c: MmaF(lhs=a, rhs=b, acc=c))
    program.store(program.add(build(program, x, y, z)), views[2], *zero)
    return program.finish()


SHAPES = ((16, 32), (32, 8), (16, 8))


@pytest.mark.parametrize(
    ("element", "out", "rtol"),
    [
        (Element.F16, Element.F32, 1e-5),
        (Element.F16, Element.F16, 2e-3),
        (Element.BF16, Element.F32, 1e-5),
        (Element.F32, Element.F32, 1e-5),
        (Element.F64, Element.F64, 1e-13),
        (Element.F8E4M3FN, Element.F32, 1e-5),
        (Element.F8E5M2, Element.F32, 1e-5),
        (Element.F8E5M2, Element.F16, 2e-3),
    ],
)
def test_floats(element, out, rtol):
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(shape).astype(element.numpy) for shape in SHAPES[:2])
    z = rng.standard_normal(SHAPES[2]).astype(out.numpy)
    expected = x.astype(np.float64) @ y.astype(np.float64) + z.astype(np.float64)
    run(multiply(element, out, SHAPES), (1, 1, 1), x, y, z)
    np.testing.assert_allclose(z.astype(np.float64), expected, rtol=rtol, atol=10 * rtol)


def test_a_batch_of_products():
    shapes = ((4, 8, 16), (4, 16, 8), (4, 8, 8))
    rng = np.random.default_rng(1)
    x, y, z = (rng.standard_normal(shape).astype(np.float32) for shape in shapes)
    expected = x.astype(np.float64) @ y + z
    run(multiply(Element.F32, Element.F32, shapes), (1, 1, 1), x, y, z)
    np.testing.assert_allclose(z, expected, rtol=1e-5, atol=1e-5)


def test_tf32_multiplies_what_ten_bits_hold():
    def build(program, a, b, c):
        short = [
            program.add(FToF(source=t, to=TileType(Element.TF32, t.type.shape))) for t in (a, b)
        ]
        return MmaF(lhs=short[0], rhs=short[1], acc=c)

    rng = np.random.default_rng(2)
    x, y, z = (rng.standard_normal(shape).astype(np.float32) for shape in SHAPES)
    wide = x.astype(np.float64) @ y + z
    run(multiply(Element.F32, Element.F32, SHAPES, build), (1, 1, 1), x, y, z)
    np.testing.assert_allclose(z, wide, rtol=1e-2, atol=1e-2)
    assert not np.allclose(z, wide, rtol=1e-6, atol=1e-6)


def test_tf32_bits_below_the_mantissa_do_not_count():
    program = Program()
    x, y = (program.tensor(Element.TF32, 2) for _ in range(2))
    z = program.tensor(Element.F32, 2)
    zero = program.b.index(0)
    a, b, c = (program.load(program.partition(t, (2, 2)), zero, zero) for t in (x, y, z))
    program.store(program.add(MmaF(lhs=a, rhs=b, acc=c)), program.partition(z, (2, 2)), zero, zero)
    noisy = np.eye(2, dtype=np.float32) * np.float32(1 + 2.0**-20)
    out = np.zeros((2, 2), np.float32)
    run(program.finish(), (1, 1, 1), noisy, noisy.copy(), out)
    np.testing.assert_array_equal(out, np.eye(2))


SIGNS = [Signedness.SIGNED, Signedness.UNSIGNED]


@pytest.mark.parametrize("right", SIGNS)
@pytest.mark.parametrize("left", SIGNS)
@pytest.mark.parametrize("depth", [32, 512])
def test_integers_are_exact_and_wrap(left, right, depth):
    shapes = ((4, depth), (depth, 8), (4, 8))

    def build(program, a, b, c):
        return MmaI(lhs=a, rhs=b, acc=c, signedness_lhs=left, signedness_rhs=right)

    program = Program()
    tensors = [program.tensor(e, 2) for e in (Element.I8, Element.I8, Element.I32)]
    views = [program.partition(t, s) for t, s in zip(tensors, shapes, strict=True)]
    zero = [program.b.index(0)] * 2
    tiles = [program.load(view, *zero) for view in views]
    program.store(program.add(build(program, *tiles)), views[2], *zero)
    x, y = np.full(shapes[0], -128, np.int8), np.full(shapes[1], -1, np.int8)
    x[0] = np.arange(depth) % 256 - 128
    z = np.full(shapes[2], 2**31 - 1, np.int32)
    wide = [
        (array if sign is Signedness.SIGNED else array.view(np.uint8)).astype(object)
        for array, sign in ((x, left), (y, right))
    ]
    exact = wide[0] @ wide[1] + z.astype(object)
    run(program.finish(), (1, 1, 1), x, y, z)
    assert z.tolist() == [[(n + 2**31) % 2**32 - 2**31 for n in row] for row in exact]


def test_the_greatest_products_of_the_short_float_are_exact():
    x = np.full((1, 256), -1, np.int8)
    total = integers(x, x.T, np.zeros((1, 1), np.int32), False, False)
    assert total.tolist() == [[256 * 255 * 255]]


@pytest.mark.parametrize("size", [(64, 64, 64), (70, 50, 33), (16, 16, 16)])
def test_gemm(size):
    m, n, k = size
    tile = (32, 32, 16)
    rng = np.random.default_rng(3)
    x = rng.standard_normal((m, k)).astype(np.float32)
    y = rng.standard_normal((k, n)).astype(np.float32)
    z = np.zeros((m, n), np.float32)
    rows, columns, steps = (-(-a // b) for a, b in zip((m, n, k), tile, strict=True))
    run(gemm(tile=tile), (rows * columns, 1, 1), z, x, y, columns, steps)
    np.testing.assert_allclose(z, x.astype(np.float64) @ y, rtol=1e-4, atol=1e-4)


def test_gemm_of_halves_accumulates_in_f32():
    rng = np.random.default_rng(4)
    x, y = (rng.standard_normal((64, 64)).astype(np.float16) for _ in range(2))
    z = np.zeros((64, 64), np.float32)
    run(gemm(Element.F16, (32, 32, 16)), (4, 1, 1), z, x, y, 2, 4)
    np.testing.assert_allclose(z, x.astype(np.float64) @ y.astype(np.float64), rtol=1e-4, atol=1e-4)
