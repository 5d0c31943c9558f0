"""The journal: nothing measured is lost, and what took its process down is not tried again."""

import json
import math

import pytest
from fake_clock import SPACE, Bench

import tilewright as tw
from tilewright import TuneError
from tilewright.bench import Effort
from tilewright.runtime.devices.stream import Stream
from tilewright.tune import Config
from tilewright.tune.attempts import Attempt, Usage, Verdict
from tilewright.tune.journal import Journal
from tilewright.tune.plans import SearchPlan
from tilewright.tune.search import search

QUICK = SearchPlan(
    first=Effort(repetitions=2, warmup=0.0, rounds=1), last=Effort(repetitions=2, warmup=0.0)
)
B4, B8, B16, B32 = SPACE


def larger_is_faster(config):
    return 1.0 / config["B"]


def run(bench, **options):
    return search(bench.task, QUICK, timer=bench.timer, **options)


class Interrupted(BaseException):
    """What ends a process, as far as this one can show it."""


def test_a_search_that_was_interrupted_goes_on_where_it_was(tmp_path):
    file = tmp_path / "tuning.jsonl"
    first = Bench(larger_is_faster)
    right = first.clock.measure

    def interrupt(subject, before, repetitions, batch):
        times = right(subject, before, repetitions, batch)
        if first.built[-1] == B16:
            raise Interrupted
        return times

    first.clock.measure = interrupt
    with pytest.raises(Interrupted):
        run(first, journal=Journal(file))
    second = Bench(larger_is_faster)
    found = run(second, journal=Journal(file))
    assert set(second.built[: second.built.index(B32) + 1]) == {B32}, "B4 and B8 are known"
    assert found.winner.config == B32
    lost = found.attempts[2]
    assert (lost.config, lost.verdict) == (B16, Verdict.LOST)
    assert lost.reason == "the process ended while it ran"
    third = Bench(larger_is_faster)
    assert run(third, journal=Journal(file)).attempts == found.attempts
    assert B16 not in third.built


@pytest.mark.parametrize("is_lost", [False, True])
def test_one_that_takes_the_context_with_it_ends_the_search_and_is_not_tried_again(
    is_lost, tmp_path, monkeypatch
):
    journal, bench = Journal(tmp_path / "tuning.jsonl"), Bench(larger_is_faster)
    right = bench.double

    def unspecified(*_):
        raise tw.DriverError("cuStreamSynchronize: CUDA_ERROR_LAUNCH_FAILED")

    def build(config):
        if config != B16 or bench.built.count(config) == 1:
            return right(config)
        if is_lost:
            monkeypatch.setattr(Stream, "sync", unspecified)
        return unspecified()

    bench._build = build
    if not is_lost:
        assert run(bench, journal=journal).counts == {Verdict.TIMED: 3, Verdict.FAILED: 1}
        return
    with pytest.raises(tw.DriverError):
        run(bench, journal=journal)
    monkeypatch.undo()
    found = run(Bench(larger_is_faster), journal=Journal(journal.path))
    assert found.counts == {Verdict.TIMED: 3, Verdict.LOST: 1}
    assert found.attempts[2].config == B16


def test_a_line_that_was_cut_off_is_dropped_and_the_next_begins_anew(tmp_path):
    file = tmp_path / "tuning.jsonl"
    journal = Journal(file)
    journal.end("a search", Attempt(B4, Verdict.TIMED, 1.0, 0.0))
    with file.open("a") as half:
        half.write('{"search": "a search", "outc')
    again = Journal(file)
    again.end("a search", Attempt(B8, Verdict.WRONG, error=math.inf, reason="far off"))
    assert set(Journal(file).attempts("a search")) == {B4, B8}
    assert Journal(file).attempts("another") == {}


@pytest.mark.parametrize(
    "line",
    [
        "hello",
        "[]",
        '{"search": 1, "begun": {}}',
        '{"begun": {}}',
        '{"search": "a search"}',
        '{"search": "a search", "begun": []}',
        '{"search": "a search", "attempt": {"config": {}}}',
    ],
)
def test_a_file_that_is_no_journal_is_refused(line, tmp_path):
    file = tmp_path / "notes.txt"
    Journal(file).end("a search", Attempt(B4, Verdict.TIMED, 1.0, 0.0))
    with file.open("a") as more:
        more.write(f"{line}\n")
    with pytest.raises(TuneError) as refusal:
        Journal(file)
    assert str(refusal.value) == (
        f"line 2 of {file} is no line of a tuning journal: give another file, or remove this one "
        "to start anew"
    )


def test_outcomes_both_ways():
    for attempt in (
        Attempt(B4, Verdict.TIMED, 1e-3, 1e-7, usage=Usage(128, 65536, 0)),
        Attempt(Config.of(group=(8, 1)), Verdict.REFUSED, reason="no"),
    ):
        assert Attempt.from_json(json.loads(json.dumps(attempt.to_json()))) == attempt
    for data in (None, {}, {**attempt.to_json(), "verdict": "splendid"}):
        with pytest.raises(TuneError, match="this is no attempt of a candidate"):
            Attempt.from_json(data)
