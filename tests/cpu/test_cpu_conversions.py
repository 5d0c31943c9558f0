"""Conversions between formats: floats, integers, bits."""

from fractions import Fraction
from itertools import permutations
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from cpu_programs import Program, apply, evaluate, run
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.backends.cpu.conversions import cut_saturating, float_of_integer
from tilewright.dtypes import Element
from tilewright.errors import UndefinedBehaviourError
from tilewright.ir.attributes import Rounding, Signedness
from tilewright.ir.ops.elementwise import Bitcast, FToF, FToI, IToF
from tilewright.ir.types import TileType

FORMATS = [Element.F16, Element.BF16, Element.F32, Element.F64]
SHORT = [Element.F8E4M3FN, Element.F8E5M2]
INTEGERS = [Element.I8, Element.I16, Element.I32, Element.I64]
SIGNS = [Signedness.SIGNED, Signedness.UNSIGNED]


def ftof(to: Element, mode: Rounding = Rounding.NEAREST_EVEN) -> Any:
    return lambda a: FToF(source=a, to=TileType(to, a.type.shape), rounding_mode=mode)


@pytest.mark.parametrize(("source", "target"), list(permutations([*FORMATS, *SHORT], 2)))
def test_every_float_format_reaches_every_other(source, target):
    rng = np.random.default_rng(0)
    x = rng.standard_normal(64).astype(source.numpy)
    x[:2] = 0.0, -0.0
    expected = x.astype(np.float64)
    for found in evaluate(ftof(target), target, (source, x)):
        digits = {2: 2**-11, 4: 2**-24, 8: 0.0, 1: 2**-3}[found.dtype.itemsize]
        if target is Element.BF16:
            digits = 2**-8
        # The short formats run out of exponents: near zero their steps are wide.
        coarse = 2**-9 if target is Element.F8E4M3FN else 2**-16
        np.testing.assert_allclose(found.astype(np.float64), expected, rtol=digits, atol=coarse)


@pytest.mark.parametrize(("target", "largest"), [(SHORT[0], 448.0), (SHORT[1], 57344.0)])
def test_what_an_eight_bit_float_cannot_hold_becomes_its_largest(target, largest):
    x = np.array([1e6, -1e6, np.inf, np.nan], np.float32)
    for found in evaluate(ftof(target), target, (Element.F32, x)):
        wide = found.astype(np.float32)
        assert wide[:3].tolist() == [largest, -largest, largest]
        assert np.isnan(wide[3])


def test_tf32_keeps_ten_bits_of_mantissa_rounded_to_even():
    program = Program()
    source, out = (program.tensor(Element.F32, 1) for _ in range(2))
    zero = program.b.index(0)
    tile = program.load(program.partition(source, (8,)), zero)
    short = program.add(FToF(source=tile, to=TileType(Element.TF32, (8,))))
    wide = program.add(FToF(source=short, to=TileType(Element.F32, (8,))))
    program.store(wide, program.partition(out, (8,)), zero)
    step = 2.0**-10
    x = np.array(
        [
            1,
            1 + step,
            1 + step / 2,
            1 + 3 * step / 2,
            1 + step / 2 + 2.0**-20,
            np.inf,
            np.nan,
            -0.0,
        ],
        np.float32,
    )
    found = np.zeros_like(x)
    run(program.finish(), (1, 1, 1), x, found)
    expected = [1, 1 + step, 1, 1 + 2 * step, 1 + step, np.inf, np.nan, -0.0]
    np.testing.assert_array_equal(found, np.array(expected, np.float32))
    assert np.signbit(found[7])


@pytest.mark.parametrize("target", [Element.F16, Element.BF16], ids=repr)
def test_conversion_towards_zero_never_passes_the_number(target):
    x = np.random.default_rng(1).standard_normal(64).astype(np.float32)
    for found in evaluate(ftof(target, Rounding.ZERO), target, (Element.F32, x)):
        wide = found.astype(np.float32)
        assert (np.abs(wide) <= np.abs(x)).all()
        assert (np.abs(wide - x) < np.abs(x) * (2**-7)).all()


