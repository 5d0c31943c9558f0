"""Whatever comes in between, what has ended is settled once, and what has not is not."""

from __future__ import annotations

import itertools
from functools import partial

import pytest
from collector_points import Points
from ready_bench import Bench


@pytest.mark.parametrize("of_signals", [False, True])
def test_what_is_settled_in_between_leaves_what_is_not_over(of_signals):
    """Of things that are kept, and of outcomes that nobody has looked at."""
    for at in itertools.count():
        bench = Bench(0, None)
        stream = bench.device.stream
        bench.driver.patient = True
        over, later = object(), object()
        with bench.device.lock:
            for kept in (over, later):
                stream.keep(kept)
                stream.watch(stream.advance(), lambda: None, ())
            stream.queue.known = stream.issued - 1
            del over, kept
            outcome = stream._unsettled[-1]
            with Points(at, partial(stream.settle, ask=False), of_signals=of_signals) as points:
                stream.settle(ask=False)
        assert [entry[1] for entry in stream._kept] == [later], points.where
        assert list(stream._unsettled) == [outcome], points.where
        assert not outcome.settled
        assert stream.has_loose_ends
        if points.where is None:
            break
    assert at > 5


def test_notes_that_are_settled_in_between_are_settled_once():
    for at in itertools.count():
        bench, settled = Bench(0, None), []

        class Note:
            def settle(self, settled=settled):
                settled.append(self)

        device = bench.device
        device.notes += [Note(), Note()]
        with device.lock, Points(at, device.settle_notes) as points:
            device.settle_notes()
        assert len(set(map(id, settled))) == len(settled) == 2, points.where
        if points.where is None:
            break
    assert at > 2
