"""Strided views and picked rows: padding, overhang, sums, promises and what is outside."""

from typing import Any

import numpy as np
import pytest
from cpu_programs import Program, run, tensor_arguments
from hypothesis import given
from hypothesis import strategies as st

from tilewright.backends.cpu.memory import KernelMemory
from tilewright.dtypes import Element
from tilewright.errors import UndefinedBehaviourError
from tilewright.ir.attributes import AtomicMode
from tilewright.ir.op import Value
from tilewright.ir.ops.memory import GetIndexSpaceShape, LoadView, StoreView
from tilewright.ir.ops.shape import Reshape
from tilewright.ir.ops.views import AtomicRedView, MakeGatherScatterView, MakeStridedView
from tilewright.ir.types import (
    GatherScatterViewType,
    Padding,
    StridedViewType,
    TensorViewType,
    TileType,
)

F32, I32 = Element.F32, Element.I32


def strided(
    program: Program,
    tensor: Value,
    tile: tuple[int, ...],
    steps: tuple[int, ...],
    padding: Padding | None = None,
    dim_map: tuple[int, ...] | None = None,
) -> Value:
    assert isinstance(tensor.type, TensorViewType)
    axes = dim_map or tuple(range(len(tile)))
    to = StridedViewType(tile, steps, tensor.type, axes, padding)
    return program.add(MakeStridedView(tensor_view=tensor, to=to))


def gathering(
    program: Program,
    tensor: Value,
    tile: tuple[int, ...],
    sparse: int,
    padding: Padding | None = None,
) -> Value:
    assert isinstance(tensor.type, TensorViewType)
    to = GatherScatterViewType(tile, tensor.type, sparse, padding)
    return program.add(MakeGatherScatterView(tensor_view=tensor, to=to))


def windows_kernel(tile: tuple[int, int], steps: tuple[int, int], **kinds: Any) -> Any:
    """Copies window (i, j) into a tensor as large as the window."""
    program = Program("windows")
    source, target = program.tensor(F32, 2), program.tensor(F32, 2)
    i, j = program.param(I32), program.param(I32)
    view = strided(program, source, tile, steps, **kinds)
    zero = program.b.index(0)
    program.store(program.load(view, i, j), program.partition(target, tile), zero, zero)
    return program.finish()


def window(x: Any, i: int, j: int, tile: tuple[int, int], steps: tuple[int, int]) -> Any:
    """What NumPy says of a window; zeros lie around the tensor."""
    room = np.zeros((x.shape[0] + tile[0], x.shape[1] + tile[1]), x.dtype)
    room[: x.shape[0], : x.shape[1]] = x
    top, left = i * steps[0], j * steps[1]
    return room[top : top + tile[0], left : left + tile[1]]


