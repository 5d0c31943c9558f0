"""What must be refused when a kernel is launched, before anything runs, also the second time."""

import numpy as np
import pytest
from ledgers import X, tensor

import tilewright as tw
from tilewright import Mapped, Mut, Ref, f32, i32
from tilewright.dims import BM, BN, B, K, M, N


@tw.kernel
def copy(z: Mut[i32, B], x: Ref[i32, N]) -> None:
    z.store(x.load_like(z))


@tw.kernel
def copy_tiles(z: Mut[i32, BM, BN], x: Ref[i32, M, N]) -> None:
    z.store(x.load_like(z))


@tw.kernel
def tied(z: Mut[i32, B], x: Ref[i32, M, K], y: Ref[i32, K, N]) -> None:
    tw.require(K % 4 == 0)
    z.store(x.partition(1, B)[0, 0].reshape((B,)) + y.partition(1, B)[0, 0].reshape((B,)))


@tw.kernel
def by_block(z: Mut[i32, B], x: Ref[i32, N]) -> None:
    z.store(x.partition(B)[tw.block_id(0)])


@tw.kernel
def first(z: Mut[i32, B], x: Ref[i32, N]) -> None:
    z.store(x.partition(B)[0])


@tw.kernel
def two_outputs(y: Mut[i32, B], z: Mut[i32, B]) -> None:
    y.store(tw.ones((B,), i32))
    z.store(tw.ones((B,), i32))


@tw.kernel
def two_walks(y: Mapped[i32, B], z: Mapped[i32, B]) -> None:
    for at in y.indices():
        y.store(tw.ones((B,), i32), at)
    for at in z.indices():
        z.store(tw.ones((B,), i32), at)


@tw.kernel
def shared_walk(y: Mapped[i32, B], z: Mapped[i32, B]) -> None:
    for at in y.indices_with(z):
        y.store(tw.ones((B,), i32), at)
        z.store(tw.ones((B,), i32), at)


def zeros(*shape):
    return tw.zeros(shape, i32)


def refused(match, error=tw.LaunchError):
    return pytest.raises(error, match=match)


def test_rank_shape_and_slab_mismatch():
    with refused("rank"):
        copy(zeros(8).partition(4), zeros(2, 4))
    with refused("rank"):
        copy(zeros(8, 8).partition(4, 4), zeros(8))
    with refused(r"x\.shape\[0\] == z\.shape\[0\]"):
        copy(zeros(8).partition(4), zeros(9))
    with refused("f32"):
        copy(zeros(8).partition(4), tw.zeros((8,), f32))


def test_grid_mismatch():
    two_outputs(zeros(8).partition(4), zeros(8).partition(4)).sync()
    with refused("grid"):
        two_outputs(zeros(8).partition(4), zeros(12).partition(4))


def test_mapped_with_no_block_more_than_tiles_and_an_empty_grid():
    """No block at all is refused; a number of blocks is a maximum; an empty grid runs nothing."""
    with refused("blocks must be a positive integer"):
        zeros(8).partition(4).persistent(blocks=0)
    y, z = zeros(8), zeros(8)
    cut = [t.partition(4).persistent(blocks=7) for t in (y, z)]
    two_walks(*cut).sync()
    assert z.numpy().tolist() == [1] * 8
    empty = [zeros(0).partition(4).persistent(blocks=7) for _ in range(2)]
    two_walks(*empty).sync()


def test_shared_maps_with_different_numbers_of_blocks_or_tiles():
    with refused("blocks"):
        two_walks(*(zeros(8).partition(4).persistent(blocks=n) for n in (1, 2)))
    with refused("."):
        shared_walk(*(zeros(n).partition(4).persistent(blocks=2) for n in (8, 12)))
    shared_walk(*(zeros(8).partition(4).persistent(blocks=2) for _ in range(2))).sync()


def test_declared_equality_and_divisibility_violated():
    tied(zeros(4).partition(4), zeros(3, 8), zeros(8, 5)).sync()
    with refused("K"):
        tied(zeros(4).partition(4), zeros(3, 8), zeros(12, 5))
    with refused("the kernel requires `K % 4 == 0`"):
        tied(zeros(4).partition(4), zeros(3, 6), zeros(6, 5))


def test_a_grid_that_is_too_wide_also_on_the_second_launch():
    for _ in range(2):
        by_block(zeros(16).partition(4), tensor(X[:16])).sync()
        with refused("`x`, axis 0: .*goes from 0 to 4.*the axis has 4 tiles"):
            by_block(zeros(20).partition(4), tensor(X[:16]))


def test_an_axis_of_no_extent():
    first(zeros(4).partition(4), tensor(X[:1])).sync()
    with refused("the axis is empty"):
        first(zeros(4).partition(4), tensor(X[:0]))


def test_host_aliasing():
    z = tensor(X)
    with refused("z", tw.BorrowError):
        copy(z.partition(4), z)
    with refused("z", tw.BorrowError):
        copy(z[0:32].partition(4), z[31:63])
    copy(z[0:32].partition(4), z[32:64]).sync()
    assert z.numpy().tolist() == [*range(32, 64), *range(32, 64)]
    with refused("y", tw.BorrowError):
        two_outputs(z[0:8].partition(4), z[4:12].partition(4))


def test_a_moved_tensor():
    z, x = zeros(16), tensor(X[:16])
    moved = tw.move(x)
    with refused("moved", tw.MovedError):
        copy(z.partition(4), x)
    copy(z.partition(4), moved).sync()


def test_storage_that_another_operation_holds():
    z, x = zeros(16), tensor(X[:16])
    reader = copy(z.partition(4), x)
    with refused("holds", tw.BorrowError):
        copy(x.partition(4), zeros(16))
    reader.sync()
    copy(x.partition(4), zeros(16)).sync()
    assert not np.any(x.numpy())
