"""How many nodes of a CUDA graph stand side by side: some, and each in the order it had."""

from __future__ import annotations

import pytest
import runtime_names as tw
from hypothesis import given, settings
from hypothesis import strategies as st
from paper_launches import FunctionWork, add_one_kernel, load
from runtime_doubles import reads, updates

from tilewright.backends.cuda.graph import in_lanes


@st.composite
def orders(draw):
    """For each node some of those before it."""
    count = draw(st.integers(0, 30))
    return [
        tuple(sorted(draw(st.sets(st.integers(0, node - 1), max_size=3)) if node else ()))
        for node in range(count)
    ]


def reach(after):
    """All nodes before each."""
    found = []
    for before in after:
        found.append(set(before).union(*(found[node] for node in before)))
    return found


def widest(after):
    """The least number of chains that all nodes fit in, which is how many can stand side by side.

    By matching each node with one that comes somewhere behind it.
    """
    before = reach(after)
    behind: dict[int, int] = {}

    def match(node, seen):
        for other in before[node] - seen:
            seen.add(other)
            if other not in behind or match(behind[other], seen):
                behind[other] = node
                return True
        return False

    return len(after) - sum(match(node, set()) for node in range(len(after)))


@settings(max_examples=150, deadline=None)
@given(after=orders(), lanes=st.integers(1, 6))
def test_all_order_is_kept_and_no_more_stand_side_by_side(after, lanes):
    found = in_lanes(after, lanes)
    assert all(set(before) <= set(kept) for before, kept in zip(after, found, strict=True))
    assert all(one < node for node, before in enumerate(found) for one in before)
    assert widest(found) <= lanes
    assert sum(map(len, found)) <= sum(map(len, after)) + len(after)


def test_few_nodes_are_left_as_they_are():
    free = [()] * 20
    assert in_lanes(free) == free
    diamond = [(), (0,), (0,), (1, 2)]
    assert in_lanes(diamond, 2) == diamond


def test_many_that_wait_for_no_other():
    found = in_lanes([()] * 100)
    assert found[:20] == [()] * 20
    assert found[20:] == [(node - 20,) for node in range(20, 100)]


@pytest.mark.parametrize(("width", "together"), [(1, False), (2, False), (3, True), (30, True)])
def test_several_start_behind_one_that_does_nothing(driver, cuda, width, together):
    function = load(driver, "copy", add_one_kernel)
    pairs = [(tw.zeros(8), tw.full(8, number)) for number in range(width)]
    with tw.graph() as made:
        for pair in (*pairs, pairs[0]):
            accesses = updates(pair[0]), reads(pair[1])
            made.record(
                tw.make_operation("copy", cuda, accesses, FunctionWork(function, pair), None)
            )
    assert driver.calls("add_idle") == ([("add_idle", 0, ())] if together else [])
    free = [before for _, _, before in driver.calls("add_launch") if not before]
    assert len(free) == (0 if together else width)
    made.launch().submit()
    assert [z.numpy()[0] for z, _ in pairs] == [number + 1 for number in range(width)]


def test_a_wide_graph_does_what_it_did(driver, cuda):
    function = load(driver, "copy", add_one_kernel)
    pairs = [(tw.zeros(8), tw.full(8, number)) for number in range(70)]
    with tw.graph() as made:
        for pair in pairs:
            accesses = updates(pair[0]), reads(pair[1])
            made.record(
                tw.make_operation("copy", cuda, accesses, FunctionWork(function, pair), None)
            )
    made.launch().submit()
    assert [z.numpy()[0] for z, _ in pairs] == [number + 1 for number in range(70)]
    z, x = pairs[3][0], pairs[5][1]
    work = FunctionWork(function, (z, x))
    made.update(tw.make_operation("copy", cuda, (updates(z), reads(x)), work, None), node=3)
    made.launch().submit()
    assert pairs[3][0].numpy()[0] == 6
