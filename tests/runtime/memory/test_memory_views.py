"""Views: slices, permutations, reshapes and reinterpretations as in NumPy, on one storage."""

from __future__ import annotations

import numpy as np
import pytest
import runtime_names as tw
from hypothesis import given, settings
from hypothesis import strategies as st
from runtime_doubles import put

from tilewright.dtypes import bool_, f16, f32, f64, i8, i32, i64, u8, u32
from tilewright.errors import BorrowError, LaunchError

pytestmark = pytest.mark.usefixtures("device")

bounds = st.none() | st.integers(-6, 6)
steps = st.none() | st.integers(1, 4)


@st.composite
def indices(draw, shape):
    """An index expression for an array of this shape."""
    entries = []
    for extent in shape[: draw(st.integers(0, len(shape)))]:
        if extent and draw(st.booleans()):
            entries.append(draw(st.integers(-extent, extent - 1)))
        else:
            entries.append(slice(draw(bounds), draw(bounds), draw(steps)))
    for _ in range(draw(st.integers(0, 2))):
        entries.insert(draw(st.integers(0, len(entries))), None)
    return (*entries, ...) if draw(st.booleans()) else tuple(entries)


def transform(data, values, tensor):
    """Both through the same view."""
    how = data.draw(st.sampled_from(["index", "permute", "T", "squeeze", "unsqueeze", "reshape"]))
    if how == "index":
        at = data.draw(indices(values.shape))
        return values[at], tensor[at]
    if how == "permute":
        axes = data.draw(st.permutations(range(values.ndim)))
        return values.transpose(axes), tensor.permute(*axes)
    if how == "T":
        return values.T, tensor.T
    if how == "squeeze":
        return values.squeeze(), tensor.squeeze()
    if how == "unsqueeze":
        axis = data.draw(st.integers(-values.ndim - 1, values.ndim))
        return np.expand_dims(values, axis), tensor.unsqueeze(axis)
    divisors = [n for n in range(1, 13) if values.size and values.size % n == 0]
    shape = data.draw(st.sampled_from([(-1,), *((n, -1) for n in divisors), (-1, 1, 2)]))
    if values.size % max(-np.prod(shape), 1) or not values.size:
        return values, tensor
    try:
        found = tensor.reshape(shape)
    except LaunchError:
        # NumPy has no view of that shape either.
        assert not np.shares_memory(values.reshape(shape), values)
        return values, tensor
    return values.reshape(shape), found


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_views_are_numpys(data):
    values = np.arange(60, dtype=np.int32).reshape(3, 4, 5)
    tensor = tw.from_numpy(values, device="cpu")
    for _ in range(4):
        values, tensor = transform(data, values, tensor)
        assert tensor.shape == values.shape
    assert tensor.numpy().tolist() == values.tolist()
    assert tensor.numpy().flags.c_contiguous


class TestIndices:
    @pytest.mark.parametrize(
        ("index", "error", "message"),
        [
            (5, IndexError, "index 5 is outside axis 0, which has 3"),
            ((0, -5), IndexError, "index -5 is outside axis 1, which has 4"),
            ((0, 0, 0), IndexError, "3 indices for a tensor of rank 2"),
            ((..., 0, ...), IndexError, r"has `\.\.\.` once"),
            (slice(None, None, -1), IndexError, "sliced forwards, not with step -1"),
            ("a", TypeError, "slices and integers, not str"),
            (1.0, TypeError, "slices and integers, not float"),
            (True, TypeError, "not by truth values"),
            ([0, 1], TypeError, "not list: a kernel can gather"),
        ],
    )
    def test_refused(self, index, error, message):
        with pytest.raises(error, match=message):
            tw.zeros((3, 4))[index]

    def test_dots_stand_for_what_is_not_named(self):
        values = np.arange(24).reshape(2, 3, 4)
        z = tw.from_numpy(values)
        for at in ((..., 1), (0, ..., 1), (..., slice(1, 3)), (0, 1, ..., 2), (..., None), (...,)):
            assert z[at].numpy().tolist() == values[at].tolist()

    def test_a_step_of_zero_is_refused(self):
        with pytest.raises(ValueError, match="zero"):
            tw.zeros(3)[::0]


