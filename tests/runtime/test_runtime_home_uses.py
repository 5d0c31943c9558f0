"""What launches at home leave on a storage: nothing is lost, whoever looks or launches then."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.runtime.memory.regions import Region
from tilewright.runtime.ops.per_tensor import spell_out
from tilewright.runtime.order.uses import MANY_AT_HOME, HomeUses

REGIONS = [Region.between(8 * n, 8 * n + 8) for n in range(5)]


class Home:
    """A stream on which launches have completed up to some count."""

    def __init__(self, done=0):
        self.queue = self
        self.done = done

    def completed(self):
        return self.done


class Storage:
    """What a launch has written is left on it."""

    def __init__(self):
        self.home = Home()
        self.written_at_home = HomeUses()

    @property
    def left(self):
        return len(self.written_at_home)


@pytest.fixture
def storage():
    return Storage()


def leave(storage, region, count):
    """As a launch does that writes one tensor."""
    tensors = (SimpleNamespace(storage=storage, region=region),)
    device = SimpleNamespace(epoch=7)
    return spell_out((True,)).leave(tensors, count, device, 7, storage.home)


def looked(storage):
    """Streams, regions and counts that somebody sees."""
    found = []
    storage.written_at_home.unfold(storage.home, found)
    assert storage.left == 0
    assert all(use.fence.stream is storage.home for use in found)
    return {(use.region.low, use.fence.count) for use in found}


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=60))
def test_the_last_launch_of_each_region_is_seen_once(steps):
    storage, expected = Storage(), {}
    for count, (number, somebody_looks) in enumerate(steps, 1):
        leave(storage, REGIONS[number], count)
        expected[REGIONS[number].low] = count
        assert storage.left >= len(expected)
        if somebody_looks:
            assert looked(storage) == set(expected.items())
            expected.clear()
    assert looked(storage) == set(expected.items())


def test_the_same_region_again_is_one_use(storage):
    for count in range(1, 5):
        leave(storage, REGIONS[0], count)
    assert storage.left == 1
    assert looked(storage) == {(0, 4)}


def test_what_has_completed_is_forgotten_where_there_is_much(storage):
    storage.home.done = MANY_AT_HOME - 10
    for count in range(1, MANY_AT_HOME + 1):
        leave(storage, REGIONS[count % 2], count)
    assert storage.left <= 3
    assert looked(storage) == {(0, MANY_AT_HOME), (8, MANY_AT_HOME - 1)}


def while_it_is_set_aside(storage, act):
    """A finaliser runs while the last region is set aside for another."""

    class Before(tuple):
        def __getitem__(self, place):
            if not done:
                done.append(None)
                act()
            return super().__getitem__(place)

    done = []
    storage.written_at_home.before = Before((REGIONS[4], 1, None, 1))


def test_somebody_who_looks_while_a_region_is_set_aside_has_it(storage):
    seen = []
    leave(storage, REGIONS[0], 2)
    while_it_is_set_aside(storage, lambda: seen.append(looked(storage)))
    leave(storage, REGIONS[1], 3)
    assert seen == [{(32, 1), (0, 2)}]
    assert looked(storage) == {(8, 3)}


def test_a_launch_while_a_region_is_set_aside_is_not_lost(storage):
    leave(storage, REGIONS[0], 2)
    while_it_is_set_aside(storage, lambda: leave(storage, REGIONS[2], 3))
    assert not leave(storage, REGIONS[1], 4), "then it leaves a fence"
    assert looked(storage) == {(32, 1), (0, 2), (16, 3)}


def test_nothing_is_left_in_another_epoch(storage):
    """The storage may have another home by then, which would count otherwise."""
    device, other = SimpleNamespace(epoch=7), Storage()
    tensors = tuple(SimpleNamespace(storage=one, region=REGIONS[1]) for one in (storage, other))
    steps = spell_out((True, True))
    assert not steps.leave(tensors, 3, device, 6, storage.home)
    assert storage.left == other.left == 0
    leave(storage, REGIONS[0], 2)
    while_it_is_set_aside(storage, lambda: setattr(device, "epoch", 8))
    assert not steps.leave(tensors, 3, device, 7, storage.home)
    assert other.left == 0
    assert looked(storage) == {(32, 1), (0, 2)}
