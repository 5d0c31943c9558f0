"""Finalisers of users may pass arrays, while the table of ranges is looked through for another."""

from __future__ import annotations

import gc
from itertools import pairwise

import numpy as np
import pytest

import tilewright as tw
from tilewright.runtime.interop import ranges as foreign_ranges

STEPS, APART, SIZE = 600, 5, 64


class Passing:
    """Passes an array when it ends, which the collector alone can see to."""

    def __init__(self, array, handles):
        self.array, self.handles, self.itself = array, handles, self

    def __del__(self):
        gc.disable()  # one at a time
        self.handles.append(tw.from_dlpack(self.array))
        gc.enable()


@pytest.fixture
def thresholds():
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


@pytest.mark.usefixtures("thresholds")
def test_a_finaliser_may_pass_an_array_while_another_is_passed():
    """All of them begin inside one another, and some bridge two that were apart."""
    memory, handles = np.zeros(STEPS * APART + 4 * SIZE, np.float32), []
    order = np.random.default_rng(0).permutation(STEPS) * APART
    for step, start in enumerate(order.tolist()):
        length = SIZE if step % 8 == 0 else 1
        Passing(memory[start + 1 : start + 3], handles)
        gc.set_threshold(1 + step % 40, 1, 1)  # so that it runs here and there
        handles.append(tw.from_dlpack(memory[start : start + length]))
    gc.collect()
    groups = foreign_ranges.RANGES.groups
    assert [group.low for group in groups] == foreign_ranges.RANGES._lows
    assert all(one.high <= other.low for one, other in pairwise(groups))
    for handle in handles:
        group, region = handle.storage._group, handle.region
        assert group in groups
        assert group.low <= region.low < region.high <= group.high
        assert handle.storage.borrows is group.borrows
    assert sum(group.count for group in groups) == len(handles) == 2 * STEPS
