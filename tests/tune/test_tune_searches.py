"""Many searches at once: assembled together, concluded one by one, none in another's way."""

import math
import time
from concurrent.futures import Future
from dataclasses import replace

from fake_clock import SPACE, Bench

from tilewright import TuneError
from tilewright.bench import Effort
from tilewright.tune.journal import Journal
from tilewright.tune.plans import Found, Plan
from tilewright.tune.search import Search
from tilewright.tune.searches import search_all

QUICK = Plan(
    hopeless=math.inf,
    first=Effort(repetitions=2, warmup=0.0, rounds=1),
    last=Effort(repetitions=2, warmup=0.0),
)
B4, B8, B16, B32 = SPACE


def larger_is_faster(config):
    return 1.0 / config["B"]


def searches(*benches, journal=None):
    """One for each, with keys that tell them apart."""
    found = []
    for number, bench in enumerate(benches):
        task = replace(bench.task, key=bench.task.key._replace(shape=(number,)))
        found.append(Search(task, QUICK, journal or Journal(), timer=bench.timer))
    return found


class Assembling:
    """An operation whose program is not there yet."""

    def __init__(self):
        self.programs = (Future(),)

    def close(self):
        pass


def soon():
    return time.monotonic() + 60


def test_each_has_its_own_winner():
    first, second = searches(Bench(larger_is_faster), Bench(lambda config: config["B"]))
    found = dict(search_all([first, second], soon()))
    assert found[first].winner.config == B32
    assert found[second].winner.config == B4


def test_all_are_assembled_before_the_first_is_waited_for():
    """A program of the first comes only when the second is through the front end."""
    slow, quick = Bench(larger_is_faster), Bench(larger_is_faster)
    late, right = Assembling(), slow.double

    def build(config):
        return late if slow.built.count(config) == 1 and config == B4 else right(config)

    slow._build = build
    concluded = []
    first, second = searches(slow, quick)
    for search, found in search_all([first, second], soon()):
        concluded.append(search)
        assert found.winner.config == B32
        late.programs[0].set_exception(TuneError("no")) if search is second else None
    assert concluded == [second, first]


def test_one_that_finds_nothing_costs_no_other():
    broken, fine = Bench(larger_is_faster), Bench(larger_is_faster)
    broken._build = lambda config: 1 / 0
    first, second = searches(broken, fine)
    found = dict(search_all([first, second], soon()))
    assert "4 failed: ZeroDivisionError" in str(found[first])
    assert isinstance(found[second], Found)


def test_when_the_time_is_up_those_that_are_not_through_are_left_out_and_go_on_later(tmp_path):
    journal = Journal(tmp_path / "journal.jsonl")
    stuck, fine = Bench(larger_is_faster), Bench(larger_is_faster)
    right = stuck.double
    stuck._build = lambda config: Assembling() if config == B32 else right(config)
    first, second = searches(stuck, fine, journal=journal)
    assert [one for one, _ in search_all([first, second], time.monotonic() + 1.5)] == [second]
    again = Bench(larger_is_faster)
    ((_, found),) = search_all(searches(again, journal=journal), soon())
    assert found.winner.config == B32
    assert again.built[0] == B32, "the others are known"
    ((_, known),) = search_all(searches(Bench(larger_is_faster), journal=journal), soon())
    assert known.attempts == found.attempts
