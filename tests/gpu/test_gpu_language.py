"""Most of the language, one op a row, on the GPU and on the CPU backend."""

import ml_dtypes
import numpy as np
import pytest
from gpu_kernels import poisoned, run_both

import tilewright as tw
from tilewright import Const, DType, Mut, Ref, f32, i32
from tilewright.dims import BM, BN, B, M, N, R, T

pytestmark = pytest.mark.gpu

COLUMNS = 256
bf16 = ml_dtypes.bfloat16
FLOATS = ((np.float32, 2e-6), (np.float16, 2e-3), (bf16, 1.6e-2))

# fmt: off
FLOAT_ROWS = (
    "add", "sub", "mul", "div", "exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sin", "cos", "tanh",
    "ceil", "floor", "abs", "neg", "fma", "minimum", "maximum", "clamp", "where", "mod", "pow",
    "sum", "max", "min", "transposed", "comparisons", "by a scalar", "by literals", "chosen",
)
INTEGER_ROWS = (
    "add", "sub", "mul", "floordiv", "mod", "and", "or", "xor", "invert", "left", "right", "abs",
    "neg", "minimum", "maximum", "clamp", "where", "by literals", "far left", "sum", "max", "min",
    "arange", "comparisons",
)
# fmt: on


@tw.kernel(deny_checks=True)
def float_ops(z: Mut[T, R, B], x: Ref[T, N], y: Ref[T, N]) -> None:
    a = x.partition(B)[z.index[1]]
    b = y.partition(B)[z.index[1]]
    above = tw.abs(a) + 0.125
    whole = tw.zeros((B,), z.dtype)
    out = z.partition(1, B)
    out.store((a + b)[None, :], 0, 0)
    out.store((a - b)[None, :], 1, 0)
    out.store((a * b)[None, :], 2, 0)
    out.store((a / above)[None, :], 3, 0)
    out.store(tw.exp(a)[None, :], 4, 0)
    out.store(tw.exp2(a)[None, :], 5, 0)
    out.store(tw.log(above)[None, :], 6, 0)
    out.store(tw.log2(above)[None, :], 7, 0)
    out.store(tw.sqrt(above)[None, :], 8, 0)
    out.store(tw.rsqrt(above)[None, :], 9, 0)
    out.store(tw.sin(a)[None, :], 10, 0)
    out.store(tw.cos(a)[None, :], 11, 0)
    out.store(tw.tanh(a)[None, :], 12, 0)
    out.store(tw.ceil(a)[None, :], 13, 0)
    out.store(tw.floor(a)[None, :], 14, 0)
    out.store(tw.abs(a)[None, :], 15, 0)
    out.store((-a)[None, :], 16, 0)
    out.store(tw.fma(a, b, a)[None, :], 17, 0)
    out.store(tw.minimum(a, b)[None, :], 18, 0)
    out.store(tw.maximum(a, b)[None, :], 19, 0)
    out.store(tw.clamp(a, -1.0, 1.0)[None, :], 20, 0)
    out.store(tw.where(a < b, a, b * 2.0)[None, :], 21, 0)
    out.store((a % above)[None, :], 22, 0)
    out.store((above**b)[None, :], 23, 0)
    out.store((whole + tw.sum(above, keepdims=True))[None, :], 24, 0)
    out.store((whole + tw.max(a, keepdims=True))[None, :], 25, 0)
    out.store((whole + tw.min(a, keepdims=True))[None, :], 26, 0)
    out.store(a.reshape(16, B // 16).T.reshape(1, B), 27, 0)
    equal = (a == a) & (b != a) | (a >= b) ^ (a <= b)
    out.store(tw.where(equal, a, whole)[None, :], 28, 0)
    out.store((a * tw.sum(whole + 1.0).item())[None, :], 29, 0)
    out.store((2 - a * 0.5)[None, :], 30, 0)
    out.store((a if tw.sum(above).item() > 1.0 else b)[None, :], 31, 0)


@tw.kernel
def integer_ops(z: Mut[T, R, B], x: Ref[T, N], y: Ref[T, N]) -> None:
    a = x.partition(B)[z.index[1]]
    b = y.partition(B)[z.index[1]]
    divisor = b | 1
    amount = b & 7
    whole = tw.zeros((B,), z.dtype)
    out = z.partition(1, B)
    out.store((a + b)[None, :], 0, 0)
    out.store((a - b)[None, :], 1, 0)
    out.store((a * b)[None, :], 2, 0)
    out.store((a // divisor)[None, :], 3, 0)
    out.store((a % divisor)[None, :], 4, 0)
    out.store((a & b)[None, :], 5, 0)
    out.store((a | b)[None, :], 6, 0)
    out.store((a ^ b)[None, :], 7, 0)
    out.store((~a)[None, :], 8, 0)
    out.store((a << amount)[None, :], 9, 0)
    out.store((a >> amount)[None, :], 10, 0)
    out.store(tw.abs(a)[None, :], 11, 0)
    out.store((-a)[None, :], 12, 0)
    out.store(tw.minimum(a, b)[None, :], 13, 0)
    out.store(tw.maximum(a, b)[None, :], 14, 0)
    out.store(tw.clamp(a, 5, 100)[None, :], 15, 0)
    out.store(tw.where(a > b, a, b)[None, :], 16, 0)
    out.store((a * 3 + 1)[None, :], 17, 0)
    out.store((a << b)[None, :], 18, 0)
    out.store((whole + tw.sum(a, keepdims=True))[None, :], 19, 0)
    out.store((whole + tw.max(a, keepdims=True))[None, :], 20, 0)
    out.store((whole + tw.min(a, keepdims=True))[None, :], 21, 0)
    out.store((tw.arange(B, z.dtype) * 2 + a)[None, :], 22, 0)
    out.store(tw.where((a == b) | (a < b) & (a != 3), a, whole)[None, :], 23, 0)


@tw.kernel(deny_checks=True)
def convert(z: Mut[T, B], x: Ref[f32, N]) -> None:
    z.store(x.load_like(z).astype(z.dtype))


@tw.kernel(deny_checks=True)
def convert_from(z: Mut[f32, B], x: Ref[T, N]) -> None:
    z.store(x.load_like(z).astype(f32))


@tw.kernel(deny_checks=True)
def branches(z: Mut[i32, B], x: Ref[i32, N], *, turns: Const[int]) -> None:
    i = z.index[0]
    total = x.load_like(z)
    if i % 3 == 0:
        total = total * 2
    elif i % 3 == 1 and i > 1:
        total = total - 1000
    for step in range(turns):
        for inner in range(step + i):
            total = total + step * 10 + inner
    z.store(total)


@tw.kernel(deny_checks=True)
def totals(z: Mut[f32, BM, BN], x: Ref[f32, M, N]) -> None:
    tile = x.load_like(z)
    rows = tw.sum(tile, axis=1)
    columns = tw.max(tile, axis=0, keepdims=True)
    z.store(rows[:, None] * 0.5 + columns - tw.min(tile.permute(1, 0), axis=0)[:, None])


@tw.kernel(deny_checks=True)
def scaled(z: Mut[T, B], x: Ref[T, N], factor: T, offset: i32, *, KIND: Const[type[DType]]) -> None:
    z.store(
        (x.load_like(z).astype(KIND) * factor.astype(KIND) + offset.astype(KIND)).astype(z.dtype)
    )


@pytest.mark.parametrize(("dtype", "rtol"), FLOATS)
def test_floats(dtype, rtol):
    rng = np.random.default_rng(11)
    x, y = (rng.standard_normal((2, 2 * COLUMNS), dtype=np.float32) * 3).astype(dtype)
    rows = len(FLOAT_ROWS)
    found, expected = run_both(
        lambda z, x, y: float_ops(z.partition(rows, COLUMNS), x, y),
        poisoned((rows, 2 * COLUMNS), dtype),
        x,
        y,
    )
    wrong = []
    for name, mine, reference in zip(FLOAT_ROWS, found, expected, strict=True):
        mine, reference = mine.astype(np.float64), reference.astype(np.float64)
        scale = np.abs(reference).max()
        if not np.allclose(mine, reference, rtol=rtol, atol=rtol * 1e-1 * min(scale, 10.0)):
            with np.errstate(invalid="ignore"):
                worst = np.argmax(np.nan_to_num(np.abs(mine - reference), nan=np.inf))
            wrong.append(f"{name}: {mine[worst]} is not {reference[worst]}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("dtype", [np.int32, np.int8, np.int16, np.int64, np.uint8, np.uint32])
def test_integers(dtype):
    rng = np.random.default_rng(12)
    limits = np.iinfo(dtype)
    x, y = rng.integers(limits.min, limits.max, (2, 2 * COLUMNS), dtype=dtype, endpoint=True)
    x[:4] = limits.min, limits.max, 0, limits.min
    y[:4] = -1 % (limits.max + 1) if limits.min == 0 else -1, 1, 3, limits.max
    rows = len(INTEGER_ROWS)
    output = np.full((rows, 2 * COLUMNS), 77, dtype)
    found, expected = run_both(
        lambda z, x, y: integer_ops(z.partition(rows, COLUMNS), x, y), output, x, y
    )
    wrong = [
        name
        for name, mine, reference in zip(INTEGER_ROWS, found, expected, strict=True)
        if not np.array_equal(mine, reference)
    ]
    assert not wrong


@pytest.mark.parametrize("dtype", [np.float16, bf16, np.int32, np.int8, np.uint8, np.int64])
def test_conversions(dtype):
    x = np.array(
        [0, -0.0, 1.5, -1.5, 2.5, 300, -300, 1e10, -1e10, 1e30, np.inf, -np.inf, np.nan, 65519],
        dtype=np.float32,
    )
    found, expected = run_both(lambda z, x: convert(z.partition(16), x), np.zeros(len(x), dtype), x)
    np.testing.assert_array_equal(found.astype(np.float64), expected.astype(np.float64))
    back, expected = run_both(
        lambda z, x: convert_from(z.partition(16), x), poisoned(len(x), np.float32), found
    )
    np.testing.assert_array_equal(back, expected)


@pytest.mark.parametrize("turns", [0, 1, 4])
def test_branches_and_loops(turns):
    x = np.arange(1000, dtype=np.int32)
    found, expected = run_both(
        lambda z, x: branches(z.partition(64), x, turns=turns), poisoned(1000, np.int32), x
    )
    np.testing.assert_array_equal(found, expected)


# Zeros behind the edge take part on both devices alike, which is the point here.
@pytest.mark.filterwarnings("ignore::tilewright.errors.PaddingWarning")
@pytest.mark.parametrize("shape", [(64, 128), (50, 100), (37, 61)])
def test_reductions_along_axes(shape):
    x = np.random.default_rng(13).standard_normal(shape, dtype=np.float32)
    found, expected = run_both(
        lambda z, x: totals(z.partition(32, 64), x), poisoned(shape, np.float32), x
    )
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, bf16, np.int32])
def test_scalar_arguments(dtype):
    x = np.arange(300).astype(dtype)
    kind = i32 if dtype is np.int32 else f32
    found, expected = run_both(
        lambda z, x: scaled(z.partition(64), x, 3, -7, KIND=kind), poisoned(300, dtype), x
    )
    np.testing.assert_array_equal(found, expected)
    exact = np.arange(300).astype(dtype).astype(np.float64) * 3 - 7
    np.testing.assert_array_equal(found, exact.astype(dtype))
