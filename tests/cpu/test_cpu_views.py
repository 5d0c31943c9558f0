"""Views: tiles inside, over the edge and outside, paddings, strides and permuted axes."""

import numpy as np
import pytest
from cpu_programs import Program, run, tensor_arguments

from tilewright.backends.cpu.memory import KernelMemory
from tilewright.dtypes import Element
from tilewright.errors import UndefinedBehaviourError
from tilewright.ir.ops.elementwise import AddF
from tilewright.ir.ops.memory import GetIndexSpaceShape, GetTensorShape, MakeTensorView
from tilewright.ir.ops.shape import Reshape
from tilewright.ir.types import Padding, PtrType, TensorViewType, TileType


def copy_kernel(element, tile, padding=None, dim_map=None):
    """Copies tile (x, y) of one tensor into a tensor as large as the tile."""
    program = Program("copy")
    source, target = program.tensor(element, 2), program.tensor(element, 2)
    i, j = program.param(Element.I32), program.param(Element.I32)
    view = program.partition(source, tile, padding, dim_map)
    zero = program.b.index(0)
    program.store(program.load(view, i, j), program.partition(target, tile), zero, zero)
    return program.finish()


def counted(rows, columns, dtype=np.float32):
    return np.arange(rows * columns).reshape(rows, columns).astype(dtype)


@pytest.mark.parametrize(
    ("padding", "fill"),
    [
        (None, 0.0),
        (Padding.ZERO, 0.0),
        (Padding.NEG_ZERO, -0.0),
        (Padding.NAN, np.nan),
        (Padding.POS_INF, np.inf),
        (Padding.NEG_INF, -np.inf),
    ],
)
@pytest.mark.parametrize("element", [Element.F16, Element.BF16, Element.F32, Element.F64], ids=repr)
def test_a_load_over_the_edge_is_padded(element, padding, fill):
    x = (counted(5, 7) + 1).astype(element.numpy)
    kernel = copy_kernel(element, (4, 4), padding)
    for i in range(2):
        for j in range(2):
            out = np.ones((4, 4), element.numpy)
            run(kernel, (1, 1, 1), x, out, i, j)
            expected = np.full((4, 4), fill, element.numpy)
            part = x[4 * i : 4 * i + 4, 4 * j : 4 * j + 4]
            expected[: part.shape[0], : part.shape[1]] = part
            np.testing.assert_array_equal(out.astype(np.float64), expected.astype(np.float64))
            outside = expected == 0
            assert (np.signbit(out) == np.signbit(expected))[outside].all()


@pytest.mark.parametrize("element", [Element.I1, Element.I8, Element.I32, Element.I64], ids=repr)
def test_integers_are_padded_with_zeros(element):
    dtype = np.uint8 if element is Element.I1 else element.numpy
    x = np.ones((3, 3), dtype)
    out = np.full((4, 4), 1, dtype)
    run(copy_kernel(element, (4, 4)), (1, 1, 1), x, out, 0, 0)
    assert out.sum() == 9
    assert not out[3].any()


def test_any_byte_but_zero_is_true():
    x = np.array([[0, 1, 2, 255]], np.uint8)
    out = np.zeros_like(x)
    run(copy_kernel(Element.I1, (1, 4)), (1, 1, 1), x, out, 0, 0)
    assert out.tolist() == [[0, 1, 1, 1]]


@pytest.mark.parametrize("index", [(-1, 0), (0, -1), (2, 0), (0, 2), (2**31 - 1, 0)])
def test_an_index_outside_the_view_is_reported_not_performed(index):
    x, out = counted(5, 7), np.zeros((4, 4), np.float32)
    axis = 0 if index[0] else 1
    expected = (
        rf"load_view_tko has index \({index[0]}, {index[1]}\), outside the view on axis {axis}"
    )
    with pytest.raises(UndefinedBehaviourError, match=expected) as caught:
        run(copy_kernel(Element.F32, (4, 4)), (1, 1, 1), x, out, *index)
    assert "is not in [0, 2) (index space (2, 2))" in str(caught.value)
    assert not out.any()


def store_kernel(element=Element.F32, tile=(4, 4)):
    """Writes ones into tile (x, y)."""
    program = Program("fill")
    target = program.tensor(element, 2)
    i, j = program.param(Element.I32), program.param(Element.I32)
    program.store(program.b.constant(1, element, tile), program.partition(target, tile), i, j)
    return program.finish()


