"""Random grids: each block has its own piece of every output, and all pieces have a block."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright as tw
from tilewright import Mut, i32
from tilewright.dims import BD, BK, BM, BN, D


@tw.kernel(deny_checks=True)
def sign1(z: Mut[i32, BM], w: Mut[i32, 1]) -> None:
    z.store(z.load() + tw.block_id(0) + 1)
    w.store(w.load() + tw.num_blocks(0))


@tw.kernel(deny_checks=True)
def sign2(z: Mut[i32, BM, BN], w: Mut[i32, 1, 1]) -> None:
    z.store(z.load() + tw.block_id(0) * tw.num_blocks(1) + tw.block_id(1) + 1)
    w.store(w.load() + tw.num_blocks(0))


@tw.kernel(deny_checks=True)
def sign3(z: Mut[i32, BM, BN, BK], w: Mut[i32, 1, 1, 1]) -> None:
    number = tw.block_id(0) * tw.num_blocks(1) + tw.block_id(1)
    z.store(z.load() + number * tw.num_blocks(2) + tw.block_id(2) + 1)
    w.store(w.load() + tw.num_blocks(0))


@tw.kernel(deny_checks=True)
def sign5(z: Mut[i32, BM, BN, BK, BD, D], w: Mut[i32, 1, 1, 1, 1, 1]) -> None:
    number = tw.block_id(0) * tw.num_blocks(1) + tw.block_id(1)
    number = number * tw.num_blocks(2) + tw.block_id(2)
    number = number * tw.num_blocks(3) + tw.block_id(3)
    z.store(z.load() + number * tw.num_blocks(4) + tw.block_id(4) + 1)
    w.store(w.load() + tw.num_blocks(0))


KERNELS = {1: sign1, 2: sign2, 3: sign3, 5: sign5}


@st.composite
def cuts(draw):
    """A shape, a tile, an order of the grid, and a grid that the tiles reach at least."""
    rank = draw(st.sampled_from(sorted(KERNELS)))
    shape = tuple(draw(st.integers(1, 9 if rank < 4 else 3)) for _ in range(rank))
    tile = tuple(draw(st.sampled_from([1, 2, 4])) for _ in range(rank))
    order = tuple(draw(st.permutations(range(rank))))
    counts = tuple(-(-shape[axis] // tile[axis]) for axis in order)
    order = tuple(~axis if draw(st.booleans()) else axis for axis in order)
    grid = tuple(draw(st.integers(1, count)) for count in counts)
    return shape, tile, order, counts, grid


def signed(shape, tile, order, grid):
    """What each element should say."""
    wanted = np.zeros(shape, np.int32)
    for place in np.ndindex(shape):
        axes = (max(axis, ~axis) for axis in order)  # where blocks begin changes no place
        block = tuple(place[axis] // tile[axis] for axis in axes)
        if all(at < count for at, count in zip(block, grid, strict=True)):
            wanted[place] = np.ravel_multi_index(block, grid) + 1
    return wanted


@settings(max_examples=40)
@given(cuts())
def test_every_block_has_its_own_piece(cut):
    shape, tile, order, counts, grid = cut
    kernel, rank = KERNELS[len(shape)], len(shape)
    z, w = tw.zeros(shape, i32), tw.zeros(counts, i32)
    with tw.race_check():
        kernel(z.partition(*tile, order=order), w.partition(*(1,) * rank)).sync()
    np.testing.assert_array_equal(z.numpy(), signed(shape, tile, order, counts))
    np.testing.assert_array_equal(w.numpy(), np.full(counts, counts[0], np.int32))
    z, w = tw.zeros(shape, i32), tw.zeros(counts, i32)
    pieces = z.partition(*tile, order=order, prefix=True)
    with tw.race_check():
        kernel.grid(*grid)(pieces, w.partition(*(1,) * rank, prefix=True)).sync()
    np.testing.assert_array_equal(z.numpy(), signed(shape, tile, order, grid))
    assert w.numpy().sum() == grid[0] * np.prod(grid)
