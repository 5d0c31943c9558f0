"""The holes of the reference system's kernel language, by number: each test fails if ours has it.

Holes 2, 13 and 16 are in `test_holes_reference_memory.py`.
"""

import numpy as np
import pytest
from compiled_kernels import compiled_kernels

import tilewright as tw
from tilewright import Mapped, Mut, Ref, f32, i8, i16, i32, u8, u16, u32
from tilewright.dims import BM, BN, B, K, M, N, T
from tilewright.dtypes import numpy_dtype
from tilewright.ir.attributes import Overflow
from tilewright.ir.ops.control import For, If
from tilewright.ir.ops.memory import JoinTokens, LoadView, StoreView
from tilewright.ir.types import TokenType


def tensor(values, dtype=np.int32):
    return tw.from_numpy(np.asarray(values, dtype))


def zeros(n, dtype=i32):
    return tw.zeros((n,), dtype)


def compiled_ops(kernel, *arguments):
    """All ops of the kernel that a call compiles."""
    kernel(*arguments).sync()
    ((_, compiled), *_) = compiled_kernels(kernel)
    return [op for function in compiled.module.functions for op in function.walk()]


# --- 1: reads that are not checked ---


@tw.kernel
def copy_like(z: Mut[i32, B], x: Ref[i32, N]) -> None:
    z.store(x.load_like(z))


def test_01_reading_like_an_output_needs_as_many_tiles():
    """Hole 1: a read at the block's own place was not checked against a shorter input."""
    copy_like(zeros(16).partition(4), zeros(16)).sync()
    with pytest.raises(tw.LaunchError, match=r"x\.shape\[0\] == z\.shape\[0\]"):
        copy_like(zeros(16).partition(4), zeros(12))


@tw.kernel
def pick(z: Mut[i32, B], x: Ref[i32, N], at: Ref[i32, M]) -> None:
    z.store(x.partition(B)[at.partition(1)[0].item()])


def test_01_reading_at_any_index_is_checked():
    """Hole 1: a read at a computed index was not checked at all."""
    z = zeros(4)
    pick(z.partition(4), tensor(range(16)), tensor([3])).sync()
    assert z.numpy().tolist() == [12, 13, 14, 15]
    for outside in (4, -1, 2**31 - 1, -(2**31)):
        with pytest.raises(tw.OutOfBoundsError, match=f"index {outside} is outside"):
            pick(z.partition(4), tensor(range(16)), tensor([outside])).sync()


# --- 3, 4, 8, 17: pieces ---


@tw.kernel
def sum_of_parts(z: Mut[i32, B]) -> None:
    parts = z.partition(2)
    total = 0
    for i in range(parts.num_tiles(0)):
        total += tw.sum(parts[i])
    z.store(tw.full((B,), total, i32))


def test_03_views_of_an_output_see_the_own_piece_only():
    """Hole 3: a view of an output for reading began at the whole tensor's start."""
    z = tensor(range(12))
    sum_of_parts(z.partition(4)).sync()
    assert z.numpy().tolist() == [6] * 4 + [22] * 4 + [38] * 4


@tw.kernel
def third_parts(z: Mut[i32, B]) -> None:
    z.partition(4).store(tw.zeros((4,), i32), 0)


def test_04_parts_divide_the_piece():
    """Hole 4: parts that did not divide the piece reached into the neighbour's."""
    third_parts(zeros(16).partition(8)).sync()
    with pytest.raises(tw.CompileError, match="do not divide the piece of 6"):
        third_parts(zeros(12).partition(6))


