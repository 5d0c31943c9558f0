"""The search: assemble candidates in parallel, prune, check, time, compare the best.

Candidates go through the front end one by one, are assembled in parallel (`jit.compile_all`) and
are examined as they finish: a candidate that spills heavily or does not reach its requested
occupancy is pruned, one whose result differs from the reference is rejected, one that is far slower
than the best so far is dropped, and the remaining ones are timed briefly. The best few are compared
in turns (`bench.compare`), because a GPU slows down as it heats up, and the winner is checked once
more. A candidate that cannot be compiled, launched or run does not affect the others.

A kernel that hangs cannot be ended from within its process, and one that corrupts the driver's
context ends the search. The journal knows the candidate that was running, so a search in a child
(`tune.supervision`) can be ended or restarted from outside, and continues after it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from functools import partial
from typing import Any

from tilewright.bench.paired import Comparison, compare
from tilewright.bench.subjects import Run
from tilewright.bench.timer import Timer
from tilewright.bench.timing import Effort
from tilewright.errors import CompileError, DriverError, LaunchError, TuneError
from tilewright.jit.cache.fingerprints import digest
from tilewright.jit.compile.compile_all import Finished, Start, each_finished
from tilewright.runtime.devices.device import Device
from tilewright.runtime.ops.operation import DeviceOp
from tilewright.tune.attempts import Attempt, Usage, Verdict, tally
from tilewright.tune.config import Config
from tilewright.tune.journal import Journal
from tilewright.tune.plans import Progress, Report, SearchPlan, SearchResult
from tilewright.tune.task import Task

__all__ = ["Search", "search", "search_name"]

_REFUSALS = (CompileError, LaunchError)
_UNTUNED = "without a record"  # differs from the text of every configuration

TimerMaker = Callable[[Effort], Timer]


def search(
    task: Task,
    plan: SearchPlan | None = None,
    *,
    journal: Journal | None = None,
    report: Report = lambda _: None,
    timer: TimerMaker | None = None,
) -> SearchResult:
    """Return the fastest correct configuration of a task; raise `TuneError` if there is none.

    With a `journal` the search can be ended and restarted. `report` is called at every step.
    `timer` is for tests, which have a clock of their own.
    """
    plan = plan or SearchPlan()
    state = Search(task, plan, journal or Journal(), report, timer)
    for finished in each_finished(state.starts().items(), until=time.monotonic() + plan.seconds):
        state.settle(finished)
    return state.conclude()


def search_name(task: Task) -> str:
    """Return the name of a search in a journal: it depends on kernel, key and machine."""
    target = task.device.target
    return digest(task.kernel, repr(task.key), task.source, target, task.machine)[:16]


class Search:
    """One search: its attempts so far, and its steps."""

    def __init__(
        self,
        task: Task,
        plan: SearchPlan,
        journal: Journal,
        report: Report = lambda _: None,
        timer: TimerMaker | None = None,
    ) -> None:
        self.task = task
        self._plan = plan
        self._journal = journal
        self._report = report
        self._name = search_name(task)
        self._timer = timer or partial(Timer, task.device.stream, flush=task.flush)
        self._configs = {self._label(config): config for config in task.configs}
        self._programs: dict[str, tuple[Future[Any], ...]] = {}
        self._quickest = math.inf  # seconds of first runs, which are longer than warm ones
        wanted = set(task.configs)
        known = journal.attempts(self._name).items()
        self._attempts = {config: attempt for config, attempt in known if config in wanted}
        self._tell(None)

    def _label(self, what: object) -> str:
        return f"{self.task.kernel} {self.task.key}: {what}"

    def _tell(self, latest: Attempt | None) -> None:
        best = min(self._timed(), key=_seconds, default=None)
        total = len(self.task.configs)
        self._report(Progress(len(self._attempts), total, best, latest))

    def _timed(self) -> list[Attempt]:
        return [one for one in self._attempts.values() if one.verdict is Verdict.TIMED]

    def _note(self, attempt: Attempt) -> None:
        self._attempts[attempt.config] = attempt
        self._journal.end(self._name, attempt)
        self._tell(attempt)

    # --- one candidate after the other ---

    def starts(self) -> dict[str, Start]:
        """Return the first step of every candidate without an attempt, by a unique name.

        The default comes before them, as the base of the comparison.
        """
        found: dict[str, Start] = {}
        if self.task.untuned is not None:
            found[self._label(_UNTUNED)] = lambda: _begin(self.task.untuned)
        for label, config in self._configs.items():
            if config not in self._attempts:
                found[label] = partial(self._start, label, config)
        return found

    def _start(self, label: str, config: Config) -> tuple[Future[Any], ...]:
        self._programs[label] = programs = _begin(partial(self.task.build, config))
        return programs

    def settle(self, finished: Finished) -> None:
        """Prune an assembled candidate, or run it."""
        config = self._configs.get(finished.name)
        if config is None:  # the default is judged by the final comparison
            return
        programs, usage = self._programs.pop(finished.name, ()), None
        try:
            if finished.error is not None:
                raise finished.error
            resources = tuple(one for p in programs for one in p.result().resources())
            usage = Usage.of(resources, self.task.device.target)
            against = "" if usage is None else usage.against(config, self._plan.spilled)
            if against:
                attempt = Attempt(config, Verdict.PRUNED, reason=against, usage=usage)
            else:
                self._journal.begin(self._name, config)
                attempt = self._run(config, usage)
        except Exception as error:
            if isinstance(error, DriverError) and not _is_alive(self.task.device):
                raise  # no candidate can run: this one is lost, and the next process continues
            attempt = _failure(config, error, usage)
        self._note(attempt)

    def _run(self, config: Config, usage: Usage | None) -> Attempt:
        """Check the result of a candidate, and only then time it."""
        error = self._error(config)
        if not error <= self.task.limit:  # NaN is above any limit
            return self._wrong(config, error, usage)
        timer = self._timer(self._plan.first)
        subject = timer.first_runs(partial(self.task.build, config))
        seconds = subject.seconds
        if seconds > self._quickest * self._plan.hopeless:
            ratio = seconds / self._quickest
            reason = f"its first runs took {ratio:.2g} times as long as those of the best so far"
            return Attempt(config, Verdict.SLOW, seconds, error, reason, usage)
        self._quickest = min(seconds, self._quickest)
        timing = timer.measure(subject, timer.warm(subject))
        return Attempt(config, Verdict.TIMED, timing.median, error, usage=usage)

    def _error(self, config: Config) -> float:
        """Return the error of a candidate relative to the reference."""
        self.task.prepare()
        return self.task.error(self.task.build(config).sync())

    def _wrong(self, config: Config, error: float, usage: Usage | None) -> Attempt:
        reason = f"relative error {error:.3g}, and {self.task.limit:.3g} is allowed"
        return Attempt(config, Verdict.WRONG, error=error, reason=reason, usage=usage)

    # --- the end ---

    def conclude(self) -> SearchResult:
        """Compare the best candidates with each other and with the default."""
        finalists = self._finalists()
        runs: dict[str, Run] = {
            str(one.config): partial(self.task.build, one.config) for one in finalists
        }
        if self.task.untuned is not None:
            runs[_UNTUNED] = self.task.untuned
        found = compare(runs, timer=self._timer(self._plan.last))
        winner = self._winner(finalists, found)
        name = str(winner.config)
        if _UNTUNED in found and found.speed(name, _UNTUNED) > 1:
            # The luckiest of equal candidates wins, so its gain is measured again.
            both = {one: runs[one] for one in (_UNTUNED, name)}
            found = compare(both, timer=self._timer(self._plan.last))
        return self._found(winner, found)

    def _found(self, winner: Attempt, found: Comparison) -> SearchResult:
        order = {config: place for place, config in enumerate(self.task.configs)}
        return SearchResult(
            winner,
            found.seconds(str(winner.config)),
            found.noise,
            found.seconds(_UNTUNED) if _UNTUNED in found else None,
            tuple(sorted(self._attempts.values(), key=lambda one: order[one.config])),
            len(self.task.configs) - len(self._attempts),
        )

    def _finalists(self) -> list[Attempt]:
        """Return the incumbent, if it was timed, and the fastest candidates near the best."""
        timed = sorted(self._timed(), key=_seconds)
        if not timed:
            raise TuneError(_nothing_left(self.task, self._attempts.values()))
        incumbent, most = self.task.configs[0], _seconds(timed[0]) * self._plan.near
        first = [one for one in timed if one.config == incumbent]
        near = [one for one in timed[: self._plan.finalists] if _seconds(one) <= most]
        return list(dict.fromkeys((*first, *near)))

    def _winner(self, finalists: list[Attempt], found: Comparison) -> Attempt:
        """Return the fastest candidate that is still correct after all those runs."""
        for attempt in _ranking(finalists, found):
            config, usage = attempt.config, attempt.usage
            try:
                error = self._error(config)
            except Exception as broken:  # noqa: BLE001 (one candidate fails, not the search)
                self._note(_failure(config, broken, usage))
                continue
            if error <= self.task.limit:
                return attempt
            self._note(self._wrong(config, error, usage))
        raise TuneError(_nothing_left(self.task, self._attempts.values()))


def _begin(build: Callable[[], DeviceOp[Any]] | None) -> tuple[Future[Any], ...]:
    """Run the front end; return the pending compilations."""
    assert build is not None
    operation = build()
    programs = operation.programs
    operation.close()  # the next candidate needs the borrowed tensors
    return programs


def _is_alive(device: Device) -> bool:
    """Whether the device still runs work: some errors corrupt the driver's context."""
    try:
        device.stream.sync()
    except DriverError:
        return False
    return True


