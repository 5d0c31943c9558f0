"""Outputs whose annotations say their extents: every launch compares them with the inputs'."""

from __future__ import annotations

import re
from typing import Literal, TypeVar

import numpy as np
import pytest

import tilewright as tw
from tilewright import All, Const, Cut, Mapped, Mut, Ref, f16, f32, i32
from tilewright.dims import BM, BN, A, B, K, M, N, T
from tilewright.frontend.signature.samples import sample_specialization
from tilewright.tune import Space

pytestmark = pytest.mark.filterwarnings("error::tilewright.ExtentWarning")


@tw.kernel(deny_checks=True)
def gemm(
    z: Mapped[T, Cut[M, BM], Cut[N, BN]], x: Ref[T, M, K], y: Ref[T, K, N], *, BK: Const[int] = 64
) -> None:
    xs, ys = x.partition(BM, BK), y.partition(BK, BN)
    for at in z.indices():
        i, j = at
        acc = tw.zeros((BM, BN), f32)
        for k in range(xs.num_tiles(1)):
            acc = tw.mma(xs[i, k], ys[k, j], acc)
        z.store(acc.astype(z.dtype), at)


@tw.kernel(deny_checks=True)
def double(z: Mut[f32, Cut[N, B]], x: Ref[f32, N]) -> None:
    z.store(x.partition(B)[z.index[0]] * 2)


@tw.kernel(deny_checks=True)
def centre(z: Mut[f32, Cut[M, BM], Cut[N, All]], x: Ref[f32, M, N]) -> None:
    xs, parts = x.partition(BM, 4), z.partition(BM, 4)
    for j in range(xs.num_tiles(1)):
        parts.store(xs[z.index[0], j] - 1, 0, j)


@tw.kernel(deny_checks=True)
def both(lows: Mut[f32, Cut[A, B]], highs: Mut[f32, Cut[A, B]]) -> None:
    """No input says what A is: the first output does."""
    lows.store(tw.full((B,), f32(A), f32))
    highs.store(tw.full((B,), f32(A), f32))


@tw.kernel(deny_checks=True)
def fixed(z: Mut[f32, Cut[Literal[100], B], Literal[2]], x: Ref[f32, Literal[100]]) -> None:
    z.store(x.partition(B)[z.index[0]][:, None] + tw.zeros((1, 2), f32))


@tw.kernel(deny_checks=True)
def sized(z: Mut[f32, Cut[K, B]], *, K: Const[int]) -> None:
    z.store(tw.full((B,), K, f32))


def refuse(name, extent, axis, why):
    text = re.escape(f"has extent {extent} along axis {axis}, but {why}")
    return pytest.raises(tw.LaunchError, match=rf"^`{name}` of kernel `\w+` {text}($|\n)")


def pair(size):
    return tw.zeros((size,), f32), tw.ones((size,), f32)


@pytest.mark.parametrize("rows", [120, 60, 129, 0, 1])
def test_a_product_has_the_rows_of_its_first_factor(rows):
    x, y = tw.ones((100, 64), f16), tw.ones((64, 100), f16)
    with pytest.raises(tw.LaunchError) as refused:
        gemm(tw.zeros((rows, 100), f16).partition(64, 64).persistent(), x, y)
    assert str(refused.value) == (
        f"`z` of kernel `gemm` has extent {rows} along axis 0, but M is 100, the extent of `x` "
        "along axis 0"
    )
    z = tw.zeros((100, 100), f16)
    gemm(z.partition(64, 64).persistent(), x, y).sync()
    assert (z.numpy() == 64).all()


def test_the_last_axis_of_a_product_is_that_of_the_second_factor():
    x, y = tw.ones((100, 64), f16), tw.ones((64, 100), f16)
    with refuse("z", 101, 1, "N is 100, the extent of `y` along axis 1"):
        gemm(tw.zeros((100, 101), f16).partition(64, 64).persistent(), x, y)


def test_every_way_to_a_launch_compares():
    """Cold, planned, bound and polymorphic launches; a refusal spoils none of them."""
    for size in (64, 64, 96):
        z, x = pair(size)
        for _ in range(3):
            double(z.partition(16), x).sync()
            with refuse("z", size - 16, 0, f"N is {size}, the extent of `x` along axis 0"):
                double(z[: size - 16].partition(16), x)
            with refuse("z", size - 1, 0, f"N is {size}, the extent of `x` along axis 0"):
                double(z[: size - 1].partition(16), x)
            with refuse("z", size, 0, f"N is {size - 3}, the extent of `x` along axis 0"):
                double(z.partition(16), x[3:])
        assert (z.numpy() == 2).all()


