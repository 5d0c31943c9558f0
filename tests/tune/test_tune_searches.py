"""Many searches at once: assembled together, concluded one by one, none in another's way."""

import math
from concurrent.futures import Future
from dataclasses import replace
from types import SimpleNamespace

from fake_clock import QUICK, SPACE, Bench

from tilewright import OutOfMemoryError, TuneError
from tilewright.tune import searches as module
from tilewright.tune.journal import Journal
from tilewright.tune.plans import SearchResult
from tilewright.tune.search import Search
from tilewright.tune.searches import search_all

PATIENT = replace(QUICK, hopeless=math.inf)
B4, B8, B16, B32 = SPACE


def larger_is_faster(config):
    return 1.0 / config["B"]


def searches(journal=None, **benches):
    """One for each, by name, with keys that tell them apart."""

    def maker(bench):
        number = list(benches.values()).index(bench)
        task = replace(bench.task, key=bench.task.key._replace(shape=(number,)))
        return lambda: Search(task, PATIENT, journal or Journal(), timer=bench.timer)

    return [(name, maker(bench)) for name, bench in benches.items()]


class Assembling:
    """An operation whose program is not there yet."""

    def __init__(self):
        self.programs = (Future(),)

    def close(self):
        pass


def by_name(made, until=math.inf):
    return {one.name: one.found for one in search_all(made, until)}


def test_each_has_its_own_winner():
    found = by_name(
        searches(first=Bench(larger_is_faster), second=Bench(lambda config: config["B"]))
    )
    assert found["first"].winner.config == B32
    assert found["second"].winner.config == B4


def test_all_are_assembled_before_the_first_is_waited_for():
    """A program of the first comes only when the second is through the front end."""
    slow, quick = Bench(larger_is_faster), Bench(larger_is_faster)
    late, right = Assembling(), slow.double

    def build(config):
        return late if slow.built.count(config) == 1 and config == B4 else right(config)

    slow._build = build
    concluded = []
    for one in search_all(searches(slow=slow, quick=quick)):
        concluded.append(one.name)
        assert one.found.winner.config == B32
        late.programs[0].set_exception(TuneError("no")) if one.name == "quick" else None
    assert concluded == ["quick", "slow"]


def test_one_that_finds_nothing_costs_no_other():
    broken, fine = Bench(larger_is_faster), Bench(larger_is_faster)
    broken._build = lambda config: 1 / 0
    found = by_name(searches(broken=broken, fine=fine))
    assert "4 failed: ZeroDivisionError" in str(found["broken"])
    assert isinstance(found["fine"], SearchResult)


def test_one_that_cannot_be_made_or_concluded_costs_no_other(monkeypatch):
    def no_room():
        raise OutOfMemoryError("no room for its tensors")

    fine, lost = searches(fine=Bench(larger_is_faster), lost=Bench(larger_is_faster))
    right = Search.conclude

    def conclude(search):
        if search.task.key.shape == (1,):
            raise OutOfMemoryError("no room to run off")
        return right(search)

    monkeypatch.setattr(Search, "conclude", conclude)
    found = {one.name: one for one in search_all([("large", no_room), lost, fine])}
    assert str(found["large"].found) == "no room for its tensors"
    assert found["large"].task is None
    assert str(found["lost"].found) == "no room to run off"
    assert found["lost"].task.kernel == "doubled"
    assert found["fine"].found.winner.config == B32


def test_when_the_time_is_up_no_search_is_begun_and_those_that_are_go_on_to_their_end(monkeypatch):
    clock = iter((0.0, 1.0, 2.0))
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: next(clock, 3.0)))
    made = searches(**{name: Bench(larger_is_faster) for name in ("first", "second", "third")})
    found = by_name(made, until=1.5)
    assert found.keys() == {"first", "second"}
    assert {len(one.attempts) for one in found.values()} == {4}
    assert not by_name(made, until=-math.inf)


def test_what_the_journal_knows_is_not_tried_again(tmp_path):
    journal = Journal(tmp_path / "journal.jsonl")
    known = by_name(searches(journal, one=Bench(larger_is_faster)))["one"]
    again = Bench(larger_is_faster)
    found = by_name(searches(journal, one=again))["one"]
    assert found.attempts == known.attempts
    assert again.built.count(B8) < 2 * len(SPACE), "it only runs off"
