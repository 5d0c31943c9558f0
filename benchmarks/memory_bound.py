"""Memory-bound library kernels: bandwidth beside torch, torch.compile and plain Triton.

Every problem moves its bytes at least once; the table shows bytes over time, also as a fraction of
a copy's bandwidth, and our speed relative to the better of torch.compile and Triton. Candidates are
graphs of several launches, which exclude host time; they take turns, inputs rotate beyond the
cache, and results are checked against f32. All compilers run before the measurements, in parallel.
"""

from __future__ import annotations

import argparse
import fnmatch
import math
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from lab import COMPILED, TORCH, TRITON, Lab, add_options, open_lab

import tilewright as tw
from tilewright.bench import (
    Bound,
    Candidate,
    Comparison,
    Report,
    Table,
    Target,
    compare,
    graph_of,
    on_stream,
)

__all__ = ["MEAN", "main", "target_name"]

COUNT = 8  # launches in a graph
ROTATED = 2.5e8  # bytes of rotating inputs: several times the cache
OURS = "ours"
MEAN = "memory-bound kernels, speed beside the best peer, geometric mean"


class Buffers:
    """Tensors of one problem, as ours and as torch tensors: one set of outputs, rotating inputs.

    The shared outputs order the launches of a graph.
    """

    def __init__(self, lab: Lab, problem: Any) -> None:
        self.lab, self.problem = lab, problem
        count = max(1, min(4, math.ceil(ROTATED / problem.nbytes)))
        self.outs = [self._tensor(one, 0) for one in problem.outs]
        self.ins = [[self._tensor(one, seed) for one in problem.ins] for seed in range(count)]
        self.torch_outs = [lab.as_torch(one) for one in self.outs]
        self.torch_ins = [[lab.as_torch(one) for one in ins] for ins in self.ins]

    def _tensor(self, of: Any, seed: int) -> tw.Tensor:
        made = self.lab.empty(*of.shape, dtype=of.dtype)
        torch, seen = self.lab.load("torch"), self.lab.as_torch(made)
        torch.manual_seed(seed)
        if of.below:
            seen.random_(0, of.below)
        elif seen.is_floating_point():
            seen.normal_()
        torch.cuda.synchronize()
        return made

    def error(self, run: Callable[[list[Any]], Any]) -> float:
        """The error of a function of torch tensors, or of one on our tensors."""
        torch = self.lab.load("torch")
        self.torch_outs[0].fill_(math.nan if self.torch_outs[0].is_floating_point() else 0)
        torch.cuda.synchronize()
        made = run(self.torch_ins[0])
        if isinstance(made, tw.DeviceOp):
            made.sync()
        torch.cuda.synchronize()
        given = isinstance(made, torch.Tensor | tuple)
        found = _first(made) if given else self.torch_outs[0]
        if self.problem.off is not None:
            return float(self.problem.off(found, self.torch_ins[0]))
        wide = [one.float() if one.is_floating_point() else one for one in self.torch_ins[0]]
        return _difference(torch, found, _first(self.problem.theirs(*wide)))

    def our_candidate(self) -> Candidate:
        """A graph of our launches."""
        problem = self.problem
        builders = [lambda ins=ins: problem.ours(self.outs, ins) for ins in self.ins]
        made = graph_of(builders, COUNT)
        check = partial(self.error, lambda _: problem.ours(self.outs, self.ins[0]))
        return Candidate(OURS, lambda: made.launch().submit(), check, problem.limit)

    def candidate(self, name: str, run: Callable[[list[Any]], Any]) -> Candidate:
        """A graph of a peer's launches on torch tensors, captured on first use."""
        replay = _Captured(self.lab, run, self.torch_ins)
        return Candidate(name, replay, partial(self.error, run), self.problem.limit)


class _Captured:
    """Launches captured by torch on first use."""

    def __init__(self, lab: Lab, run: Callable[[list[Any]], Any], ins: list[list[Any]]) -> None:
        self._lab, self._run, self._ins = lab, run, ins
        self._replay: Callable[[], None] | None = None

    def __call__(self) -> None:
        if self._replay is None:
            runs = [lambda given=given: self._run(given) for given in self._ins]
            self._replay = self._lab.captured(runs, COUNT)
        self._replay()


def _first(made: Any) -> Any:
    return made[0] if isinstance(made, tuple) else made


def _difference(torch: Any, found: Any, expected: Any) -> float:
    """The relative error in the norm."""
    off = torch.linalg.vector_norm(found.float() - expected.float())
    return float(off / torch.linalg.vector_norm(expected.float()))


def candidates(lab: Lab, buffers: Buffers) -> Iterator[Candidate]:
    """Ours first, then every available peer."""
    yield buffers.our_candidate()
    for name, run in lab.load("memory_peers").peers(buffers.problem):
        yield buffers.candidate(name, partial(run, buffers.torch_outs))


