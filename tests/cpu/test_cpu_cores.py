"""Threads and BLAS take no core that is in use."""

import os

import pytest

from tilewright.backends.cpu import cores
from tilewright.backends.cpu.cores import Cores, busy_seconds


@pytest.fixture
def four(monkeypatch):
    """Four cores, and a clock: `seconds of other processes` at each `time`."""
    monkeypatch.setattr(cores, "usable_cores", lambda: 4)
    now = {"time": 100.0, "busy": 0.0}
    monkeypatch.setattr(cores, "monotonic", lambda: now["time"])
    monkeypatch.setattr(cores, "busy_seconds", lambda: now["busy"] + sum(os.times()[:2]))
    return now


def test_kernels_at_once_share_the_cores(four):
    all_ = Cores()
    assert all_.are_free()
    assert all_.take(8) == 4
    assert all_.take(3) == 1, "each has a thread of its own"
    all_.give_back(4)
    assert all_.take(8) == 3
    assert not all_.are_free()
    all_.give_back(3)
    all_.give_back(1)
    assert all_.take(1) == 1
    assert all_.are_free(), "its own thread does not count"


@pytest.mark.parametrize(("used", "left"), [(0.1, 4), (1.0, 3), (2.4, 2), (4.0, 1), (9.0, 1)])
def test_cores_of_other_processes_are_left_to_them(four, used, left):
    all_ = Cores()
    all_.give_back(all_.take(1))
    four["time"] += 2
    four["busy"] += 2 * used
    assert all_.take(4) == left
    all_.give_back(left)
    assert all_.are_free() == (left == 4)
    assert all_.take(4, is_long=True) == 4, "a long use competes for them"
    all_.give_back(4)
    four["time"] += 2
    assert all_.take(4) == 4, "the others have ended"


def test_the_seconds_of_usable_cores_count(tmp_path, monkeypatch):
    statistics = tmp_path / "stat"
    statistics.write_text(
        "cpu  9 9 9 9 9 9 9 0 0 0\ncpu0 100 10 50 9999 9999 3 2 0 0 0\n"
        "cpu1 7 7 7 7 7 7 7 0 0 0\ncpu5 200 0 0 9999 9999 0 0 0 0 0\nintr 5\n"
    )
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 5}, raising=False)
    monkeypatch.setattr(os, "sysconf", lambda name: 100, raising=False)
    assert busy_seconds(statistics) == pytest.approx(3.65)


def test_a_system_without_statistics_has_no_others(tmp_path):
    assert busy_seconds(tmp_path / "nothing") == 0
