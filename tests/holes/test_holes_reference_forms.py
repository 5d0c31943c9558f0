"""The holes of the reference system again, by number, in the forms that it does not have.

Each test fails if ours has the hole: whole axes, pieces of a walk, gathers, windows, loops that are
left early, functions of the author.
"""

import re
from pathlib import Path

import numpy as np
import pytest
from compiled_kernels import compiled_kernels

import tilewright as tw
from tilewright import All, Mapped, Mut, Ref, i32
from tilewright.dims import B, M, N
from tilewright.ir.ops.control import Loop
from tilewright.ir.ops.memory import LoadView
from tilewright.ir.types import TokenType

HERE = Path(__file__).parent


def tensor(values):
    return tw.from_numpy(np.asarray(values, np.int32))


def zeros(*shape):
    return tw.zeros(shape, i32)


def test_every_hole_has_its_test():
    texts = [path.read_text(encoding="utf-8") for path in HERE.glob("test_holes_reference*.py")]
    names = [name for text in texts for name in re.findall(r"def test_((?:\d\d_)+)", text)]
    numbers = {int(number) for name in names for number in name.split("_") if number}
    assert numbers == set(range(1, 22))


# --- 1: reads ---


@tw.kernel
def read_around(z: Mut[i32, B], x: Ref[i32, N], i: i32) -> None:
    z.store(x.gather(tw.arange(B, i32) + i, padding=-7))


@tw.kernel
def window(z: Mut[i32, B], x: Ref[i32, N], at: Ref[i32, M]) -> None:
    z.store(x.windows(B, step=3)[at.partition(1)[0].item()])


def test_01_a_gather_reads_what_is_there():
    """Hole 1: a read at a computed index was not checked at all."""
    z = zeros(4)
    for i in (-9, -2, 5, 2**31 - 1, -(2**31)):
        read_around(z.partition(4), tensor(range(8)), i).sync()
        places = [(i + k + 2**31) % 2**32 - 2**31 for k in range(4)]
        assert z.numpy().tolist() == [at if 0 <= at < 8 else -7 for at in places]


def test_01_a_window_begins_inside():
    """Hole 1: the same of a window."""
    z = zeros(4)
    window(z.partition(4), tensor(range(8)), tensor([2])).sync()
    assert z.numpy().tolist() == [6, 7, 0, 0]
    for outside in (3, -1, 2**31 - 1):
        with pytest.raises(tw.OutOfBoundsError, match=f"index {outside} is outside"):
            window(z.partition(4), tensor(range(8)), tensor([outside])).sync()


# --- 3, 4, 8, 17: pieces ---


@tw.kernel
def sum_of_each(z: Mapped[i32, B]) -> None:
    for at in z.indices():
        parts = z.piece(at).partition(2)
        total = 0
        for i in range(parts.num_tiles(0)):
            total += tw.sum(parts[i])
        z.store(tw.full((B,), total, i32), at)


def test_03_a_piece_of_a_walk_is_that_piece():
    """Hole 3: a view of an output for reading began at the whole tensor's start."""
    z = tensor(range(12))
    sum_of_each(z.partition(4).persistent(blocks=2)).sync()
    assert z.numpy().tolist() == [6] * 4 + [22] * 4 + [38] * 4


@tw.kernel
def rows(z: Mut[i32, 1, All], i: i32) -> None:
    parts = z.partition(1, 4)
    parts.store(tw.full((1, 4), z.index[0] + 1, i32), 0, i)


def test_04_08_17_a_part_of_a_whole_axis_stays_in_its_row():
    """Holes 4, 8, 17: parts reached into the neighbour's piece; whole axes never launched."""
    for i, columns in ((0, range(4)), (1, range(4, 6))):
        z = zeros(3, 6)
        rows(z.partition(1, None), i).sync()
        wanted = np.zeros((3, 6), np.int32)
        wanted[:, columns] = [[1], [2], [3]]
        assert z.numpy().tolist() == wanted.tolist()
    for outside in (2, -1):
        with pytest.raises(tw.LaunchError, match=f"index {outside}"):
            rows(zeros(3, 6).partition(1, None), outside)


# --- 5, 12, 20: control flow ---


@tw.kernel
def store_in_while(z: Mut[i32, B], c: i32) -> None:
    i = 0
    while i < c:
        z.store(tw.full((B,), i, i32))
        i += 1
    z.store(z.load() + 1)


