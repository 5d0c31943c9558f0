"""Kernels whose check must stay, or go to the launch: never away.

What depends on memory, or on what a loop makes of it, is checked in the kernel; what the launch
knows is checked there. A check that stays stops nothing: it raises with the line, the axis, the
index, the extent and the block.
"""

import numpy as np
import pytest
from ledgers import X, line_of, outcomes, tensor

import tilewright as tw
from tilewright import Mut, Ref, i32
from tilewright.check.ledger import Rung
from tilewright.dims import B, M, N

PROVED, LAUNCH, HOISTED, IN_PLACE = Rung
TOP = 2**31 - 1


def zeros(n):
    return tw.zeros((n,), i32)


def failure(kernel, *args):
    """What a call raises when it has run."""
    with pytest.raises(tw.OutOfBoundsError) as raised:
        kernel(*args).sync()
    return raised.value


# --- what stays in the kernel ---


@tw.kernel
def device_loaded(z: Mut[i32, B], x: Ref[i32, N], ids: Ref[i32, M]) -> None:
    i = ids.partition(1)[tw.block_id(0)].item()
    z.store(x.partition(B)[i])


@tw.kernel
def reassigned(z: Mut[i32, B], x: Ref[i32, N], ids: Ref[i32, M]) -> None:
    i = tw.block_id(0)
    i = i + ids.partition(1)[0].item()
    z.store(x.partition(B)[i])


@tw.kernel
def joined_with_memory(z: Mut[i32, B], x: Ref[i32, N], ids: Ref[i32, M]) -> None:
    i = tw.block_id(0)
    if ids.partition(1)[0].item() > 0:
        i = ids.partition(1)[0].item()
    z.store(x.partition(B)[i])


@tw.kernel
def loop_carried(z: Mut[i32, B], x: Ref[i32, N], ids: Ref[i32, M]) -> None:
    i = tw.block_id(0)
    for turn in range(M):
        z.store(x.partition(B)[i])
        i = ids.partition(1)[turn].item()


@tw.kernel
def counter_replaced(z: Mut[i32, B], x: Ref[i32, N], ids: Ref[i32, M]) -> None:
    xs = x.partition(B)
    for i in range(xs.num_tiles(0)):
        i += ids.partition(1)[0].item()
        z.store(xs[i])


@tw.kernel
def wrap_tainted(z: Mut[i32, B], x: Ref[i32, N], ids: Ref[i32, M]) -> None:
    i = ids.partition(1)[0].item()
    if i >= 0:
        z.store(x.partition(B)[i * 65536 * 65536 + i])


@tw.kernel
def stored_part(z: Mut[i32, B], ids: Ref[i32, M]) -> None:
    parts = z.partition(2)
    parts.store(tw.ones((2,), i32), ids.partition(1)[0].item())


KEPT = [
    # kernel, the reading line, ids that are fine, ids that are not, index, block, where it stays
    (device_loaded, "[i])", [0, 1, 2, 3], [0, 1, 9, 3], 9, (2,), HOISTED),
    (device_loaded, "[i])", [0, 0, 0, 0], [-1, 0, 0, 0], -1, (0,), HOISTED),
    (reassigned, "[i])", [0], [TOP], TOP, (0,), HOISTED),
    (joined_with_memory, "[i])", [3], [4], 4, (0,), HOISTED),
    (loop_carried, "[i])", [1, 3, 9], [1, 4, 0], 4, (0,), IN_PLACE),
    (counter_replaced, "xs[i]", [0], [3], 4, (0,), IN_PLACE),
    (wrap_tainted, "65536", [3], [4], 4, (0,), HOISTED),
]


@pytest.mark.parametrize(("kernel", "text", "good", "bad", "index", "block", "kept"), KEPT)
def test_a_check_that_memory_decides_stays(kernel, text, good, bad, index, block, kept):
    x = tensor(X[:16])
    blocks = len(good) if kernel is device_loaded else 1
    call = zeros(4 * blocks).partition(4), x, tensor(good)
    kernel(*call).sync()
    assert kept in outcomes(kernel, *call, subject="x")
    raised = failure(kernel, zeros(4 * blocks).partition(4), x, tensor(bad))
    assert (raised.line, raised.axis) == (line_of(kernel, text), 0)
    assert (raised.index, raised.extent, raised.block) == (index, 4, block)
    assert f":{raised.line}:" in str(raised)


