"""Handles that wait at places which are forgotten, and tensors that end at any time."""

from __future__ import annotations

import gc
import weakref

import pytest
from test_runtime_torch_vacant import Memory, identity
from torch_doubles import SIZE

import tilewright as tw
from tilewright.runtime.interop import array as foreign_arrays
from tilewright.runtime.interop import passed_arrays

torch = pytest.importorskip("torch", reason="needs torch")


def test_places_that_are_forgotten_keep_no_handles(lib, monkeypatch):
    """Nor do those that come back to one: nobody would look there."""
    monkeypatch.setattr(foreign_arrays, "_PLACES", 2)
    size = 5 * SIZE  # a form that no other test has
    memories = [Memory(size) for _ in range(3)]
    kept, gone = (memory.take() for memory in memories[:2])
    place = tw.partition(kept, SIZE).tensor.storage.origin
    handle = weakref.ref(tw.partition(gone, SIZE).tensor.storage)
    del gone
    tw.synchronize()
    assert place.form.vacancies == 1
    assert handle() is not None
    identity(memories[2].take())
    assert handle() is None, "it takes the collector to end it"
    del kept
    tw.synchronize()
    assert not place.vacant
    assert place.form.vacancies == 1


def test_tensors_may_die_while_all_are_looked_at(lib):
    """Where the collector runs whenever something is made: on Python 3.11 inside a list, too."""
    kept = [torch.zeros(SIZE) for _ in range(200)]
    handles = [tw.partition(tensor, SIZE) for tensor in kept]
    before = gc.get_threshold()
    gc.set_threshold(3, 1, 1)
    try:
        for _ in range(300):
            tensor = torch.zeros(SIZE)
            tw.partition(tensor, SIZE)
            cycle = [tensor]  # made last: the collector looks at what is young
            cycle.append(cycle)
            del tensor, cycle
            passed_arrays._look_around()
    finally:
        gc.set_threshold(*before)
    assert all(id(tensor) in passed_arrays.PASSED for tensor in kept)
    del handles


def test_what_is_left_of_a_tensor_is_not_taken_for_another(lib):
    """If its end was not told, as a signal came: the next one may have the same identity."""
    dead, living = torch.zeros(SIZE), torch.zeros(SIZE)
    theirs = tw.partition(dead, SIZE).tensor
    passed_arrays.PASSED[id(living)] = passed_arrays.PASSED[id(dead)]
    assert passed_arrays.passed_before(living) is None
    assert tw.partition(living, SIZE).tensor is not theirs
    assert tw.partition(dead, SIZE).tensor is theirs


def test_the_end_of_an_older_handle_is_not_that_of_a_newer_one(lib):
    tensor = torch.zeros(SIZE)
    before = tw.partition(tensor, SIZE).tensor
    older = passed_arrays.PASSED[id(tensor)][1]
    tensor.data = torch.zeros(SIZE)
    after = tw.partition(tensor, SIZE).tensor
    assert after is not before
    passed_arrays._forget(older)
    assert passed_arrays.passed_before(tensor) is after
