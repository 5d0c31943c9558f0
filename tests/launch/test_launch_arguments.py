"""A call is refused before anything is allocated or borrowed, with the argument's name."""

import gc
import re

import numpy as np
import pytest

import tilewright as tw
from tilewright import Const, Mapped, Mut, Ref, bf16, bool_, f16, f32, i8, i32
from tilewright.dims import BM, BN, B, K, M, N, T


@tw.kernel
def add(z: Mut[f32, B], x: Ref[f32, N], y: Ref[f32, N]) -> None:
    z.store(x.load_like(z) + y.load_like(z))


@tw.kernel
def walk(z: Mapped[f32, B], x: Ref[f32, N]) -> None:
    for at in z.indices():
        z.store(x.partition(B)[at], at)


@tw.kernel
def gemm(z: Mapped[T, BM, BN], x: Ref[T, M, K], y: Ref[T, K, N], *, BK: Const[int] = 16) -> None:
    xs, ys = x.partition(BM, BK), y.partition(BK, BN)
    for at in z.indices():
        i, j = at
        acc = tw.zeros((BM, BN), f32)
        for k in range(xs.num_tiles(1)):
            acc = tw.mma(xs[i, k], ys[k, j], acc)
        z.store(acc.astype(z.dtype), at)


def vector(n: int = 64, dtype: type[tw.DType] = f32, **place) -> tw.Tensor:
    return tw.ones((n,), dtype, **place)


def refuse(text: str):
    return pytest.raises(tw.LaunchError, match=re.escape(text))


@pytest.fixture
def z():
    """An output; afterwards nothing holds it, and the next launch works."""
    tensor = tw.zeros((64,), f32)
    yield tensor
    add(tensor.partition(16), vector(), vector()).sync()
    assert (tensor.numpy() == 2).all()


# --- kinds, ranks, dtypes, devices ----------------------------------------------------------------


def test_wrong_rank(z):
    with refuse("`x` of kernel `add` has rank 1; the tensor has rank 2, shape (8, 8)"):
        add(z.partition(16), tw.ones((8, 8), f32), vector())


def test_wrong_rank_of_an_output(z):
    with refuse("`z` of kernel `add` has rank 1; the tensor has rank 2, shape (8, 8)"):
        add(tw.ones((8, 8), f32).partition(4, 4), vector(), vector())


def test_wrong_dtype(z):
    with refuse("`y` of kernel `add` holds f32; the tensor holds f16"):
        add(z.partition(16), vector(), vector(dtype=f16))


def test_one_placeholder_is_one_dtype():
    c = tw.zeros((16, 16), f16)
    with refuse("`y` of kernel `gemm` is bf16, but T is f16 in this call"):
        gemm(c.partition(16, 16).persistent(), tw.ones((16, 16), f16), tw.ones((16, 16), bf16))
    gemm(c.partition(16, 16).persistent(), tw.ones((16, 16), f16), tw.ones((16, 16), f16)).sync()
    assert (c.numpy() == 16).all()


def test_extents_of_one_name_are_equal(z):
    with refuse("`y` of kernel `add` has extent 60 along axis 0, but N is 64, the extent of `x`"):
        add(z.partition(16), vector(), vector(60))


def test_wrong_shape(z):
    with refuse("x.shape[0] == z.shape[0], since x is read like z"):
        add(z.partition(16), vector(80), vector(80))


def test_unpartitioned_output(z):
    with refuse("`z` of kernel `add` is an output (Mut) and has to be cut before the launch"):
        add(z, vector(), vector())


def test_unpartitioned_walk(z):
    with refuse("pass z.partition(B).persistent(), not a tensor of f32 with shape (64,)"):
        walk(z, vector())


def test_partitioned_input(z):
    with refuse("`x` of kernel `add` is read-only (Ref) and is cut into tiles inside the kernel"):
        add(z.partition(16), vector().partition(16), vector())


def test_plain_partition_for_a_walk(z):
    with refuse("is an output (Mapped) and has to be cut before the launch: pass "
                "z.partition(B).persistent(), not a plain partition"):  # fmt: skip
        walk(z.partition(16), vector())


def test_persistent_partition_for_a_piece(z):
    with refuse("`z` of kernel `add` is a Mut, of which each block owns one piece"):
        add(z.partition(16).persistent(), vector(), vector())


def test_list_for_a_tensor(z):
    with refuse("`x` of kernel `add` must be a tensor, not an object of type list"):
        add(z.partition(16), [1.0] * 64, vector())


@pytest.mark.usefixtures("on_the_cpu")
def test_array_for_a_tensor(z):
    add(z.partition(16), np.ones(64, np.float32), vector()).sync()
    with refuse("pass tw.partition(z, B), not an object of type ndarray"):
        add(np.ones(64, np.float32), vector(), vector())


