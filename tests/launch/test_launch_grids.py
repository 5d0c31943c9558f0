"""Which partitions and grids a launch takes, and what it refuses before anything is done."""

import re
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

import tilewright as tw
from tilewright import All, Mapped, Mut, Ref, f32, i8, i32
from tilewright.backends.cuda.device import CudaBackend
from tilewright.dims import BM, BN, B, N


@tw.kernel
def fill(z: Mut[i32, B]) -> None:
    z.store(tw.full((B,), tw.block_id(0) + 1, i32))


@tw.kernel
def rows(z: Mut[i32, BM, All]) -> None:
    p = z.partition(1, 1)
    for j in range(p.num_tiles(1)):
        p.store(tw.full((1, 1), j, i32), 0, j)


@tw.kernel
def both(a: Mut[i32, BM, BN], b: Mut[i32, B]) -> None:
    a.store(tw.full((BM, BN), 1, i32))
    b.store(tw.full((B,), 1, i32))


@tw.kernel
def mixed(a: Mut[i32, B], w: Mapped[i32, B]) -> None:
    a.store(tw.full((B,), 1, i32))
    for at in w.indices():
        w.store(tw.full((B,), 1, i32), at)


@tw.kernel
def counted(w: Mapped[i32, B]) -> None:
    for at in w.indices():
        w.store(tw.full((B,), tw.num_blocks(0), i32), at)


@tw.kernel
def nothing(x: Ref[i32, N]) -> None:
    tw.require(x.shape[0] > 3)


def zeros(*shape: int) -> tw.Tensor:
    return tw.zeros(shape, i32)


def refuse(text: str):
    return pytest.raises(tw.LaunchError, match=re.escape(text))


# --- whole axes -----------------------------------------------------------------------------------


def test_a_whole_axis_is_none_to_the_host():
    with refuse(
        "`z` of kernel `rows` is cut into tiles of 8 along axis 1, which a block owns whole "
        "(tw.All): pass None there"
    ):
        rows(zeros(4, 8).partition(1, 8))
    with refuse("`z` of kernel `rows` is cut as (None, None), but the kernel takes tiles of BM"):
        rows(zeros(4, 8).partition(None, None))
    with refuse("a whole axis is tw.All in the annotation"):
        fill(zeros(8).partition(None))
    rows(zeros(4, 8).partition(1, None)).sync()


def test_an_uncut_output_names_the_cut():
    with refuse("pass z.partition(BM, None), not a tensor of i32 with shape (4, 8)"):
        rows(zeros(4, 8))


# --- orders ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [(0,), (0, 0), (1, 2), (0, 1, 2), (-1, 0), (0.5, 1)], ids=str)
def test_an_order_names_each_axis_once(order):
    with refuse(f"order={order!r} must name each axis once, 0 to 1"):
        zeros(4, 4).partition(2, 2, order=order)


@pytest.mark.parametrize("order", ["01", 1, [1, 0], (True, False)], ids=str)
def test_an_order_is_a_tuple_of_axes(order):
    with refuse(f"order={order!r} is no tuple with an axis for each axis of the grid"):
        zeros(4, 4).partition(2, 2, order=order)


def test_a_walk_has_no_prefix():
    with refuse("a walk takes all tiles, in the order that group= or order= gives"):
        zeros(8).partition(4, prefix=True).persistent()


def test_a_walk_has_an_order_or_a_group():
    cut = zeros(4, 4).partition(2, 2, order=(1, ~0))
    with refuse("order=(1, -1) and group=(2, 1) both say which tiles come first: give one"):
        cut.persistent(group=(2, 1))
    cut.persistent()


# --- one grid -------------------------------------------------------------------------------------


def test_trailing_axes_with_one_step_do_not_count():
    both(zeros(8, 2).partition(2, 2), zeros(4).partition(1)).sync()
    with refuse("`b` of kernel `both` has a grid of (4,) pieces, but `a` has (4, 2)"):
        both(zeros(8, 4).partition(2, 2), zeros(4).partition(1))
    with refuse("`b` of kernel `both` has a grid of (8,) pieces, but `a` has (4, 2)"):
        both(zeros(8, 4).partition(2, 2), zeros(8).partition(1))


def test_orders_count_when_grids_are_compared():
    with refuse("`b` of kernel `both` has a grid of (4,) pieces, but `a` has (1, 4)"):
        both(zeros(8, 2).partition(2, 2, order=(1, 0)), zeros(4).partition(1))
    both(zeros(2, 8).partition(2, 2, order=(1, 0)), zeros(4).partition(1)).sync()


def test_a_prefix_has_a_piece_for_each_block():
    a = zeros(8, 4)
    with refuse(
        "`b` of kernel `both` has a grid of (8,) pieces, but the launch has (4, 2) blocks: "
        "2 along axis 1, each of which needs a piece"
    ):
        both(a.partition(2, 2), zeros(8).partition(1, prefix=True))
    with refuse("4 along axis 0, each of which needs a piece"):
        both(a.partition(2, 4), zeros(3).partition(1, prefix=True))
    b = zeros(9)
    both(a.partition(2, 4), b.partition(1, prefix=True)).sync()
    assert b.numpy().tolist() == [1] * 4 + [0] * 5


# --- grids that the call gives --------------------------------------------------------------------


def test_without_an_exact_output_the_call_gives_the_grid():
    text = "has no output with exactly one piece for each block, which would say how many run"
    with refuse(f"kernel `fill` {text}: launch it as `fill.grid(n)(…)`"):
        fill(zeros(8).partition(4, prefix=True))
    with refuse(f"kernel `nothing` {text}"):
        nothing(zeros(8))
    nothing.grid(3, 2)(zeros(8)).sync()


