"""What cuTile Python writes since 13.3 and 13.4 runs on the CPU: views of all kinds, narrow floats,
bytes, parts of tiles, sums into views, waits between grids, early exits, assertions.
"""

import io
from collections.abc import Callable
from typing import Any

import cuda.tile as ct
import ml_dtypes
import numpy as np
import pytest
from cuda.tile.compilation import (
    ArrayConstraint,
    CallingConvention,
    KernelSignature,
    ScalarConstraint,
    export_kernel,
)

from tilewright.backends.cpu.executor import CpuKernel, compile_module
from tilewright.backends.cpu.memory import KernelMemory
from tilewright.bytecode import decode
from tilewright.errors import KernelAssertionError

ZERO = ct.PaddingMode.ZERO
DTYPES = {
    np.dtype(np.float32): ct.float32,
    np.dtype(np.int32): ct.int32,
    np.dtype(np.uint8): ct.uint8,
    np.dtype(ml_dtypes.float8_e4m3fn): ct.float8_e4m3fn,
    np.dtype(ml_dtypes.float8_e8m0fnu): ct.float8_e8m0fnu,
}


def compiled(function: Callable[..., None], *arguments: Any) -> CpuKernel:
    constraints = [
        ArrayConstraint(
            DTYPES[item.dtype],
            item.ndim,
            index_dtype=ct.int32,
            stride_lower_bound_incl=0,
            alias_groups=(),
            may_alias_internally=False,
            stride_constant=(*[None] * (item.ndim - 1), 1),
            base_addr_divisible_by=16,
        )
        if isinstance(item, np.ndarray)
        else ScalarConstraint(DTYPES[np.dtype(type(item))])
        for item in arguments
    ]
    signature = KernelSignature(tuple(constraints), CallingConvention.cutile_python_v1(), "k")
    file = io.BytesIO()
    export_kernel(
        ct.kernel(function),
        [signature],
        file,
        gpu_code="sm_100",
        output_format="tileir_bytecode",
        bytecode_version="13.4",
    )
    return compile_module(decode(file.getvalue()).module)["k"]


