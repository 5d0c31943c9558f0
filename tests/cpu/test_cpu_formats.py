"""Formats that NumPy lacks, every code of them, and how each narrow float is rounded."""

from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from cpu_programs import Program, apply, evaluate, run
from hypothesis import given
from hypothesis import strategies as st

from tilewright.backends.cpu import formats
from tilewright.backends.cpu.executor import compile_function
from tilewright.dtypes import Element
from tilewright.ir.attributes import Rounding
from tilewright.ir.function import Module
from tilewright.ir.ops.control import Return
from tilewright.ir.ops.elementwise import Bitcast, FPowI, FToF, FToI, IToF
from tilewright.ir.types import TileType
from tilewright.ir.verify.verifier import verify

E5M3 = Element.FNV8E5M3FNU
CODES = np.arange(256, dtype=np.uint8)


def value(code: int) -> Fraction:
    """The number of an unsigned float with 5 bits of exponent and 3 of mantissa."""
    exponent, mantissa = code >> 3, code & 7
    if exponent == 0:
        return Fraction(mantissa, 8) / 2**14
    return (1 + Fraction(mantissa, 8)) * Fraction(2) ** (exponent - 15)


def test_every_code_has_its_number():
    found = formats.decoded(CODES)
    assert [Fraction(float(number)) for number in found[:255]] == [value(c) for c in range(255)]
    assert np.isnan(found[255])
    assert formats.encoded(found).tolist() == CODES.tolist()


@given(st.floats(0, 200_000, width=32))
def test_rounding_is_the_nearest_the_lower_or_the_upper(number):
    exact = Fraction(number)
    codes = range(255)
    below = max(c for c in codes if value(c) <= exact)
    above = min((c for c in codes if value(c) >= exact), default=254)
    both = sorted({below, above}, key=lambda c: (abs(value(c) - exact), c % 2))
    x = np.float32(number)
    assert formats.encoded(x, Rounding.NEAREST_EVEN) == both[0]
    assert formats.encoded(x, Rounding.ZERO) == below
    assert formats.encoded(x, Rounding.POSITIVE_INF) == above


def test_what_does_not_fit_becomes_the_nearest_end():
    x = np.array([-1, -0.0, np.inf, 1e30, np.nan], np.float32)
    assert formats.encoded(x).tolist() == [0, 0, 254, 254, 255]


def on_the_newest(op: Any, source: Element, to: Element, data: Any) -> Any:
    """One op over a vector, on the one target that has every format."""
    program = Program("newest")
    x, z = program.tensor(source, 1), program.tensor(to, 1)
    zero = program.b.index(0)
    size = (data.size,)
    result = program.add(op(program.load(program.partition(x, size), zero), TileType(to, size)))
    program.store(result, program.partition(z, size), zero)
    program.b.add(Return())
    program.function.body.args = tuple(program.params)
    verify(Module((program.function,)), "sm_107")
    out = np.zeros(data.size, to.numpy)
    run(compile_function(program.function), (1, 1, 1), data, out)
    return out


def test_the_format_in_a_kernel():
    def convert(tile, to):
        return FToF(source=tile, to=to)

    numbers = on_the_newest(convert, E5M3, Element.F32, CODES)
    np.testing.assert_array_equal(numbers, formats.decoded(CODES))
    back = on_the_newest(convert, Element.F32, E5M3, numbers)
    assert back.tolist() == CODES.tolist()
    halves = on_the_newest(convert, E5M3, Element.BF16, CODES)
    np.testing.assert_array_equal(halves.astype(np.float32), numbers)
    raw = on_the_newest(lambda tile, to: Bitcast(source=tile, to=to), E5M3, Element.I8, CODES)
    assert raw.view(np.uint8).tolist() == CODES.tolist()
    whole = on_the_newest(
        lambda tile, to: FToI(source=tile, to=to, saturating=True), E5M3, Element.I32, CODES
    )
    wanted = [0 if c == 255 else int(value(c)) for c in range(256)]
    assert whole.tolist() == wanted


# --- tf32 ------------------------------------------------------------------------------------


