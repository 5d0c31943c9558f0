"""Row functions on widths, strides and dtypes drawn at random, beside float64.

Each draw runs with the tiles that the CPU chooses or with those of a GPU, so that whole parts of
rows, partial ones, and rows that tiles do not cover are all met.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from library_cases import FLOATS, check, normal

import tilewright as tw
from tilewright import f16, f32, kernels
from tilewright.kernels import cutting
from tilewright.kernels.arguments import elements_together, rows_together
from tilewright.kernels.reference import memory_bound as reference

TARGETS = ("cpu", "sm_90")
DTYPES = FLOATS[:3]


@st.composite
def layouts(draw):
    """Rows in a wider row, with up to three axes in front, in any order of those axes."""
    outer = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    heads, width = draw(st.integers(1, 4)), draw(st.integers(1, 300))
    before, behind = draw(st.integers(0, 9)), draw(st.integers(0, 9))
    order = draw(st.permutations(range(len(outer) + 1)))
    return tuple(outer), heads, width, before, behind, order


def laid_out(layout, dtype, seed):
    """A view with this layout, and its elements."""
    outer, heads, width, before, behind, order = layout
    row = before + heads * width + behind
    memory = normal((*outer, row), dtype, seed)
    lines = tw.from_numpy(memory).reshape(-1, row)[:, before : before + heads * width]
    view = lines.reshape(*outer, heads, width).permute(*order, len(outer) + 1)
    array = memory[..., before : before + heads * width].reshape(*outer, heads, width)
    return view, array.transpose(*order, len(outer) + 1)


def check_norms(layout, dtype):
    view, array = laid_out(layout, dtype, 1)
    width = array.shape[-1]
    weight, bias = normal((2, width), dtype, 2)
    w, b = tw.from_numpy(weight), tw.from_numpy(bias)
    scale = 4 * np.abs(weight.astype(np.float64)).max() * np.sqrt(width) + 4
    found = kernels.rms_norm(view, w).sync()
    check(found, reference.rms_norm(array, weight), dtype, terms=16, scale=scale)
    found = kernels.layer_norm(view, w, b).sync()
    check(found, reference.layer_norm(array, weight, bias), dtype, terms=64, scale=scale)
    found, total = kernels.add_rms_norm(view, view, w).sync()
    doubled = (array.astype(np.float64) * 2).astype(dtype)
    np.testing.assert_array_equal(total.numpy(), doubled)
    check(found, reference.rms_norm(doubled, weight), dtype, terms=16, scale=scale)


def check_shares_and_sums(layout, dtype):
    view, array = laid_out(layout, dtype, 3)
    check(kernels.softmax(view).sync(), reference.softmax(array), dtype, terms=16)
    scale = np.abs(array.astype(np.float64)).sum() + 1
    for axis in (-1, 0, None):
        expected = reference.reduce("sum", array, axis)
        check(kernels.sum(view, axis).sync(), np.asarray(expected), dtype, terms=8, scale=scale)
        exact = np.asarray(array.max(axis=axis))
        np.testing.assert_array_equal(kernels.max(view, axis).sync().numpy(), exact)
    np.testing.assert_array_equal(kernels.argmax(view).sync().numpy(), reference.argmax(array))


def check_elements(layout, dtype):
    view, array = laid_out(layout, dtype, 4)
    dense = tw.from_numpy(np.ascontiguousarray(array))
    check(kernels.add(view, dense).sync(), reference.add(array, array), dtype)
    check(kernels.silu_mul(view, dense).sync(), reference.silu_mul(array, array), dtype, terms=8)
    expected = reference.gelu(array, "tanh")
    check(kernels.gelu(view, approximate="tanh").sync(), expected, dtype, terms=8)


def check_losses(layout, dtype):
    view, array = laid_out(layout, dtype, 5)
    classes = array.shape[-1]
    labels = np.random.default_rng(6).integers(-1, classes + 1, array.shape[:-1])
    at = tw.from_numpy(labels)
    loss, log_sum = kernels.cross_entropy(view, at).sync()
    for found, expected in zip(
        (loss, log_sum), reference.cross_entropy(array, labels), strict=True
    ):
        check(found, expected, np.float32, terms=16, scale=16)
    slopes = normal(labels.shape, np.float32, 7)
    dx = kernels.cross_entropy_gradient(view, at, log_sum, tw.from_numpy(slopes)).sync()
    expected = reference.cross_entropy_gradient(array, labels, slopes)
    check(dx, expected, dtype, terms=64, scale=8)


def check_gradients(layout, dtype):
    view, array = laid_out(layout, dtype, 8)
    weight, dz = normal(array.shape[-1:], dtype, 9), normal(array.shape, dtype, 10)
    given_ = (tw.from_numpy(dz), view, tw.from_numpy(weight))
    for name in ("rms_norm_gradient", "layer_norm_gradient"):
        found = getattr(kernels, name)(*given_).sync()
        expected = getattr(reference, name)(dz, array, weight)
        size = 64 * max(np.abs(one).max() for one in expected) + 1e3
        for one, wanted in zip(found, expected, strict=True):
            check(one, wanted, dtype, terms=64, scale=size)


CHECKS = [check_norms, check_shares_and_sums, check_elements, check_losses, check_gradients]


def check_on(target, checked, layout, dtype):
    """Check with the tiles of a target."""
    device = tw.empty((1,), f32).device
    usual, device.target = device.target, target
    try:
        checked(layout, dtype)
    finally:
        device.target = usual


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1)])
@pytest.mark.parametrize("checked", CHECKS)
@pytest.mark.parametrize("target", TARGETS)
def test_heads_of_a_fused_row(target, checked, order):
    """Heads behind places, as they lie, or in front of them; no axes merge with another."""
    check_on(target, checked, ((2, 3), 3, 64, 192, 64, order), np.float16)


@pytest.mark.parametrize("checked", CHECKS)
@pytest.mark.parametrize("target", TARGETS)
@settings(max_examples=3, deadline=None)
@given(layout=layouts(), dtype=st.sampled_from(DTYPES))
def test_any_rows(checked, target, layout, dtype):
    check_on(target, checked, layout, dtype)


# --- how rows are seen ----------------------------------------------------------------------------


def test_axes_merge_where_every_tensor_allows_it():
    fused = tw.zeros((2 * 3, 640), f16)[:, 128:384].reshape(2, 3, 2, 128)
    rows, target = rows_together("f", x=fused, out=tw.zeros((2, 3, 2, 128), f16))
    assert (rows.shape, target.shape) == ((1, 2, 6, 128), (1, 2, 6, 128))
    assert rows.strides[1:] == (128, 640, 1)
    [dense] = rows_together("f", x=tw.zeros((2, 3, 4), f16))
    assert dense.shape == (6, 4)


def test_elements_are_walked_in_the_order_in_which_they_lie():
    turned = tw.zeros((6, 4), f16).T
    one, two = elements_together("f", out=turned, x=turned)
    assert (one.shape, one.strides) == ((1, 24), (24, 1))
    assert two.strides == one.strides


def test_rows_of_many_axes_are_copied_first():
    memory = normal((3, 3, 3, 3, 8), np.float32)
    view, array = tw.from_numpy(memory)[:2, :2, :2, :2, :7], memory[:2, :2, :2, :2, :7]
    check(kernels.softmax(view).sync(), reference.softmax(array), np.float32, terms=8)
    check(kernels.add(view, view).sync(), reference.add(array, array), np.float32)
    check(kernels.sum(view, -1).sync(), array.astype(float).sum(-1), np.float32, terms=8)


@pytest.mark.parametrize(
    ("width", "row", "start", "elements"),
    [(64, 64, 0, 8), (60, 60, 0, 4), (61, 61, 0, 1), (61, 64, 0, 8), (61, 64, 2, 2), (8, 9, 0, 1)],
)
def test_loads_are_as_wide_as_rows_are_aligned(width, row, start, elements):
    x = tw.meta((32, row), f16, target="sm_90")[:, start : start + width]
    assert cutting.vector_of(x) == elements


def test_tiles_cover_rows_exactly_and_the_rest_apart():
    x = tw.meta((1003, 101), f16, target="sm_90")
    config = cutting.row_config("softmax", x)
    spans = cutting.row_spans(config, x)
    assert spans[0][0]["BM"] > 1
    assert sum(rows.shape[0] for _, (rows,) in spans) == 1003
    for by, (rows,) in spans:
        assert cutting.edges_of(rows, by["BM"], by["PART"]) != 2
