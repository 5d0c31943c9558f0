"""What contexts say about calls, and that nobody is asked where none says anything."""

from __future__ import annotations

import contextvars
import gc
import threading

import pytest

from tilewright import runtime as tw
from tilewright.runtime.devices.context import INTERCEPTED, ContextFlag, intercepted


@pytest.fixture
def some():
    return ContextFlag("some")


def test_nothing_is_said_but_inside(some):
    assert some.get() is None
    assert not some.said
    before = some.set(some.saying(3))
    inner = some.set(some.saying(4))
    assert some.get() == 4
    some.reset(inner)
    assert some.get() == 3
    some.reset(before)
    del before, inner
    assert some.get() is None
    assert not some.said


def test_a_context_that_was_copied_goes_on_saying_it(some):
    before = some.set(some.saying(3))
    copied = contextvars.copy_context()
    some.reset(before)
    del before
    assert some.get() is None
    assert some.said
    assert copied.run(some.get) == 3
    del copied
    gc.collect()
    assert not some.said


def test_one_saying_many_times(some):
    saying = some.saying(3)
    for _ in range(3):
        before = some.set(saying)
        assert some.get() == 3
        some.reset(before)
        assert some.get() is None
        assert len(some.said) == 1


def test_what_another_thread_says_is_not_said_here():
    found = []
    with intercepted():
        assert INTERCEPTED.get()
        thread = threading.Thread(target=lambda: found.append(INTERCEPTED.get()))
        thread.start()
        thread.join()
    assert found == [None]


def test_a_stream_is_chosen_for_one_thread(device):
    other = device.new_stream()
    found = []
    with tw.stream(other):
        thread = threading.Thread(target=lambda: found.append(device.stream))
        thread.start()
        thread.join()
        assert device.stream is other
    assert found == [device.default]
    assert device.stream is device.default
