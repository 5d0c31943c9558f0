"""What `memory_bound.py` compares with, for one problem: torch, torch.compile and plain Triton.

Compilers take seconds for each problem. `compile_ahead` lets many processes at once do it: what
they make lies in the compilers' own caches, where the measuring process finds it. Needs torch.
"""

from __future__ import annotations

import importlib
import importlib.util
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import torch
from lab import COMPILED, TORCH, TRITON
from memory_problems import Argument, Problem, problems

import tilewright as tw

__all__ = ["compile_ahead", "peers"]

PROCESSES = 12
_DTYPES = {tw.f16: torch.float16, tw.f32: torch.float32, tw.i32: torch.int32, tw.i64: torch.int64}

# Runs a peer on outputs and inputs; gives what it made, or None if it wrote the outputs.
Peer = Callable[[Sequence[Any], Sequence[Any]], Any]


def peers(problem: Problem) -> Iterator[tuple[str, Peer]]:
    """Every peer that there is, by name; nothing is compiled before the first run."""
    theirs, into = problem.theirs, problem.into
    if into is not None:
        yield TORCH, lambda outs, ins: _done(into(outs, ins))
    elif theirs is not None:
        yield TORCH, lambda _, ins: theirs(*ins)
    if importlib.util.find_spec("triton") is not None:
        launch = importlib.import_module("peer_triton").LAUNCHES.get(problem.name)
        if launch is not None:
            yield TRITON, lambda outs, ins: _done(launch(outs, ins)())
    torch._dynamo.reset()  # noqa: SLF001 (each problem is compiled by itself)
    if theirs is not None:
        made = torch.compile(theirs, dynamic=False)
        yield COMPILED, lambda _, ins: made(*ins)
    else:
        assert into is not None, "a problem has one form at least"
        written = torch.compile(into, dynamic=False)
        yield COMPILED, lambda outs, ins: _done(written(outs, ins))


def _done(_: object) -> None:
    """The outputs have the result."""


def compile_ahead(names: Sequence[tuple[str, str]]) -> None:
    """Compile the peers of problems, by their names and titles; what fails, fails again later."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(PROCESSES, mp_context=context) as pool:
        list(pool.map(_run_once, names))


def _run_once(which: tuple[str, str]) -> None:
    [problem] = [one for one in problems() if (one.name, one.title) == which]
    outs, ins = ([_tensor(one) for one in side] for side in (problem.outs, problem.ins))
    for _, run in peers(problem):
        try:
            run(outs, ins)
            torch.cuda.synchronize()
        except Exception as error:  # noqa: BLE001 (told where it is timed)
            print(f"{problem.name}: {error!r:.200}", flush=True)


def _tensor(of: Argument) -> Any:
    made = torch.empty(of.shape, dtype=_DTYPES[of.dtype], device="cuda")
    return made.random_(0, of.below) if of.below else made.normal_()
