"""Accesses of whole rows give what accesses of single addresses give, faults included."""

import numpy as np
import pytest

from tilewright.backends.cpu import crossed, pointers
from tilewright.backends.cpu.faults import Fault
from tilewright.backends.cpu.memory import AddressSpace, KernelMemory
from tilewright.backends.cpu.shorts import padded
from tilewright.dtypes import Element

SHAPE = (8, 16)


def site(element=Element.F32):
    return crossed.Site(3, 4, element, SHAPE)


def memory(dtype=np.float32, *, writeable=True):
    array = np.arange(400).astype(dtype)
    array.flags.writeable = writeable
    return array, AddressSpace([KernelMemory.of(array)])


def steps(rows, columns, dtype=np.int32):
    return np.array(rows, dtype).reshape(8, 1), np.array(columns, dtype).reshape(1, 16)


def by_elements(space, base, both, masks, padding, size=4):
    places = pointers.moved(3, base, both[0] + both[1], size)
    mask = crossed.Masks(*masks).over(SHAPE)
    return pointers.load(space, 4, Element.F32, places, mask, padding)


ROWS = [0, 300, 20, 20, 41, 7, 160, 100]
COLUMN_MASK = np.array([1, 0, 1, 1, 1, 0, 1, 1], bool).reshape(8, 1)
ROW_MASKS = {
    "all": None,
    "first": np.arange(16).reshape(1, 16) < 11,
    "last": np.arange(16).reshape(1, 16) >= 5,
    "middle": (np.arange(16) // 4 == 1).reshape(1, 16),
    "apart": (np.arange(16) % 3 == 1).reshape(1, 16),
    "none": np.zeros((1, 16), bool),
}


@pytest.mark.parametrize("column", [None, COLUMN_MASK, ~COLUMN_MASK & COLUMN_MASK])
@pytest.mark.parametrize("row", ROW_MASKS)
@pytest.mark.parametrize("columns", [range(16), range(2, 18), range(0, 32, 2), [*range(15), 3]])
def test_loads(column, row, columns):
    array, space = memory()
    both, masks = steps(ROWS, columns), (column, ROW_MASKS[row])
    base = np.int64(array.ctypes.data)
    for padding in (None, np.float32(-3)):
        found = crossed.load(space, site(), base, both, masks, padding)
        found = padded(found, 1, 16, 0 if padding is None else padding)
        np.testing.assert_array_equal(found, by_elements(space, base, both, masks, padding))
        assert found.dtype == np.float32


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_an_address_outside_is_reported(dtype):
    array, space = memory()
    base, outside = np.int64(array.ctypes.data), [*ROWS[:-1], 390]
    with pytest.raises(Fault, match="outside the memories of this launch"):
        crossed.load(space, site(), base, steps(outside, range(16), dtype), (None, None), None)
    # The mask leaves out the row, or the columns, that would lie outside.
    kept = np.array([True] * 7 + [False]).reshape(8, 1)
    crossed.load(space, site(), base, steps(outside, range(16), dtype), (kept, None), None)
    kept = np.arange(16).reshape(1, 16) < 10
    crossed.load(space, site(), base, steps(outside, range(16), dtype), (None, kept), None)


def test_a_move_that_wraps_is_reported_even_under_a_mask():
    array, space = memory()
    far = [*ROWS[:-1], 1 << 61]
    kept = np.array([True] * 7 + [False]).reshape(8, 1)
    with pytest.raises(Fault, match="wraps"):
        crossed.load(
            space, site(), np.int64(array.ctypes.data), steps(far, range(16), np.int64),
            (kept, None), None,
        )  # fmt: skip


def test_sums_of_steps_wrap_in_their_own_width():
    array, space = memory()
    both = steps([2**31 - 1] * 8, range(-20, -4))
    both[1][0, -1] = 1  # not consecutive: the sum of 2**31 - 1 and 1 wraps
    with pytest.raises(Fault, match="outside"):
        crossed.load(space, site(), np.int64(array.ctypes.data), both, (None, None), None)
    both = steps([2**31 - 8] * 8, range(16))
    with pytest.raises(Fault, match="outside"):
        crossed.load(space, site(), np.int64(array.ctypes.data), both, (None, None), None)


def test_an_odd_address_is_reported():
    array, space = memory()
    with pytest.raises(Fault, match="not a multiple of 4 bytes"):
        crossed.load(
            space, site(), np.int64(array.ctypes.data + 2), steps(ROWS, range(16)), (None, None),
            None,
        )  # fmt: skip


@pytest.mark.parametrize(
    "rows", [[0, 300, 20, 60, 41, 80, 160, 100], ROWS], ids=["apart", "shared"]
)
@pytest.mark.parametrize("column", [None, COLUMN_MASK])
@pytest.mark.parametrize("row", ROW_MASKS)
def test_stores(rows, column, row):
    tile = np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32)
    both, masks = steps(rows, range(16)), (column, ROW_MASKS[row])
    written = []
    for by_rows in (True, False):
        array, space = memory()
        base = np.int64(array.ctypes.data)
        if by_rows:
            crossed.store(space, site(), base, both, masks, tile)
        else:
            places = pointers.moved(3, base, both[0] + both[1], 4)
            mask = crossed.Masks(*masks).over(SHAPE)
            pointers.store(space, 4, Element.F32, places, tile, mask)
        written.append(array)
    np.testing.assert_array_equal(*written)


def test_memory_that_is_read_only_is_not_written():
    array, space = memory(writeable=False)
    with pytest.raises(Fault, match="read-only"):
        crossed.store(
            space, site(), np.int64(array.ctypes.data), steps(ROWS, range(16)), (None, None),
            np.zeros(SHAPE, np.float32),
        )  # fmt: skip