@tw.kernel
def last_part_by_shape(z: Mut[i32, B]) -> None:
    parts = z.partition(2)
    parts.store(tw.ones((2,), i32), z.shape[0] // 2 - 1)


def test_08_the_extent_of_an_output_bounds_no_part_of_a_piece():
    """Hole 8: the whole tensor's extent passed for the piece's."""
    last_part_by_shape(zeros(4).partition(4)).sync()
    with pytest.raises(tw.OutOfBoundsError, match="index 3 is outside"):
        last_part_by_shape(zeros(8).partition(4)).sync()


def test_17_a_piece_has_extents():
    """Hole 17: an output with a dynamic extent compiled and could never be launched."""
    with pytest.raises(tw.LaunchError, match="is cut as"):
        sum_of_parts(zeros(8).partition(None))


# --- 5, 6: order inside a block ---


@tw.kernel
def store_in_branch(z: Mut[i32, B], c: i32) -> None:
    if c > 0:
        z.store(tw.full((B,), 1, i32))
    z.store(z.load() + 1)


@tw.kernel
def store_in_loop(z: Mut[i32, B], c: i32) -> None:
    for i in range(c):
        z.store(tw.full((B,), i, i32))
    z.store(z.load() + 1)


@pytest.mark.parametrize("kernel", [store_in_branch, store_in_loop])
def test_05_order_goes_through_branches_and_loops(kernel):
    """Hole 5: a store in a branch or a loop was not ordered before what followed."""
    ops = compiled_ops(kernel, zeros(4).partition(4), 1)
    *_, load = [op for op in ops if isinstance(op, LoadView)]
    *_, store = [op for op in ops if isinstance(op, StoreView)]
    (region,) = [op for op in ops if isinstance(op, For | If)]
    tokens = [value for value in region.results if isinstance(value.type, TokenType)]
    assert load.token in tokens
    joins = {op.result: set(op.tokens) for op in ops if isinstance(op, JoinTokens)}
    assert not joins.get(store.token, {store.token}).isdisjoint(load.results)


@tw.kernel
def colliding(z: Mut[i32, B]) -> None:
    parts = z.partition(2)
    for i in range(4):
        parts.store(tw.full((2,), i, i32), i // 2)


def test_06_steps_that_collide_are_ordered():
    """Hole 6: an index that mentions the loop's counter passed for a different one each time."""
    z = zeros(4)
    ops = compiled_ops(colliding, z.partition(4))
    (loop,) = [op for op in ops if isinstance(op, For)]
    assert any(isinstance(value.type, TokenType) for value in loop.init_values)
    (store,) = [op for op in ops if isinstance(op, StoreView)]
    assert store.token in loop.body.args
    assert z.numpy().tolist() == [1, 1, 3, 3]


# --- 7, 15: arithmetic ---


@tw.kernel
def floored(z: Mut[i32, B], x: Ref[i32, N]) -> None:
    xs = x.partition(B)
    for i in range(4):
        z.store(xs[(i - 1) // 2])


def test_07_floor_division_of_a_negative_number_is_negative():
    """Hole 7: the interval of a quotient was that of truncation, so -1 // 2 counted as 0."""
    with pytest.raises(tw.LaunchError, match="goes from -1 to 1"):
        floored(zeros(4).partition(4), zeros(16))


@tw.kernel
def divided(z: Mut[i32, B], x: Ref[i32, N], y: Ref[i32, N]) -> None:
    z.store(x.load_like(z) // y.load_like(z) + x.load_like(z) % y.load_like(z))


def test_15_no_operator_is_undefined():
    """Hole 15: division by zero and overflow were undefined in safe code."""
    z, least = zeros(4), -(2**31)
    divided(z.partition(4), tensor([least, 7, -7, 1]), tensor([-1, -2, 2, least])).sync()
    assert z.numpy().tolist() == [least, -4 - 1, -4 + 1, -1 + least + 1]
    with pytest.raises(tw.KernelFailure, match="division by zero"):
        divided(z.partition(4), tensor([1, 2, 3, 4]), tensor([1, 0, 1, 1])).sync()


def test_15_no_flag_promises_what_nobody_proved():
    """Hole 15: no-wrap flags could be written in safe code."""
    ops = compiled_ops(divided, zeros(4).partition(4), tensor([1] * 4), tensor([1] * 4))
    assert {getattr(op, "overflow", Overflow.NONE) for op in ops} == {Overflow.NONE}


# --- 9, 10, 11, 19: operations ---


@tw.kernel
def reduced(z: Mut[i32, BM], w: Mut[i32, BM], x: Ref[i32, M, N]) -> None:
    t = x.partition(BM, 4)[z.index[0], 0]
    z.store(tw.sum(t, axis=1))
    w.store(tw.max(t, axis=1))


def test_09_reductions_keep_to_their_axis_and_identity():
    """Hole 9: reductions took axis 0 and identity 0 whatever they were given."""
    x = -np.arange(1, 17, dtype=np.int32).reshape(4, 4)
    z, w = zeros(4), zeros(4)
    reduced(z.partition(4), w.partition(4), tw.from_numpy(x)).sync()
    assert z.numpy().tolist() == x.sum(1).tolist()
    assert w.numpy().tolist() == x.max(1).tolist()


@tw.kernel
def product(z: Mut[i32, BM, BN], x: Ref[T, M, K], y: Ref[T, K, N]) -> None:
    z.store(tw.mma(x.partition(BM, 16)[0, 0], y.partition(16, BN)[0, 0], tw.zeros((BM, BN), i32)))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_10_both_sides_of_a_product_have_their_sign(dtype):
    """Hole 10: the sign of the right side was read off the left."""
    x = np.full((16, 16), 200 if dtype is np.uint8 else -100, dtype)
    z = tw.zeros((16, 16), i32)
    product(z.partition(16, 16), tw.from_numpy(x), tw.from_numpy(x)).sync()
    assert (z.numpy() == 16 * int(x[0, 0]) ** 2).all()


@tw.kernel
def unsigned(z: Mut[i32, B], x: Ref[T, N], y: Ref[T, N]) -> None:
    a, b = x.load_like(z), y.load_like(z)
    less = (a < b).astype(i32)
    z.store(less + 10 * (a // b).astype(i32) + 100 * tw.minimum(a, b).astype(i32))


@pytest.mark.parametrize("dtype", [u8, u16, u32, i8, i16])
def test_11_every_width_and_sign_works(dtype):
    """Hole 11: 8 and 16 bits without a sign were read with one; 16 bits were missing."""
    kind = numpy_dtype(dtype)
    top = np.iinfo(kind).max
    x, y = np.array([top, 3, 9, 2], kind), np.array([3, top, 2, 2], kind)
    z = zeros(4)
    unsigned(z.partition(4), tw.from_numpy(x), tw.from_numpy(y)).sync()
    wide = [(int(a), int(b)) for a, b in zip(x, y, strict=True)]
    want = [(a < b) + 10 * (a // b) + 100 * min(a, b) for a, b in wide]
    assert z.numpy().tolist() == [(v + 2**31) % 2**32 - 2**31 for v in want]


@tw.kernel
def huge_literal(z: Mut[i32, B]) -> None:
    z.store(z.load() + 4294967296)


def test_11_a_literal_that_does_not_fit_is_an_error():
    """Hole 11: a literal outside 32 bits stopped the compiler itself."""
    with pytest.raises(tw.CompileError, match="does not fit i32"):
        huge_literal(zeros(4).partition(4))


@tw.kernel
def wrong_rank(z: Mut[f32, BM, BN]) -> None:
    z.store(tw.max(z.load(), axis=1))


def test_19_a_reduction_has_the_rank_it_has():
    """Hole 19: the result of a reduction could be declared with another rank."""
    with pytest.raises(tw.CompileError, match=r"shape \(4,\)|\(4,\)"):
        wrong_rank(tw.zeros((4, 4), f32).partition(4, 4))


# --- 12, 14, 20: syntax ---


@tw.kernel
def nested_return(z: Mut[i32, B], c: i32) -> None:
    if c > 0:
        return
    z.store(tw.ones((B,), i32))


@tw.kernel
def break_in_for(z: Mut[i32, B], c: i32) -> None:
    for i in range(4):
        if i == c:
            break
    z.store(tw.ones((B,), i32))


@tw.kernel
def element_of_a_tile(z: Mut[i32, B], c: i32) -> None:
    z.store(z.load() + z.load()[c])


def outcome(kernel, c):
    """What a kernel leaves in an output of zeros, or None if it is refused."""
    z = zeros(4)
    try:
        kernel(z.partition(4), c).sync()
    except tw.CompileError:
        return None
    return z.numpy().tolist()


def test_12_a_return_in_a_branch_returns():
    """Hole 12: it fell through."""
    assert outcome(nested_return, 1) == [0] * 4


def test_14_no_element_of_a_tile_is_addressed_unchecked():
    """Hole 14: a tile's element could be taken at an unchecked index."""
    assert outcome(element_of_a_tile, 99) is None


def test_20_a_break_breaks():
    """Hole 20: it failed in the assembler only."""
    assert outcome(break_in_for, 2) == [1] * 4


# --- 18: strides ---


@tw.kernel
def copy_tile(z: Mut[f32, BM, BN], x: Ref[f32, M, N]) -> None:
    z.store(x.load_like(z))


@pytest.mark.parametrize("rows", [slice(0, 16), slice(1, 9), slice(3, 4), slice(5, 5)])
@pytest.mark.parametrize("columns", [slice(0, 16), slice(1, 14), slice(7, 8)])
def test_18_inputs_are_read_by_their_own_strides(rows, columns):
    """Hole 18: the strides of inputs were not looked at."""
    base = np.arange(400, dtype=np.float32).reshape(20, 20)
    part = tw.from_numpy(base)[rows, columns]
    z = tw.zeros(part.shape, f32)
    copy_tile(z.partition(4, 4), part).sync()
    assert (z.numpy() == base[rows, columns]).all()


# --- 21: one walk ---


@tw.kernel
def walked_twice(z: Mapped[i32, B]) -> None:
    for at in z.indices():
        z.store(z.load(at) + 1, at)
    for at in z.indices():
        z.store(z.load(at) + 10, at)
    for turn in range(2):
        for at in z.indices():
            z.store(z.load(at) + 100 * (turn + 1), at)


@pytest.mark.parametrize("blocks", [1, 2, 3, 7])
def test_21_every_walk_of_an_output_gives_a_tile_to_the_same_block(blocks):
    """Hole 21: two walks with different ranges gave one tile to two blocks."""
    z = zeros(27)
    walked_twice(z.partition(4).persistent(blocks=blocks)).sync()
    assert z.numpy().tolist() == [311] * 27


@tw.kernel
def walked_in_part(z: Mapped[i32, B]) -> None:
    for at in z.indices_within((tw.block_id(0), 2)):
        z.store(tw.ones((B,), i32), at)


def test_21_no_walk_depends_on_the_block():
    """Hole 21: a range that differs from block to block."""
    with pytest.raises(tw.CompileError):
        walked_in_part(zeros(8).partition(4).persistent(blocks=2))
