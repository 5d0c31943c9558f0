"""`range` with a step that is known when the kernel is launched, or when it runs."""

import numpy as np
import pytest

import tilewright as tw
from tilewright import Mut, Ref, i32
from tilewright.dims import B, N

TOP = 2**31 - 1


@tw.kernel(deny_checks=True)
def total(z: Mut[i32, B], start: i32, stop: i32, step: i32) -> None:
    found, turns = 0, 0
    for i in range(start, stop, step):
        found += i
        turns += 1
    z.store(tw.where(tw.arange(B) == 0, found, turns))


def run(*bounds):
    z = tw.zeros((2,), i32)
    total(z.partition(2), *bounds).sync()
    return z.numpy().tolist()


@pytest.mark.parametrize("step", [1, 2, 3, 7, 100, TOP])
@pytest.mark.parametrize(
    "ends", [(0, 10), (0, 0), (5, -5), (-7, 8), (TOP - 3, TOP), (-TOP - 1, -TOP)]
)
def test_a_scalar_as_step(ends, step):
    numbers = range(*ends, step)
    with np.errstate(over="ignore"):
        wrapped = int(np.array(numbers, np.int64).sum().astype(np.int32))
    assert run(*ends, step) == [wrapped, len(numbers)]


@pytest.mark.parametrize("step", [0, -1, -TOP - 1])
def test_a_launch_with_another_step_is_refused(step):
    with pytest.raises(
        tw.LaunchError, match=rf"step of `range`, `step`, is {step}, not above zero"
    ):
        run(0, 10, step)


@tw.kernel(deny_checks=True)
def strided(z: Mut[i32, B], x: Ref[i32, N]) -> None:
    xs = x.partition(B)
    found = tw.zeros((B,), i32)
    for i in range(tw.block_id(), xs.num_tiles(0), tw.num_blocks()):
        found += xs[i]
    z.store(found)


@pytest.mark.parametrize(("blocks", "tiles"), [(1, 5), (3, 7), (4, 2), (5, 5), (2, 0)])
def test_every_so_many_tiles_needs_no_check(blocks, tiles):
    x = np.arange(4 * tiles, dtype=np.int32)
    z = tw.zeros((4 * blocks,), i32)
    strided(z.partition(4), tw.from_numpy(x)).sync()
    rows = x.reshape(tiles, 4)
    wanted = [rows[block::blocks].sum(0) for block in range(blocks)]
    assert z.numpy().tolist() == np.concatenate(wanted).tolist()


@tw.kernel(deny_checks=True)
def guarded(z: Mut[i32, B], steps: Ref[i32, N]) -> None:
    step = steps.partition(1)[0].item()
    turns = -1
    if step > 0:
        turns = 0
        for _ in range(0, 10, step):
            turns += 1
    for _ in range(0, 10, max(step, 1)):
        turns += 100
    z.store(tw.full((B,), turns, i32))


@pytest.mark.parametrize(("step", "turns"), [(3, 404), (20, 101), (0, 999), (-5, 999)])
def test_a_guard_or_a_maximum_proves_it(step, turns):
    z = tw.zeros((1,), i32)
    guarded(z.partition(1), tw.from_numpy(np.array([step], np.int32))).sync()
    assert z.numpy().tolist() == [turns]


@tw.kernel(deny_checks=True)
def unless(z: Mut[i32, B], step: i32, wanted: i32) -> None:
    turns = 0
    if wanted > 0:
        for _ in range(0, 10, step):
            turns += 1
    z.store(tw.full((B,), turns, i32))


def test_a_loop_that_is_not_reached_asks_nothing_of_a_launch():
    z = tw.zeros((1,), i32)
    unless(z.partition(1), 0, 0).sync()
    unless(z.partition(1), 5, 1).sync()
    assert z.numpy().tolist() == [2]
    with pytest.raises(tw.LaunchError, match=r"step of `range`, `step`, is 0, not above zero"):
        unless(z.partition(1), 0, 1)
