"""The search: assemble candidates in parallel, rule out, check, time, let the best run off.

Candidates are built one after the other (the front end), assembled side by side (tileiras is a
process of its own, so threads are enough) and looked at as they come out: what spills heavily is
ruled out, what computes something else than the reference is out, the rest is timed shortly. The
best few run off against each other in turns (`bench.compare`), because a GPU slows down as it heats
up. One that cannot be compiled, launched or run costs its own place and nothing else.

A kernel that hangs cannot be ended from within its process. The journal knows which candidate was
running, so a search in a child (`tune.supervision`) is ended from outside and goes on behind it.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tilewright.bench.paired import Candidate, compare
from tilewright.bench.timer import Timer
from tilewright.bench.timing import Effort
from tilewright.errors import CompileError, LaunchError, TuneError
from tilewright.jit.fingerprints import digest
from tilewright.tune.config import Config
from tilewright.tune.journal import Journal
from tilewright.tune.outcomes import Outcome, Usage, Verdict
from tilewright.tune.problem import Problem

__all__ = ["Found", "Plan", "Progress", "Report", "search", "search_name"]

_REFUSALS = (CompileError, LaunchError)
_SHORT = Effort(repetitions=5, warmup=0.004, shortest=1e-4, rounds=1)
_THOROUGH = Effort(repetitions=15, warmup=0.02, rounds=3)


@dataclass(frozen=True)
class Plan:
    """How much to search."""

    seconds: float = math.inf  # after which no further candidate is tried
    finalists: int = 4  # that run off against each other, and the first candidate with them
    spilled: int = 512  # bytes a thread, above which a candidate is not run
    shared_memory: int = 227 << 10  # bytes a block, above which no GPU takes it
    first: Effort = field(default_factory=lambda: _SHORT)
    last: Effort = field(default_factory=lambda: _THOROUGH)

    def __post_init__(self) -> None:
        if self.seconds <= 0 or self.finalists < 1:
            raise TuneError(
                "a search takes some seconds and has at least one finalist, not "
                f"seconds={self.seconds} and finalists={self.finalists}"
            )


@dataclass(frozen=True)
class Progress:
    """How far a search is; `latest` is what was found last."""

    done: int
    total: int
    best: Outcome | None
    latest: Outcome | None


@dataclass(frozen=True)
class Found:
    """What a search came to."""

    winner: Outcome
    seconds: float  # the winner's, in the run-off
    noise: float  # of the run-off, as a fraction
    outcomes: tuple[Outcome, ...]  # of all candidates that were tried, in the order of the space
    skipped: int  # for which there was no time

    @property
    def counts(self) -> dict[Verdict, int]:
        """How many candidates came how far."""
        return dict(Counter(outcome.verdict for outcome in self.outcomes))


# Who wants to know how far a search is.
Report = Callable[[Progress], None]
TimerMaker = Callable[[Effort], Timer]
# A candidate, and what the assembler makes of it.
Pending = tuple[Config, tuple[Future[Any], ...]]


def search(
    problem: Problem,
    plan: Plan | None = None,
    *,
    journal: Journal | None = None,
    report: Report = lambda _: None,
    timer: TimerMaker | None = None,
) -> Found:
    """The fastest right configuration of a problem; raises `TuneError` if there is none.

    `journal` makes the search one that can be ended and started again. `report` is told of every
    step. `timer` is for tests, which have a clock of their own.
    """
    make_timer = timer or partial(Timer, problem.device.stream, flush=problem.flush)
    state = _Search(problem, plan or Plan(), journal or Journal(), report, make_timer)
    for config, programs in state.assembled(state.built()):
        state.settle(config, programs)
    return state.conclude()


def search_name(problem: Problem) -> str:
    """What stands for a search in a journal: another kernel, key or target is another search."""
    target = problem.device.target
    return digest(problem.kernel, repr(problem.key), problem.source, target)[:16]


class _Search:
    """One search: what is known so far, and the steps."""

    def __init__(
        self, problem: Problem, plan: Plan, journal: Journal, report: Report, timer: TimerMaker
    ) -> None:
        self._problem = problem
        self._plan = plan
        self._journal = journal
        self._report = report
        self._name = search_name(problem)
        self._timer = timer(plan.first)
        self._last_timer = partial(timer, plan.last)
        self._end = time.monotonic() + plan.seconds
        wanted = set(problem.configs)
        known = journal.outcomes(self._name).items()
        self._outcomes = {config: outcome for config, outcome in known if config in wanted}
        self._tell(None)

    def _time_is_up(self) -> bool:
        return time.monotonic() >= self._end

    def _tell(self, latest: Outcome | None) -> None:
        best = min(self._timed(), key=_seconds, default=None)
        total = len(self._problem.configs)
        self._report(Progress(len(self._outcomes), total, best, latest))

    def _timed(self) -> list[Outcome]:
        return [one for one in self._outcomes.values() if one.verdict is Verdict.TIMED]

    def _note(self, outcome: Outcome) -> None:
        self._outcomes[outcome.config] = outcome
        self._journal.end(self._name, outcome)
        self._tell(outcome)

    # --- one candidate after the other ---

    def built(self) -> Iterator[Pending]:
        """Every candidate that nothing is known of, through the front end."""
        for config in self._problem.configs:
            if self._time_is_up():
                return
            if config in self._outcomes:
                continue
            try:
                operation = self._problem.build(config)
            except Exception as error:  # noqa: BLE001 (it costs this candidate, no other)
                self._note(_failure(config, error))
                continue
            programs = operation.programs
            operation.close()  # what it borrows, the next one needs
            yield config, programs

    def assembled(self, built: Iterable[Pending]) -> Iterator[Pending]:
        """Candidates in the order in which the assembler finishes them, while there is time."""
        waiting = list(built)
        while waiting and not self._time_is_up():
            ready = [one for one in waiting if all(program.done() for program in one[1])]
            if not ready:
                unfinished = [one for _, programs in waiting for one in programs if not one.done()]
                left = None if math.isinf(self._end) else self._end - time.monotonic()
                wait(unfinished, left, FIRST_COMPLETED)
                continue
            waiting.remove(ready[0])
            yield ready[0]

    def settle(self, config: Config, programs: tuple[Future[Any], ...]) -> None:
        """Rule a candidate out, or run it."""
        usage = None
        try:
            usage = Usage.of(tuple(one for p in programs for one in p.result().resources()))
            ruled_out = self._ruled_out(usage)
            if ruled_out:
                outcome = Outcome(config, Verdict.PRUNED, reason=ruled_out, usage=usage)
            else:
                self._journal.begin(self._name, config)
                outcome = self._run(config, usage)
        except Exception as error:  # noqa: BLE001 (it costs this candidate, no other)
            outcome = _failure(config, error, usage)
        self._note(outcome)

    def _ruled_out(self, usage: Usage | None) -> str:
        if usage is not None and usage.spilled > self._plan.spilled:
            return f"it spills {usage.spilled} bytes a thread"
        if usage is not None and usage.shared_memory > self._plan.shared_memory:
            return f"it needs {usage.shared_memory:,} bytes of shared memory"
        return ""

    def _run(self, config: Config, usage: Usage | None) -> Outcome:
        """Check what a candidate computes, and only then how fast."""
        problem = self._problem
        problem.prepare()
        error = problem.error(problem.build(config).sync())
        if not error <= problem.limit:  # NaN is above any limit
            reason = f"relative error {error:.3g}, and {problem.limit:.3g} is allowed"
            return Outcome(config, Verdict.WRONG, error=error, reason=reason, usage=usage)
        timing = self._timer.time(lambda: problem.build(config))
        return Outcome(config, Verdict.TIMED, timing.median, error, usage=usage)

    # --- the end ---

    def conclude(self) -> Found:
        """Let the best run off against each other."""
        finalists = self._finalists()
        found = compare(
            [
                Candidate(str(one.config), partial(self._problem.build, one.config))
                for one in finalists
            ],
            timer=self._last_timer(),
        )
        fastest = found.fastest
        if fastest is None:
            raise TuneError(_nothing_left(self._problem, self._outcomes.values()))
        incumbent = str(finalists[0].config)
        if found.seconds(incumbent) <= found.seconds(fastest) * (1 + found.noise):
            fastest = incumbent  # a difference within the noise is none
        order = {config: place for place, config in enumerate(self._problem.configs)}
        return Found(
            next(one for one in finalists if str(one.config) == fastest),
            found.seconds(fastest),
            found.noise,
            tuple(sorted(self._outcomes.values(), key=lambda one: order[one.config])),
            len(self._problem.configs) - len(self._outcomes),
        )

    def _finalists(self) -> list[Outcome]:
        """The fastest, and before them what runs without tuning, if it was right."""
        timed = sorted(self._timed(), key=_seconds)
        if not timed:
            raise TuneError(_nothing_left(self._problem, self._outcomes.values()))
        incumbent = self._problem.configs[0]
        first = [one for one in timed if one.config == incumbent]
        return list(dict.fromkeys((*first, *timed[: self._plan.finalists])))


def _seconds(outcome: Outcome) -> float:
    return math.inf if outcome.seconds is None else outcome.seconds


def _failure(config: Config, error: Exception, usage: Usage | None = None) -> Outcome:
    """What became of a candidate that raised; the first line says what, the rest where."""
    verdict = Verdict.REFUSED if isinstance(error, _REFUSALS) else Verdict.FAILED
    first = str(error).strip().partition("\n")[0]
    return Outcome(config, verdict, reason=f"{type(error).__name__}: {first}", usage=usage)


def _nothing_left(problem: Problem, outcomes: Iterable[Outcome]) -> str:
    """Why a search has no winner: how many came how far, and the first reason of each kind."""
    reasons: dict[Verdict, str] = {}
    counts: Counter[Verdict] = Counter()
    for outcome in outcomes:
        counts[outcome.verdict] += 1
        reasons.setdefault(outcome.verdict, f"{outcome.reason} ({outcome.config})")
    told = "".join(f"\n  {n} {verdict.value}: {reasons[verdict]}" for verdict, n in counts.items())
    return (
        f"no configuration of {problem.kernel} for {problem.key} is right and runs; of "
        f"{len(problem.configs)} candidates{told or ' none was tried in the time there was'}"
    )