def test_arrays_of_other_libraries(on_the_cpu):
    x = np.ones((40,), np.float32)
    for _ in range(3):
        z = np.zeros((40,), np.float32)
        double(tw.partition(z, 16), x).sync()
        assert (z == 2).all()
        with refuse("z", 39, 0, "N is 40, the extent of `x` along axis 0"):
            double(tw.partition(z[:39], 16), x)


def test_graphs_compare_what_is_recorded_and_what_takes_its_place():
    (z, x), (w, y) = pair(64), pair(48)
    with tw.graph() as graph:
        graph.record(double(z.partition(16), x))
        with refuse("z", 48, 0, "N is 64, the extent of `x` along axis 0"):
            graph.record(double(w.partition(16), x))
    with refuse("z", 48, 0, "N is 64, the extent of `x` along axis 0"):
        graph.update(double(w.partition(16), x), node=0)
    graph.update(double(w.partition(16), y), node=0)
    graph.launch().sync()
    assert (w.numpy() == 2).all()


def test_a_tuned_kernel_compares():
    tuned = tw.autotune(Space(B=(16, 32)), key=("N",))(double)
    (z, x), (w, _) = pair(64), pair(48)
    tuned(z, x).sync()
    assert (z.numpy() == 2).all()
    with refuse("z", 48, 0, "N is 64, the extent of `x` along axis 0"):
        tuned(w, x)


def test_an_operator_of_torch_compares(on_the_cpu):
    torch = pytest.importorskip("torch", reason="an operator of torch needs torch")
    operator = tw.torch_op(double, "tests_of_cuts::double", tiles={"z": 16})
    x, z = torch.ones(40), torch.zeros(40)
    operator(z, x)
    assert (z == 2).all()
    for _ in range(2):
        with refuse("z", 39, 0, "N is 40, the extent of `x` along axis 0"):
            operator(torch.zeros(39), x)


def test_an_operation_as_an_argument_is_compared_when_it_has_run():
    (z, x), (w, _) = pair(64), pair(48)
    with refuse("z", 48, 0, "N is 64, the extent of `x` along axis 0"):
        double(w.partition(16), tw.fill(x, 3)).sync()
    double(z.partition(16), tw.fill(x, 3)).sync()
    assert (z.numpy() == 6).all()


def test_whole_axes():
    x = tw.ones((5, 10), f32)
    z = tw.zeros((5, 10), f32)
    centre(z.partition(2, None), x).sync()
    assert not z.numpy().any()
    for columns in (9, 11, 12, 13):
        with refuse("z", columns, 1, "N is 10, the extent of `x` along axis 1"):
            centre(tw.zeros((5, columns), f32).partition(2, None), x)


def test_outputs_that_share_an_extent():
    lows, highs = (tw.zeros((10,), f32) for _ in range(2))
    both(lows.partition(4), highs.partition(4)).sync()
    assert (lows.numpy() == 10).all()
    with refuse("highs", 11, 0, "A is 10, the extent of `lows` along axis 0"):
        both(lows.partition(4), tw.zeros((11,), f32).partition(4))


def test_fixed_extents():
    z, x = tw.zeros((100, 2), f32), tw.ones((100,), f32)
    fixed(z.partition(32, 2), x).sync()
    assert (z.numpy() == 1).all()
    with refuse("z", 101, 0, "the signature fixes it at 100"):
        fixed(tw.zeros((101, 2), f32).partition(32, 2), x)
    # The other axis has no extent of its own: more pieces of it are more blocks.
    fixed(tw.zeros((100, 4), f32).partition(32, 2), x).sync()


def test_extents_that_are_constants():
    z = tw.zeros((10,), f32)
    sized(z.partition(4), K=10).sync()
    assert (z.numpy() == 10).all()
    with refuse("z", 10, 0, "K is 11 in this call"):
        sized(z.partition(4), K=11)


def test_a_tile_that_is_the_extent():
    @tw.kernel(deny_checks=True)
    def rows(z: Mut[f32, Cut[M, Literal[1]], Cut[B, B]], x: Ref[f32, M, B]) -> None:
        z.store(x.partition(1, B)[z.index[0], 0])

    x = tw.ones((3, 8), f32)
    rows(tw.zeros((3, 8), f32).partition(1, 8), x).sync()
    with refuse("z", 16, 1, "B is 8 in this call"):
        rows(tw.zeros((3, 16), f32).partition(1, 8), x)


