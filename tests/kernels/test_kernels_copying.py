"""Copies, conversions and fills, whatever the strides."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright as tw
from tilewright import bool_, f8e8m0fnu, f16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64
from tilewright.dims import B, M, N
from tilewright.dtypes import DTYPES, IN_TILES_ONLY, numpy_dtype

IN_MEMORY = [dtype for dtype in DTYPES if dtype not in IN_TILES_ONLY]
label = lambda dtype: dtype.label  # noqa: E731


@st.composite
def views(draw):
    """A view of an array of four axes, as a function of array or tensor, and its shape."""
    at = tuple(
        slice(draw(st.integers(0, 2)), draw(st.integers(1, 5)), draw(st.integers(1, 2)))
        for _ in range(4)
    )
    axes = tuple(draw(st.permutations(range(4))))
    return lambda x: x[at].transpose(axes) if isinstance(x, np.ndarray) else x[at].permute(axes)


def numbered(dtype):
    return np.arange(5**4).reshape(5, 5, 5, 5).astype(numpy_dtype(dtype))


class TestCopy:
    @settings(max_examples=30, deadline=None)
    @given(views(), views(), st.sampled_from([u8, f16, i32, f64]))
    def test_any_strides(self, into, out_of, dtype):
        here, there = numbered(dtype), np.zeros((5,) * 4, numpy_dtype(dtype))
        src = tw.from_numpy(here, device="cpu")
        dst = tw.zeros((5,) * 4, dtype, device="cpu")
        shape = tuple(map(min, into(there).shape, out_of(here).shape))
        part = tuple(slice(extent) for extent in shape)
        into(there)[part] = out_of(here)[part]
        target = into(dst)[part]
        assert tw.copy(target, out_of(src)[part]).sync() is target
        np.testing.assert_array_equal(dst.numpy(), there)

    @pytest.mark.parametrize("dtype", IN_MEMORY, ids=label)
    def test_every_dtype_keeps_its_bits(self, dtype):
        size = numpy_dtype(dtype).itemsize
        raw = np.random.default_rng(0).integers(0, 256, 60 * size).astype(np.uint8)
        raw = raw % 2 if dtype is bool_ else raw
        values = raw.view(numpy_dtype(dtype)).reshape(3, 4, 5)
        x = tw.from_numpy(values)
        for view, wanted in ((x, values), (x.T, values.T), (x[::2, 1:], values[::2, 1:])):
            assert view.clone().numpy().tobytes() == np.ascontiguousarray(wanted).tobytes()

    def test_what_lies_in_one_piece_needs_no_kernel(self, monkeypatch):
        monkeypatch.setattr("tilewright.runtime.ops.copies._kernels", None)
        values = np.arange(24.0).reshape(4, 6)
        x, z = tw.from_numpy(values), tw.zeros((4, 6), f64)
        tw.copy(z[1:3], x[2:]).sync()
        assert z.numpy()[1:3].tolist() == values[2:].tolist()
        tw.copy(z.T, x.T).sync()
        assert z.numpy().tolist() == values.tolist()
        tw.fill(z[1:3], 7).sync()
        tw.fill(z.T[:, 3:], 8).sync()
        assert z.numpy()[1:].tolist() == [[7.0] * 6] * 2 + [[8.0] * 6]
        assert tw.copy(z[:0], x[4:]).sync().shape == (0, 6)

    @pytest.mark.parametrize("rank", [1, 2, 3, 4, 5, 6])
    def test_every_rank(self, rank):
        shape = (2, 3, 2, 4, 2, 3)[:rank]
        values = np.arange(np.prod(shape) * 2**rank).reshape([2 * n for n in shape])
        part = (slice(1, None, 2),) * rank
        x = tw.from_numpy(values)
        assert x[part].T.clone().numpy().tolist() == values[part].T.tolist()
        tw.fill(x[part], -1).sync()
        values[part] = -1
        assert x.numpy().tolist() == values.tolist()

    def test_axes_beyond_those_of_a_kernel(self):
        x = tw.from_numpy(np.arange(2**14).reshape((4,) * 7))
        even = (slice(None, None, 2),) * 7
        with pytest.raises(tw.LaunchError, match=r"7 axes that cannot .* copy it in parts"):
            x[even].clone()
        assert x[even].numpy().shape == (2,) * 7
        assert x[:, :2].clone().numpy().tolist() == x.numpy()[:, :2].tolist()

    def test_transposed_and_ragged(self):
        values = np.arange(1000 * 70).reshape(1000, 70).astype(np.float32)
        x = tw.from_numpy(values)
        np.testing.assert_array_equal(x.T.clone().numpy(), values.T)
        np.testing.assert_array_equal(x[:, 3:68].clone().numpy(), values[:, 3:68])

    def test_a_clone_is_taken_when_it_is_asked_for(self):
        x = tw.arange(100, f32)
        before = x.clone()
        strided = x[::3].clone()
        tw.fill(x, 0).submit()
        assert before.numpy().tolist() == list(range(100))
        assert strided.numpy().tolist() == list(range(0, 100, 3))
        assert before.storage is not x.storage

    @pytest.mark.parametrize(
        ("make", "error", "message"),
        [
            (lambda z: tw.copy(z[1:], z[:-1]), tw.BorrowError, "dst is written .*also read .*src"),
            (lambda z: tw.copy(z[::2], z[1::3][:4]), tw.LaunchError, r"shape \(4,\) and .*\(8,\)"),
            (lambda z: tw.copy(z[:8], z[::2]), tw.BorrowError, "slices that do not overlap"),
            (lambda z: tw.copy(z, tw.zeros(16, i32)), tw.LaunchError, r"`src\.astype\(f32\)`"),
            (lambda z: tw.copy(z, [0.0] * 16), tw.LaunchError, "list is none: `tw.from_numpy"),
            (
                lambda z: tw.copy(z, tw.zeros(16, device="cpu:1")),
                tw.LaunchError,
                "through the host",
            ),
            (lambda z: tw.fill(z, "a"), tw.LaunchError, "'a' is no f32"),
            (lambda z: tw.fill(1, 1), tw.LaunchError, "int is none"),
            (lambda z: z.astype("f32"), tw.LaunchError, "is no dtype"),
        ],
    )
    def test_refused(self, make, error, message):
        with pytest.raises(error, match=message):
            make(tw.zeros(16, f32))

    def test_halves_that_do_not_overlap_are_copied(self):
        z = tw.arange(16, f32)
        tw.copy(z[::2], z[1::2]).sync()
        assert z.numpy().tolist() == [n | 1 for n in range(16)]

    def test_overlapping_elements_are_not_written(self):
        z = tw.zeros(16, f32)
        windows = tw.Tensor(z.storage, f32, type(z.layout)((4, 4), (2, 1)))
        for build in (lambda: tw.fill(windows, 1), lambda: tw.copy(windows, tw.zeros((4, 4)))):
            with pytest.raises(tw.BorrowError, match="share memory"):
                build()
        assert windows.clone().shape == (4, 4)


class TestBorrows:
    def test_a_copy_holds_what_it_reads_and_writes(self):
        x, z = tw.zeros((4, 4)), tw.zeros((4, 4))
        for target, source in ((z, x), (z, x.T)):
            built = tw.copy(target, source)
            with pytest.raises(tw.BorrowError, match=r"copy.*, built at .*holds dst for writing"):
                z.numpy()
            with pytest.raises(tw.BorrowError, match="holds src for reading"):
                tw.fill(x[1], 1)
            assert x.clone().shape == (4, 4)
            built.close()

    def test_a_moved_tensor_is_copied_by_nobody(self):
        x = tw.zeros(4)
        y = tw.move(x)
        for use in (lambda: tw.copy(y, x), lambda: tw.fill(x, 1), lambda: x.clone()):
            with pytest.raises(tw.MovedError):
                use()

    def test_a_chain_of_copies(self):
        x, y, z = tw.arange(8, f32), tw.zeros(8), tw.zeros(8)
        chain = tw.copy(y, x).then(lambda copied: tw.copy(z[::2], copied[4:]))
        assert chain.sync().shape == (4,)
        assert z.numpy().tolist() == [4, 0, 5, 0, 6, 0, 7, 0]


@tw.kernel
def looked_up(z: tw.Mut[f32, B], x: tw.Ref[f32, N], ids: tw.Ref[i32, M]) -> None:
    z.store(x.partition(B)[ids.partition(1)[z.index[0]].item()])


def failed() -> tw.Tensor:
    z = tw.zeros(32, f32)
    with pytest.raises(tw.OutOfBoundsError):
        looked_up(z.partition(16), tw.zeros(64), tw.from_numpy(np.array([0, 77], np.int32))).sync()
    return z


class TestFailures:
    @pytest.mark.parametrize(
        "use", [lambda z: z.clone(), lambda z: z[::2].clone(), lambda z: z.astype(i8)]
    )
    def test_what_has_failed_is_not_copied(self, use):
        with pytest.raises(tw.OutOfBoundsError, match="index 77"):
            use(failed())

    @pytest.mark.parametrize(
        "write",
        [
            lambda z: tw.fill(z, 1),
            lambda z: tw.copy(z, tw.ones(32)),
            lambda z: tw.copy(z.reshape(4, 8), tw.ones((8, 4)).T),
        ],
    )
    def test_writing_all_of_it_clears_a_failure(self, write):
        z = failed()
        write(z).sync()
        assert (z[:8].numpy() == 1).all()

    def test_writing_a_part_does_not(self):
        z = failed()
        tw.fill(z[::2], 1).sync()
        with pytest.raises(tw.OutOfBoundsError, match="index 77"):
            z.numpy()


class TestConversion:
    @pytest.mark.parametrize("source", IN_MEMORY, ids=label)
    def test_every_pair(self, source):
        values = np.array([1, 2, 4, 1, 0.5, 8]).astype(numpy_dtype(source))
        x = tw.from_numpy(values)
        for dtype in IN_MEMORY:
            if dtype is f8e8m0fnu and dtype is not source:
                with pytest.raises(tw.LaunchError, match="holds powers of two, not zero"):
                    x.astype(dtype)
                continue
            found = x.astype(dtype)
            assert found.dtype is dtype
            wanted = values != 0 if dtype is bool_ else values.astype(np.float32)
            wanted = wanted.astype(numpy_dtype(dtype))
            np.testing.assert_array_equal(found.numpy(), wanted)

    def test_as_in_a_kernel(self):
        x = tw.from_numpy(np.array([300.7, -5.5, np.nan, np.inf], np.float32))
        assert x.astype(u8).numpy().tolist() == [255, 0, 0, 255]
        assert x.astype(i8).numpy().tolist() == [127, -5, 0, 127]
        assert tw.from_numpy(np.array([257, -1])).astype(u8).numpy().tolist() == [1, 255]

    @pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 0, 2), (5, 1, 3), (2,) * 6])
    def test_shapes(self, shape):
        values = np.arange(np.prod(shape, dtype=int)).reshape(shape)
        x = tw.from_numpy(values)
        for view, wanted in ((x, values), (x.T, values.T), (x[..., None], values[..., None])):
            found = view.astype(f32)
            assert found.shape == wanted.shape
            assert found.is_contiguous
            np.testing.assert_array_equal(found.numpy(), wanted.astype(np.float32))

    @settings(max_examples=15, deadline=None)
    @given(views(), st.sampled_from([(i16, f32), (f64, u16), (f32, u64), (u32, i64)]))
    def test_any_strides(self, view, pair):
        values = numbered(pair[0])
        found = view(tw.from_numpy(values, device="cpu")).astype(pair[1]).numpy()
        np.testing.assert_array_equal(found, view(values).astype(numpy_dtype(pair[1])))

    def test_the_same_dtype_is_a_copy(self):
        x = tw.arange(4)
        assert x.astype(i32).storage is not x.storage

    def test_numpy_names(self):
        assert tw.arange(4).astype(ml_dtypes.bfloat16).numpy().tolist() == [0, 1, 2, 3]
