"""The search: the fastest right candidate wins; others cost their own place and nothing else."""

import math
import time
from concurrent.futures import Future
from dataclasses import replace
from functools import partial

import pytest
from fake_clock import QUICK, SPACE, Bench

import tilewright as tw
from tilewright import TuneError
from tilewright.backends.cuda.cubin import Resources
from tilewright.tune import Config
from tilewright.tune.attempts import Attempt, Usage, Verdict, tally
from tilewright.tune.journal import Journal
from tilewright.tune.plans import SearchPlan
from tilewright.tune.search import search, search_name
from tilewright.tune.task import relative_error

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

    def __init__(self, **resources):
        self.taken = {"registers": 64, "shared_memory": 0, "stack_bytes": 0} | resources

    def resources(self):
        return (Resources("doubled", **self.taken),)


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
    programs = {B4: done(Assembled()), B8: done(Assembled(stack_bytes=512))}
    programs |= {config: done(Assembled(stack_bytes=513)) for config in (B16, B32)}
    bench = with_programs(Bench(larger_is_faster), programs)
    found = run(bench)
    assert found.winner == Attempt(B8, Verdict.TIMED, 1 / 8, 0.0, usage=Usage(64, 0, 512))
    assert [one.reason for one in found.attempts[2:]] == ["it spills 513 bytes a thread"] * 2
    assert found.counts == {Verdict.TIMED: 2, Verdict.PRUNED: 2}
    assert set(bench.clock.asked) == {B4, B8}


@pytest.mark.parametrize(
    ("taken", "fitting"),
    [
        ({"registers": 128, "threads": 256}, 2),  # 65,536 registers
        ({"registers": 121, "threads": 250}, 2),  # given out in eights, to whole warps
        ({"registers": 129, "threads": 256}, 1),
        ({"registers": 16, "threads": 512}, 4),  # 2,048 threads
        ({"registers": 16, "threads": 32, "shared_memory": (57 << 10) - 1024}, 4),  # of 228 KB
        ({"registers": 16, "threads": 32, "shared_memory": (57 << 10) - 1023}, 3),
        ({"registers": 16, "threads": 32, "shared_memory": 228 << 10}, 0),
        ({"registers": 168, "threads": 512}, 0),
        ({"registers": 255}, None),  # it does not say how many threads
    ],
)
def test_how_many_blocks_fit_at_once(taken, fitting):
    usage = Usage.of(Assembled(**taken).resources(), "sm_90")
    assert usage.at_once == fitting
    assert Usage.of(Assembled(**taken).resources(), "cpu").at_once is None
    for asked in (None, 2, 3):
        told = usage.against(Config.of(B=4, occupancy=asked), most_spilled=0)
        if fitting == 0:
            assert told.startswith("no multiprocessor takes a block of it (")
        elif fitting is not None and asked is not None and fitting < asked:
            assert told.startswith(f"it asks for {asked} blocks at once, and {fitting} fit (")
        else:
            assert not told


def test_the_worst_of_several_kernels_counts():
    one = Resources("one", 40, 9000, 8, threads=384)
    other = Resources("other", 168, 0, 0, threads=384)
    assert Usage.of((one, other), "sm_90") == Usage(168, 9000, 8, 1)
    assert Usage.of((), "sm_90") is None
    assert str(Usage.of((one,), "sm_90")) == "40 registers, 9,000 bytes shared, 8 bytes spilled"


def test_a_candidate_that_is_far_behind_is_given_up_after_its_first_runs():
    speed = {B4: 1.0, B8: 0.5, B16: 1.1, B32: 0.9}
    bench = Bench(speed.get)
    found = run(bench, replace(QUICK, hopeless=2.0))
    assert [one.verdict for one in found.attempts] == [
        Verdict.TIMED, Verdict.TIMED, Verdict.SLOW, Verdict.TIMED,
    ]  # fmt: skip
    slow = found.attempts[2]
    assert slow.reason == "its first runs took 2.2 times as long as those of the best so far"
    assert slow.seconds == 1.1
    assert found.winner.config == B8
    asked = {config: bench.clock.asked.count(config) for config in SPACE}
    assert asked[B16] < asked[B32]


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
    assert plain.is_better
    for untuned, gain in ((B8, 4.0), (B32, 1.0)):
        task = replace(bench.task, untuned=partial(bench.build, untuned))
        found = search(task, QUICK, timer=bench.timer)
        assert found.winner.config == B32
        assert found.gain == gain
        assert found.is_better is (gain > 1)