def _ranking(finalists: list[Attempt], found: Comparison) -> list[Attempt]:
    """Rank from the fastest on, the first finalist before others within the noise."""
    seconds = {one: found.seconds(str(one.config)) for one in finalists}
    ranked = sorted(
        (one for one in finalists if not math.isnan(seconds[one])), key=seconds.__getitem__
    )
    first = finalists[0]
    if first in ranked and seconds[first] <= seconds[ranked[0]] * (1 + found.noise):
        ranked.remove(first)
        ranked.insert(0, first)
    return ranked


def _seconds(attempt: Attempt) -> float:
    return math.inf if attempt.seconds is None else attempt.seconds


def _failure(config: Config, error: Exception, usage: Usage | None = None) -> Attempt:
    """Return the attempt of a candidate that raised; its reason is the first line."""
    verdict = Verdict.REFUSED if isinstance(error, _REFUSALS) else Verdict.FAILED
    first = str(error).strip().partition("\n")[0]
    return Attempt(config, verdict, reason=f"{type(error).__name__}: {first}", usage=usage)


def _nothing_left(task: Task, attempts: Iterable[Attempt]) -> str:
    """Explain why a search has no winner: the count of each outcome, and its first reason."""
    told = "".join(f"\n  {line}" for line in tally(attempts))
    return (
        f"no configuration of {task.kernel} for {task.key} is right and runs; of "
        f"{len(task.configs)} candidates{told or ' none was tried in the time there was'}"
    )
