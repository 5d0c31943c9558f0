"""Handles: creation, views, partitions, and what is refused before anything is allocated."""

from __future__ import annotations

import copy
import pickle

import ml_dtypes
import numpy as np
import pytest
import runtime_names as tw

from tilewright import dtypes
from tilewright.dtypes import (
    DTYPES,
    IN_TILES_ONLY,
    T,
    bf16,
    bool_,
    f32,
    i8,
    i32,
    numpy_dtype,
    u8,
)
from tilewright.errors import LaunchError

IN_MEMORY = [dtype for dtype in DTYPES if dtype not in IN_TILES_ONLY]
pytestmark = pytest.mark.usefixtures("device")


class TestCreation:
    @pytest.mark.parametrize("dtype", IN_MEMORY, ids=lambda dtype: dtype.label)
    def test_every_dtype(self, dtype):
        one = tw.ones((2, 3), dtype)
        assert (one.shape, one.strides, one.ndim, one.size) == ((2, 3), (3, 1), 2, 6)
        assert one.dtype is dtype
        values = one.numpy()
        assert values.dtype == numpy_dtype(dtype)
        assert values.astype(np.float32).tolist() == [[1.0] * 3] * 2

    @pytest.mark.parametrize("dtype", IN_MEMORY, ids=lambda dtype: dtype.label)
    def test_round_trip(self, dtype):
        values = np.array([[0.5, 1, 2], [4, 1, 0.5]]).astype(numpy_dtype(dtype))
        tensor = tw.from_numpy(values)
        assert tensor.dtype is dtype
        assert tensor.numpy().tobytes() == values.tobytes()

    def test_numpy_dtypes_are_understood(self):
        assert tw.zeros(3, np.float16).dtype is dtypes.f16
        assert tw.zeros(3, np.dtype(ml_dtypes.bfloat16)).dtype is bf16

    def test_full(self):
        assert tw.full((), 7, i32).numpy() == 7
        assert tw.full(2, -1, i8).numpy().tolist() == [-1, -1]
        assert tw.full(2, 255, u8).numpy().tolist() == [255, 255]
        assert tw.full(2, True, bool_).numpy().tolist() == [True, True]
        assert np.isnan(tw.full(1, float("nan"), f32).numpy()).all()
        assert tw.full(1, -float("inf"), bf16).numpy()[0] == -np.inf
        assert tw.full(1, 0.1, dtypes.f16).numpy()[0] == np.float16(0.1)
        assert tw.full(1, ml_dtypes.bfloat16(1.5), f32).numpy()[0] == 1.5
        assert tw.full(1, np.int64(7), i32).numpy()[0] == 7

    @pytest.mark.parametrize(
        ("value", "dtype"),
        [
            (256, u8), (1.5, i32), ("a", f32), ([1, 2], f32), (-1, u8), (None, f32), (1j, f32),
            (float("nan"), i32), (float("inf"), i32), (1e300, f32), (1e6, dtypes.f16),
            (float("inf"), dtypes.f8e4m3fn), (0, dtypes.f8e8m0fnu), (10**30, dtypes.i64),
            ("1", f32),
        ],
    )  # fmt: skip
    def test_values_that_do_not_fit(self, value, dtype):
        with pytest.raises(LaunchError, match=f"is no {dtype.label}"):
            tw.full(3, value, dtype)

    def test_non_contiguous_and_list_sources(self):
        values = np.arange(12, dtype=np.float32).reshape(3, 4)
        assert tw.from_numpy(values.T).numpy().tolist() == values.T.tolist()
        assert tw.from_numpy(values[::2, ::-1]).numpy().tolist() == values[::2, ::-1].tolist()
        assert tw.from_numpy([1.0, 2.0]).numpy().tolist() == [1.0, 2.0]
        assert tw.from_numpy(np.float32(3)).numpy() == 3

    @pytest.mark.parametrize("dtype", IN_TILES_ONLY, ids=lambda dtype: dtype.label)
    def test_dtypes_of_tiles_only(self, dtype):
        with pytest.raises(LaunchError, match=r"lives in tiles only: in memory, .* (u8|f32)"):
            tw.zeros(4, dtype)

    @pytest.mark.parametrize("dtype", [T, dtypes.DType, "f32", 3, np.complex64])
    def test_what_is_no_dtype(self, dtype):
        with pytest.raises(LaunchError, match="dtype"):
            tw.zeros(4, dtype)

    def test_arrays_without_a_dtype(self):
        with pytest.raises(LaunchError, match="no dtype for NumPy's complex128"):
            tw.from_numpy(np.zeros(3, complex))

    @pytest.mark.parametrize(
        ("shape", "message"),
        [
            ((2**31,), "at most 2147483647: split it"),
            ((4, -1), "axis 1 of shape .* negative"),
            ((2**31 - 1,) * 3, "bytes: no memory has so many"),
            ((1.5,), "a tuple of integers"),
            ("ab", "a tuple of integers"),
        ],
    )
    def test_shapes_refused_before_allocation(self, shape, message):
        with pytest.raises(LaunchError, match=message):
            tw.zeros(shape)

    def test_the_longest_axis_is_accepted_and_lazy(self):
        assert tw.zeros((2**31 - 1,)).storage.is_lazy

    @pytest.mark.parametrize("shape", [(0,), (4, 0), (0, 3, 2)])
    def test_empty(self, shape):
        for tensor in (tw.zeros(shape), tw.empty(shape), tw.from_numpy(np.zeros(shape))):
            assert tensor.numpy().shape == shape
            assert tensor.size == 0
        assert tw.zeros(shape).wait().reshape(-1, 1).shape == (0, 1)