def test_segments_tie_their_rows():
    @tw.kernel(deny_checks=True)
    def ragged(z: Mut[f32, Cut[M, BM], Cut[N, BN]], x: Ref[f32, M, N]) -> None:
        z.store(x.load_like(z) * 2)

    offsets, x = tw.from_numpy(np.array([0, 3, 7], np.int32)), tw.ones((7, 6), f32)
    z = tw.zeros((7, 6), f32)
    ragged(z.partition(2, 4, segments=offsets), x).sync()
    assert (z.numpy() == 2).all()
    for _ in range(2):
        with refuse("z", 8, 0, "M is 7, the extent of `x` along axis 0"):
            ragged(tw.zeros((8, 6), f32).partition(2, 4, segments=offsets), x)


def test_orders_groups_and_prefixes_change_nothing_about_extents():
    x, y = tw.ones((8, 6), f16), tw.ones((6, 10), f16)
    for cut in (
        lambda z: z.partition(2, 4).persistent(blocks=3, group=(2, 1)),
        lambda z: z.partition(2, 4, order=(1, 0)).persistent(),
        lambda z: z.partition(2, 4, order=(~0, 1)).persistent(blocks=2),
    ):
        z = tw.zeros((8, 10), f16)
        gemm(cut(z), x, y, BK=2).sync()
        assert (z.numpy() == 6).all()
        with refuse("z", 9, 0, "M is 8, the extent of `x` along axis 0"):
            gemm(cut(tw.zeros((9, 10), f16)), x, y, BK=2)
    z, line = pair(16)
    double.grid(2)(z.partition(4, prefix=True), line).sync()
    assert z.numpy().tolist() == [2] * 8 + [0] * 8
    with refuse("z", 16, 0, "N is 12, the extent of `x` along axis 0"):
        double.grid(2)(z.partition(4, prefix=True), line[:12])


E = TypeVar("E", bound=tw.AnyDType)
LENGTH = TypeVar("LENGTH", bound=tw.Dim)
TILE = TypeVar("TILE", bound=tw.Dim)


def plain(z: Mut[E, Cut[LENGTH, TILE]], x: Ref[E, LENGTH]) -> None:
    z.store(x.partition(TILE)[z.index[0]])


def test_type_parameters():
    plain.__type_params__ = (E, LENGTH, TILE)  # as Python 3.12 does for `def plain[E, …]`
    kernel = tw.kernel(deny_checks=True)(plain)
    for dtype in (f32, i32):
        z = tw.zeros((10,), dtype)
        kernel(z.partition(4), tw.ones((10,), dtype)).sync()
        assert (z.numpy() == 1).all()
        with refuse("z", 10, 0, "LENGTH is 12, the extent of `x` along axis 0"):
            kernel(z.partition(4), tw.ones((12,), dtype))


def test_an_extent_is_a_number_of_the_body():
    @tw.kernel
    def counted(z: Mut[i32, Cut[A, B]]) -> None:
        tw.require(A > 1)
        z.store(tw.full((B,), A + z.shape[0], i32))

    z = tw.zeros((7,), i32)
    counted(z.partition(4)).sync()
    assert (z.numpy() == 14).all()
    with pytest.raises(tw.LaunchError, match="the kernel requires `A > 1`"):
        counted(z[:1].partition(4))


@pytest.mark.parametrize("kernel", [gemm, double, centre, fixed])
def test_what_the_extents_tie_needs_no_check_at_launch(kernel):
    """A piece's place is one of the input's tiles by the signature alone."""
    compiled = kernel.specialized(sample_specialization(kernel.signature, "cpu"))
    assert compiled.ledger.counts.proved > 0
    assert compiled.facts.launch_checks == ()


def test_a_tile_of_another_extent_is_still_looked_at():
    @tw.kernel
    def coarse(z: Mut[f32, Cut[N, B]], x: Ref[f32, N]) -> None:
        pairs = x.partition(2 * B)[z.index[0]].reshape(B, 2)
        z.store(tw.sum(pairs, axis=1))

    z, x = pair(16)
    with pytest.raises(tw.LaunchError, match=r"the index `z.index\[0\]` goes from 0 to 3, but"):
        coarse(z.partition(4), x)
    coarse(z[:4].partition(4), x[:4]).sync()
    assert z.numpy()[:4].tolist() == [2, 2, 0, 0]


def test_a_place_that_lies_outside_for_certain_is_refused_at_once():
    @tw.kernel
    def next_one(z: Mut[f32, Cut[N, B]], x: Ref[f32, N]) -> None:
        z.store(x.partition(B)[z.index[0] + 1])

    z, x = pair(16)
    with pytest.raises(tw.CompileError, match="is past the end of `x` along axis 0"):
        next_one(z.partition(4), x)