def test_a_store_over_the_edge_is_clipped():
    whole = np.zeros((8, 8), np.float32)
    window = whole[:5, :7]
    arguments = tensor_arguments(window)
    store_kernel().run((1, 1, 1), [*arguments, 1, 1], [KernelMemory.of(whole)])
    expected = np.zeros((8, 8))
    expected[4:5, 4:7] = 1
    np.testing.assert_array_equal(whole, expected)


@pytest.mark.parametrize("index", [(-1, 0), (0, 2), (3, 3)])
def test_a_store_outside_the_view_is_reported_not_performed(index):
    out = np.zeros((5, 7), np.float32)
    with pytest.raises(UndefinedBehaviourError, match="store_view_tko has index"):
        run(store_kernel(), (1, 1, 1), out, *index)
    assert not out.any()


def test_a_store_to_read_only_memory_is_reported():
    out = np.zeros((4, 4), np.float32)
    frozen = out.copy()
    frozen.flags.writeable = False
    run(store_kernel(), (1, 1, 1), out, 0, 0)
    assert out.all()
    with pytest.raises(UndefinedBehaviourError, match="memory that is read-only"):
        run(store_kernel(), (1, 1, 1), frozen, 0, 0)
    assert not frozen.any()


def test_a_tile_axis_runs_along_the_mapped_axis():
    x = counted(8, 4)
    kernel = copy_kernel(Element.F32, (2, 4), dim_map=(1, 0))
    for i in range(2):
        for j in range(2):
            out = np.zeros((2, 4), np.float32)
            run(kernel, (1, 1, 1), x, out, i, j)
            np.testing.assert_array_equal(out, x.T[2 * i : 2 * i + 2, 4 * j : 4 * j + 4])
    with pytest.raises(UndefinedBehaviourError, match=r"index space \(2, 2\)"):
        run(kernel, (1, 1, 1), x, np.zeros((2, 4), np.float32), 2, 0)


@pytest.mark.parametrize(
    "make",
    [
        lambda whole: whole[::2, ::3],
        lambda whole: whole.T,
        lambda whole: np.broadcast_to(whole[0], (6, 12)),
    ],
    ids=["steps", "transposed", "repeated"],
)
def test_strides_of_every_kind(make):
    whole = counted(12, 12)
    view = make(whole)
    out = np.zeros((8, 8), np.float32)
    arguments = [*tensor_arguments(view), *tensor_arguments(out), 0, 0]
    copy_kernel(Element.F32, (8, 8)).run(
        (1, 1, 1), arguments, [KernelMemory.of(whole), KernelMemory.of(out)]
    )
    expected = np.zeros((8, 8), np.float32)
    part = view[:8, :8]
    expected[: part.shape[0], : part.shape[1]] = part
    np.testing.assert_array_equal(out, expected)


def test_a_view_must_lie_in_one_memory():
    x, out = counted(4, 4), np.zeros((4, 4), np.float32)
    kernel = copy_kernel(Element.F32, (4, 4))
    good = [*tensor_arguments(x), *tensor_arguments(out), 0, 0]
    memories = [KernelMemory.of(x), KernelMemory.of(out)]
    kernel.run((1, 1, 1), good, memories)
    for place, change in ((0, 4), (1, 1), (3, 1), (0, -4)):
        bad = list(good)
        bad[place] += change
        with pytest.raises(UndefinedBehaviourError, match="do not lie in one memory") as caught:
            kernel.run((1, 1, 1), bad, memories)
        assert "make_tensor_view spans the addresses" in str(caught.value)
    with pytest.raises(UndefinedBehaviourError, match="do not lie in one memory"):
        kernel.run((1, 1, 1), good, memories[1:])


def test_extents_and_strides_are_read_unsigned():
    x, out = counted(4, 4), np.zeros((4, 4), np.float32)
    kernel = copy_kernel(Element.F32, (4, 4))
    good = [*tensor_arguments(x), *tensor_arguments(out), 0, 0]
    for place in (1, 2, 3, 4):
        negative = list(good)
        negative[place] = -1
        with pytest.raises(UndefinedBehaviourError, match="do not lie in one memory") as caught:
            kernel.run((1, 1, 1), negative, [KernelMemory.of(x), KernelMemory.of(out)])
        assert "4294967295" in str(caught.value)


