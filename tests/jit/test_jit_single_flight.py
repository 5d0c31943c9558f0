"""What is compiled once for all who ask at the same time, also when it comes to nothing."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tilewright.jit.cache.memory import SingleFlight

WAITERS = 4


class Compilation:
    """Something that is made while others wait for it; the gate says when it ends."""

    def __init__(self, result):
        self.gate, self.begun, self.times = threading.Event(), threading.Event(), 0
        self.result = result

    def __call__(self):
        self.times += 1
        self.begun.set()
        self.gate.wait(20)
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


def ask_at_once(table, make):
    """What each of several threads gets that ask for one entry while the first makes it."""
    with ThreadPoolExecutor(WAITERS) as pool:
        asked = [pool.submit(table.get, "key", make)]
        make.begun.wait(20)
        asked += [pool.submit(table.get, "key", make) for _ in range(WAITERS - 1)]
        make.gate.set()
        return [one.exception() or one.result() for one in asked]


def test_one_makes_it_and_all_have_it():
    table, make = SingleFlight(), Compilation("code")
    assert ask_at_once(table, make) == ["code"] * WAITERS
    assert (make.times, len(table)) == (1, 1)


def test_a_failure_is_told_to_all_and_forgotten():
    table, make = SingleFlight(), Compilation(ValueError("refused"))
    told = ask_at_once(table, make)
    assert {type(error) for error in told} == {ValueError}
    assert len(table) == 0
    assert table.get("key", lambda: "code") == "code"  # nobody is left waiting for the first


def test_another_key_does_not_wait():
    table, make = SingleFlight(), Compilation("code")
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(table.get, "key", make)
        make.begun.wait(20)
        assert table.get("another", lambda: "at once") == "at once"
        make.gate.set()
        assert slow.result() == "code"


def test_what_is_no_good_is_forgotten_unless_it_was_replaced():
    table = SingleFlight()
    first = table.get("key", object)
    table.forget("key", object())
    assert table.get("key", object) is first
    table.forget("key", first)
    assert table.get("key", object) is not first
    with pytest.raises(ZeroDivisionError):
        table.get("third", lambda: 1 / 0)
