"""The order that releases and acquires give: as its definition says, and cheap to ask for."""

import random

import numpy as np
import pytest
from test_races_synchronised import ACQUIRE, RELEASE, guarded, watch

from tilewright.backends.cpu.accesses import Event, Spans
from tilewright.backends.cpu.faults import AccessMode, FaultSite
from tilewright.backends.cpu.memory import KernelMemory
from tilewright.backends.cpu.synchronisation import Synchronisation

SITES = [
    FaultSite("read", None, AccessMode.READ, AccessMode.READ),
    FaultSite("acquire", None, AccessMode.ATOMIC_READ, AccessMode.ATOMIC_READ, acquires=True),
    FaultSite("release", None, AccessMode.ATOMIC_WRITE, AccessMode.ATOMIC_WRITE, releases=True),
    FaultSite(
        "both", None, AccessMode.ATOMIC_WRITE, AccessMode.ATOMIC_WRITE, acquires=True, releases=True
    ),
]


def random_history(rng: random.Random):
    """Blocks whose events have tokens in part, and synchronise over some overlapping places."""
    blocks = [(i, 0, 0) for i in range(rng.randint(2, 4))]
    events: dict = {block: [] for block in blocks}
    for turn in range(rng.randint(3, 24)):
        block = rng.choice(blocks)
        own = events[block]
        before = 0
        for number, event in enumerate(own):
            if rng.random() < 0.4:
                before |= event[3] | 1 << number
        site = rng.randrange(4)
        start = 4 * rng.randrange(3)
        where = Spans(np.array([start]), np.array([start + rng.choice((4, 8))]))
        own.append((site, where, (), before) if site == 0 else (site, where, (), before, turn))
    return list(events.items())


def by_definition(records):
    """Which accesses come before which: the closure of tokens and of releases acquired."""
    nodes = [(b, n, Event(*parts)) for b, events in records for n, parts in enumerate(events)]
    edges = {node[:2]: set() for node in nodes}
    for block, number, event in nodes:
        for other, n, e in nodes:
            if other == block and event.before >> n & 1:
                edges[block, n].add((block, number))
            apart = e.where.ends[0] <= event.where.starts[0] or (
                event.where.ends[0] <= e.where.starts[0]
            )
            passes = SITES[e.site].releases and SITES[event.site].acquires and not apart
            if passes and e.turn < event.turn:
                edges[other, n].add((block, number))
    return nodes, edges


def reached(edges, start):
    found, open_ = set(), [start]
    while open_:
        for node in edges[open_.pop()]:
            if node not in found:
                found.add(node)
                open_.append(node)
    return found


@pytest.mark.parametrize("seed", range(150))
def test_the_order_is_that_of_its_definition(seed):
    records = random_history(random.Random(seed))
    order = Synchronisation(records, SITES)
    nodes, edges = by_definition(records)
    for one in nodes:
        later = reached(edges, one[:2])
        for other in nodes:
            if one[0] != other[0]:
                led = bool(order) and order.leads(one, other)
                assert led == (other[:2] in later)
                if led:
                    assert order.time(one) < order.time(other)


@pytest.mark.parametrize("tiles", [True, False], ids=["tiles", "pointers"])
def test_the_accesses_of_a_lock_are_compared_with_the_one_before(tiles, monkeypatch):
    asked = []
    leads = Synchronisation.leads
    monkeypatch.setattr(
        Synchronisation, "leads", lambda *args: bool(asked.append(1)) or leads(*args)
    )
    counts = []
    for blocks in (50, 200):
        asked.clear()
        z, flag = np.zeros(4, np.float32), KernelMemory.of(np.zeros(1, np.int32))
        watch(guarded(ACQUIRE, RELEASE, tiles=tiles), (blocks, 1, 1), z, flag)
        counts.append(len(asked))
    assert 0 < counts[1] <= 5 * counts[0]