def test_05_order_goes_through_a_while():
    """Hole 5: a store in a loop was not ordered before what followed."""
    z = zeros(4)
    store_in_while(z.partition(4), 3).sync()
    assert z.numpy().tolist() == [3] * 4
    ((_, compiled), *_) = compiled_kernels(store_in_while)
    ops = [op for function in compiled.module.functions for op in function.walk()]
    (loop,) = [op for op in ops if isinstance(op, Loop)]
    *_, load = [op for op in ops if isinstance(op, LoadView)]
    assert load.token in [value for value in loop.results if isinstance(value.type, TokenType)]


@tw.kernel
def leaving(z: Mut[i32, B], c: i32) -> None:
    if c < 0:
        return
    last = -1
    for i in range(4):
        if i == c:
            break
        if i == 1:
            continue
        last = i
    z.store(tw.full((B,), last, i32))
    if c == 3:
        return
    z.store(z.load() + 100)


@pytest.mark.parametrize(("c", "want"), [(-1, 7), (0, 99), (1, 100), (2, 100), (3, 2), (9, 103)])
def test_12_20_return_and_break_do_what_they_say(c, want):
    """Holes 12, 20: a return fell through, and a break failed in the assembler."""
    z = tw.full((4,), 7, i32)
    leaving(z.partition(4), c).sync()
    assert z.numpy().tolist() == [want] * 4


# --- 9, 14, 19: functions ---


@tw.kernel
def folded(z: Mut[i32, B], w: Mut[i32, B], x: Ref[i32, M, N]) -> None:
    t = x.partition(B, B)[0, 0]
    z.store(tw.reduce(t, lambda a, b: max(a, b), -100, axis=1))
    w.store(tw.sum(tw.scan(t, lambda a, b: min(a, b), 2**31 - 1, axis=0), axis=0))


def test_09_19_functions_of_the_author_keep_to_their_axis_and_identity():
    """Holes 9, 19: axis and identity were ignored, and the rank was what was declared."""
    x, z, w = -np.arange(1, 17, dtype=np.int32).reshape(4, 4), zeros(4), zeros(4)
    folded(z.partition(4), w.partition(4), tensor(x)).sync()
    assert z.numpy().tolist() == x.max(1).tolist()
    assert w.numpy().tolist() == np.minimum.accumulate(x, axis=0).sum(0).tolist()


@tw.kernel
def parts_of_a_tile(z: Mut[i32, B], at: Ref[i32, M]) -> None:
    t = tw.arange(B, i32)
    i = at.partition(1)[0].item()
    z.store(tw.insert(t, tw.extract(t, i, 2) * 10, i))


def test_14_a_part_of_a_tile_is_one_that_it_has():
    """Hole 14: a part of a tile could be taken at an unchecked index."""
    z = zeros(4)
    parts_of_a_tile(z.partition(4), tensor([1])).sync()
    assert z.numpy().tolist() == [0, 1, 20, 30]
    for outside in (2, -1, 2**31 - 1):
        with pytest.raises(tw.OutOfBoundsError, match=f"index {outside} is outside"):
            parts_of_a_tile(zeros(4).partition(4), tensor([outside])).sync()


# --- 21: one walk ---


@tw.kernel
def shared_range(y: Mapped[i32, B], z: Mapped[i32, B], ends: Ref[i32, M]) -> None:
    start, stop = ends.partition(1)[0].item(), ends.partition(1)[1].item()
    for at in y.indices_with(z, within=((start, stop),)):
        y.store(y.load(at) + 1, at)
    for at in z.indices_within((start, stop)):
        z.store(z.load(at) + 10, at)


@pytest.mark.parametrize("blocks", [1, 2, 5])
@pytest.mark.parametrize("ends", [(0, 3), (1, 9), (-5, 2), (2, 1), (2**31 - 1, -(2**31))])
def test_21_a_range_read_from_memory_is_one_walk(blocks, ends):
    """Hole 21: two walks with different ranges gave one tile to two blocks."""
    y, z = zeros(27), zeros(27)
    cut = [t.partition(4).persistent(blocks=blocks) for t in (y, z)]
    shared_range(*cut, tensor(ends)).sync()
    inside = np.isin(np.arange(27) // 4, range(max(ends[0], 0), min(ends[1], 7)))
    assert y.numpy().tolist() == inside.astype(int).tolist()
    assert z.numpy().tolist() == (10 * inside).tolist()
