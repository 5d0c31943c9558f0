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

from tilewright.bench.paired import compare
from tilewright.bench.subjects import Run
from tilewright.bench.timer import Timer
from tilewright.bench.timing import Effort
from tilewright.errors import CompileError, LaunchError, TuneError
from tilewright.jit.fingerprints import digest
from tilewright.tune.attempts import Attempt, Usage, Verdict
from tilewright.tune.config import Config
from tilewright.tune.journal import Journal
from tilewright.tune.task import Task

__all__ = ["Found", "Plan", "Progress", "Report", "search", "search_name"]

_REFUSALS = (CompileError, LaunchError)
_UNTUNED = "without a record"  # no configuration reads like this
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
    best: Attempt | None
    latest: Attempt | None


@dataclass(frozen=True)
class Found:
    """What a search came to."""

    winner: Attempt
    seconds: float  # the winner's, in the run-off
    noise: float  # of the run-off, as a fraction
    gain: float | None  # how many times as fast as what runs without a record, if that is known
    attempts: tuple[Attempt, ...]  # of all candidates that were tried, in the order of the space
    skipped: int  # for which there was no time

    @property
    def is_worth_keeping(self) -> bool:
        """Whether the winner is faster, by more than the noise, than what runs without a record."""
        return self.gain is None or self.gain > 1 + self.noise

    @property
    def counts(self) -> dict[Verdict, int]:
        """How many candidates came how far."""
        return dict(Counter(attempt.verdict for attempt in self.attempts))


# Who wants to know how far a search is.
Report = Callable[[Progress], None]
TimerMaker = Callable[[Effort], Timer]
# A candidate, and what the assembler makes of it.
Pending = tuple[Config, tuple[Future[Any], ...]]


def search(
    task: Task,
    plan: Plan | None = None,
    *,
    journal: Journal | None = None,
    report: Report = lambda _: None,
    timer: TimerMaker | None = None,
) -> Found:
    """The fastest right configuration of a task; raises `TuneError` if there is none.

    `journal` makes the search one that can be ended and started again. `report` is told of every
    step. `timer` is for tests, which have a clock of their own.
    """
    make_timer = timer or partial(Timer, task.device.stream, flush=task.flush)
    state = _Search(task, plan or Plan(), journal or Journal(), report, make_timer)
    for config, programs in state.assembled(state.built()):
        state.settle(config, programs)
    return state.conclude()


def search_name(task: Task) -> str:
    """What stands for a search in a journal: another kernel, key or target is another search."""
    target = task.device.target
    return digest(task.kernel, repr(task.key), task.source, target)[:16]