def test_a_store_by_a_wrong_index_is_left_out():
    z = zeros(8)
    stored_part(z.partition(4), tensor([1])).sync()
    assert z.numpy().tolist() == [0, 0, 1, 1] * 2
    raised = failure(stored_part, zeros(8).partition(4), tensor([2]))
    assert (raised.index, raised.extent, raised.axis) == (2, 2, 0)
    assert raised.line == line_of(stored_part, "parts.store")


# --- what the launch knows ---


@tw.kernel(deny_checks=True)
def runtime_scalar(z: Mut[i32, B], x: Ref[i32, N], n: i32) -> None:
    z.store(x.partition(B)[n])


@tw.kernel(deny_checks=True)
def twice_and_one(z: Mut[i32, B], x: Ref[i32, N], n: i32) -> None:
    xs = x.partition(B)
    for j in range(n):
        z.store(xs[2 * j + 1])


@tw.kernel(deny_checks=True)
def twice_the_block(z: Mut[i32, B], x: Ref[i32, N]) -> None:
    z.store(x.partition(B)[tw.block_id(0) * 2])


@tw.kernel(deny_checks=True)
def wrapping_product(z: Mut[i32, B], x: Ref[i32, N], n: i32) -> None:
    z.store(x.partition(B)[n * n % 4])