def tf32_exact(number: float, mode: Rounding) -> float:
    """A number with 11 bits of precision, by fractions."""
    exact = Fraction(number)
    if exact == 0:
        return number
    exponent = max(np.frexp(np.float64(number))[1] - 11, -126 - 10)
    scaled = exact / Fraction(2) ** int(exponent)
    low = scaled.numerator // scaled.denominator
    rest = scaled - low
    away = low + 1 if scaled >= 0 else low
    rounded = {
        Rounding.ZERO: low if scaled >= 0 else low + (rest > 0),
        Rounding.NEAREST_EVEN: low + (rest > Fraction(1, 2) or (rest * 2 == 1 and low % 2)),
        Rounding.NEAREST_AWAY: away if rest * 2 == 1 else low + (rest > Fraction(1, 2)),
    }[mode]
    return float(rounded * Fraction(2) ** int(exponent))


@pytest.mark.parametrize("mode", [Rounding.NEAREST_EVEN, Rounding.ZERO, Rounding.NEAREST_AWAY])
def test_f32_to_tf32(mode):
    rng = np.random.default_rng(1)
    bits = rng.integers(0, 2**32, 60, dtype=np.uint32)
    ties = (rng.integers(0, 2**18, 60, dtype=np.uint32) << 13) | 0x1000
    x = np.concatenate((bits, ties)).view(np.float32)
    x = x[np.isfinite(x) & (np.abs(x) < 1e38)][:64]
    program = Program("tf32")
    source, target = program.tensor(Element.F32, 1), program.tensor(Element.F32, 1)
    zero = program.b.index(0)
    tile = program.load(program.partition(source, (64,)), zero)
    short = FToF(source=tile, to=TileType(Element.TF32, (64,)), rounding_mode=mode)
    wide = FToF(source=program.add(short), to=TileType(Element.F32, (64,)))
    program.store(program.add(wide), program.partition(target, (64,)), zero)
    out = np.zeros(64, np.float32)
    run(program.finish(), (1, 1, 1), x, out)
    assert out.tolist() == [tf32_exact(float(number), mode) for number in x]


def test_f64_to_tf32_is_rounded_once():
    # Rounded to f32 first, this would be a tie, and go the other way.
    number = 1 + 2.0**-11 - 2.0**-40
    program = Program()
    source, target = program.tensor(Element.F64, 1), program.tensor(Element.F64, 1)
    zero = program.b.index(0)
    tile = program.load(program.partition(source, (2,)), zero)
    short = program.add(FToF(source=tile, to=TileType(Element.TF32, (2,))))
    wide = program.add(FToF(source=short, to=TileType(Element.F64, (2,))))
    program.store(wide, program.partition(target, (2,)), zero)
    out = np.zeros(2)
    run(program.finish(), (1, 1, 1), np.array([number, -number]), out)
    assert out.tolist() == [1.0, -1.0]


# --- narrow floats ---------------------------------------------------------------------------


def to_f4(x: Any) -> Any:
    program = Program("narrow")
    source, target = program.tensor(Element.F32, 1), program.tensor(Element.F32, 1)
    zero, size = program.b.index(0), (x.size,)
    tile = program.load(program.partition(source, size), zero)
    narrow = program.add(FToF(source=tile, to=TileType(Element.F4E2M1FN, size)))
    wide = program.add(FToF(source=narrow, to=TileType(Element.F32, size)))
    program.store(wide, program.partition(target, size), zero)
    out = np.zeros(x.size, np.float32)
    run(program.finish(), (1, 1, 1), x, out)
    return out


def test_four_bits_have_no_room_for_nan_and_infinity():
    x = np.array([np.nan, np.inf, -np.inf, 5, -5, 7, 0.25, 0.75], np.float32)
    assert to_f4(x).tolist() == [6, 6, -6, 4, -4, 6, 0, 1]


