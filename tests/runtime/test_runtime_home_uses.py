"""What launches at home leave on a storage: nothing is lost, whoever looks or launches then."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.runtime.per_tensor import spell_out
from tilewright.runtime.regions import Region
from tilewright.runtime.uses import MANY_AT_HOME, HomeUses

REGIONS = [Region.between(8 * n, 8 * n + 8) for n in range(5)]


class Home:
    """A stream on which launches have completed up to some count."""

    def __init__(self, done=0):
        self.queue = self
        self.done = done

    def completed(self):
        return self.done


def leave(uses, region, count, home=None):
    """As a launch does that writes one tensor."""
    storage = SimpleNamespace(written_at_home=uses)
    tensors = (SimpleNamespace(storage=storage, region=region),)
    return spell_out((True,)).leave(tensors, count, SimpleNamespace(epoch=7), 7, home or Home())


def looked(uses, home=None):
    """Regions and counts that somebody sees."""
    found = []
    assert uses.unfold(home or Home(), found)
    assert len(uses) == 0
    return {(use.region.low, use.fence.count) for use in found}


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=60))
def test_the_last_launch_of_each_region_is_seen_once(steps):
    uses, expected = HomeUses(), {}
    for count, (number, somebody_looks) in enumerate(steps, 1):
        leave(uses, REGIONS[number], count)
        expected[REGIONS[number].low] = count
        assert len(uses) >= len(expected)
        if somebody_looks:
            assert looked(uses) == set(expected.items())
            expected.clear()
    assert looked(uses) == set(expected.items())


def test_the_same_region_again_is_one_use():
    uses = HomeUses()
    for count in range(1, 5):
        leave(uses, REGIONS[0], count)
    assert len(uses) == 1
    assert looked(uses) == {(0, 4)}


def test_what_has_completed_is_forgotten_where_there_is_much():
    uses, home = HomeUses(), Home(MANY_AT_HOME - 10)
    for count in range(1, MANY_AT_HOME + 1):
        leave(uses, REGIONS[count % 2], count, home)
    assert len(uses) <= 3
    assert looked(uses) == {(0, MANY_AT_HOME), (8, MANY_AT_HOME - 1)}


@pytest.fixture
def meanwhile(monkeypatch):
    """What a finaliser does once, just before what was read is compared with what is there."""
    todo, compare = [], HomeUses._is_still

    def compared(*what):
        if todo:
            todo.pop()()
        return compare(*what)

    monkeypatch.setattr(HomeUses, "_is_still", compared)
    return todo


def test_somebody_who_looks_while_a_region_is_set_aside_has_it(meanwhile):
    uses, seen = HomeUses(), []
    leave(uses, REGIONS[0], 1)
    meanwhile.append(lambda: seen.append(looked(uses)))
    leave(uses, REGIONS[1], 2)
    assert seen == [{(0, 1)}]
    assert looked(uses) == {(8, 2)}


def test_a_launch_while_a_region_is_set_aside_is_not_lost(meanwhile):
    uses = HomeUses()
    leave(uses, REGIONS[0], 1)
    meanwhile.append(lambda: leave(uses, REGIONS[2], 2))
    leave(uses, REGIONS[1], 3)
    assert looked(uses) == {(0, 1), (16, 2), (8, 3)}


def test_a_launch_while_somebody_looks_is_seen_by_the_next(meanwhile):
    uses, found = HomeUses(), []
    leave(uses, REGIONS[0], 1)
    meanwhile.append(lambda: leave(uses, REGIONS[1], 2))
    assert not uses.unfold(Home(), found)
    assert found == []
    assert looked(uses) == {(0, 1), (8, 2)}


def test_nothing_is_left_in_another_epoch(meanwhile):
    """The storage may have another home by then, which would count otherwise."""
    uses, device = HomeUses(), SimpleNamespace(epoch=7)
    other = HomeUses()
    tensors = tuple(
        SimpleNamespace(storage=SimpleNamespace(read_at_home=left), region=REGIONS[1])
        for left in (uses, other)
    )
    steps = spell_out((False, False))
    assert not steps.leave(tensors, 2, device, 6, Home())
    assert len(uses) == len(other) == 0
    uses.region, uses.count = REGIONS[0], 1
    meanwhile.append(lambda: setattr(device, "epoch", 8))
    assert not steps.leave(tensors, 2, device, 7, Home())
    assert len(other) == 0
    assert looked(uses) == {(0, 1)}