@tw.kernel(deny_checks=True)
def grouped(z: Mut[i32, B], x: Ref[i32, N], group: i32) -> None:
    z.store(x.partition(B)[tw.block_id(0) // group])


@tw.kernel
def joined_block_id(z: Mut[i32, B], x: Ref[i32, N], n: i32) -> None:
    i = tw.block_id(0)
    if n > 2:
        i = n
    z.store(x.partition(B)[i])


@tw.kernel
def under_an_if(z: Mut[i32, B], x: Ref[i32, N], ids: Ref[i32, M], n: i32) -> None:
    t = tw.zeros((B,), i32)
    if ids.partition(1)[0].item() > 0:
        t = x.partition(B)[n]
    z.store(t)


AT_LAUNCH = [
    # kernel, tiles of the output, arguments that are fine, arguments that are not, what is said
    (runtime_scalar, 1, (3,), (4,), "index 4"),
    (runtime_scalar, 1, (0,), (-1,), "index -1"),
    (twice_and_one, 1, (2,), (3,), "goes from 1 to 5"),
    (twice_and_one, 1, (-5,), (9,), "goes from 1 to 17"),
    (wrapping_product, 1, (46341,), None, ""),
    (grouped, 8, (2,), (1,), "goes from 0 to 7"),
    (grouped, 8, (100,), (0,), "the divisor `group` is zero"),
    (grouped, 8, (TOP,), (-1,), "goes from -7 to 0"),
]


@pytest.mark.parametrize(("kernel", "tiles", "good", "bad", "said"), AT_LAUNCH)
def test_a_check_that_the_launch_can_make_is_made_there(kernel, tiles, good, bad, said):
    z, x = zeros(4 * tiles), tensor(X[:16])
    kernel(z.partition(4), x, *good).sync()
    assert not any(outcome.is_in_kernel for outcome in outcomes(kernel, z.partition(4), x, *good))
    if bad is not None:
        with pytest.raises(tw.LaunchError, match=said):
            kernel(z.partition(4), x, *bad)


def test_the_grid_decides_about_twice_a_block_id():
    twice_the_block(zeros(8).partition(4), tensor(X[:16])).sync()
    with pytest.raises(tw.LaunchError, match="goes from 0 to 4"):
        twice_the_block(zeros(12).partition(4), tensor(X[:16]))


def test_a_joined_block_id_is_compared_as_a_whole_or_in_the_kernel():
    x = tensor(X[:16])
    for n in (0, 3, -7):
        joined_block_id(zeros(16).partition(4), x, n).sync()
    raised = failure(joined_block_id, zeros(16).partition(4), x, 4)
    assert (raised.index, raised.extent) == (4, 4)


def test_an_access_under_an_if_constrains_no_launch_that_does_not_reach_it():
    z, x = zeros(4), tensor(X[:16])
    under_an_if(z.partition(4), x, tensor([1]), 3).sync()
    assert z.numpy().tolist() == [12, 13, 14, 15]
    under_an_if(z.partition(4), x, tensor([0]), 99).sync()
    assert z.numpy().tolist() == [0] * 4
    raised = failure(under_an_if, z.partition(4), x, tensor([1]), 99)
    assert (raised.line, raised.index, raised.extent) == (line_of(under_an_if, "[n]"), 99, 4)


@tw.kernel(deny_checks=True)
def grid_stride(z: Mut[i32, B], x: Ref[i32, N]) -> None:
    xs = x.partition(B)
    total = tw.zeros((B,), i32)
    for i in range(tw.block_id(0), xs.num_tiles(0), tw.num_blocks(0)):
        total += xs[i]
    z.store(total)


@tw.kernel(deny_checks=True)
def strided(z: Mut[i32, B], x: Ref[i32, N], first: i32, step: i32) -> None:
    xs = x.partition(B)
    total = tw.zeros((B,), i32)
    for i in range(first, xs.num_tiles(0), step):
        total += xs[i]
    z.store(total)


@tw.kernel
def stepping(z: Mut[i32, B], x: Ref[i32, N], ids: Ref[i32, M]) -> None:
    xs = x.partition(B)
    for i in range(0, xs.num_tiles(0), max(ids.partition(1)[0].item(), 1)):
        z.store(z.load() + xs[i])


def test_a_walk_from_the_block_id_in_steps_of_the_grid_needs_no_check():
    for tiles in (1, 3, 16):
        z = zeros(4 * tiles)
        grid_stride(z.partition(4), tensor(X)).sync()
        rows = X.reshape(16, 4)
        wanted = [rows[b::tiles].sum(0).tolist() for b in range(tiles)]
        assert z.numpy().reshape(tiles, 4).tolist() == wanted
    # More blocks than tiles: the loops of those beyond the end do not run.
    z = zeros(80)
    grid_stride(z.partition(4), tensor(X)).sync()
    assert z.numpy().tolist() == [*range(64), *([0] * 16)]


@pytest.mark.parametrize(("first", "step"), [(0, 1), (1, 3), (3, 100), (0, TOP), (15, TOP)])
def test_a_step_that_the_launch_knows_is_checked_there(first, step):
    z = zeros(4)
    strided(z.partition(4), tensor(X), first, step).sync()
    assert z.numpy().tolist() == X.reshape(16, 4)[first::step].sum(0).tolist()
    for wrong in (0, -1, -TOP - 1):
        with pytest.raises(tw.LaunchError, match="not above zero"):
            strided(z.partition(4), tensor(X), first, wrong)
    with pytest.raises(tw.LaunchError, match="`x`, axis 0"):
        strided(z.partition(4), tensor(X), -1, step)


@pytest.mark.parametrize("step", [-5, 0, 1, 2, 7, TOP])
def test_a_step_may_be_brought_above_zero(step):
    z = zeros(4)
    stepping(z.partition(4), tensor(X), tensor([step])).sync()
    assert z.numpy().tolist() == X.reshape(16, 4)[:: max(step, 1)].sum(0).tolist()
    assert outcomes(stepping, z.partition(4), tensor(X), tensor([step]), subject="x") == [PROVED]


def test_no_proof_survives_a_wrap():
    """The product is taken as the machine has it, in the launch check and in the kernel."""
    for n in (46341, 65536, TOP, -TOP - 1):
        z = zeros(4)
        wrapping_product(z.partition(4), tensor(X[:16]), n).sync()
        with np.errstate(over="ignore"):
            square = int(np.int32(n) * np.int32(n))
        assert z.numpy().tolist() == X[:16].reshape(4, 4)[square % 4].tolist()
