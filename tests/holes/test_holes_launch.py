"""Launch checks: none can be gone round by a kernel that is compiled already."""

import math
from typing import Literal

import numpy as np
import pytest
from compiled_kernels import compiled_kernels

import tilewright as tw
from tilewright import Const, Mut, Ref, f32, i8, i32
from tilewright.dims import BM, BN, B, K, M, N, T


def outcome(launch):
    """`ran`, or the kind of refusal."""
    try:
        launch().sync()
    except tw.TilewrightError as error:
        return type(error).__name__
    return "ran"


@tw.kernel
def row_sums(z: Mut[f32, BM], x: Ref[f32, M, N]) -> None:
    xs = x.partition(BM, 4)
    total = tw.zeros((BM, 4), f32)
    for k in range(xs.num_tiles(1)):
        total = total + xs[z.index[0], k]
    z.store(tw.sum(total, axis=1))


def test_a_cached_kernel_is_checked_with_the_extents_of_each_launch():
    for rows, columns, length, want in (
        (16, 16, 16, "ran"), (8, 16, 16, "LaunchError"), (16, 16, 32, "LaunchError"),
        (16, 0, 16, "ran"), (0, 16, 16, "LaunchError"), (0, 0, 0, "ran"), (13, 16, 16, "ran"),
        (32, 32, 16, "ran"),
    ):  # fmt: skip
        x, z = tw.ones((rows, columns), f32), tw.zeros((length,), f32)
        got = outcome(lambda x=x, z=z: row_sums(z.partition(4), x))
        assert got == want, (rows, columns, length)
    assert len(row_sums._compiled) < 8, "extents are no part of a specialisation"


@tw.kernel
def fixed(z: Mut[f32, B], x: Ref[f32, Literal[16]], y: Ref[f32, N], w: Ref[f32, N]) -> None:
    z.store(x.partition(B)[3] + y.partition(B)[0] + w.partition(B)[0])


def test_extents_that_the_signature_fixes_or_ties_are_checked_every_time():
    z = tw.zeros((4,), f32)

    def launch(n, first, second):
        sizes = (tw.ones((extent,), f32) for extent in (n, first, second))
        return lambda: fixed(z.partition(4), *sizes)

    assert outcome(launch(16, 8, 8)) == "ran"
    for extents in ((12, 8, 8), (20, 8, 8), (16, 8, 12), (16, 0, 0), (0, 8, 8)):
        assert outcome(launch(*extents)) == "LaunchError", extents


@tw.kernel
def empty_by_signature(
    z: Mut[f32, B], x: Ref[f32, Literal[0]], y: Ref[f32, K], *, K: Const[int]
) -> None:
    total = tw.full((B,), x.shape[0] + y.shape[0], i32).astype(f32)
    xs, ys = x.partition(B), y.partition(B)
    for i in range(xs.num_tiles(0)):
        total = total + xs[i]
    for i in range(ys.num_tiles(0)):
        total = total + ys[i]
    z.store(total)


def test_an_axis_may_be_empty_by_its_type():
    z, x = tw.ones((4,), f32), tw.zeros((0,), f32)
    for extent, want in ((0, 0.0), (4, 5.0)):
        empty_by_signature(z.partition(4), x, tw.ones((extent,), f32), K=extent).sync()
        assert z.numpy().tolist() == [want] * 4
    assert outcome(lambda: empty_by_signature(z.partition(4), z[0:1], x, K=0)) == "LaunchError"


