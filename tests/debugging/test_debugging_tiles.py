"""`tw.debug`: every named tile of a block, as the kernel had it."""

import numpy as np
import pytest
from debugged_kernels import counted, nameless, row_sums, walked

import tilewright as tw
from tilewright import bf16, f32


@pytest.fixture(autouse=True)
def _on_the_cpu():
    with tw.device("cpu"):
        yield


def test_names_of_a_block_with_their_history():
    values = np.arange(8 * 24, dtype=np.float32).reshape(8, 24) % 7
    x, z = tw.from_numpy(values).astype(bf16), tw.zeros((8,), f32)
    tiles = tw.debug(row_sums, z.partition(4), x, block=1)
    assert list(tiles) == ["acc", "part"]
    assert tiles.block == (1,)
    parts = [one.value for one in tiles.history["part"]]
    assert np.array_equal(np.concatenate(parts, axis=1), values[4:])
    sums = [one.value.tolist() for one in tiles.history["acc"]]
    assert sums == [[0] * 4, *(values[4:, : 8 * n].sum(1).tolist() for n in (1, 2, 3))]
    assert np.array_equal(tiles["acc"], values[4:].sum(1))
    assert np.array_equal(z.numpy(), values.sum(1))  # the launch has run
    assert "acc: float32[4], line " in repr(tiles)
    assert "bound 4 times" in repr(tiles)


def test_other_launches_of_the_kernel_are_not_observed():
    x, z = tw.ones((8, 24), bf16), tw.zeros((8,), f32)
    tiles = tw.debug(row_sums, z.partition(4), x)
    before = len(tiles.history["acc"])
    row_sums(z.partition(4), x).sync()
    assert len(tiles.history["acc"]) == before


def test_walks_named_tuples_and_unsigned_numbers():
    values = np.array([249, 250, 251, 255], np.uint8)
    x, z = tw.from_numpy(values), tw.zeros((4,), tw.u8)
    tiles = tw.debug(walked, z.partition(4).persistent(), x)
    assert tiles["tile"].dtype == np.uint8
    assert tiles["tile"].tolist() == values.tolist()
    assert [one.tolist() for one in tiles["ends"]] == [values.tolist(), [250, 251, 252, 0]]
    assert tiles["flags"].tolist() == [False, False, True, True]


def test_a_kernel_with_a_grid_and_scalars():
    x, total = tw.from_numpy(np.arange(64, dtype=np.int32)), tw.zeros((1,), tw.i32)
    tiles = tw.debug(counted.grid(4), total, x, block=(2,))
    assert tiles["mine"] == np.arange(32, 48).sum()
    assert total.item() == 64 * 63 // 2


@pytest.mark.parametrize(
    ("kernel", "block", "words"),
    [
        (row_sums, 9, r"binds no name in block \(9,\); the last block that does is \(1,\)"),
        (nameless, (), "no block of kernel `nameless` binds a name to a tile"),
        (print, (), "tw.debug takes a kernel and its arguments, not builtin_function_or_method"),
    ],
)
def test_a_block_without_tiles_is_refused(kernel, block, words):
    shape, dtype = ((8, 24), bf16) if kernel is row_sums else ((8,), f32)
    x, z = tw.ones(shape, dtype), tw.zeros((8,), f32)
    with pytest.raises(tw.LaunchError, match=words):
        tw.debug(kernel, z.partition(4), x, block=block)


def test_tensors_elsewhere_are_refused():
    x, z = tw.meta((8,), f32, target="sm_90"), tw.meta((8,), f32, target="sm_90")
    with pytest.raises(tw.LaunchError, match=r"tw\.debug looks at blocks on the CPU"):
        tw.debug(nameless, z.partition(4), x)
