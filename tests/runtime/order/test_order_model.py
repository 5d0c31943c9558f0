"""Random work on four streams of a GPU on paper, checked with vector clocks.

Every conflicting pair is in order, no wait is inserted where there is an order already, and on one
stream none at all. `make model` runs more of it, with another seed each time.
"""

from __future__ import annotations

import pytest
from order_program import COUNT, EACH, SEED, Program

from tilewright.backends.cuda.stream import CudaQueue

PARTS = 4  # so that several processes share the work


@pytest.mark.parametrize("part", range(PARTS))
def test_every_conflict_is_ordered_and_no_wait_is_in_vain(part, record_property):
    submissions = waits = naive = direct = 0
    for number in range(COUNT // PARTS // EACH):
        seed = (SEED * PARTS + part) * 1_000_003 + number
        program = Program(seed)
        try:
            program.run(EACH)
        except BaseException as error:
            error.add_note(f"Program({seed})")
            raise
        submissions += program.submissions
        waits += program.driver.waits_put
        naive += program.driver.naive_waits
        direct += program.direct
    summary = f"{submissions:,} submissions, {waits:,} waits inserted; {naive:,} without memory"
    summary += f"; {direct:,} on direct timelines"
    record_property("waits", summary)
    print(f"\nseed {SEED}, part {part}: {summary}")  # noqa: T201 (for those who run `make model`)
    assert 0 < waits < naive
    assert direct, "no launch came directly behind a replay"


@pytest.mark.parametrize("seed", range(3))
def test_on_one_stream_nothing_waits(seed):
    program = Program(seed, streams=1)
    program.run(EACH)
    assert program.submissions > EACH // 4
    assert program.driver.calls("create_event", "record", "wait") == []


def test_a_missing_wait_would_show(monkeypatch):
    monkeypatch.setattr(CudaQueue, "order_after", lambda self, other, count: other.marked)
    with pytest.raises(AssertionError, match="is not ordered behind"):
        Program(0).run(EACH)


def test_a_needless_wait_would_show(monkeypatch):
    order_after = CudaQueue.order_after

    def twice(self, other, count):
        order_after(self, other, count)
        return order_after(self, other, count)

    monkeypatch.setattr(CudaQueue, "order_after", twice)
    with pytest.raises(AssertionError, match="in vain"):
        Program(0).run(EACH)