@tw.kernel
def tied_constant(z: Mut[f32, B], x: Ref[f32, K], *, K: Const[int]) -> None:
    z.store(x.partition(B)[K // 4 - 1])


def test_a_constant_is_the_extent_of_its_name():
    z = tw.zeros((4,), f32)
    for constant, extent, want in (
        (8, 8, "ran"), (8, 4, "LaunchError"), (4, 8, "LaunchError"), (16, 16, "ran"),
        (2, 2, "CompileError"),
    ):  # fmt: skip
        x = tw.ones((extent,), f32)
        assert outcome(lambda c=constant, x=x: tied_constant(z.partition(4), x, K=c)) == want


@tw.kernel
def placeholder(z: Mut[T, B], x: Ref[T, N], s: T) -> None:
    z.store(x.load_like(z) + s)


def test_one_placeholder_is_one_dtype_in_every_call():
    for output, source, scalar, want in (
        (f32, f32, 1.5, "ran"), (i32, i32, 2**31 - 1, "ran"), (f32, i32, 1, "LaunchError"),
        (i8, i8, 128, "LaunchError"), (i8, i8, 1.5, "LaunchError"), (i8, i8, True, "LaunchError"),
        (i32, i32, 2**31, "LaunchError"), (i8, i8, -128, "ran"),
    ):  # fmt: skip
        z, x = tw.zeros((4,), output), tw.ones((4,), source)
        assert outcome(lambda z=z, x=x, s=scalar: placeholder(z.partition(4), x, s)) == want


@tw.kernel
def copy(z: Mut[f32, BM, BN], x: Ref[f32, M, N]) -> None:
    z.store(x.load_like(z))


def test_what_is_promised_about_strides_and_addresses_is_true():
    """The CPU device holds every promise of the compiler against the numbers of the launch."""
    base = np.arange(33 * 35, dtype=np.float32).reshape(33, 35)
    whole = tw.from_numpy(base)
    random = np.random.default_rng(5)
    for _ in range(40):
        (a, b), (c, d) = (sorted(random.integers(0, e + 1, 2).tolist()) for e in base.shape)
        part, want = whole[a:b, c:d], base[a:b, c:d]
        into = tw.zeros((40, 40), f32)[a : a + (b - a), 3 : 3 + (d - c)]
        copy(into.partition(4, 4), part).sync()
        assert (into.numpy() == want).all()
    for shape in ((1, 16), (16, 1), (1, 1), (0, 16), (16, 0)):
        z = tw.zeros(shape, f32)
        copy(z.partition(4, 4), tw.ones(shape, f32)).sync()
        assert (z.numpy() == 1).all()


def test_strides_beyond_32_bits_are_wide():
    @tw.kernel
    def corners(z: Mut[i8, B], x: Ref[i8, M, K, N]) -> None:
        xs = x.partition(1, 1, B)
        total = tw.zeros((1, 1, B), i8)
        for i in range(xs.num_tiles(0)):
            for j in range(xs.num_tiles(1)):
                total = total + xs[i, j, 0]
        z.store(total.reshape(B))

    def corner(extent):
        return tw.zeros((2, 2, extent), i8)[:, :, 0:4]

    z = tw.ones((4,), i8)
    corners(z.partition(4), corner(5)).sync()
    small = corner(5)
    wide = type(small)(small.storage, i8, _widened(small.layout))
    with pytest.raises(tw.UndefinedBehaviourError, match="do not lie in one memory"):
        corners(z.partition(4), wide).sync()
    assert [key[1].tensors[1].wide for key, _ in compiled_kernels(corners)] == [False, True]


def _widened(layout):
    """The same layout with strides that no tensor of this test's size has."""
    return type(layout)(layout.shape, (2**33, 2**32, 1), layout.offset)


def test_guarded_checks_choose_the_kernel_that_checks():
    """A launch that fails a guarded check runs the other variant, and the next one the first."""

    @tw.kernel
    def guarded(z: Mut[i32, B], x: Ref[i32, N], i: i32, c: i32) -> None:
        if c > 0:
            z.store(x.partition(B)[i])

    x = tw.ones((16,), i32)
    for i, c, want in (
        (3, 1, "ran"), (4, 0, "ran"), (4, 1, "OutOfBoundsError"), (3, 1, "ran"), (-1, 0, "ran"),
        (-1, 1, "OutOfBoundsError"), (0, 1, "ran"),
    ):  # fmt: skip
        z = tw.zeros((4,), i32)
        assert outcome(lambda z=z, i=i, c=c: guarded(z.partition(4), x, i, c)) == want, (i, c)


def test_a_loop_that_may_not_run_is_a_guard():
    """Its body was held against the launch as if it ran, whatever the kernel then read."""

    @tw.kernel
    def counted(z: Mut[i32, B], x: Ref[i32, N], turns: Ref[i32, M], i: i32) -> None:
        for _ in range(turns.partition(1)[0].item()):
            z.store(x.partition(B)[i])

    x = tw.ones((16,), i32)
    for i, turns, want in (
        (3, 2, "ran"), (4, 0, "ran"), (4, -1, "ran"), (4, 1, "OutOfBoundsError"), (-1, 0, "ran"),
    ):  # fmt: skip
        z, count = tw.zeros((4,), i32), tw.full((1,), turns, i32)
        got = outcome(lambda z=z, c=count, i=i: counted(z.partition(4), x, c, i))
        assert got == want, (i, turns)


def test_a_precondition_is_checked_every_time():
    @tw.kernel
    def required(z: Mut[i32, B], x: Ref[i32, N], n: i32) -> None:
        tw.require(n >= 0)
        tw.require(n < N)
        z.store(x.partition(1)[n] + tw.zeros((B,), i32))

    z, x = tw.zeros((4,), i32), tw.ones((5,), i32)
    for n, want in ((0, "ran"), (4, "ran"), (5, "LaunchError"), (-1, "LaunchError"), (2, "ran")):
        assert outcome(lambda n=n: required(z.partition(4), x, n)) == want
    assert outcome(lambda: required(z.partition(4), x[0:2], 2)) == "LaunchError"


def test_no_launch_has_more_blocks_than_can_be_counted():
    @tw.kernel
    def tiny(z: Mut[i8, Literal[1], Literal[1]]) -> None:
        z.store(tw.zeros((1, 1), i8))

    with pytest.raises(tw.LaunchError, match="4294967296 pieces"):
        tiny(tw.empty((2**16, 2**16), i8).partition(1, 1))


def test_padding_is_what_was_asked_for():
    """A load past the edge gives the padding, never the neighbour's element."""

    @tw.kernel
    def padded(z: Mut[f32, B], x: Ref[f32, N]) -> None:
        z.store(x.partition(B, padding=-math.inf)[0])

    base = tw.ones((16,), f32)
    z = tw.zeros((8,), f32)
    padded(z.partition(8), base[2:5]).sync()
    assert z.numpy().tolist() == [1.0] * 3 + [-math.inf] * 5