def test_tensor_of_another_device(z):
    with refuse(f"`y` of kernel `add` lives on cpu:1, but `z` on {z.device.name}"):
        add(z.partition(16), vector(), vector(device="cpu:1"))


def test_missing_and_surplus_arguments(z):
    with refuse("add(z, x, y): missing a required argument: 'y'"):
        add(z.partition(16), vector())
    with refuse("add(z, x, y): too many positional arguments"):
        add(z.partition(16), vector(), vector(), vector())
    with refuse("add(z, x, y): got an unexpected keyword argument 'alpha'"):
        add(z.partition(16), vector(), vector(), alpha=3)


# --- tiles and grids ------------------------------------------------------------------------------


@pytest.mark.parametrize("tile", [0, -16, 2.5, True, "16"])
def test_tiles_are_positive_integers(z, tile):
    with refuse(f"axis 0 of the tile must be a positive integer, not {tile!r}"):
        add(z.partition(tile), vector(), vector())


def test_a_tile_has_one_extent_for_each_axis(z):
    with refuse("partition(16, 16) has 2 extents for a tensor of rank 1, shape (64,)"):
        z.partition(16, 16)


def test_a_tile_that_is_no_power_of_two_names_the_way_out(z):
    with pytest.raises(tw.CompileError, match=re.escape("`p = z.partition(sub…)`")):
        add(z.partition(24), vector(), vector())


def test_a_whole_axis_needs_the_annotation(z):
    with refuse("`z` of kernel `add` is cut as (None,)"):
        add(z.partition(None), vector(), vector())


def test_blocks_and_groups_are_positive(z):
    for blocks in (0, -1, 1.5):
        with refuse(f"blocks must be a positive integer, not {blocks}"):
            walk(z.partition(16).persistent(blocks=blocks), vector())
    with refuse("group must be a positive integer, not 0"):
        walk(z.partition(16).persistent(group=0), vector())
    with refuse("group=(2, 1) has 2 extents for a partition of 1"):
        walk(z.partition(16).persistent(group=(2, 1)), vector())


def test_only_the_last_two_axes_are_grouped(z):
    @tw.kernel
    def deep(z: Mapped[f32, 1, BM, BN]) -> None:
        for at in z.indices():
            z.store(tw.zeros((1, BM, BN), f32), at)

    cube = tw.ones((2, 16, 16), f32).partition(1, 16, 16)
    with refuse("`z` of kernel `deep` is walked in groups of (2, 1, 1): only the last two axes"):
        deep(cube.persistent(group=(2, 1, 1)))
    with refuse("`z` of kernel `walk` is walked in groups of (2,)"):
        walk(z.partition(16).persistent(group=2), vector())
    deep(cube.persistent(group=2)).sync()
    assert (cube.tensor.numpy() == 0).all()


def test_an_axis_over_2_31_is_refused_before_anything_is_allocated():
    with refuse("axis 0 of shape (2147483648,) has 2147483648 elements, and an axis can have at"):
        tw.zeros((2**31,), f32)
    huge = tw.zeros((2**31 - 1,), i8)  # lazy: no byte of it exists
    with refuse("rounded up to tiles of 128 is over 2147483647: use a smaller tile"):
        huge.partition(128)


def test_more_pieces_than_a_launch_can_have():
    @tw.kernel
    def fill(z: Mut[i8, BM, BN]) -> None:
        z.store(tw.zeros((BM, BN), i8))

    huge = tw.zeros((2**20, 2**20), i8)
    with refuse("`z` of kernel `fill` has 1099511627776 pieces, more than a launch can have"):
        fill(huge.partition(1, 1))


def test_outputs_of_one_launch_have_one_grid():
    @tw.kernel
    def both(a: Mut[f32, B], b: Mut[f32, B]) -> None:
        a.store(tw.zeros((B,), f32))
        b.store(tw.ones((B,), f32))

    a, b = vector(), vector(80)
    with refuse("`b` of kernel `both` has a grid of (5,) pieces, but `a` has (4,)"):
        both(a.partition(16), b.partition(16))
    both(a.partition(16), vector(50).partition(16)).sync()
    assert (a.numpy() == 0).all()


def test_walked_outputs_have_one_number_of_blocks():
    @tw.kernel
    def both(a: Mapped[f32, B], b: Mapped[f32, B]) -> None:
        for at in a.indices():
            a.store(tw.zeros((B,), f32), at)
        for at in b.indices():
            b.store(tw.zeros((B,), f32), at)

    a, b, empty = vector(), vector(), vector(0)
    with refuse("`b` of kernel `both` is walked by 3 blocks, but `a` by 2: one launch has one"):
        both(a.partition(16).persistent(blocks=2), b.partition(16).persistent(blocks=3))
    for blocks in (1, 2, 3, 99, None):
        a, b = vector(), vector(250)
        both(a.partition(16).persistent(), b.partition(16).persistent(blocks=blocks)).sync()
        assert not a.numpy().any()
        assert not b.numpy().any()
        both(b.partition(16).persistent(), empty.partition(16).persistent(blocks=blocks)).sync()
    both(empty.partition(16).persistent(), vector(0).partition(16).persistent(blocks=2)).sync()