@given(
    st.tuples(st.integers(1, 9), st.integers(1, 9)),
    st.tuples(st.sampled_from([1, 2, 4]), st.sampled_from([1, 4, 8])),
    st.tuples(st.integers(1, 5), st.integers(1, 9)),
    st.data(),
)
def test_windows_are_numpys(shape, tile, steps, data):
    x = np.arange(1, 1 + shape[0] * shape[1], dtype=np.float32).reshape(shape)
    kernel = windows_kernel(tile, steps, padding=Padding.ZERO)
    counts = [-(-extent // step) for extent, step in zip(shape, steps, strict=True)]
    i, j = (data.draw(st.integers(0, count - 1)) for count in counts)
    out = np.full(tile, -1, np.float32)
    run(kernel, (1, 1, 1), x, out, i, j)
    np.testing.assert_array_equal(out, window(x, i, j, tile, steps))
    for bad in ((counts[0], j), (i, counts[1]), (-1, j)):
        with pytest.raises(UndefinedBehaviourError, match="outside the view on axis"):
            run(kernel, (1, 1, 1), x, out, *bad)


def test_windows_along_permuted_axes():
    x = np.arange(40, dtype=np.float32).reshape(5, 8)
    kernel = windows_kernel((4, 2), (3, 1), padding=Padding.NAN, dim_map=(1, 0))
    out = np.zeros((4, 2), np.float32)
    run(kernel, (1, 1, 1), x, out, 2, 4)
    wanted = np.full((4, 2), np.nan, np.float32)
    wanted[:2, :1] = x.T[6:8, 4:5]
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize(
    ("tile", "steps", "counts"),
    [((4, 4), (3, 5), (4, 2)), ((1, 8), (1, 1), (10, 7)), ((2, 2), (16, 16), (1, 1))],
)
def test_the_index_space_counts_starts_inside_the_tensor(tile, steps, counts):
    program = Program()
    source, out = program.tensor(F32, 2), program.tensor(I32, 1)
    view = strided(program, source, tile, steps)
    target = program.partition(out, (1,))
    for place, extent in enumerate(program.b.add(GetIndexSpaceShape(src=view)).extents):
        one = program.add(Reshape(source=extent, to=TileType(I32, (1,))))
        program.store(one, target, program.b.index(place))
    found = np.zeros(2, np.int32)
    run(program.finish(), (1, 1, 1), np.zeros((10, 7), np.float32), found)
    assert tuple(found) == counts


def test_a_store_through_a_window_is_clipped():
    program = Program("fill")
    target = program.tensor(F32, 2)
    i, j = program.param(I32), program.param(I32)
    view = strided(program, target, (2, 4), (3, 3))
    program.store(program.b.constant(1.0, F32, (2, 4)), view, i, j)
    kernel = program.finish()
    out = np.zeros((5, 5), np.float32)
    run(kernel, (1, 1, 1), out, 1, 1)
    wanted = np.zeros((5, 5))
    wanted[3:5, 3:5] = 1
    np.testing.assert_array_equal(out, wanted)


# --- rows picked by number -------------------------------------------------------------------


def pick_kernel(element: Element, tile: tuple[int, int], sparse: int, **kinds: Any) -> Any:
    """Copies the rows (or columns) whose numbers are given into a tensor as large as the tile."""
    program = Program("pick")
    source, target = program.tensor(element, 2), program.tensor(element, 2)
    numbers, start = program.tensor(I32, 1), program.param(I32)
    zero = program.b.index(0)
    rows = program.load(program.partition(numbers, (tile[sparse],)), zero)
    view = gathering(program, source, tile, sparse, **kinds)
    index = (rows, start) if sparse == 0 else (start, rows)
    program.store(program.load(view, *index), program.partition(target, tile), zero, zero)
    return program.finish()


PADDINGS = [
    (None, 0.0),
    (Padding.ZERO, 0.0),
    (Padding.NAN, np.nan),
    (Padding.POS_INF, np.inf),
    (Padding.NEG_INF, -np.inf),
]


@pytest.mark.parametrize(("padding", "fill"), PADDINGS)
@pytest.mark.parametrize("sparse", [0, 1])
@pytest.mark.parametrize("element", [Element.F16, Element.F32, Element.F64, Element.BF16], ids=str)
def test_rows_outside_are_padding(element, sparse, padding, fill):
    x = np.arange(1, 43).reshape(6, 7).astype(element.numpy)
    rows = np.array([5, 0, -1, 3, 3, 6, 2**31 - 1, 1], np.int32)
    tile = (8, 4) if sparse == 0 else (4, 8)
    out = np.zeros(tile, element.numpy)
    run(pick_kernel(element, tile, sparse, padding=padding), (1, 1, 1), x, out, rows, 5)
    axes = x if sparse == 0 else x.T
    wanted = np.full((8, 4), fill)
    for place, row in enumerate(rows):
        if 0 <= row < axes.shape[0]:
            part = axes[row, 5:9]
            wanted[place, : part.size] = part
    found = out.astype(np.float64) if sparse == 0 else out.astype(np.float64).T
    inside = axes.shape[1] - 5 if axes.shape[1] > 5 else 0
    assert inside in (1, 2)
    np.testing.assert_array_equal(found, wanted)


def test_a_start_outside_is_reported_though_rows_may_be():
    x, out = np.zeros((6, 7), np.float32), np.zeros((2, 4), np.float32)
    kernel = pick_kernel(F32, (2, 4), 0)
    rows = np.array([99, 99], np.int32)
    run(kernel, (1, 1, 1), x, out, rows, 6)
    for start in (7, -1):
        with pytest.raises(UndefinedBehaviourError, match=r"is not in \[0, 7\)"):
            run(kernel, (1, 1, 1), x, out, rows, start)


@pytest.mark.parametrize("element", [Element.I1, Element.I8, Element.F32], ids=str)
def test_a_scatter_drops_what_is_outside(element):
    program = Program("scatter")
    target, source = program.tensor(element, 2), program.tensor(element, 2)
    numbers = program.tensor(I32, 1)
    zero = program.b.index(0)
    rows = program.load(program.partition(numbers, (4,)), zero)
    tile = program.load(program.partition(source, (4, 2)), zero, zero)
    program.store(tile, gathering(program, target, (4, 2), 0), rows, program.b.index(2))
    kernel = program.finish()
    dtype = np.uint8 if element is Element.I1 else element.numpy
    out, x = np.zeros((3, 3), dtype), np.ones((4, 2), dtype)
    run(kernel, (1, 1, 1), out, x, np.array([2, 3, -1, 0], np.int32))
    assert out.tolist() == [[0, 0, 1], [0, 0, 0], [0, 0, 1]]
    out.flags.writeable = False
    with pytest.raises(UndefinedBehaviourError, match="memory that is read-only"):
        run(kernel, (1, 1, 1), out, x, np.array([2, 3, -1, 0], np.int32))


def test_the_index_space_of_picked_rows_is_the_tensor():
    program = Program()
    source, out = program.tensor(F32, 2), program.tensor(I32, 1)
    view = gathering(program, source, (4, 2), 1)
    target = program.partition(out, (1,))
    for place, extent in enumerate(program.b.add(GetIndexSpaceShape(src=view)).extents):
        one = program.add(Reshape(source=extent, to=TileType(I32, (1,))))
        program.store(one, target, program.b.index(place))
    found = np.zeros(2, np.int32)
    run(program.finish(), (1, 1, 1), np.zeros((10, 7), np.float32), found)
    assert found.tolist() == [10, 7]


# --- promises and widths ---------------------------------------------------------------------


@pytest.mark.parametrize("inbounds", [(True, False), (False, True), (True, True)])
def test_a_promise_of_being_inside_is_checked(inbounds):
    program = Program("promise")
    source, target = program.tensor(F32, 2), program.tensor(F32, 2)
    i, j = program.param(I32), program.param(I32)
    view = program.partition(source, (4, 4))
    tile = program.add(LoadView(view=view, index=(i, j), inbounds=inbounds))
    out = program.partition(target, (4, 4))
    program.b.add(StoreView(tile=tile, view=out, index=(i, j), inbounds=inbounds))
    kernel = program.finish()
    shape = tuple(8 if promised else 6 for promised in inbounds)
    x = np.ones(shape, np.float32)
    for index in ((0, 0), (1, 1)):
        out = np.zeros_like(x)
        run(kernel, (1, 1, 1), x, out, *index)
        assert out.any()
    axis = inbounds.index(True)
    ragged = np.ones(tuple(7 if a == axis else e for a, e in enumerate(shape)), np.float32)
    for arrays in ((ragged, np.zeros((8, 8), np.float32)), (np.ones((8, 8), np.float32), ragged)):
        run(kernel, (1, 1, 1), *arrays, 0, 0)
        said = rf"promises that index \(1, 1\) is in bounds on axis {axis}, and the tile ends at 8"
        with pytest.raises(UndefinedBehaviourError, match=said):
            run(kernel, (1, 1, 1), *arrays, 1, 1)


def test_an_index_of_eight_bits_is_read_unsigned():
    program = Program()
    source, target = program.tensor(F32, 1), program.tensor(F32, 1)
    i = program.param(Element.I8)
    program.store(
        program.load(program.partition(source, (2,)), i),
        program.partition(target, (2,)),
        program.b.index(0),
    )
    x, out = np.arange(512, dtype=np.float32), np.zeros(2, np.float32)
    run(program.finish(), (1, 1, 1), x, out, 200)
    assert out.tolist() == [400, 401]


def test_an_extent_must_fit_where_it_is_asked_for():
    program = Program()
    source, out = program.tensor(F32, 1), program.tensor(Element.I8, 1)
    shape = program.b.add(
        GetIndexSpaceShape(src=program.partition(source, (1,)), to=TileType(Element.I8))
    )
    one = program.add(Reshape(source=shape.extents[0], to=TileType(Element.I8, (1,))))
    program.store(one, program.partition(out, (1,)), program.b.index(0))
    kernel = program.finish()
    found = np.zeros(1, np.int8)
    run(kernel, (1, 1, 1), np.zeros(255, np.float32), found)
    assert found.view(np.uint8).tolist() == [255]
    said = "gives the extent 256, which does not fit in 8 bits"
    with pytest.raises(UndefinedBehaviourError, match=said):
        run(kernel, (1, 1, 1), np.zeros(256, np.float32), found)


# --- sums into views -------------------------------------------------------------------------

MODES = [
    (AtomicMode.ADD, I32, np.add.reduce),
    (AtomicMode.ADD, Element.I64, np.add.reduce),
    (AtomicMode.MAX, I32, np.maximum.reduce),
    (AtomicMode.MIN, I32, np.minimum.reduce),
    (AtomicMode.AND, I32, np.bitwise_and.reduce),
    (AtomicMode.OR, I32, np.bitwise_or.reduce),
    (AtomicMode.XOR, I32, np.bitwise_xor.reduce),
    (AtomicMode.ADDF, Element.F32, np.add.reduce),
    (AtomicMode.ADDF, Element.F16, np.add.reduce),
    (AtomicMode.ADDF, Element.BF16, np.add.reduce),
    (AtomicMode.ADDF, Element.F64, np.add.reduce),
]


def summing_kernel(element: Element, mode: AtomicMode, steps: tuple[int, int]) -> Any:
    program = Program("sums")
    target, source = program.tensor(element, 2), program.tensor(element, 2)
    block, _, _ = program.block_id()
    zero = program.b.index(0)
    tile = program.load(program.partition(source, (2, 4)), block, zero)
    view = strided(program, target, (2, 4), steps)
    program.b.add(AtomicRedView(view=view, index=(zero, zero), value=tile, mode=mode))
    return program.finish()


@pytest.mark.parametrize(("mode", "element", "total"), MODES)
def test_each_way_of_combining(mode, element, total):
    rng = np.random.default_rng(3)
    start = rng.integers(-8, 8, (2, 3)).astype(element.numpy)
    x = rng.integers(-8, 8, (6, 4)).astype(element.numpy)
    out = start.copy()
    run(summing_kernel(element, mode, (2, 4)), (3, 1, 1), out, x, threads=2)
    parts = np.stack([start, *x.reshape(3, 2, 4)[:, :, :3]]).astype(np.float64)
    if mode in (AtomicMode.AND, AtomicMode.OR, AtomicMode.XOR):
        parts = parts.astype(np.int64)
    np.testing.assert_array_equal(out.astype(np.float64), total(parts, 0).astype(np.float64))


@pytest.mark.parametrize("mode", [AtomicMode.UMAX, AtomicMode.UMIN])
def test_unsigned_extremes(mode):
    x = np.array([[-1, 1, 5, 0]] * 2, np.int32)
    out = np.array([[1, -1, 3, 7]] * 2, np.int32)
    run(summing_kernel(I32, mode, (2, 4)), (1, 1, 1), out, x)
    wanted = [[-1, -1, 5, 7]] * 2 if mode is AtomicMode.UMAX else [[1, 1, 3, 0]] * 2
    assert out.tolist() == wanted


def test_elements_that_are_one_place_are_summed_one_by_one():
    program = Program()
    base, source = program.tensor(I32, 1), program.tensor(I32, 1)
    zero = program.b.index(0)
    tile = program.load(program.partition(source, (4,)), zero)
    view = program.partition(base, (4,))
    program.b.add(AtomicRedView(view=view, index=(zero,), value=tile, mode=AtomicMode.ADD))
    out, x = np.zeros(1, np.int32), np.array([1, 2, 3, 4], np.int32)
    arguments = [out.ctypes.data, 4, 0, *tensor_arguments(x)]
    program.finish().run((1, 1, 1), arguments, [KernelMemory.of(out), KernelMemory.of(x)])
    assert out.tolist() == [10]


def test_a_sum_outside_is_reported_not_performed():
    program = Program("outside")
    target = program.tensor(F32, 1)
    i = program.param(I32)
    one = program.b.constant(1.0, F32, (4,))
    view = program.partition(target, (4,))
    program.b.add(AtomicRedView(view=view, index=(i,), value=one, mode=AtomicMode.ADDF))
    kernel = program.finish()
    out = np.zeros(6, np.float32)
    run(kernel, (1, 1, 1), out, 1)
    assert out.tolist() == [0, 0, 0, 0, 1, 1]
    with pytest.raises(UndefinedBehaviourError, match="atomic_red_view_tko has index"):
        run(kernel, (1, 1, 1), out, 2)


# --- elements that share bytes ----------------------------------------------------------------


def test_tiles_of_four_bit_floats():
    program = Program("narrow")
    f4 = Element.F4E2M1FN
    source, target = program.tensor(f4, 2), program.tensor(f4, 2)
    i, j = program.param(I32), program.param(I32)
    view = program.partition(source, (2, 4), Padding.ZERO)
    program.store(program.load(view, i, j), program.partition(target, (2, 4)), i, j)
    kernel = program.finish()
    codes = np.random.default_rng(0).integers(0, 16, (3, 6)).astype(np.uint8)
    packed = (codes[:, 0::2] | codes[:, 1::2] << 4).copy()
    out = np.full_like(packed, 0xFF)
    for index in ((0, 0), (0, 1), (1, 0), (1, 1)):
        arrays = [n for a in (packed, out) for n in (a.ctypes.data, 3, 6, 6, 1)]
        kernel.run((1, 1, 1), [*arrays, *index], [KernelMemory.of(packed), KernelMemory.of(out)])
    np.testing.assert_array_equal(out, packed)
