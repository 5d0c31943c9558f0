"""The memory-bound kernels of the library: bandwidth beside torch, torch.compile and plain Triton.

Every problem moves its bytes once at least; the table shows them over the time, also as a fraction
of what a copy reaches here, and how many times as fast we are as the better of torch.compile and
Triton. Candidates take turns, buffers rotate beyond the cache, results are checked against f32.
"""

from __future__ import annotations

import argparse
import fnmatch
import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from lab import Lab, add_options, open_lab

import tilewright as tw
from tilewright.bench import (
    Bound,
    Candidate,
    Comparison,
    Report,
    Table,
    Target,
    compare,
    on_stream,
)

__all__ = ["main"]

ROTATED = 3e8  # bytes that buffers take turns over: several times the cache
OURS, TORCH, COMPILED, TRITON = "ours", "torch", "torch.compile", "Triton"


class Buffers:
    """Sets of tensors of one problem, as we and as torch see them."""

    def __init__(self, lab: Lab, problem: Any) -> None:
        self.lab, self.problem = lab, problem
        count = max(1, min(4, math.ceil(ROTATED / problem.nbytes)))
        self.ours = [
            tuple([self._tensor(one, n) for one in side] for side in (problem.outs, problem.ins))
            for n in range(count)
        ]
        self.theirs = [
            tuple([lab.as_torch(one) for one in side] for side in one) for one in self.ours
        ]

    def _tensor(self, of: Any, seed: int) -> tw.Tensor:
        made = self.lab.empty(*of.shape, dtype=of.dtype)
        torch, seen = self.lab.load("torch"), self.lab.as_torch(made)
        torch.manual_seed(seed)
        seen.random_(0, of.below) if of.below else seen.normal_()
        torch.cuda.synchronize()
        return made

    def candidate(self, name: str, runs: list[Callable[[], object]]) -> Candidate:
        """One way to solve the problem, its outputs checked."""

        def error() -> float:
            torch = self.lab.load("torch")
            outs, ins = self.theirs[0]
            outs[0].fill_(math.nan)
            torch.cuda.synchronize()
            made = runs[0]()
            if isinstance(made, tw.DeviceOp):
                made.sync()
            torch.cuda.synchronize()
            found = outs[0] if name in (OURS, TRITON) or self.problem.into else _first(made)
            wide = [one.float() if one.is_floating_point() else one for one in ins]
            return _difference(torch, found, _first(self.problem.theirs(*wide)))

        return Candidate(name, runs, error, self.problem.limit)


def _first(made: Any) -> Any:
    return made[0] if isinstance(made, tuple) else made


def _difference(torch: Any, found: Any, expected: Any) -> float:
    """The relative error in the norm."""
    off = torch.linalg.vector_norm(found.float() - expected.float())
    return float(off / torch.linalg.vector_norm(expected.float()))


def candidates(lab: Lab, buffers: Buffers) -> Iterator[Candidate]:
    """Ours first, then every peer that there is."""
    problem = buffers.problem
    yield buffers.candidate(OURS, [lambda s=s: problem.ours(*s) for s in buffers.ours])
    if problem.into:
        eager = [lambda s=s: problem.into(*s) for s in buffers.theirs]
    else:
        eager = [lambda s=s: problem.theirs(*s[1]) for s in buffers.theirs]
    yield buffers.candidate(TORCH, eager)
    if lab.has("triton"):
        launch = lab.load("peer_triton").LAUNCHES.get(problem.name)
        if launch is not None:
            yield buffers.candidate(TRITON, [launch(*s) for s in buffers.theirs])
    compiled = _compiled(lab, problem)
    yield Candidate(COMPILED, [lambda s=s: compiled(*s[1]) for s in buffers.theirs])


def _compiled(lab: Lab, problem: Any) -> Callable[..., Any]:
    torch = lab.load("torch")
    torch._dynamo.reset()  # noqa: SLF001 (each problem is compiled by itself)
    compiled: Callable[..., Any] = torch.compile(problem.theirs, dynamic=False)
    return compiled


def copy_rate(lab: Lab) -> float:
    """Bytes a second of a large copy, the best that there is."""
    torch = lab.load("torch")
    source, target = (lab.as_torch(lab.empty(1 << 28, dtype=tw.f32)) for _ in range(2))
    found = compare({"copy": lambda: target.copy_(source)}, timer=lab.timer(repetitions=15))
    del torch
    return 2 * (1 << 30) / found.seconds("copy")


def row(table: Table, report: Report, problem: Any, found: Comparison, copied: float) -> float:
    """One line of the table; how many times as fast we are as the best peer."""
    best = min((found.seconds(name) for name in (COMPILED, TRITON) if name in found), default=None)
    peer = best if best is not None else found.seconds(TORCH)
    rates = {name: problem.nbytes / found.seconds(name) for name in (OURS, TORCH, COMPILED, TRITON)}
    ratio = peer / found.seconds(OURS)
    shown = [f"{rate / 1e12:.3f}" if rate == rate else "-" for rate in rates.values()]
    table.add(
        problem.name, problem.title, *shown, f"{rates[OURS] / copied:.3f}", f"{ratio:.3f}",
        f"{found.noise:.3f}",
    )  # fmt: skip
    report.figure(
        "problems",
        name=problem.name,
        title=problem.title,
        nbytes=problem.nbytes,
        ratio=ratio,
        **found.to_json(),
    )
    for name, why in found.failures.items():
        print(f"{problem.name} {problem.title}: {name}: {why[-300:]}", flush=True)
    return ratio


def assemble(chosen: list[Any], target: str) -> None:
    """Everything at once, before anything is measured."""

    def build(problem: Any) -> None:
        outs, ins = (
            [tw.meta(one.shape, one.dtype, target=target) for one in side]
            for side in (problem.outs, problem.ins)
        )
        operation = problem.ours(outs, ins)
        operation.compile()
        operation.close()

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(build, chosen))


def main() -> None:
    """Measure what `--only` names."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser)
    parser.add_argument("--only", default="*", help="patterns of names, with commas between")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    lab = open_lab(options)
    if not lab.has("torch"):
        parser.error("this compares with torch on a GPU, and one of the two is not there")
    patterns = options.only.split(",")
    chosen = [
        problem
        for problem in lab.load("memory_problems").problems()
        if any(fnmatch.fnmatch(problem.name, pattern) for pattern in patterns)
    ]
    report = Report("memory_bound", "Memory-bound kernels", options.json)
    assemble(chosen, lab.device.target)
    with on_stream(lab.stream):
        copied = copy_rate(lab)
        report.figure("copy", rate=copied)
        table = Table(
            f"TB/s; a copy has {copied / 1e12:.3f}",
            ("kernel", "shape", OURS, TORCH, COMPILED, TRITON, "of copy", "of best", "noise"),
        )
        ratios = []
        for problem in chosen:
            buffers = Buffers(lab, problem)
            timer = lab.timer(repetitions=15, rounds=3, warmup=0.01)
            found = compare(candidates(lab, buffers), timer=timer)
            ratios.append(row(table, report, problem, found, copied))
            print(" ".join(table.rows[-1]), flush=True)
    print(table.to_text())
    report.table(table)
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    report.target(Target("of the best peer, geometric mean", Bound.AT_LEAST, 1.0, mean))
    print(f"geometric mean of the ratios: {mean:.3f}")


if __name__ == "__main__":
    main()
