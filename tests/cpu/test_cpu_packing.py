"""Parts put into tiles, tiles as bytes, products with shared scales, output for people."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from cpu_programs import Program, run
from hypothesis import given
from hypothesis import strategies as st

from tilewright.backends.cpu import printing
from tilewright.dtypes import Element
from tilewright.errors import UndefinedBehaviourError
from tilewright.ir.attributes import Predicate, Signedness
from tilewright.ir.ops.control import Print
from tilewright.ir.ops.elementwise import Bitcast, CmpI, ExtI, FToF, TruncI
from tilewright.ir.ops.reduction import MmaFScaled
from tilewright.ir.ops.shape import Insert, Pack, Unpack
from tilewright.ir.print_formats import split_format
from tilewright.ir.types import TileType

I8, I32, F32 = Element.I8, Element.I32, Element.F32


# --- insert ----------------------------------------------------------------------------------


def insert_kernel(element: Element, whole: tuple[int, int], part: tuple[int, int]) -> Any:
    program = Program("insert")
    source, target = program.tensor(element, 2), program.tensor(element, 2)
    i, j = program.param(I32), program.param(I32)
    zero = program.b.index(0)
    view = program.partition(target, whole)
    before = program.load(view, zero, zero)
    piece = program.load(program.partition(source, part), zero, zero)
    after = program.add(Insert(source=piece, destination=before, indices=(i, j)))
    program.store(after, view, zero, zero)
    return program.finish()


@pytest.mark.parametrize("element", [Element.I1, I8, Element.F16, F32, Element.F64], ids=str)
def test_each_part_can_be_replaced(element):
    dtype = np.uint8 if element is Element.I1 else element.numpy
    kernel = insert_kernel(element, (4, 8), (2, 4))
    for i in range(2):
        for j in range(2):
            piece, whole = np.ones((2, 4), dtype), np.zeros((4, 8), dtype)
            run(kernel, (1, 1, 1), piece, whole, i, j)
            wanted = np.zeros((4, 8))
            wanted[2 * i : 2 * i + 2, 4 * j : 4 * j + 4] = 1
            np.testing.assert_array_equal(whole.astype(np.float64), wanted)


@pytest.mark.parametrize("index", [(2, 0), (0, 2), (-1, 0), (0, 2**31 - 1)])
def test_a_part_that_does_not_exist_is_reported(index):
    whole = np.zeros((4, 8), np.float32)
    with pytest.raises(UndefinedBehaviourError, match="the tile has 2 parts there"):
        run(
            insert_kernel(F32, (4, 8), (2, 4)),
            (1, 1, 1),
            np.ones((2, 4), np.float32),
            whole,
            *index,
        )
    assert not whole.any()


def test_the_tile_before_stays_as_it_was():
    program = Program()
    out = program.tensor(F32, 1)
    zeros = program.b.constant(0.0, F32, (4,))
    ones = program.b.constant(1.0, F32, (2,))
    after = program.add(Insert(source=ones, destination=zeros, indices=(program.b.index(1),)))
    view = program.partition(out, (4,))
    program.store(after, view, program.b.index(0))
    program.store(zeros, view, program.b.index(1))
    found = np.full(8, 9, np.float32)
    run(program.finish(), (1, 1, 1), found)
    assert found.tolist() == [0, 0, 1, 1, 0, 0, 0, 0]


# --- bytes -----------------------------------------------------------------------------------

WHOLE = [Element.I16, I32, Element.I64, Element.F16, Element.BF16, F32, Element.F64]


@pytest.mark.parametrize("element", WHOLE, ids=str)
def test_bytes_are_those_of_memory(element):
    size = element.bits // 8
    program = Program()
    x, packed, back = program.tensor(element, 1), program.tensor(I8, 1), program.tensor(element, 1)
    zero = program.b.index(0)
    tile = program.load(program.partition(x, (8,)), zero)
    data = program.add(Pack(source=tile, to=TileType(I8, (8 * size,))))
    program.store(data, program.partition(packed, (8 * size,)), zero)
    again = program.add(Unpack(source=data, to=TileType(element, (8,))))
    program.store(again, program.partition(back, (8,)), zero)
    raw = np.random.default_rng(0).integers(0, 256, 8 * size).astype(np.uint8)
    source, out = raw.view(element.numpy), np.zeros(8, element.numpy)
    found = np.zeros(8 * size, np.int8)
    run(program.finish(), (1, 1, 1), source, found, out)
    assert found.view(np.uint8).tolist() == raw.tolist()
    assert out.view(np.uint8).tolist() == raw.tolist()


@given(st.lists(st.integers(-8, 7), min_size=16, max_size=16))
def test_the_first_of_two_four_bit_integers_is_low(values):
    program = Program()
    x, packed, back = program.tensor(I32, 1), program.tensor(I8, 1), program.tensor(I32, 1)
    zero = program.b.index(0)
    tile = program.load(program.partition(x, (16,)), zero)
    narrow = program.add(TruncI(source=tile, to=TileType(Element.I4, (16,))))
    data = program.add(Pack(source=narrow, to=TileType(I8, (8,))))
    program.store(data, program.partition(packed, (8,)), zero)
    again = program.add(Unpack(source=data, to=TileType(Element.I4, (16,))))
    wide = program.add(ExtI(source=again, to=TileType(I32, (16,)), signedness=Signedness.SIGNED))
    program.store(wide, program.partition(back, (16,)), zero)
    source, found, out = np.array(values, np.int32), np.zeros(8, np.int8), np.zeros(16, np.int32)
    run(program.finish(), (1, 1, 1), source, found, out)
    low, high = source[0::2] & 15, source[1::2] & 15
    assert found.view(np.uint8).tolist() == (low | high << 4).tolist()
    assert out.tolist() == values


def test_truth_values_are_packed_from_the_lowest_bit():
    program = Program()
    x, packed, back = program.tensor(I32, 1), program.tensor(I8, 1), program.tensor(Element.I1, 1)
    zero = program.b.index(0)
    tile = program.load(program.partition(x, (16,)), zero)
    none = program.b.constant(0, I32, (16,))
    truth = program.add(CmpI(lhs=tile, rhs=none, comparison_predicate=Predicate.NOT_EQUAL))
    data = program.add(Pack(source=truth, to=TileType(I8, (2,))))
    program.store(data, program.partition(packed, (2,)), zero)
    again = program.add(Unpack(source=data, to=TileType(Element.I1, (16,))))
    program.store(again, program.partition(back, (16,)), zero)
    bits = np.random.default_rng(5).integers(0, 2, 16).astype(np.int32)
    found, out = np.zeros(2, np.int8), np.zeros(16, np.uint8)
    run(program.finish(), (1, 1, 1), bits, found, out)
    assert found.view(np.uint8).tolist() == np.packbits(bits, bitorder="little").tolist()
    assert out.tolist() == bits.tolist()


# --- shared scales ---------------------------------------------------------------------------

F8, F4 = Element.F8E4M3FN, Element.F4E2M1FN
E8, E4 = Element.F8E8M0FNU, Element.F8E4M3FN
SCALED = [
    pytest.param(F8, E8, 32, id="mxfp8"),
    pytest.param(Element.F8E5M2, E8, 32, id="mxfp8-e5m2"),
    pytest.param(F4, E8, 32, id="mxfp4"),
    pytest.param(F4, E4, 16, id="nvfp4"),
]


def scaled_kernel(element: Element, scale: Element, group: int, batch: tuple[int, ...]) -> Any:
    """A product of 8 by 64 by 16; four-bit floats come as bytes."""
    program = Program("scaled")
    rank = 2 + len(batch)
    narrow = element is F4
    shapes = [
        (*batch, 8, 64),
        (*batch, 64, 16),
        (*batch, 8, 64 // group),
        (*batch, 64 // group, 16),
    ]
    zeros = [program.b.index(0) for _ in range(rank)]
    tiles = []
    for shape, kind in zip(shapes, (element, element, scale, scale), strict=True):
        if narrow and kind is F4:
            numbers = program.load(program.partition(program.tensor(F32, rank), shape), *zeros)
            tiles.append(program.add(FToF(source=numbers, to=TileType(F4, shape))))
        else:
            view = program.partition(program.tensor(kind, rank), shape)
            tiles.append(program.load(view, *zeros))
    out = program.partition(program.tensor(F32, rank), (*batch, 8, 16))
    acc = program.load(out, *zeros)
    product = MmaFScaled(
        lhs=tiles[0], rhs=tiles[1], acc=acc, lhs_scale=tiles[2], rhs_scale=tiles[3]
    )
    program.store(program.add(product), out, *zeros)
    return program.finish()


@pytest.mark.parametrize("batch", [(), (2,)], ids=["one", "batch"])
@pytest.mark.parametrize(("element", "scale", "group"), SCALED)
def test_groups_share_a_scale(element, scale, group, batch):
    rng = np.random.default_rng(7)
    kind = F32.numpy if element is F4 else element.numpy
    x, y = (
        rng.uniform(-4, 4, (*batch, *s)).astype(element.numpy).astype(kind)
        for s in ((8, 64), (64, 16))
    )
    powers = (
        rng.integers(-6, 7, (*batch, 8, 64 // group)),
        rng.integers(-6, 7, (*batch, 64 // group, 16)),
    )
    sx, sy = (np.exp2(p).astype(scale.numpy) for p in powers)
    out = rng.uniform(-4, 4, (*batch, 8, 16)).astype(np.float32)
    acc = out.astype(np.float64)
    run(scaled_kernel(element, scale, group, batch), (1, 1, 1), x, y, sx, sy, out)
    left = x.astype(np.float64) * np.repeat(sx.astype(np.float64), group, -1)
    right = y.astype(np.float64) * np.repeat(sy.astype(np.float64), group, -2)
    np.testing.assert_allclose(out, left @ right + acc, rtol=1e-6)


def test_scales_reach_beyond_f32_and_hand_on_nan():
    x = np.ones((8, 64), ml_dtypes.float8_e4m3fn)
    y = np.ones((64, 16), ml_dtypes.float8_e4m3fn)
    sx = np.full((8, 2), 2.0**127).astype(ml_dtypes.float8_e8m0fnu)
    sy = np.full((2, 16), 2.0**-127).astype(ml_dtypes.float8_e8m0fnu)
    sy[0, 0] = np.nan
    out = np.zeros((8, 16), np.float32)
    run(scaled_kernel(F8, E8, 32, ()), (1, 1, 1), x, y, sx, sy, out)
    assert np.isnan(out[:, 0]).all()
    assert (out[:, 1:] == 64).all()


def test_a_scale_below_zero_is_reported():
    x, y = np.ones((8, 64), np.float32), np.ones((64, 16), np.float32)
    sx, sy = (np.ones(s, ml_dtypes.float8_e4m3fn) for s in ((8, 4), (4, 16)))
    out = np.zeros((8, 16), np.float32)
    kernel = scaled_kernel(F4, E4, 16, ())
    run(kernel, (1, 1, 1), x, y, sx, sy, out)
    assert (out == 64).all()
    sy[1, 2] = -1
    with pytest.raises(UndefinedBehaviourError, match="which is below zero at element"):
        run(kernel, (1, 1, 1), x, y, sx, sy, out)


# --- output for people -----------------------------------------------------------------------

FORMATS = [
    ("%d", 7, "7"),
    ("[%5d|%-5d|%05d|%+d]", 7, "[    7|7    |00007|+7]"),
    ("%i and %lld and %hd", -3, "-3 and -3 and -3"),
    ("%u %x %X %o %#x", -1, "4294967295 ffffffff FFFFFFFF 37777777777 0xffffffff"),
    ("%f %.2f %8.3f", 1.5, "1.500000 1.50    1.500"),
    ("%e %E %g %G", 0.00025, "2.500000e-04 2.500000E-04 0.00025 0.00025"),
    ("%a %A", 1.5, "0x1.8000000000000p+0 0X1.8000000000000P+0"),
    ("%F", float("inf"), "INF"),
    ("100%% of %d%%", 5, "100% of 5%"),
    ("%c%c", 65, "AA"),
    ("%p", 255, "0xff"),
    ("nothing", None, "nothing"),
]


@pytest.mark.parametrize(("format_", "number", "wanted"), FORMATS)
def test_formats_are_those_of_c(format_, number, wanted, capsys):
    places, end = split_format(format_)
    count = len(places)
    printing.show(printing.fields(places), end, (32,) * count, *[number] * count)
    assert capsys.readouterr().out == wanted


def test_a_tile_is_written_as_nested_brackets(capsys):
    program = Program("tell")
    x, y = program.tensor(Element.BF16, 2), program.tensor(Element.I1, 1)
    zero = program.b.index(0)
    numbers = program.load(program.partition(x, (2, 2)), zero, zero)
    truth = program.load(program.partition(y, (2,)), zero)
    block, _, _ = program.block_id()
    first = program.b.add(Print(args=(block, numbers), str="block %d: %.1f\n"))
    program.b.add(Print(args=(truth,), str="%d\n", token=first.result_token))
    program.b.add(Print(str="done\n"))
    data = np.array([[1, 2.5], [-3, 4]]).astype(ml_dtypes.bfloat16)
    run(program.finish(), (2, 1, 1), data, np.array([1, 0], np.uint8))
    told = "[[1.0, 2.5], [-3.0, 4.0]]\n[1, 0]\ndone\n"
    assert capsys.readouterr().out == f"block 0: {told}block 1: {told}"


def test_bits_stay_in_a_bitcast_of_narrow_floats():
    program = Program()
    x, z = program.tensor(I8, 1), program.tensor(F32, 1)
    zero = program.b.index(0)
    raw = program.load(program.partition(x, (8,)), zero)
    scale = program.add(Bitcast(source=raw, to=TileType(E8, (8,))))
    program.store(
        program.add(FToF(source=scale, to=TileType(F32, (8,)))), program.partition(z, (8,)), zero
    )
    out = np.zeros(8, np.float32)
    codes = np.array([0, 1, 126, 127, 128, 254, 255, 100], np.uint8)
    run(program.finish(), (1, 1, 1), codes.view(np.int8), out)
    wanted = [2.0 ** (int(c) - 127) if c != 255 else np.nan for c in codes]
    np.testing.assert_array_equal(out, np.array(wanted, np.float32))