def run(function: Callable[..., None], grid: tuple[int, int, int], *arguments: Any) -> None:
    """Export, decode and run, and watch for races."""
    flat: list[Any] = []
    memories = []
    for item in arguments:
        if isinstance(item, np.ndarray):
            flat += [item.ctypes.data, *item.shape, *(s // item.itemsize for s in item.strides)]
            memories.append(KernelMemory.of(item))
        else:
            flat.append(item.item())
    compiled(function, *arguments).run(grid, flat, memories, race_check=True)


def numbers(*shape: int, seed: int = 0, dtype: Any = np.float32) -> Any:
    return np.random.default_rng(seed).uniform(-2, 2, shape).astype(dtype)


def windows(x, y):
    tiles = x.tiled_view((8,), padding_mode=ZERO, traversal_steps=(3,))
    for i in range(tiles.num_tiles(0)):
        ct.store(y, index=(i, 0), tile=tiles.load((i,)).reshape((1, 8)))


def test_windows_that_overlap():
    x = numbers(20)
    y = np.zeros((7, 8), np.float32)
    run(windows, (1, 1, 1), x, y)
    padded = np.concatenate((x, np.zeros(8, np.float32)))
    np.testing.assert_array_equal(y, [padded[3 * i : 3 * i + 8] for i in range(7)])


def pick_rows(x, rows, y, column):
    at = ct.load(rows, index=(ct.bid(0),), shape=(4,))
    tile = ct.load_advanced_indexing(x, (at, ct.Slice(column, 8)), padding_mode=ZERO)
    ct.store(y, index=(ct.bid(0), 0), tile=tile)


def put_rows(x, rows, y, column):
    at = ct.load(rows, index=(ct.bid(0),), shape=(4,))
    tile = ct.load(x, index=(ct.bid(0), 0), shape=(4, 8), padding_mode=ZERO)
    ct.store_advanced_indexing(y, (at, ct.Slice(column, 8)), tile)


def test_rows_picked_by_number():
    x = numbers(10, 13)
    rows = np.array([3, 3, 99, 0, 9, -1, 5, 10], np.int32)
    y = np.ones((8, 8), np.float32)
    run(pick_rows, (2, 1, 1), x, rows, y, np.int32(7))
    wanted = np.zeros((8, 8), np.float32)
    for i, row in enumerate(rows):
        if 0 <= row < 10:
            wanted[i, :6] = x[row, 7:13]
    np.testing.assert_array_equal(y, wanted)


def test_rows_put_by_number():
    x = numbers(8, 8)
    rows = np.array([3, 2, 99, 0, 9, -1, 5, 10], np.int32)
    y = np.zeros((10, 13), np.float32)
    run(put_rows, (2, 1, 1), x, rows, y, np.int32(7))
    wanted = np.zeros_like(y)
    for i, row in enumerate(rows):
        if 0 <= row < 10:
            wanted[row, 7:13] = x[i, :6]
    np.testing.assert_array_equal(y, wanted)


def sum_into(x, y):
    tile = ct.load(x, index=(ct.bid(0), 0), shape=(4, 8), padding_mode=ZERO)
    y.tiled_view((4, 8)).atomic_store_add((0, 0), tile)


def test_sums_into_a_view():
    x, y = numbers(12, 8), np.zeros((3, 7), np.float32)
    run(sum_into, (3, 1, 1), x, y)
    wanted = x.reshape(3, 4, 8).astype(np.float64).sum(0)[:3, :7]
    np.testing.assert_allclose(y, wanted, rtol=1e-5, atol=1e-6)


def turn_parts(x, y):
    tile = ct.load(x, index=(0,), shape=(8,))
    low, high = ct.extract(tile, (0,), (4,)), ct.extract(tile, (1,), (4,))
    ct.store(y, index=(0,), tile=ct.insert(ct.insert(tile, (0,), high), (1,), low))


def test_parts_of_a_tile_change_places():
    x, y = numbers(8), np.zeros(8, np.float32)
    run(turn_parts, (1, 1, 1), x, y)
    np.testing.assert_array_equal(y, np.roll(x, 4))


def scaled_product(x, sx, y, sy, z):
    acc = ct.full((16, 16), 1.0, dtype=ct.float32)
    left, right = ct.load(x, index=(0, 0), shape=(16, 64)), ct.load(y, index=(0, 0), shape=(64, 16))
    a, b = ct.load(sx, index=(0, 0), shape=(16, 2)), ct.load(sy, index=(0, 0), shape=(2, 16))
    ct.store(z, index=(0, 0), tile=ct.mma_scaled(left, a, right, b, acc))


def test_products_with_shared_scales():
    f8, e8 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e8m0fnu
    x, y = numbers(16, 64, dtype=f8), numbers(64, 16, seed=1, dtype=f8)
    rng = np.random.default_rng(2)
    sx, sy = (np.exp2(rng.integers(-3, 4, s)).astype(e8) for s in ((16, 2), (2, 16)))
    z = np.zeros((16, 16), np.float32)
    run(scaled_product, (1, 1, 1), x, sx, y, sy, z)
    wide = [n.astype(np.float64) for n in (x, y, sx, sy)]
    left, right = wide[0] * np.repeat(wide[2], 32, 1), wide[1] * np.repeat(wide[3], 32, 0)
    np.testing.assert_allclose(z, left @ right + 1, rtol=1e-6)


def from_bytes(x, y):
    pairs = ct.unpack_from_bytes(ct.load(x, index=(0,), shape=(8,)), ct.float4_e2m1fn)
    ct.store(y, index=(0,), tile=ct.astype(pairs, ct.float32))


def to_bytes(x, y):
    pairs = ct.astype(ct.load(x, index=(0,), shape=(16,)), ct.float4_e2m1fn)
    ct.store(y, index=(0,), tile=ct.pack_to_bytes(pairs))


def test_two_narrow_floats_share_a_byte():
    values = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
    data = np.arange(16, dtype=np.uint8)
    packed = data[0::2] | data[1::2] << 4
    y = np.zeros(16, np.float32)
    run(from_bytes, (1, 1, 1), packed, y)
    np.testing.assert_array_equal(y, values)
    back = np.zeros(8, np.uint8)
    run(to_bytes, (1, 1, 1), y, back)
    assert back.tolist() == packed.tolist()


def find_first(x, wanted, y):
    """Where a number first occurs in a row, found by leaving loops early."""
    row = ct.bid(0)
    ct.grid_dependency_control_wait()
    for i in range(8):
        value = ct.gather(x, (row, i))
        if value == wanted:
            ct.scatter(y, row, i)
            return
        if value < 0:
            break
    ct.grid_dependency_control_launch_dependents()
    ct.scatter(y, row, -1)


def test_blocks_that_return_early():
    x = np.array([[1, 2, 3, 4, 5, 6, 7, 8], [3, 3, 3, 3, 3, 3, 3, 3], [1, -1, 3, 3, 3, 3, 3, 3]])
    x = x.astype(np.int32)
    y = np.zeros(3, np.int32)
    run(find_first, (3, 1, 1), x, np.int32(3), y)
    assert y.tolist() == [2, 0, -1]


def insist(x, y):
    tile = ct.load(x, index=(0,), shape=(4,))
    ct.assert_(tile > 0, "all must be positive")  # noqa: PT009
    ct.store(y, index=(0,), tile=tile)


def test_an_assertion():
    x, y = np.arange(1, 5).astype(np.float32), np.zeros(4, np.float32)
    run(insist, (1, 1, 1), x, y)
    assert y.tolist() == [1, 2, 3, 4]
    x[2] = 0
    with pytest.raises(KernelAssertionError, match="all must be positive"):
        run(insist, (1, 1, 1), x, y)


def tell(x):
    tile = ct.load(x, index=(0, 0), shape=(2, 2))
    ct.printf("%5.2f|%d%%\n", tile, ct.bid(0))
    print("tile:", ct.astype(tile, ct.int32))  # noqa: T201


def test_what_is_printed(capfd):
    x = np.array([[1.25, -2], [3, 4.5]], np.float32)
    run(tell, (1, 1, 1), x)
    assert capfd.readouterr().out == (
        "[[ 1.25, -2.00], [ 3.00,  4.50]]|0%\ntile: [[1, -2], [3, 4]]\n"
    )