class _Search:
    """One search: what is known so far, and the steps."""

    def __init__(
        self, task: Task, plan: Plan, journal: Journal, report: Report, timer: TimerMaker
    ) -> None:
        self._task = task
        self._plan = plan
        self._journal = journal
        self._report = report
        self._name = search_name(task)
        self._timer = timer(plan.first)
        self._last_timer = partial(timer, plan.last)
        self._end = time.monotonic() + plan.seconds
        wanted = set(task.configs)
        known = journal.attempts(self._name).items()
        self._attempts = {config: attempt for config, attempt in known if config in wanted}
        self._tell(None)

    def _time_is_up(self) -> bool:
        return time.monotonic() >= self._end

    def _tell(self, latest: Attempt | None) -> None:
        best = min(self._timed(), key=_seconds, default=None)
        total = len(self._task.configs)
        self._report(Progress(len(self._attempts), total, best, latest))

    def _timed(self) -> list[Attempt]:
        return [one for one in self._attempts.values() if one.verdict is Verdict.TIMED]

    def _note(self, attempt: Attempt) -> None:
        self._attempts[attempt.config] = attempt
        self._journal.end(self._name, attempt)
        self._tell(attempt)

    # --- one candidate after the other ---

    def built(self) -> Iterator[Pending]:
        """Every candidate that nothing is known of, through the front end."""
        for config in self._task.configs:
            if self._time_is_up():
                return
            if config in self._attempts:
                continue
            try:
                operation = self._task.build(config)
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
                attempt = Attempt(config, Verdict.PRUNED, reason=ruled_out, usage=usage)
            else:
                self._journal.begin(self._name, config)
                attempt = self._run(config, usage)
        except Exception as error:  # noqa: BLE001 (it costs this candidate, no other)
            attempt = _failure(config, error, usage)
        self._note(attempt)

    def _ruled_out(self, usage: Usage | None) -> str:
        if usage is not None and usage.spilled > self._plan.spilled:
            return f"it spills {usage.spilled} bytes a thread"
        if usage is not None and usage.shared_memory > self._plan.shared_memory:
            return f"it needs {usage.shared_memory:,} bytes of shared memory"
        return ""

    def _run(self, config: Config, usage: Usage | None) -> Attempt:
        """Check what a candidate computes, and only then how fast."""
        task = self._task
        task.prepare()
        error = task.error(task.build(config).sync())
        if not error <= task.limit:  # NaN is above any limit
            reason = f"relative error {error:.3g}, and {task.limit:.3g} is allowed"
            return Attempt(config, Verdict.WRONG, error=error, reason=reason, usage=usage)
        timing = self._timer.time(lambda: task.build(config))
        return Attempt(config, Verdict.TIMED, timing.median, error, usage=usage)

    # --- the end ---

    def conclude(self) -> Found:
        """Let the best run off against each other, and against what runs without a record."""
        finalists = self._finalists()
        untuned, build = self._task.untuned, self._task.build
        names = [str(one.config) for one in finalists]
        runs: dict[str, Run] = {str(one.config): partial(build, one.config) for one in finalists}
        if untuned is not None:
            runs[_UNTUNED] = untuned
        found = compare(runs, timer=self._last_timer())
        timed = [name for name in names if name in found]
        if not timed:
            raise TuneError(_nothing_left(self._task, self._attempts.values()))
        fastest = min(timed, key=found.seconds)
        incumbent = str(finalists[0].config)
        if found.seconds(incumbent) <= found.seconds(fastest) * (1 + found.noise):
            fastest = incumbent  # a difference within the noise is none
        order = {config: place for place, config in enumerate(self._task.configs)}
        return Found(
            next(one for one in finalists if str(one.config) == fastest),
            found.seconds(fastest),
            found.noise,
            found.speed(fastest, _UNTUNED) if _UNTUNED in found else None,
            tuple(sorted(self._attempts.values(), key=lambda one: order[one.config])),
            len(self._task.configs) - len(self._attempts),
        )

    def _finalists(self) -> list[Attempt]:
        """The fastest, and before them the first candidate, if it was right."""
        timed = sorted(self._timed(), key=_seconds)
        if not timed:
            raise TuneError(_nothing_left(self._task, self._attempts.values()))
        incumbent = self._task.configs[0]
        first = [one for one in timed if one.config == incumbent]
        return list(dict.fromkeys((*first, *timed[: self._plan.finalists])))


def _seconds(attempt: Attempt) -> float:
    return math.inf if attempt.seconds is None else attempt.seconds


def _failure(config: Config, error: Exception, usage: Usage | None = None) -> Attempt:
    """What became of a candidate that raised; the first line says what, the rest where."""
    verdict = Verdict.REFUSED if isinstance(error, _REFUSALS) else Verdict.FAILED
    first = str(error).strip().partition("\n")[0]
    return Attempt(config, verdict, reason=f"{type(error).__name__}: {first}", usage=usage)


def _nothing_left(task: Task, attempts: Iterable[Attempt]) -> str:
    """Why a search has no winner: how many came how far, and the first reason of each kind."""
    reasons: dict[Verdict, str] = {}
    counts: Counter[Verdict] = Counter()
    for attempt in attempts:
        counts[attempt.verdict] += 1
        reasons.setdefault(attempt.verdict, f"{attempt.reason} ({attempt.config})")
    told = "".join(f"\n  {n} {verdict.value}: {reasons[verdict]}" for verdict, n in counts.items())
    return (
        f"no configuration of {task.kernel} for {task.key} is right and runs; of "
        f"{len(task.configs)} candidates{told or ' none was tried in the time there was'}"
    )
