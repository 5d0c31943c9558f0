"""How many cores a process may use, and who goes by it."""

import os
import threading

import pytest

from tilewright.backends.cpu.device import CpuBackend
from tilewright.jit.cache import memory as cache
from tilewright.runtime.devices.process import usable_cores


@pytest.fixture
def two_of_many(monkeypatch):
    """A machine of many cores, of which this process has two."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {3, 5}, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 96)


def test_those_that_the_process_may_use_count(two_of_many):
    assert usable_cores() == 2
    assert CpuBackend().resident_blocks() == 2
    background, gate, threads = cache._Background(), threading.Event(), set()

    def work(number):
        threads.add(threading.get_ident())
        gate.wait(20)
        return number

    started = [background.start(lambda n=n: work(n)) for n in range(5)]
    gate.set()
    assert [task.result() for task in started] == [0, 1, 2, 3, 4]
    assert len(threads) <= 2


@pytest.mark.parametrize(("count", "usable"), [(96, 96), (None, 1)])
def test_a_system_that_cannot_say_has_all_of_them(count, usable, two_of_many, monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: count)
    assert usable_cores() == usable