@pytest.mark.parametrize(
    ("mode", "expected"),
    [(Rounding.ZERO, [1, 2, 2, 0.5, 2**127]), (Rounding.POSITIVE_INF, [1, 4, 2, 1, 2**127])],
)
def test_scales_are_powers_of_two(mode, expected):
    x = np.array([1, 3, 2, 0.75, np.inf], np.float32)
    program = Program()
    source = program.tensor(Element.F32, 1)
    out = program.tensor(Element.F32, 1)
    zero = program.b.index(0)
    tile = program.load(program.partition(source, (8,)), zero)
    scale = program.add(ftof(Element.F8E8M0FNU, mode)(tile))
    wide = program.add(ftof(Element.F32)(scale))
    program.store(wide, program.partition(out, (8,)), zero)
    found = np.zeros_like(x)
    run(program.finish(), (1, 1, 1), x, found)
    assert found.tolist() == expected


def test_four_bit_floats_round_and_saturate():
    x = np.array([0, 0.2, 0.3, 0.75, 2.4, 5.1, 100, -100], np.float32)
    program = Program()
    source, out = (program.tensor(Element.F32, 1) for _ in range(2))
    zero = program.b.index(0)
    tile = program.load(program.partition(source, (8,)), zero)
    short = program.add(ftof(Element.F4E2M1FN)(tile))
    program.store(program.add(ftof(Element.F32)(short)), program.partition(out, (8,)), zero)
    found = np.zeros_like(x)
    run(program.finish(), (1, 1, 1), x, found)
    assert found.tolist() == [0, 0, 0.5, 1, 2, 6, 6, -6]


# --- integers and floats -------------------------------------------------------------------


@pytest.mark.parametrize("sign", SIGNS)
@pytest.mark.parametrize("target", FORMATS, ids=repr)
@pytest.mark.parametrize("source", INTEGERS, ids=repr)
def test_integers_become_the_nearest_float(source, target, sign):
    info = np.iinfo(source.numpy)
    rng = np.random.default_rng(2)
    x = rng.integers(info.min, info.max, 64, source.numpy, endpoint=True)
    x[:5] = info.min, info.max, 0, 1, -1

    def build(a):
        return IToF(source=a, to=TileType(target, a.type.shape), signedness=sign)

    exact = [int(n) if sign is Signedness.SIGNED else int(n) % (1 << source.bits) for n in x]
    for found in evaluate(build, target, (source, x)):
        for number, result in zip(exact, found, strict=True):
            if target is Element.F16 and abs(number) > 65504:
                continue
            error = abs(Fraction(float(result)) - number)
            for way in (np.inf, -np.inf):
                other = np.nextafter(result, target.numpy.type(way))
                assert error <= abs(Fraction(float(other)) - number)


@settings(max_examples=200)
@given(st.integers(-(2**63), 2**63 - 1))
def test_a_long_integer_reaches_bf16_with_one_rounding(x):
    found = float_of_integer(np.array([x]), np.dtype(ml_dtypes.bfloat16))[0]
    error = abs(Fraction(float(found)) - x)
    for way in (np.inf, -np.inf):
        other = np.nextafter(found, ml_dtypes.bfloat16(way))
        assert error <= abs(Fraction(float(other)) - x)


def test_truth_values_become_one():
    x = np.array([0, 1, 1, 0], np.uint8)

    def build(a):
        return IToF(
            source=a, to=TileType(Element.F32, a.type.shape), signedness=Signedness.UNSIGNED
        )

    for found in evaluate(build, Element.F32, (Element.I1, x)):
        assert found.tolist() == [0, 1, 1, 0]


def ftoi(to: Element, sign: Signedness, saturating: bool) -> Any:
    return lambda a: FToI(
        source=a, to=TileType(to, a.type.shape), signedness=sign, saturating=saturating
    )


@pytest.mark.parametrize("sign", SIGNS)
@pytest.mark.parametrize("target", INTEGERS, ids=repr)
@pytest.mark.parametrize("source", FORMATS, ids=repr)
def test_floats_are_cut_towards_zero(source, target, sign):
    x = np.array([0, 0.9, -0.9, 1.5, 2.5, 100.75, 3, 7.99]).astype(source.numpy)
    x = np.concatenate((x, -x if sign is Signedness.SIGNED else x))
    expected = [int(float(n)) for n in x]
    for saturating in (False, True):
        for found in evaluate(ftoi(target, sign, saturating), target, (source, x)):
            assert found.tolist() == expected


