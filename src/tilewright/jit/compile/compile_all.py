"""Parallel compilation: front ends run one after the other, assemblers on all cores.

`tw.compile_all` compiles kernels ahead of their calls, also for devices of other machines
(`tw.meta(…, target="sm_100")`); executables are cached in memory and on disk as always. Failures
are independent, and calls with the same specialisation are compiled once.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from tilewright.errors import CompileErrors, LaunchError
from tilewright.runtime.ops.operation import DeviceOp

__all__ = ["CompileProgress", "Finished", "Start", "compile_all", "each_finished"]

# An operation to compile, or a call that builds one.
Call = DeviceOp[Any] | Callable[[], DeviceOp[Any]]
# Starts one compilation: runs the front end and returns the tasks of the assembler.
Start = Callable[[], Iterable[Future[Any]]]
# The compilations in progress: when each was started, and its tasks.
_UnderWay = dict[str, tuple[float, tuple[Future[Any], ...]]]


@dataclass(frozen=True)
class Finished:
    """The outcome of one compilation; without an error it is ready."""

    name: str
    error: Exception | None
    seconds: float  # since its start


@dataclass(frozen=True)
class CompileProgress:
    """The progress of `tw.compile_all`; `latest` is the most recent outcome."""

    done: int
    total: int
    latest: Finished


def compile_all(
    calls: Mapping[str, Call] | Iterable[Call],
    *,
    report: Callable[[CompileProgress], None] = lambda _: None,
) -> None:
    """Compile the kernels of some calls in parallel: `tw.compile_all([lambda: add(…), lambda: …])`.

    Each call is made here, so that a refused call leaves the others alone, and its operation is
    closed: nothing runs, and calls may share tensors. An operation given in place of a call is
    compiled and stays open. `report` is called for each outcome. Raises `CompileErrors` with all
    failures once everything else is ready.
    """
    named = cast("Mapping[str, Call]", calls) if isinstance(calls, Mapping) else _named(calls)
    failed: dict[str, Exception] = {}
    starts = ((name, partial(_begin, call)) for name, call in named.items())
    for done, latest in enumerate(each_finished(starts)):
        if latest.error is not None:
            latest.error.add_note(f"while compiling {latest.name}")
            failed[latest.name] = latest.error
        report(CompileProgress(done + 1, len(named), latest))
    if failed:
        names = [name for name in named if name in failed]  # in the order of the calls
        text = f"{len(failed)} of {len(named)} could not be compiled: {', '.join(names)}"
        raise CompileErrors(text, [failed[name] for name in names])


def each_finished(
    starts: Iterable[tuple[str, Start]], *, at_once: int | None = None, until: float = math.inf
) -> Iterator[Finished]:
    """Start all compilations in order, by distinct names, and yield each outcome.

    Outcomes are yielded between two starts as well. At most `at_once` compilations are in progress,
    and after `until`, by `time.monotonic()`, none is started or awaited.
    """
    under_way: _UnderWay = {}
    for name, start in starts:
        while at_once is not None and len(under_way) >= at_once and time.monotonic() < until:
            _wait_for_one(under_way, until)
            yield from _ready(under_way)
        if time.monotonic() >= until:
            return
        began = time.perf_counter()
        try:
            under_way[name] = (began, tuple(start()))
        except Exception as error:  # noqa: BLE001 (the outcome of this compilation alone)
            yield Finished(name, error, time.perf_counter() - began)
        yield from _ready(under_way)
    while under_way and time.monotonic() < until:
        _wait_for_one(under_way, until)
        yield from _ready(under_way)


def _wait_for_one(under_way: _UnderWay, until: float) -> None:
    left = [part for _, parts in under_way.values() for part in parts if not part.done()]
    wait(left, None if math.isinf(until) else until - time.monotonic(), FIRST_COMPLETED)


def _ready(under_way: _UnderWay) -> Iterator[Finished]:
    """Remove the finished compilations from those in progress, and return their outcomes."""
    for name, (began, parts) in list(under_way.items()):
        if all(part.done() for part in parts):
            del under_way[name]
            raised = (part.exception() for part in parts)
            error = next((one for one in raised if isinstance(one, Exception)), None)
            yield Finished(name, error, time.perf_counter() - began)


def _begin(call: Call) -> tuple[Future[Any], ...]:
    if isinstance(call, DeviceOp):
        return call.programs
    operation = call()
    if not isinstance(operation, DeviceOp):
        raise LaunchError(
            f"a call to compile gave {type(operation).__name__}, and an operation is expected:"
            " `lambda: kernel(…)`"
        )
    programs = operation.programs
    operation.close()  # the next call may use the tensors it borrows
    return programs


def _named(calls: Iterable[Call]) -> dict[str, Call]:
    """Distinct names of calls, for messages."""
    return {f"{_label(call)} ({number})": call for number, call in enumerate(calls, 1)}


def _label(call: Call) -> str:
    if isinstance(call, DeviceOp):
        return f"{call.label} at {call.site}"
    inner = call.func if isinstance(call, partial) else call
    return str(getattr(inner, "__name__", "call"))
