"""Random launches of real kernels against vector clocks: the quick ways to a launch keep the order.

A launch that was made before is found again by its handles, and one that is made over and over
only moves a fence on. So the handles here are few and used again and again, on few streams.
"""

from __future__ import annotations

import pytest
from launch_program import Launches
from order_program import COUNT, EACH, SEED

pytestmark = pytest.mark.usefixtures("no_tileiras")


def run(seed: int, streams: int = 3) -> Launches:
    program = Launches(seed, streams)
    try:
        program.run(EACH)
    except BaseException as error:
        error.add_note(f"Launches({seed}, {streams})")
        raise
    return program


def test_every_conflict_is_ordered_and_no_wait_is_in_vain(record_property):
    programs = [run(SEED * 1_000_003 + number) for number in range(COUNT // 4 // EACH)]
    submissions = sum(program.submissions for program in programs)
    waits = sum(program.driver.waits_put for program in programs)
    naive = sum(program.driver.naive_waits for program in programs)
    summary = f"{submissions:,} launches, {waits:,} waits inserted; {naive:,} without memory"
    record_property("waits", summary)
    print(f"\nseed {SEED}: {summary}")  # noqa: T201 (for those who run `make model`)
    assert 0 < waits < naive


@pytest.mark.parametrize("seed", range(2))
def test_on_one_stream_nothing_waits(seed):
    program = run(seed, streams=1)
    assert program.driver.calls("create_event", "record", "wait") == []
