"""Loops: counters that would wrap, and names that a loop changes."""

import numpy as np
import pytest
from compiled_kernels import compiled_kernels

import tilewright as tw
from tilewright import Const, Mut, Ref, f32, i32
from tilewright.dims import B, N
from tilewright.dtypes import Element
from tilewright.ir.ops.control import For

MOST, LEAST = 2**31 - 1, -(2**31)


def turns(kernel, *arguments):
    z = tw.zeros((4,), i32)
    kernel(z.partition(4), *arguments).sync()
    return int(z.numpy()[0])


def make_counting(step):
    """A kernel that counts the turns of `range(n, m, step)` and adds up its numbers."""

    @tw.kernel
    def counting(z: Mut[i32, B], n: i32, m: i32) -> None:
        count = 0
        for i in range(n, m, step):
            count += 1 + (i ^ i) + 0 * i
        z.store(tw.full((B,), count, i32))

    return counting


BOUNDS = [(0, 5), (5, 0), (LEAST, MOST), (MOST, LEAST), (MOST - 2, MOST), (LEAST + 2, LEAST),
          (-7, 7), (7, -7), (0, MOST), (0, LEAST), (MOST, -1)]  # fmt: skip


@pytest.mark.parametrize(
    "step", [2**30, 2**31 - 1, 2**31, 2**32, 2**40, -(2**30), LEAST, -(2**31) - 1, -(2**40)]
)
def test_no_step_carries_a_counter_round(step):
    """The last turn's counter plus the step, or the distance of the bounds, may not fit 32 bits."""
    kernel = make_counting(step)
    for n, m in BOUNDS:
        assert turns(kernel, n, m) == len(range(n, m, step)), (n, m)


@pytest.mark.parametrize("step", [1, 2, 3, 7, -1, -2, -3, -7])
def test_small_steps_count_like_python(step):
    kernel = make_counting(step)
    for n, m in ((0, 5), (5, 0), (-7, 7), (7, -7), (MOST - 9, MOST), (LEAST + 9, LEAST), (3, 3)):
        assert turns(kernel, n, m) == len(range(n, m, step)), (n, m)


@tw.kernel
def read_upwards(z: Mut[i32, B], x: Ref[i32, N], n: i32) -> None:
    xs = x.partition(B)
    total = tw.zeros((B,), i32)
    for i in range(0, n, 3):
        if i < xs.num_tiles(0):
            total = total + xs[i]
    z.store(total)


def test_a_guarded_index_stays_inside_however_far_the_loop_goes():
    """A counter that came round would be below zero, which the guard does not ask about."""
    x = tw.ones((16,), i32)
    for n in (0, 4, 300):
        assert turns(read_upwards, x, n) == sum(1 for i in range(0, n, 3) if i < 4)
    ((_, compiled), *_) = compiled_kernels(read_upwards)
    (loop,) = [op for op in compiled.module.functions[0].walk() if isinstance(op, For)]
    assert loop.step.type.element is Element.I64


@tw.kernel
def read_downwards(z: Mut[i32, B], x: Ref[i32, N], n: i32) -> None:
    xs = x.partition(B)
    total = tw.zeros((B,), i32)
    for i in range(n - 1, -1, -1):
        total = total * 2 + xs[i]
    z.store(total)


def test_a_loop_downwards_is_checked_at_both_ends():
    x = tw.from_numpy(np.repeat(np.arange(1, 5, dtype=np.int32), 4))
    assert turns(read_downwards, x, 4) == ((4 * 2 + 3) * 2 + 2) * 2 + 1
    for n in (5, LEAST):  # LEAST - 1 wraps: the loop would begin at the greatest number
        with pytest.raises((tw.LaunchError, tw.OutOfBoundsError)):
            turns(read_downwards, x, n)


# --- names that a loop changes ---


@tw.kernel
def other_partition(z: Mut[i32, B], x: Ref[i32, N], y: Ref[i32, N]) -> None:
    part = x.partition(B)
    total = tw.zeros((B,), i32)
    for _ in range(2):
        total = total + part[0]
        part = y.partition(B)
    z.store(total)


@tw.kernel
def other_tuple(z: Mut[i32, B]) -> None:
    pair = (1, 2)
    total = 0
    for _ in range(3):
        first, second = pair
        total += first
        pair = (second, first + second)
    z.store(tw.full((B,), total, i32))


@tw.kernel
def other_dtype(z: Mut[i32, B]) -> None:
    kind = f32
    total = tw.zeros((B,), i32)
    for _ in range(2):
        total = total + tw.full((B,), 1.5, f32).astype(kind).astype(i32)
        kind = i32
    z.store(total)


@pytest.mark.parametrize(
    ("kernel", "inputs", "want"),
    [(other_partition, (1, 5), 6), (other_tuple, (), 6), (other_dtype, (), 2)],
)
def test_what_a_loop_cannot_carry_is_not_taken_from_before_the_loop(kernel, inputs, want):
    """The second turn saw the value from before the loop; refused, or Python's meaning."""
    try:
        got = turns(kernel, *(tw.full((4,), n, i32) for n in inputs))
    except tw.CompileError:
        got = want
    assert got == want


@tw.kernel
def set_before_use(z: Mut[i32, B], x: Ref[i32, N], y: Ref[i32, N]) -> None:
    part = x.partition(B)
    total = part[0]
    for _ in range(2):
        part = y.partition(B)
        total = total + part[0]
    z.store(total)


def test_a_name_that_every_turn_sets_first_is_fine():
    assert turns(set_before_use, tw.full((4,), 1, i32), tw.full((4,), 5, i32)) == 11


COUNT = 3


@tw.kernel
def global_then_local(z: Mut[i32, B]) -> None:
    total = 0
    for _ in range(3):
        total += COUNT  # noqa: F823
        COUNT = 10  # noqa: F841
    z.store(tw.full((B,), total, i32))


def test_a_name_that_is_set_is_no_global():
    """Python raises UnboundLocalError; the first turn saw the global, and so did all others."""
    with pytest.raises(tw.CompileError, match="`COUNT` cannot be used here"):
        turns(global_then_local)


@tw.kernel
def chosen_stores(z: Mut[i32, B], c: i32, *, SIGN: Const[int] = 1) -> None:
    z.store(tw.full((B,), SIGN, i32)) if c > 0 else z.store(tw.full((B,), -SIGN, i32))
    c > 5 and z.store(z.load() * 10)
    c > -5 or z.store(z.load() * 100)


@pytest.mark.parametrize(("c", "want"), [(1, 1), (-1, -1), (6, 10), (-6, -100)])
def test_what_an_expression_does_on_one_side_is_done(c, want):
    """Both sides of `a if c else b` give nothing, and so both stores were dropped."""
    assert turns(chosen_stores, c) == want


@tw.kernel
def folded_check(z: Mut[i32, B], x: Ref[i32, N], ids: Ref[i32, N], c: i32) -> None:
    xs = x.partition(B)
    width = xs[ids.partition(1)[0].item()].shape[0] if c > 0 else 4
    z.store(tw.full((B,), width, i32))


def test_a_check_on_one_side_is_made():
    """Both sides are the same constant; the load on the way was dropped with its check."""
    x, ids = tw.ones((4,), i32), tw.full((4,), 9, i32)
    assert turns(folded_check, x, ids, 0) == 4
    with pytest.raises(tw.OutOfBoundsError, match="index 9"):
        turns(folded_check, x, ids, 1)
