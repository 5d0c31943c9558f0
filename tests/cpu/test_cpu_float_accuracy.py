"""Transcendental functions within one unit in the last place, over edge and random numbers.

The reference is f64, whose own error is a billionth of a unit of f32.
"""

import numpy as np
import pytest
from cpu_programs import apply, run

from tilewright.dtypes import Element
from tilewright.ir.ops.elementwise import (
    Atan2,
    Cos,
    Cosh,
    Exp,
    Exp2,
    Log,
    Log2,
    Pow,
    Rsqrt,
    Sin,
    Sinh,
    Tan,
    Tanh,
)

SIZE = 1 << 16
ELEMENTS = [Element.F16, Element.BF16, Element.F32]
UNARY = {
    Cos: np.cos,
    Cosh: np.cosh,
    Exp: np.exp,
    Exp2: np.exp2,
    Log: np.log,
    Log2: np.log2,
    Rsqrt: lambda x: 1 / np.sqrt(x),
    Sin: np.sin,
    Sinh: np.sinh,
    Tan: np.tan,
    Tanh: np.tanh,
}


def numbers(element, seed=0):
    """Every number of 16 bits; of f32 edges, all exponents, and where the functions bend."""
    rng = np.random.default_rng(seed)
    if element.bits == 16:
        return np.arange(SIZE, dtype=np.uint16).view(element.numpy)
    edges = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 2.0**-149, 3.4028235e38])
    bits = rng.integers(0, 1 << 32, SIZE // 2, dtype=np.uint32).view(np.float32)
    near = [rng.uniform(-reach, reach, SIZE // 16) for reach in (1e-3, 1, 10, 90, 150, 1e4, 1e8)]
    ones = 1 + rng.uniform(-1e-3, 1e-3, SIZE // 16)
    parts = [np.asarray(part, np.float32) for part in (edges, bits, *near, ones)]
    return np.concatenate(parts)[:SIZE]


def ordered(x, element):
    """Numbers as integers that count up with them, so that neighbours differ by one."""
    kind = np.int16 if element.bits == 16 else np.int32
    bits = x.view(kind).astype(np.int64)
    return np.where(bits < 0, np.iinfo(kind).min - bits, bits)


def assert_close(got, wide, element):
    with np.errstate(all="ignore"):
        want = wide.astype(np.float32).astype(element.numpy)
    nan = np.isnan(wide)
    assert (np.isnan(got.astype(np.float32)) == nan).all()
    off = np.abs(ordered(got, element) - ordered(want, element))[~nan]
    assert off.max() <= 1
    return off


@pytest.mark.parametrize("element", ELEMENTS, ids=repr)
@pytest.mark.parametrize("op", UNARY, ids=lambda op: op.mnemonic)
def test_a_function_of_one_number(op, element):
    x = numbers(element)
    got = np.zeros_like(x)
    run(apply(lambda source: op(source=source), [element], element, x.shape), (1, 1, 1), x, got)
    with np.errstate(all="ignore"):
        wide = UNARY[op](x.astype(np.float64))
    off = assert_close(got, wide, element)
    if element is Element.F32:
        assert np.count_nonzero(off) == 0, "f64 rounded once is what we compare with"


@pytest.mark.parametrize("element", ELEMENTS, ids=repr)
@pytest.mark.parametrize(
    ("op", "function"),
    [
        (lambda x, y: Atan2(x=x, y=y), lambda x, y: np.arctan2(x, y)),
        (lambda x, y: Pow(source=x, exponent=y), np.power),
    ],
    ids=["atan2", "pow"],
)
def test_a_function_of_two_numbers(op, function, element):
    x = numbers(element)
    y = np.random.default_rng(1).permutation(x)
    got = np.zeros_like(x)
    run(apply(op, [element, element], element, x.shape), (1, 1, 1), x, y, got)
    with np.errstate(all="ignore"):
        wide = function(x.astype(np.float64), y.astype(np.float64))
    assert_close(got, wide, element)


@pytest.mark.parametrize("element", [Element.F16, Element.BF16], ids=repr)
def test_the_reciprocal_root_rounds_once(element):
    """Compared with whole numbers: r is right if 1 / x lies between the squares of its halves."""
    x = numbers(element)
    x = x[np.isfinite(x.astype(np.float32)) & (x.astype(np.float32) > 0)]
    x = np.concatenate([x, np.ones(-len(x) % 1024, x.dtype)])
    x = x[: 1 << len(x).bit_length() - 1]
    got = np.zeros_like(x)
    kernel = apply(lambda source: Rsqrt(source=source), [element], element, x.shape)
    run(kernel, (1, 1, 1), x, got)
    r, inverse = got.astype(np.float64), 1 / x.astype(np.float64)
    below = np.nextafter(got, got.dtype.type(0)).astype(np.float64)
    above = np.nextafter(got, got.dtype.type(np.inf)).astype(np.float64)
    assert (((below + r) / 2) ** 2 <= inverse).all()
    assert (((above + r) / 2) ** 2 >= inverse).all()