class TestReshape:
    def test_reshape(self):
        z = tw.from_numpy(np.arange(12))
        assert z.reshape(3, 4).numpy().tolist() == np.arange(12).reshape(3, 4).tolist()
        assert z.reshape((2, -1)).shape == z.view([2, 6]).shape == (2, 6)
        assert z[4:8].reshape(2, 2).numpy().tolist() == [[4, 5], [6, 7]]
        with pytest.raises(LaunchError, match=r"one extent of a shape may be -1, and \(-1, -1\)"):
            z.reshape(-1, -1)
        with pytest.raises(LaunchError, match=r"12 elements of shape \(12,\) do not fit \(5, 2\)"):
            z.reshape(5, 2)
        with pytest.raises(LaunchError, match=r"not f32: `\.reinterpret\(…\)` reads the same byte"):
            z.view(f32)
        for bad in ((-1, -1), (5, -1), (1.5, 8), (-3, -4)):
            with pytest.raises(LaunchError):
                z.reshape(bad)

    def test_even_strides_are_reshaped_without_a_copy(self):
        values = np.arange(48).reshape(4, 12)
        z = tw.from_numpy(values)
        for view in (z[:, 3:9].reshape(2, 2, 3, 2), z[::2].reshape(2, 3, 4), z[:, 2].view(2, 1, 2)):
            assert view.storage is z.storage
        assert z[:, 3:9].reshape(4, 2, 3).numpy().tolist() == (
            values[:, 3:9].reshape(4, 2, 3).tolist()
        )

    def test_views_with_gaps_are_not_reshaped(self):
        z = tw.zeros((4, 4))
        assert not z[:, :2].is_contiguous
        assert z[1:3].is_contiguous
        with pytest.raises(LaunchError, match=r"has gaps.*copy the .*`\.clone\(\)\.reshape\(\(8,"):
            z[:, :2].reshape(8)
        with pytest.raises(LaunchError, match="has gaps, or an order"):
            z.T.reshape(16)

    def test_more_elements_than_an_axis_can_have(self):
        with pytest.raises(LaunchError, match="at most 2147483647: split it"):
            tw.zeros((2**16, 2**16)).reshape(-1)


class TestAxes:
    def test_permute(self):
        z = tw.zeros((2, 3, 4))
        assert z.permute(2, 0, 1).shape == z.permute((-1, 0, 1)).shape == (4, 2, 3)
        assert z.permute(1, 2, 0).strides == (4, 1, 12)
        assert tw.zeros(()).T.shape == tw.zeros(()).permute().shape == ()

    @pytest.mark.parametrize("axes", [(0, 1), (0, 0, 1), (0, 1, 2, 2)])
    def test_refused_permutations(self, axes):
        with pytest.raises(LaunchError, match="must name each axis of a tensor of rank 3 once"):
            tw.zeros((2, 3, 4)).permute(*axes)

    def test_squeeze_and_unsqueeze(self):
        z = tw.zeros((1, 3, 1))
        assert z.squeeze().shape == (3,)
        assert z.squeeze(-1).shape == (1, 3)
        assert z.squeeze().unsqueeze(1).unsqueeze(-1).shape == (3, 1, 1)
        with pytest.raises(
            LaunchError, match=r"axis 1 of .* has 3 elements: only an axis with one"
        ):
            z.squeeze(1)
        for call in (z.squeeze, z.unsqueeze):
            with pytest.raises(LaunchError, match="there is no axis 7"):
                call(7)
        with pytest.raises(LaunchError, match="an axis is an integer, not 'a'"):
            z.permute("a", 0, 1)


class TestReinterpret:
    @pytest.mark.parametrize(
        ("given_", "dtype", "shape"),
        [
            ((4, 6), u8, (4, 24)),
            ((4, 6), i64, (4, 3)),
            ((4, 6), u32, (4, 6)),
            ((0, 6), f64, (0, 3)),
        ],
    )
    def test_the_last_axis_changes(self, given_, dtype, shape):
        values = np.arange(np.prod(given_), dtype=np.float32).reshape(given_)
        view = tw.from_numpy(values).reinterpret(dtype)
        assert (view.shape, view.dtype) == (shape, dtype)
        assert view.numpy().tobytes() == values.tobytes()

    def test_other_shapes(self):
        z = tw.from_numpy(np.arange(24, dtype=np.int32).reshape(4, 6))
        assert z.reinterpret(i64, 12).shape == (12,)
        assert z.reinterpret(f16, (2, 4, 6)).shape == (2, 4, 6)
        assert z[1:3].reinterpret(u8, (2, 24)).numpy()[0, 0] == 6
        assert z.T.reinterpret(f32).strides == z.T.strides
        assert tw.zeros((), f64).reinterpret(f32, 2).shape == (2,)

    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda z: z[:, 1:].reinterpret(u8), "has gaps, and bytes are regrouped"),
            (lambda z: z.T.reinterpret(u8), "has gaps"),
            (lambda z: z.reshape(24)[1:23].reinterpret(f64), "at byte 4 .*begin the slice"),
            (lambda z: z.reshape(8, 3).reinterpret(f64), r"cannot be cut.*give the shape"),
            (lambda z: z.reinterpret(f64, (4, 4)), "are 96 bytes, and shape .* has 128"),
            (lambda z: z.reinterpret(f64, (-1,)), "negative"),
            (lambda z: z.reinterpret(bool_), r"convert, `\.astype\(bool_\)`"),
            (lambda z: z.reinterpret(bool), "is no dtype"),
            (lambda z: tw.zeros(4, bool_).reinterpret(u8), "a byte that is 0 or 1"),
            (lambda z: tw.zeros((), f64).reinterpret(f32), "give the shape"),
        ],
    )
    def test_refused(self, make, message):
        with pytest.raises(LaunchError, match=message):
            make(tw.zeros((4, 6), i32))