def test_the_luckiest_of_many_that_are_alike_is_looked_at_again():
    """Each is as fast as the others; one of them was quick while all ran off."""
    bench = Bench(larger_is_faster)
    task = replace(bench.task, untuned=partial(bench.build, B8))
    asked = bench.clock.asked

    def lucky(config):
        is_run_off = asked.count(config) > 4 and asked.count(B8) < 12
        return 0.9 if config == B32 and is_run_off else 1.0

    bench.clock._seconds = lucky
    found = search(task, QUICK, timer=bench.timer)
    assert found.winner.config == B32
    assert found.gain == 1.0
    assert not found.is_better


def test_only_the_best_run_off():
    bench = Bench(larger_is_faster)
    run(bench, replace(QUICK, finalists=1))
    counts = {config: bench.clock.asked.count(config) for config in SPACE}
    assert counts[B8] == counts[B16]
    assert counts[B32] > counts[B16]
    assert counts[B4] > counts[B16], "the untuned choice is always among the finalists"


def test_one_that_is_far_behind_after_short_timings_does_not_run_off():
    speed = {B4: 2.0, B8: 1.0, B16: 1.05, B32: 1.2}
    bench = Bench(speed.get)
    found = run(bench, replace(QUICK, near=1.15))
    assert found.winner.config == B8
    counts = {config: bench.clock.asked.count(config) for config in SPACE}
    assert counts[B16] > counts[B32]
    assert counts[B4] > counts[B32], "the untuned choice is always among the finalists"
    assert [one.verdict for one in found.attempts] == [Verdict.TIMED] * 4


def test_what_became_of_all_candidates_is_told_with_reasons():
    bench = Bench(larger_is_faster)
    bench._build = lambda config: (bench.double if config["B"] < 32 else refuses)(config)
    assert tally(run(bench).attempts) == [
        "3 timed",
        "1 refused: LaunchError: this tile is too large (B=32)",
    ]
    assert tally(()) == []


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


def test_what_turns_wrong_in_the_run_off_does_not_win():
    """As a race may: right once, and not after a hundred runs."""
    bench = Bench(larger_is_faster)
    right, files = bench.double, Journal()

    def build(config):
        if config == B32 and bench.built.count(config) > 8:
            return tw.copy(bench.output[:32], bench.input[:32])
        if config == B16 and bench.built.count(config) > 8:
            raise MemoryError("no room any more")
        return right(config)

    bench._build = build
    found = run(bench, journal=files)
    assert found.winner.config == B8, "B16 broke down in the run-off"
    assert found.seconds == 1 / 8
    assert found.attempts[3].verdict is Verdict.WRONG
    known = files.attempts(search_name(bench.task))
    assert known[B32].verdict is Verdict.WRONG, "and is not tried again"


@pytest.mark.parametrize(
    "wrong", [{"seconds": 0}, {"finalists": 0}, {"hopeless": 0.9}, {"near": 0.9}]
)
def test_plans_that_are_refused(wrong):
    with pytest.raises(TuneError, match="at least one finalist"):
        SearchPlan(**wrong)


def test_another_kernel_key_or_target_is_another_search():
    task = Bench(larger_is_faster).task
    names = {
        search_name(one)
        for one in (
            task,
            replace(task, kernel="tripled"),
            replace(task, key=task.key._replace(shape=(51,))),
            replace(task, source="another digest"),
            replace(task, machine="another GPU or assembler"),
        )
    }
    assert len(names) == 5


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