def test_launch_checks_hold_for_given_grids():
    with refuse("the kernel requires `x.shape[0] > 3`"):
        nothing.grid(3)(zeros(3))


def test_a_kernel_without_tensors_runs_on_the_current_device():
    @tw.kernel
    def alone(n: i32) -> None:
        tw.require(n > 0)

    alone.grid(4)(1).sync()
    with refuse("the kernel requires `n > 0`"):
        alone.grid(4)(0)


def test_a_kernel_without_tensors_is_told_what_is_wrong_with_it():
    @tw.kernel
    def alone(n: i32) -> None:
        tw.require(n > tw.block_id(1))

    target = tw.zeros(1).device.target
    with pytest.raises(tw.CompileError, match=f"in: `alone` specialised on {target}"):
        alone.grid(4)(1)


def test_a_given_grid_is_that_of_the_outputs():
    z = zeros(8)
    with refuse("`z` of kernel `fill` has a grid of (2,) pieces, one for each block, but the call"):
        fill.grid(3)(z.partition(4))
    fill.grid(2, 1)(z.partition(4)).sync()
    assert z.numpy().tolist() == [1] * 4 + [2] * 4


@pytest.mark.parametrize("extents", [(-1,), (2.0,), ("4",), (True,), (None,), (2, -3)], ids=str)
def test_grids_are_integers(extents):
    with refuse("numbers of blocks are integers, not negative"):
        fill.grid(*extents)


def test_a_grid_has_an_axis():
    with refuse("fill.grid() needs the number of blocks along each axis"):
        fill.grid()


def test_numpy_integers_are_numbers_of_blocks():
    z = zeros(8)
    fill.grid(np.int64(2))(z.partition(4, prefix=True)).sync()
    assert z.numpy().tolist() == [1] * 4 + [2] * 4


# --- walks ----------------------------------------------------------------------------------------


def test_a_walk_has_as_many_blocks_as_run_at_once(monkeypatch):
    gpu = SimpleNamespace(driver=SimpleNamespace(multiprocessors=132))
    at_once = staticmethod(partial(CudaBackend.resident_blocks, gpu))
    monkeypatch.setattr(type(zeros(1).device.backend), "resident_blocks", at_once)
    for hints, blocks in (({}, 132), ({"num_ctas": 2}, 66), ({"occupancy": 2}, 264)):
        z = zeros(1024)
        counted.with_hints(**hints)(z.partition(2).persistent()).sync()
        assert set(z.numpy()) == {blocks}
    z = zeros(1024)
    counted.with_hints(num_ctas=2)(z.partition(2).persistent(blocks=3)).sync()
    assert set(z.numpy()) == {3}


def test_a_walk_has_the_blocks_of_the_launch():
    with refuse("is walked by at most 1 blocks, but `a` has 2 pieces, one for each block"):
        mixed(zeros(8).partition(4), zeros(12).partition(4).persistent(blocks=1))
    with refuse("is walked by at most 1 blocks, but the launch has 2 of them"):
        mixed.grid(2)(zeros(8).partition(4, prefix=True), zeros(8).partition(4).persistent(1))
    for blocks in (2, 3, None):
        w = zeros(12)
        mixed(zeros(8).partition(4), w.partition(4).persistent(blocks=blocks)).sync()
        assert w.numpy().all()


# --- limits ---------------------------------------------------------------------------------------


def test_more_blocks_than_a_launch_can_have():
    with refuse("the grid of kernel `nothing` has 4294967296 blocks, more than a launch can have"):
        nothing.grid(2**16, 2**16)(zeros(8))


def test_more_blocks_than_a_walk_can_count():
    """The number of blocks is to blame, and not the few tiles that they walk."""
    w = zeros(8).partition(2).persistent()
    with refuse(
        "the grid of kernel `counted` has 2147483648 blocks, more than a launch can have, "
        "2147483647: let each do more"
    ):
        counted.grid(2**31)(w)
    with refuse(
        "`w` of kernel `counted` is walked by 2147483647 blocks, which with its 4 tiles are more "
        "than can be counted, 2147483647: launch fewer"
    ):
        counted.grid(2**31 - 1)(w)
    counted.grid(3)(w).sync()


def test_an_empty_grid_launches_nothing_whatever_else_it_has():
    nothing.grid(0, 2**40)(zeros(8)).sync()
    nothing.grid(2**40, 0)(zeros(4)).sync()
    with refuse("the kernel requires `x.shape[0] > 3` (x.shape[0] = 3)"):  # of every launch
        nothing.grid(2**40, 0)(zeros(3))
    z = tw.zeros((0, 5), f32)

    @tw.kernel
    def empty(z: Mut[f32, BM, BN]) -> None:
        z.store(tw.ones((BM, BN), f32))

    empty(z.partition(2, 2)).sync()


def test_axes_may_be_longer_than_a_cuda_grid_is():
    @tw.kernel
    def ones(z: Mut[i8, 1, 1]) -> None:
        z.store(tw.ones((1, 1), i8))

    z = tw.zeros((1, 65537), i8)
    ones(z.partition(1, 1)).sync()
    assert z.numpy().all()


def test_a_refused_grid_allocates_nothing():
    z = zeros(8)
    for launch in (lambda: fill.grid(3)(z.partition(4)), lambda: both(z.partition(4), z)):
        with pytest.raises(tw.LaunchError):
            launch()
    assert z.storage.is_lazy


def test_a_whole_axis_leaves_room_for_the_part_at_its_end():
    @tw.kernel
    def first(z: Mut[i8, All]) -> None:
        z.partition(128).store(tw.ones((128,), i8), 0)

    with refuse("`z` of kernel `first` has extent 2147483647 along axis 0, and a tile at its end"):
        first(tw.zeros((2**31 - 1,), i8).partition(None))
