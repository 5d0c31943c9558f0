"""The search: the fastest right candidate wins; others cost their own place and nothing else."""

import json
import math
import time
from concurrent.futures import Future
from dataclasses import replace
from functools import partial

import pytest
from fake_clock import SPACE, Bench

import tilewright as tw
from tilewright import TuneError
from tilewright.bench import Effort
from tilewright.tune import Config
from tilewright.tune.attempts import Attempt, Usage, Verdict
from tilewright.tune.engine import stale_reasons, tune
from tilewright.tune.journal import Journal
from tilewright.tune.search import Plan, search, search_name
from tilewright.tune.task import relative_error

QUICK = Plan(
    first=Effort(repetitions=2, warmup=0.0, rounds=1), last=Effort(repetitions=2, warmup=0.0)
)
B4, B8, B16, B32 = SPACE


def larger_is_faster(config):
    return 1.0 / config["B"]


def run(bench, plan=QUICK, **options):
    return search(bench.task, plan, timer=bench.timer, **options)


def test_the_fastest_wins_and_everything_is_told():
    bench, told = Bench(larger_is_faster), []
    found = run(bench, report=told.append)
    assert found.winner.config == B32
    assert found.seconds == 1 / 32
    assert found.noise == 0
    assert found.skipped == 0
    assert found.counts == {Verdict.TIMED: 4}
    assert [one.config for one in found.attempts] == [B4, B8, B16, B32]
    assert [step.done for step in told] == [0, 1, 2, 3, 4]
    assert told[0].best is None
    assert told[-1].best is not None
    assert told[-1].best.config == B32
    assert {step.total for step in told} == {4}


def test_a_wrong_candidate_that_is_fastest_does_not_win():
    bench = Bench(larger_is_faster)
    right = bench.double

    def half(config):
        """The largest tile leaves the second half of the output as it is."""
        if config != B32:
            return right(config)
        z, x = bench.output[:32], bench.input[:32]
        return tw.copy(z, x)

    bench._build = half
    found = run(bench)
    assert found.winner.config == B16
    wrong = next(one for one in found.attempts if one.config == B32)
    assert wrong.verdict is Verdict.WRONG
    assert wrong.seconds is None
    assert wrong.reason == "relative error nan, and 1e-06 is allowed"
    assert B32 not in bench.clock.asked


def refuses(config):
    raise tw.LaunchError("this tile is too large\nfor anything")


def breaks(config):
    raise MemoryError("no room")


@pytest.mark.parametrize(
    ("fail", "verdict", "reason"),
    [
        (refuses, Verdict.REFUSED, "LaunchError: this tile is too large"),
        (breaks, Verdict.FAILED, "MemoryError: no room"),
    ],
)
def test_a_candidate_that_fails_costs_no_other(fail, verdict, reason):
    bench = Bench(larger_is_faster)
    right = bench.double
    bench._build = lambda config: (fail if config == B32 else right)(config)
    found = run(bench)
    assert found.winner.config == B16
    assert found.counts == {Verdict.TIMED: 3, verdict: 1}
    assert found.attempts[-1] == Attempt(B32, verdict, reason=reason)


class Assembled:
    """A program whose kernel takes what a test says."""

    def __init__(self, spilled=0, shared=0):
        self.spilled, self.shared = spilled, shared

    def resources(self):
        from tilewright.backends.cuda.cubin import Resources

        return (Resources("doubled", 255, self.shared, self.spilled),)


class Built:
    """An operation as the search sees it first: what is assembled for it, and then it is closed."""

    def __init__(self, program):
        self.programs = (program,)

    def close(self):
        pass


def with_programs(bench, programs):
    right = bench.double

    def build(config):
        return Built(programs[config]) if bench.built.count(config) == 1 else right(config)

    bench._build = build
    return bench


def done(program):
    future = Future()
    future.set_result(program)
    return future


def test_what_the_assembler_says_rules_candidates_out_before_they_run():
    programs = {B4: done(Assembled()), B8: done(Assembled(spilled=512))}
    programs |= {B16: done(Assembled(shared=300 << 10)), B32: done(Assembled(spilled=513))}
    bench = with_programs(Bench(larger_is_faster), programs)
    found = run(bench)
    assert found.winner == Attempt(B8, Verdict.TIMED, 1 / 8, 0.0, usage=Usage(255, 0, 512))
    assert [one.reason for one in found.attempts[2:]] == [
        "it needs 307,200 bytes of shared memory",
        "it spills 513 bytes a thread",
    ]
    assert set(bench.clock.asked) == {B4, B8}
    assert str(found.attempts[3].usage) == "255 registers, 0 bytes shared, 513 bytes spilled"


def test_an_assembler_that_fails_costs_no_other():
    failed = Future()
    failed.set_exception(tw.ToolchainError("tileiras for sm_90 took longer than 600 s"))
    programs = {config: done(Assembled()) for config in SPACE} | {B32: failed}
    found = run(with_programs(Bench(larger_is_faster), programs))
    assert found.winner.config == B16
    assert found.attempts[-1].verdict is Verdict.FAILED
    assert found.attempts[-1].reason == "ToolchainError: tileiras for sm_90 took longer than 600 s"


