"""Handles that wait at places which are forgotten, or that somebody else settles."""

from __future__ import annotations

import weakref

from test_runtime_torch_vacant import Memory, identity
from torch_doubles import SIZE

import tilewright as tw
from tilewright.runtime import foreign, foreign_arrays, passed_arrays


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


def test_a_handle_that_another_thread_settles_at_once(lib, monkeypatch):
    """While the table is looked through, it may have become nobody's."""
    memory = Memory()
    tensor = memory.take()
    storage = tw.partition(tensor, SIZE).tensor.storage
    monkeypatch.setattr(storage, "producer", foreign._NOBODY)
    passed_arrays._look_around()
    assert id(tensor) in passed_arrays.PASSED
