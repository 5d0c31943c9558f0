"""Kernels that walk a range read from memory, one for each rank, and what they must have written.

Each adds to what a tile holds: a tile that is visited twice, not at all or by mistake shows.
"""

import math

import numpy as np

import tilewright as tw
from tilewright import Mapped, Ref, i32
from tilewright.dims import BM, BN, B, D, N


def end(ends, axis, which):
    return ends[2 * axis + which].item()


@tw.kernel(deny_checks=True)
def walked_1(z: Mapped[i32, B], ends: Ref[i32, 2]) -> None:
    e = ends.partition(1)
    for at in z.indices_within((end(e, 0, 0), end(e, 0, 1))):
        z.store(z.load(at) + 1 + at[0], at)


@tw.kernel(deny_checks=True)
def walked_2(z: Mapped[i32, BM, BN], ends: Ref[i32, 4]) -> None:
    e = ends.partition(1)
    for at in z.indices_within((end(e, 0, 0), end(e, 0, 1)), (end(e, 1, 0), end(e, 1, 1))):
        i, j = at
        z.store(z.load(at) + 1 + (i * 16 + j), at)


@tw.kernel(deny_checks=True)
def walked_3(z: Mapped[i32, BM, BN, D], ends: Ref[i32, 6]) -> None:
    e = ends.partition(1)
    rows, columns = (end(e, 1, 0), end(e, 1, 1)), (end(e, 2, 0), end(e, 2, 1))
    for at in z.indices_within((end(e, 0, 0), end(e, 0, 1)), rows, columns):
        i, j, k = at
        z.store(z.load(at) + 1 + ((i * 16 + j) * 16 + k), at)


@tw.kernel(deny_checks=True)
def walked_4(z: Mapped[i32, B, BM, BN, D], ends: Ref[i32, 8]) -> None:
    e = ends.partition(1)
    outer = (end(e, 0, 0), end(e, 0, 1)), (end(e, 1, 0), end(e, 1, 1))
    inner = (end(e, 2, 0), end(e, 2, 1)), (end(e, 3, 0), end(e, 3, 1))
    for at in z.indices_within(outer[0], outer[1], inner[0], inner[1]):
        i, j, k, m = at
        z.store(z.load(at) + 1 + (((i * 16 + j) * 16 + k) * 16 + m), at)


@tw.kernel(deny_checks=True)
def walked_6(z: Mapped[i32, 1, 1, 1, B, BM, BN], first: Ref[i32, N]) -> None:
    """All of a tensor but the ends of its axes 1 and 4."""
    start = first.partition(1)[0].item()
    for at in z.indices_within(None, (start, 9), None, None, (0, 2), None):
        z.store(z.load(at) + 1 + (at[1] * 16 + at[4]), at)


KERNELS = {1: walked_1, 2: walked_2, 3: walked_3, 4: walked_4}
Range = tuple[int, int]


def walk(
    shape: tuple[int, ...],
    tile: tuple[int, ...],
    ranges: tuple[Range, ...],
    blocks: int | None,
    group: int | tuple[int, ...] = 1,
    order: tuple[int, ...] = (),
) -> None:
    """Walk the ranges of an output, watched for races, and compare every element."""
    poison = np.arange(math.prod(shape), dtype=np.int32).reshape(shape) * 7 - 1000
    z = tw.from_numpy(poison)
    ends = tw.from_numpy(np.array(ranges, np.int32).reshape(-1))
    with tw.race_check():
        cut = z.partition(*tile, order=order).persistent(blocks=blocks, group=group)
        KERNELS[len(shape)](cut, ends).sync()
    places = np.indices(shape) // np.reshape(tile, (-1, *(1 for _ in shape)))
    inside, number = np.ones(shape, bool), np.zeros(shape, np.int64)
    for place, (start, stop) in zip(places, ranges, strict=True):
        inside &= (place >= start) & (place < stop)
        number = number * 16 + place
    np.testing.assert_array_equal(z.numpy(), np.where(inside, poison + 1 + number, poison))