class TestHandles:
    def test_repr(self, device):
        z = tw.zeros((2, 3))
        assert repr(z) == f"<tensor f32[2, 3] on {device.name}, no bytes yet>"
        z.numpy()
        assert repr(z) == f"<tensor f32[2, 3] on {device.name}>"

    def test_a_handle_is_no_array_and_no_truth(self):
        z = tw.zeros(3)
        with pytest.raises(TypeError, match=r"say `\.numpy\(\)`"):
            np.asarray(z)
        with pytest.raises(TypeError, match="no truth value"):
            bool(z)
        with pytest.raises(TypeError, match="rank 0"):
            len(tw.zeros(()))
        with pytest.raises(TypeError, match=r"no number: `\.item\(\)`"):
            float(z)
        with pytest.raises(TypeError, match=r"not searched on the host: `value in x\.numpy\(\)`"):
            assert 0 in z
        for duplicate in (copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="a handle is not copied"):
                duplicate(z)

    @pytest.mark.parametrize(
        "use",
        [
            lambda z: z + 1,
            lambda z: 2 * z,
            lambda z: z @ z,
            lambda z: -z,
            lambda z: z < 0,
            lambda z: np.ones(3) + z,
            lambda z: np.float32(2) / z,
            lambda z: z ** np.ones(3),
        ],
    )
    def test_there_is_no_arithmetic_on_the_host(self, use):
        with pytest.raises(TypeError, match=r"no arithmetic on the host.* write it in a kernel"):
            use(tw.zeros(3))

    def test_there_is_no_assignment_to_parts(self):
        z = tw.zeros(3)
        with pytest.raises(TypeError, match=r"`tw\.copy\(z\[…\], x\)` copies .*`tw\.fill"):
            z[0] = 1
        with pytest.raises(TypeError, match="write it in a kernel"):
            z += 1

    def test_item(self):
        assert tw.full((), 7, i32).item() == 7
        assert isinstance(tw.full((1, 1), 2.5, bf16).item(), float)
        assert tw.from_numpy(np.arange(5))[3].item() == 3
        with pytest.raises(LaunchError, match=r"for one element, and shape \(3,\) has 3"):
            tw.zeros(3).item()

    def test_iteration_gives_rows(self):
        z = tw.from_numpy(np.arange(6).reshape(3, 2))
        assert [row.numpy().tolist() for row in z] == [[0, 1], [2, 3], [4, 5]]

    def test_numpy_is_a_copy(self):
        z = tw.zeros(3)
        z.numpy()[:] = 1
        assert z.numpy().tolist() == [0, 0, 0]

    def test_alignment(self):
        z = tw.zeros(3)
        z.numpy()
        assert z.address % z.storage.alignment == 0
        assert z[1:].address == z.address + 4

    def test_devices_pickle(self):
        device = tw.Device("cpu:1")
        assert pickle.loads(pickle.dumps(device)) is device


class TestPartition:
    def test_grid(self):
        z = tw.zeros((100, 64))
        assert z.partition(32, 64).grid == (4, 1)
        assert z.partition(7, None).grid == (15, 1)
        assert z.partition(7, None).tensor is z
        assert tw.zeros((0, 4)).partition(2, 2).grid == (0, 2)
        assert tw.zeros(()).partition().grid == ()
        assert tw.zeros((3,) * 5).partition(1, 2, 3, 1, 2).grid == (3, 2, 1, 3, 2)
        assert z.partition(np.int64(50), 1).tile == (50, 1)

    @pytest.mark.parametrize(
        ("tile", "message"),
        [
            ((32,), r"has 1 extents for a tensor of rank 2, shape \(100, 64\): give one for each"),
            ((32, 0), "axis 1 of the tile must be a positive integer, not 0"),
            ((-1, 8), "axis 0 of the tile must be a positive integer, not -1"),
            ((1.5, 8), "axis 0 of the tile must be a positive integer, not 1.5"),
            ((True, 8), "axis 0 of the tile must be a positive integer, not True"),
            (
                (2**30 + 1, 2**31),
                "a tile of 2147483648 elements along axis 1 is longer than an axis can be",
            ),
        ],
    )
    def test_refused_tiles(self, tile, message):
        with pytest.raises(LaunchError, match=message):
            tw.zeros((100, 64)).partition(*tile)

    def test_persistent(self):
        cut = tw.zeros((1024, 512)).partition(128, 128)
        walk = cut.persistent(blocks=66, group=(8, 1))
        assert (walk.grid, walk.tile, walk.group) == ((8, 4), (128, 128), (8, 1))
        assert walk.tensor is cut.tensor
        assert walk.blocks(132) == 32
        assert cut.persistent(blocks=5).blocks(132) == 5
        assert cut.persistent().blocks(16) == 16
        assert cut.persistent().group is None  # left to the compiler
        assert tw.zeros((0, 4)).partition(1, 1).persistent().blocks(9) == 0

    @pytest.mark.parametrize(
        ("given_", "message"),
        [
            ({"blocks": 0}, "blocks must be a positive integer, not 0"),
            ({"group": (8,)}, "has 1 extents for a partition of 2"),
            ({"group": (8, 0)}, "group must be a positive integer, not 0"),
        ],
    )
    def test_refused_schedules(self, given_, message):
        with pytest.raises(LaunchError, match=message):
            tw.zeros((8, 8)).partition(2, 2).persistent(**given_)

    def test_repr(self, device):
        cut = tw.zeros((4,)).partition(2)
        lazy = f"<tensor f32[4] on {device.name}, no bytes yet>"
        assert repr(cut) == f"<{lazy} in tiles of (2,): grid (2,)>"
        assert "persistent" in repr(cut.persistent())