def test_a_walk_beside_pieces_has_as_many_blocks_as_there_are_pieces():
    @tw.kernel
    def both(a: Mut[f32, B], b: Mapped[f32, B]) -> None:
        a.store(tw.zeros((B,), f32))
        for at in b.indices():
            b.store(tw.zeros((B,), f32), at)

    a, b = vector(), vector(250)
    with refuse("`b` of kernel `both` is walked by at most 3 blocks, but `a` has 4 pieces"):
        both(a.partition(16), b.partition(16).persistent(blocks=3))
    for blocks in (4, 99, None):
        a, b = vector(), vector(250)
        both(a.partition(16), b.partition(16).persistent(blocks=blocks)).sync()
        assert not a.numpy().any()
        assert not b.numpy().any()


def test_a_dim_is_one_value_in_a_call():
    @tw.kernel
    def tied(a: Mut[f32, B], b: Mut[f32, B], x: Ref[f32, B]) -> None:
        a.store(x.partition(B)[0])
        b.store(a.load())

    a, b = vector(), vector(32)
    with refuse(
        "`b` of kernel `tied` is cut into tiles of 8 along axis 0, but B is 16 in this call"
    ):
        tied(a.partition(16), b.partition(8), vector(16))
    with refuse("`x` of kernel `tied` has extent 20 along axis 0, but B is 16 in this call"):
        tied(a.partition(16), vector().partition(16), vector(20))


def test_a_fixed_extent_is_that_extent():
    @tw.kernel
    def fixed(z: Mut[f32, 16], x: Ref[f32, 64]) -> None:
        z.store(x.load_like(z))

    with refuse(
        "`x` of kernel `fixed` has extent 60 along axis 0, but the signature fixes it at 64"
    ):
        fixed(vector().partition(16), vector(60))
    with refuse(
        "`z` of kernel `fixed` is cut into tiles of 32 along axis 0, but the signature fixes it"
    ):
        fixed(vector().partition(32), vector())


# --- scalars and constants ------------------------------------------------------------------------


@tw.kernel
def scaled(z: Mut[f32, B], a: f32, n: i32, flag: bool_, *, W: Const[int] = 4) -> None:
    z.store(tw.full((B,), a * n.astype(f32) * W if flag else a, f32))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("1", 1, True), "`a` of kernel `scaled` is a scalar of f32, not '1'"),
        ((True, 1, True), "`a` of kernel `scaled` is a scalar of f32, not True"),
        ((1.0, 1.5, True), "`n` of kernel `scaled` is a scalar of i32, not 1.5"),
        ((1.0, True, True), "`n` of kernel `scaled` is a scalar of i32, not True"),
        ((1.0, 2**31, True), "`n` of kernel `scaled` is i32: 2147483648 is outside"),
        ((1.0, -(2**31) - 1, True), "`n` of kernel `scaled` is i32: -2147483649 is outside"),
        ((1.0, 1, 1), "`flag` of kernel `scaled` is a scalar of bool, not 1"),
        ((1e39, 1, True), "`a` of kernel `scaled` is f32: 1e+39 is outside"),
        ((10**400, 1, True), "`a` of kernel `scaled` is f32: "),
        ((vector(), 1, True), "`a` of kernel `scaled` is a scalar of f32, not a tensor of f32"),
    ],
    ids=str,
)
def test_scalars_of_the_wrong_kind_or_range(z, arguments, text):
    with refuse(text):
        scaled(z.partition(16), *arguments)


def test_infinities_are_floats(z):
    scaled(z.partition(16), float("inf"), 2**31 - 1, True).sync()
    assert np.isinf(z.numpy()).all()


@pytest.mark.parametrize("value", [2.5, True, "4", None, vector])
def test_constants_of_the_wrong_kind(z, value):
    with refuse(f"`W` of kernel `scaled` is a constant of type int, not {value!r}"):
        scaled(z.partition(16), 1.0, 1, True, W=value)


# --- nothing is left behind -----------------------------------------------------------------------


def test_a_refused_launch_holds_nothing():
    """No allocation, no borrow, no operation that warns when it is dropped."""
    x, y, z = vector(), vector(80), tw.zeros((64,), f32)
    for _ in range(3):
        with pytest.raises(tw.LaunchError):
            add(z.partition(16), x, y)
    gc.collect()
    assert all(tensor.storage.is_lazy for tensor in (x, y, z))
    y = vector()
    add(z.partition(16), x, y).sync()
    assert (z.numpy() == 2).all()