def copy_rate(lab: Lab) -> float:
    """Bytes a second of the fastest large copy."""
    source, target = (lab.as_torch(lab.empty(1 << 28, dtype=tw.f32)) for _ in range(2))
    found = compare({"copy": lambda: target.copy_(source)}, timer=lab.timer(repetitions=15))
    return 2 * (1 << 30) / found.seconds("copy")


def row(table: Table, report: Report, problem: Any, found: Comparison, copied: float) -> float:
    """One row of the table; returns our speed relative to the best peer."""
    best = min((found.seconds(name) for name in (COMPILED, TRITON) if name in found), default=None)
    peer = best if best is not None else found.seconds(TORCH)
    ways = (OURS, TORCH, COMPILED, TRITON)  # torch, or Triton, lacks some functions
    rates = {name: COUNT * problem.nbytes / found.seconds(name) for name in ways if name in found}
    of_copy, ratio = rates.get(OURS, math.nan) / copied, peer / found.seconds(OURS)
    shown = [f"{rates[name] / 1e12:.3f}" if name in rates else "-" for name in ways]
    table.add(
        problem.name, problem.title, *shown, f"{of_copy:.3f}", f"{ratio:.3f}", f"{found.noise:.3f}",
    )  # fmt: skip
    report.figure(
        "problems",
        name=problem.name,
        title=problem.title,
        nbytes=problem.nbytes,
        launches=COUNT,
        ratio=ratio,
        **found.to_json(),
    )
    for name, why in found.failures.items():
        print(f"{problem.name} {problem.title}: {name}: {why[-300:]}", flush=True)
    return ratio


def target_name(problem: Any) -> str:
    """The target of a problem, relative to the best peer."""
    return f"{problem.name}, {problem.title}: speed beside the best peer"


def measure(lab: Lab, report: Report, table: Table, problem: Any, copied: float) -> float:
    """Measure one problem; a failure is reported, has no ratio, and does not stop the others."""
    timer = lab.timer(repetitions=15, rounds=3, warmup=0.01)
    try:
        found = compare(candidates(lab, Buffers(lab, problem)), timer=timer)
        ratio = row(table, report, problem, found, copied)
    except Exception:  # noqa: BLE001
        reason = traceback.format_exc()
        print(f"{problem.name} {problem.title}: {reason[-600:]}", flush=True)
        last = reason.strip().rpartition("\n")[2]
        report.figure("problems", name=problem.name, ratio=None, failures={problem.name: last})
        ratio = math.nan
    else:
        print(" ".join(table.rows[-1]), flush=True)
    report.target(Target(target_name(problem), Bound.AT_LEAST, 1.0, ratio))
    return ratio


def _compile_peers(lab: Lab, chosen: list[Any], seconds: float) -> None:
    names = [(problem.name, problem.title) for problem in chosen]
    lab.load("memory_peers").compile_ahead(names, seconds)


def assemble(chosen: list[Any], target: str) -> None:
    """Compile everything at once before the measurements; failures are reported there."""

    def build(problem: Any) -> None:
        outs, ins = (
            [tw.meta(one.shape, one.dtype, target=target) for one in side]
            for side in (problem.outs, problem.ins)
        )
        with suppress(tw.TilewrightError), closing(problem.ours(outs, ins)) as operation:
            operation.compile()

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(build, chosen))


def main() -> None:
    """Measure the problems that `--only` names."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser)
    parser.add_argument("--only", default="*", help="patterns of names, separated by commas")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--seconds", type=float, default=75, help="no problem starts after that")
    options = parser.parse_args()
    end = time.monotonic() + options.seconds
    lab = open_lab(options)
    if not lab.has("torch"):
        parser.error("the comparison needs torch and a GPU")
    patterns = options.only.split(",")
    chosen = [
        problem
        for problem in lab.load("memory_problems").problems()
        if any(fnmatch.fnmatch(problem.name, pattern) for pattern in patterns)
    ]
    report = Report("memory_bound", "Memory-bound kernels", options.json)
    with ThreadPoolExecutor(1) as beside:
        ahead = beside.submit(_compile_peers, lab, chosen, options.seconds / 3)
        assemble(chosen, lab.device.target)
        ahead.result()
    with on_stream(lab.stream):
        copied = copy_rate(lab)
        report.figure("copy", rate=copied)
        table = Table(
            f"TB/s; a copy has {copied / 1e12:.3f}",
            ("kernel", "shape", OURS, TORCH, COMPILED, TRITON, "of copy", "of best", "noise"),
        )
        report.table(table)
        found = [
            measure(lab, report, table, problem, copied)
            for problem in chosen
            if time.monotonic() < end
        ]
    print(table.to_text())
    if len(found) < len(chosen):
        left = ", ".join(f"{one.name} {one.title}" for one in chosen[len(found) :])
        report.note(f"There was no time for {left}.")
    ratios = [ratio for ratio in found if math.isfinite(ratio)]
    mean = geometric_mean(ratios) if ratios else math.nan
    report.target(Target(MEAN, Bound.AT_LEAST, 1.0, mean))
    print(f"geometric mean of the ratios: {mean:.3f}")


if __name__ == "__main__":
    main()