@pytest.mark.parametrize("sign", SIGNS)
@pytest.mark.parametrize("target", INTEGERS, ids=repr)
def test_saturation_stops_at_the_limits_and_turns_nan_into_zero(target, sign):
    dtype = target.numpy if sign is Signedness.SIGNED else np.dtype(f"u{target.numpy.name}")
    info = np.iinfo(dtype)
    x = np.array([np.inf, -np.inf, np.nan, 1e30, -1e30, float(info.max), float(info.min), 5.5])
    for found in evaluate(ftoi(target, sign, True), target, (Element.F64, x)):
        assert found.view(dtype).tolist() == [
            info.max, info.min, 0, info.max, info.min, info.max, info.min, 5,
        ]  # fmt: skip


@pytest.mark.parametrize(
    ("target", "sign", "good", "bad"),
    [
        (Element.I8, SIGNS[0], [127.9, -128.9], [128.0, -129.0, np.nan]),
        (Element.I8, SIGNS[1], [255.9, -0.9], [256.0, -1.0]),
        (Element.I32, SIGNS[0], [2147483647.5, -2147483648.5], [2147483648.0, np.inf]),
        (Element.I64, SIGNS[0], [-(2.0**63), 2.0**62], [2.0**63, -(2.0**63) - 2048, -np.inf]),
        (Element.I64, SIGNS[1], [2.0**63, 2.0**64 - 2048], [2.0**64, -1.0]),
    ],
)
def test_a_cut_that_does_not_fit_is_reported(target, sign, good, bad):
    kernel = apply(ftoi(target, sign, False), [Element.F64], target, (2,))
    out = np.zeros(2, target.numpy)
    for number in good:
        run(kernel, (1, 1, 1), np.array([1.0, number]), out)
        assert int(out[1]) % (1 << target.bits) == int(number) % (1 << target.bits)
    for number in bad:
        with pytest.raises(UndefinedBehaviourError, match=r"ftoi cuts .* at element \(1,\)"):
            run(kernel, (1, 1, 1), np.array([1.0, number]), out)


@pytest.mark.parametrize(
    ("sign", "good", "one", "bad"), [(SIGNS[1], 1.9, 1, 2.0), (SIGNS[0], -1.9, -1, 1.0)]
)
def test_a_float_is_cut_to_a_truth_value(sign, good, one, bad):
    x = np.array([0, good, one, 0.5 * one], np.float32)
    for saturating in (False, True):
        for found in evaluate(ftoi(Element.I1, sign, saturating), Element.I1, (Element.F32, x)):
            assert found.tolist() == [0, 1, 1, 0]
    kernel = apply(ftoi(Element.I1, sign, False), [Element.F32], Element.I1, (4,))
    with pytest.raises(UndefinedBehaviourError, match="does not fit in 1 bits"):
        run(kernel, (1, 1, 1), np.full(4, bad, np.float32), np.zeros(4, np.uint8))


@settings(max_examples=200)
@given(st.floats())
def test_saturation_is_clamping(x):
    with np.errstate(all="ignore"):
        found = int(cut_saturating(np.array([x]), np.dtype(np.int64), 64)[0])
    if x != x:
        assert found == 0
    elif abs(x) == np.inf:
        assert found == (2**63 - 1 if x > 0 else -(2**63))
    else:
        assert found == max(-(2**63), min(2**63 - 1, int(x)))


# --- bits ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (Element.F32, Element.I32),
        (Element.I32, Element.F32),
        (Element.F16, Element.BF16),
        (Element.I16, Element.F16),
        (Element.F64, Element.I64),
        (Element.I8, Element.F8E4M3FN),
    ],
)
def test_bitcast_keeps_the_bits(source, target):
    size = source.bits // 8
    x = np.arange(16 * size, dtype=np.uint8).view(source.numpy)

    def build(a):
        return Bitcast(source=a, to=TileType(target, a.type.shape))

    for found in evaluate(build, target, (source, x)):
        assert found.tobytes() == x.tobytes()
