"""Peers of `memory_bound.py` for one problem: torch, torch.compile and plain Triton.

Compilers take seconds for each problem. `compile_ahead` runs them in several processes for a
limited time: their results lie in the compilers' own caches, where the measuring process finds
them; missing ones are compiled there. Needs torch.
"""

from __future__ import annotations

import importlib
import importlib.util
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from lab import COMPILED, TORCH, TRITON
from memory_problems import Argument, Problem, problems

import tilewright as tw

__all__ = ["compile_ahead", "peers"]

# torch would start as many processes again in each of ours.
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")

PROCESSES = 8
_DTYPES = {tw.f16: torch.float16, tw.f32: torch.float32, tw.i32: torch.int32, tw.i64: torch.int64}

# A run of a peer on outputs and inputs; returns new outputs, or None if it wrote the given ones.
Peer = Callable[[Sequence[Any], Sequence[Any]], Any]


def peers(problem: Problem) -> Iterator[tuple[str, Peer]]:
    """Every available peer by name; compiled on the first run."""
    theirs, into = problem.theirs, problem.into
    if into is not None:
        yield TORCH, lambda outs, ins: _done(into(outs, ins))
    elif theirs is not None:
        yield TORCH, lambda _, ins: theirs(*ins)
    if importlib.util.find_spec("triton") is not None:
        launch = importlib.import_module("peer_triton").LAUNCHES.get(problem.name)
        if launch is not None:
            yield TRITON, lambda outs, ins: _done(launch(outs, ins)())
    torch._dynamo.reset()  # noqa: SLF001 (compile each problem separately)
    if theirs is not None:
        made = torch.compile(theirs, dynamic=False)
        yield COMPILED, lambda _, ins: made(*ins)
    else:
        assert into is not None, "a problem has one form at least"
        written = torch.compile(into, dynamic=False)
        yield COMPILED, lambda outs, ins: _done(written(outs, ins))


def _done(_: object) -> None:
    """Copy a result into the outputs."""


def compile_ahead(names: Sequence[tuple[str, str]], seconds: float) -> None:
    """Compile the peers of problems, by names and titles, within a time limit."""
    end = time.monotonic() + seconds
    context = multiprocessing.get_context("spawn")
    shares = [names[k::PROCESSES] for k in range(PROCESSES)]
    workers = [context.Process(target=_run_all, args=(share,)) for share in shares if share]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(max(end - time.monotonic(), 0))
        if worker.is_alive():
            worker.terminate()
            worker.join()


def _run_all(names: Sequence[tuple[str, str]]) -> None:
    by_name = {(problem.name, problem.title): problem for problem in problems()}
    for name in names:
        try:
            _run_once(by_name[name])
        except Exception as error:  # noqa: BLE001 (reported at the measurement)
            print(f"{name[0]}: {error!r:.200}", flush=True)
        torch.cuda.empty_cache()


def _run_once(problem: Problem) -> None:
    outs, ins = ([_tensor(one) for one in side] for side in (problem.outs, problem.ins))
    for _, run in peers(problem):
        run(outs, ins)
        torch.cuda.synchronize()


def _tensor(of: Argument) -> Any:
    made = torch.empty(of.shape, dtype=_DTYPES[of.dtype], device="cuda")
    if of.below:
        return made.random_(0, of.below)
    return made.normal_() if made.is_floating_point() else made