def test_a_base_must_be_aligned():
    buffer = np.zeros(80, np.uint8)
    shift = -buffer.ctypes.data % 4 + 1
    out = np.zeros((4, 4), np.float32)
    arguments = [buffer.ctypes.data + shift, 4, 4, 4, 1, *tensor_arguments(out), 0, 0]
    with pytest.raises(UndefinedBehaviourError, match="not a multiple of 4 bytes"):
        copy_kernel(Element.F32, (4, 4)).run(
            (1, 1, 1), arguments, [KernelMemory.of(buffer), KernelMemory.of(out)]
        )


def test_an_empty_tensor_has_no_tiles_and_needs_no_memory():
    out = np.zeros((4, 4), np.float32)
    arguments = [0, 0, 7, 7, 1, *tensor_arguments(out), 0, 0]
    with pytest.raises(UndefinedBehaviourError, match=r"0 is not in \[0, 0\)"):
        copy_kernel(Element.F32, (4, 4)).run((1, 1, 1), arguments, [KernelMemory.of(out)])


@pytest.mark.parametrize("extents", [(0, 5), (0, -1), (2**62, 0), (0, 2**63 - 1)])
def test_an_empty_tensor_may_have_any_other_extent(extents):
    program = Program()
    base = program.param(PtrType(Element.F32))
    sizes = program.param(Element.I64), program.param(Element.I64)
    to = TensorViewType(Element.F32, (None, None), (1, 1))
    view = program.add(MakeTensorView(base=base, dynamic_shape=sizes, to=to))
    zero = program.b.index(0)
    program.load(program.partition(view, (1, 1)), zero, zero)
    with pytest.raises(UndefinedBehaviourError, match=r"0 is not in \[0, 0\)"):
        program.finish().run((1, 1, 1), [0, *extents], [])


def test_static_extents_and_strides_need_no_arguments():
    program = Program()
    base, target = program.param(PtrType(Element.F32)), program.tensor(Element.F32, 2)
    to = TensorViewType(Element.F32, (2, None), (None, 1))
    extent, stride = program.param(Element.I32), program.param(Element.I32)
    view = program.add(
        MakeTensorView(base=base, dynamic_shape=(extent,), dynamic_strides=(stride,), to=to)
    )
    zero = program.b.index(0)
    tile = program.load(program.partition(view, (2, 4)), zero, zero)
    program.store(tile, program.partition(target, (2, 4)), zero, zero)
    x, out = counted(2, 3), np.zeros((2, 4), np.float32)
    program.finish().run(
        (1, 1, 1),
        [x.ctypes.data, *tensor_arguments(out), 3, 3],
        [KernelMemory.of(x), KernelMemory.of(out)],
    )
    np.testing.assert_array_equal(out[:, :3], x)


def test_shapes_can_be_asked_for():
    program = Program()
    source, out = program.tensor(Element.F32, 2), program.tensor(Element.I32, 1)
    view = program.partition(source, (4, 2))
    counts = program.b.add(GetIndexSpaceShape(src=view)).extents
    extents = program.b.add(GetTensorShape(src=source)).extents
    target = program.partition(out, (1,))
    for place, value in enumerate((*counts, *extents)):
        tile = program.add(Reshape(source=value, to=TileType(Element.I32, (1,))))
        program.store(tile, target, program.b.index(place))
    found = np.zeros(4, np.int32)
    run(program.finish(), (1, 1, 1), counted(5, 7), found)
    assert found.tolist() == [2, 4, 5, 7]


def test_a_tile_is_a_value_that_later_stores_do_not_change():
    program = Program()
    tensor = program.tensor(Element.F32, 1)
    view = program.partition(tensor, (4,))
    first, second = program.b.index(0), program.b.index(1)
    before = program.load(view, first)
    program.store(program.b.constant(9.0, Element.F32, (4,)), view, first)
    after = program.load(view, first)
    program.store(program.add(AddF(lhs=before, rhs=after)), view, second)
    data = np.array([1, 2, 3, 4, 0, 0, 0, 0], np.float32)
    run(program.finish(), (1, 1, 1), data)
    assert data.tolist() == [9, 9, 9, 9, 10, 11, 12, 13]