@pytest.mark.parametrize(("element", "largest"), [(Element.F8E4M3FN, 448), (Element.F8E5M2, 57344)])
def test_eight_bits_keep_nan_and_stay_finite(element, largest):
    x = np.array([np.nan, np.inf, -np.inf, 1e9, -1e9, 1, -0.0, 0.0], np.float32)
    kernel = apply(
        lambda t: FToF(source=t, to=TileType(element, t.type.shape)), [Element.F32], element, (8,)
    )
    out = np.zeros(8, element.numpy)
    run(kernel, (1, 1, 1), x, out)
    found = out.astype(np.float32)
    assert np.isnan(found[0])
    assert found[1:].tolist() == [largest, -largest, largest, -largest, 1, 0, 0]
    assert np.signbit(found[6])


@pytest.mark.parametrize("element", [Element.F8E4M3FN, Element.F8E5M2, Element.BF16], ids=str)
def test_f64_is_rounded_once_to_each(element):
    rng = np.random.default_rng(2)
    x = np.concatenate((rng.standard_normal(32), 1 + 2.0 ** -np.arange(1, 33)))
    kernel = apply(
        lambda t: FToF(source=t, to=TileType(element, t.type.shape)), [Element.F64], element, (64,)
    )
    out = np.zeros(64, element.numpy)
    run(kernel, (1, 1, 1), x, out)
    kind = element.numpy
    codes = np.arange(1 << element.bits).astype(f"u{element.bits // 8}").view(kind)
    table = np.unique(codes[np.isfinite(codes.astype(np.float32))].astype(np.float64))
    for number, found in zip(x, out.astype(np.float64), strict=True):
        distance = np.abs(table - number)
        nearest = table[distance == distance.min()]
        assert found in nearest


def test_integers_to_narrow_floats():
    x = np.array([2**62 + 2**54, 2**62 + 2**54 + 1, -(2**63), 7, 0, -1, 449, 2**40], np.int64)
    for element in (Element.BF16, Element.F16, Element.F8E4M3FN):
        kernel = apply(
            lambda t, e=element: IToF(source=t, to=TileType(e, t.type.shape)),
            [Element.I64],
            element,
            (8,),
        )
        out = np.zeros(8, element.numpy)
        run(kernel, (1, 1, 1), x, out)
        assert out[3].astype(np.float32) == 7
        assert out[5].astype(np.float32) == -1
    # Halfway between two numbers of bf16, and just above.
    kernel = apply(
        lambda t: IToF(source=t, to=TileType(Element.BF16, t.type.shape)),
        [Element.I64],
        Element.BF16,
        (8,),
    )
    out = np.zeros(8, ml_dtypes.bfloat16)
    run(kernel, (1, 1, 1), x, out)
    assert out[0].astype(np.float64) == 2**62
    assert out[1].astype(np.float64) == 2**62 + 2**55


# --- integer powers --------------------------------------------------------------------------


@pytest.mark.parametrize("element", [Element.F16, Element.BF16, Element.F32, Element.F64], ids=str)
@pytest.mark.parametrize("exponent", [Element.I8, Element.I16, Element.I32], ids=str)
def test_powers_with_integers(element, exponent):
    x = np.array([2, -2, 0.5, -0.5, 3, 0, -0.0, 1.5, np.inf, -np.inf, np.nan, -1, 10, 1, 2, 7])
    n = np.array([3, 3, -2, -3, 0, 0, -1, 5, 2, 3, 0, 99, -2, 100, -1, 1])
    narrow = x.astype(element.numpy)
    for found in evaluate(
        lambda a, b: FPowI(source=a, exponent=b),
        element,
        (element, narrow),
        (exponent, n.astype(exponent.numpy)),
    ):
        with np.errstate(all="ignore"):
            wanted = np.array(
                [np.power(np.float64(a), float(b)) for a, b in zip(narrow, n, strict=True)]
            ).astype(element.numpy)
        np.testing.assert_array_equal(found.astype(np.float64), wanted.astype(np.float64))


def test_a_truth_value_is_the_power_of_minus_one():
    x, n = np.array([4.0, 4.0]), np.array([0, 1], np.uint8)
    for found in evaluate(
        lambda a, b: FPowI(source=a, exponent=b), Element.F64, (Element.F64, x), (Element.I1, n)
    ):
        assert found.tolist() == [1.0, 0.25]