def test_when_the_time_is_up_the_best_of_what_is_known_wins():
    never = Future()
    programs = {config: done(Assembled()) for config in SPACE} | {B32: never}
    bench = with_programs(Bench(larger_is_faster), programs)
    found = run(bench, replace(QUICK, seconds=0.5))
    assert found.winner.config == B16
    assert found.skipped == 1


def test_the_first_candidate_stays_unless_it_is_beaten_by_more_than_the_noise():
    readings = iter(range(1000))

    def drifting(config):
        """The first candidate is timed twice in a round, and reads differently."""
        return (
            1.0 + (0.05 if config == B4 and not next(readings) % 2 else 0.0) - 0.01 * (config == B8)
        )

    found = run(Bench(drifting, (B4, B8)))
    assert found.noise == pytest.approx(0.05)
    assert found.winner.config == B4
    assert run(Bench(lambda config: 1.0 - 0.01 * (config == B8), (B4, B8))).winner.config == B8


def test_what_runs_without_a_record_runs_off_as_well_and_may_be_good_enough():
    bench = Bench(larger_is_faster)
    plain = run(bench)
    assert plain.gain is None
    assert plain.is_worth_keeping
    for untuned, gain in ((B8, 4.0), (B32, 1.0)):
        task = replace(bench.task, untuned=partial(bench.build, untuned))
        found = search(task, QUICK, timer=bench.timer)
        assert found.winner.config == B32
        assert found.gain == gain
        assert found.is_worth_keeping is (gain > 1)


def test_only_the_best_run_off():
    bench = Bench(larger_is_faster)
    run(bench, replace(QUICK, finalists=1))
    counts = {config: bench.clock.asked.count(config) for config in SPACE}
    assert counts[B8] == counts[B16]
    assert counts[B32] > counts[B16]
    assert counts[B4] > counts[B16], "what runs without tuning is always among the finalists"


def test_nothing_left():
    bench = Bench(larger_is_faster)
    bench._build = lambda config: (refuses if config["B"] < 16 else breaks)(config)
    with pytest.raises(TuneError) as refusal:
        run(bench)
    assert str(refusal.value) == (
        "no configuration of doubled for f32 50 is right and runs; of 4 candidates\n"
        "  2 refused: LaunchError: this tile is too large (B=4)\n"
        "  2 failed: MemoryError: no room (B=16)"
    )
    with pytest.raises(TuneError) as refusal:
        run(Bench(larger_is_faster), replace(QUICK, seconds=1e-9))
    assert str(refusal.value) == (
        "no configuration of doubled for f32 50 is right and runs; of 4 candidates none was tried "
        "in the time there was"
    )


@pytest.mark.parametrize("wrong", [{"seconds": 0}, {"finalists": 0}])
def test_plans_that_are_refused(wrong):
    with pytest.raises(TuneError, match="at least one finalist"):
        Plan(**wrong)


# --- the journal ----------------------------------------------------------------------------------


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


def test_a_file_that_is_no_journal_is_refused(tmp_path):
    file = tmp_path / "notes.txt"
    file.write_text('hello\n{"search": 1, "begun": {}}\n')
    with pytest.raises(TuneError) as refusal:
        Journal(file)
    assert str(refusal.value) == (
        f"line 1 of {file} is no line of a tuning journal: give another file, or remove this one "
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


def test_another_kernel_key_or_target_is_another_search():
    task = Bench(larger_is_faster).task
    names = {
        search_name(one)
        for one in (
            task,
            replace(task, kernel="tripled"),
            replace(task, key=task.key._replace(shape=(51,))),
            replace(task, source="another digest"),
        )
    }
    assert len(names) == 4


def test_relative_errors():
    assert relative_error([1.0, 2.0], [1.0, 2.0]) == 0
    assert relative_error([1.0, 2.5], [0.0, 2.0]) == pytest.approx(math.hypot(1, 0.5) / 2)
    assert relative_error([math.nan, 2.0], [math.nan, 2.0]) == 0
    assert math.isnan(relative_error([math.nan, 2.0], [1.0, 2.0]))
    assert relative_error([math.inf], [math.inf]) == 0
    assert relative_error([1.0], [math.inf]) == math.inf
    assert relative_error([0.5], [0.0]) == 0.5
    assert relative_error([1.0], [1.0, 1.0]) == math.inf


def test_a_search_without_a_fake_clock():
    """On the CPU device with its own clock: whatever wins is right."""
    bench, start = Bench(larger_is_faster), time.monotonic()
    found = search(bench.task, QUICK)
    assert found.winner.config in SPACE
    assert found.winner.error == 0
    assert found.seconds > 0
    assert time.monotonic() - start < 60


def test_from_a_problem_to_a_record():
    record, found = tune(Bench(larger_is_faster).task, QUICK)
    assert record.kernel == "doubled"
    assert record.config == found.winner.config
    assert record.seconds == found.seconds
    assert record.provenance.source == "a digest"
    assert record.provenance.gpu == "cpu"
    assert record.provenance.tilewright == tw.__version__
    assert list(stale_reasons(record, "a digest", record.provenance.tileiras)) == []
    assert list(stale_reasons(record, "another", "99.0")) == [
        "the kernel has changed",
        f"it was tuned with tileiras {record.provenance.tileiras}, and here is 99.0",
    ]
    assert list(stale_reasons(record, None, None)) == ["there is no such kernel"]