def marks_of(data, values, tensor):
    """A view of both, after up to three steps; NumPy's marks say which elements it has."""
    for _ in range(data.draw(st.integers(1, 3))):
        values, tensor = transform(data, values, tensor)
    return set(values.flat), tensor


class TestRegions:
    @settings(max_examples=300, deadline=None)
    @given(data=st.data())
    def test_overlap_never_misses(self, data):
        marks = np.arange(4 * 6 * 2).reshape(4, 6, 2)
        root = tw.zeros((4, 6, 2), i32, device="cpu")
        one, first = marks_of(data, marks, root)
        other, second = marks_of(data, marks, root)
        if one & other:
            assert first.region.overlaps(second.region)
        if first.region.covers(second.region):
            assert other <= one
        assert first.region.covers(first.reshape(first.shape).region)

    @settings(max_examples=150, deadline=None)
    @given(data=st.data())
    def test_boxes_of_one_index_space_are_compared_exactly(self, data):
        marks = np.arange(4 * 6 * 2).reshape(4, 6, 2)
        roots = [tw.zeros((4, 6, 2), i32, device="cpu")]
        roots.append(roots[0].reshape(48).reshape(4, 6, 2))
        boxes = []
        for root in roots:
            at = tuple(
                slice(*sorted(data.draw(st.tuples(st.integers(0, n), st.integers(0, n)))))
                for n in marks.shape
            )
            boxes.append((set(marks[at].flat), root[at]))
        (one, first), (other, second) = boxes
        assert bool(one & other) == first.region.overlaps(second.region)
        assert (other <= one) == first.region.covers(second.region)

    @pytest.mark.parametrize(
        ("left", "right"),
        [
            (lambda z: z[:, :3], lambda z: z[:, 3:]),
            (lambda z: z[::2], lambda z: z[1::2]),
            (lambda z: z[:, ::3], lambda z: z[:, 1::3]),
            (lambda z: z.T[:2], lambda z: z.T[2:]),
            (lambda z: z[:2, :3], lambda z: z.reshape(24)[12:]),
            (lambda z: z.reshape(8, 3)[::2], lambda z: z[:, 3:]),
            (lambda z: z.reshape(2, 2, 6)[:, 0], lambda z: z.reshape(2, 12)[:, 6:]),
            (lambda z: z.reinterpret(u8)[:, :12], lambda z: z[:, 3:].permute(1, 0)),
            (lambda z: z.reinterpret(f16)[:, ::2], lambda z: z.reinterpret(f16)[:, 1::2]),
        ],
    )
    def test_parts_of_one_tensor_are_written_at_the_same_time(self, left, right):
        z = tw.zeros((4, 6), f32)
        built = [put(left(z), 1), put(right(z), 2)]
        for operation in built:
            operation.sync()
        assert (left(z).numpy() == 1).all()
        assert (right(z).numpy() == 2).all()

    @pytest.mark.parametrize(
        ("left", "right"),
        [
            (lambda z: z[:, :4], lambda z: z[:, 3:]),
            (lambda z: z[::2], lambda z: z[::3]),
            (lambda z: z.T, lambda z: z[3:, 5:]),
            (lambda z: z.reinterpret(u8), lambda z: z[1]),
            (lambda z: z.reinterpret(i8)[:, 3::4], lambda z: z[2:, ::2]),
        ],
    )
    def test_parts_that_meet_are_not(self, left, right):
        z = tw.zeros((4, 6), f32)
        first = put(left(z), 1)
        with pytest.raises(BorrowError, match="holds z for writing"):
            put(right(z), 2)
        first.close()
