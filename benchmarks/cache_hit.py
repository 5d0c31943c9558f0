"""Time of a disk cache hit: from a launch on `tw.meta` tensors to loadable code.

    python benchmarks/cache_hit.py [--repetitions 20] [--json FILE]

Needs the assembler, no GPU. One process fills a fresh cache; each repetition is then a process of
its own, which must find every kernel by its source key without importing the compiler. The first
kernel of a process also loads the cache's own code, so it has a row of its own.
"""

from __future__ import annotations

import argparse
import json
import runpy
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import kernels
from fresh_process import FreshProcesses, fresh_processes

import tilewright as tw
from tilewright.bench import Bound, Report, Table, Target

__all__ = ["HIT", "main", "show_hits"]

TARGET = "sm_90"
LONGEST = 5.0  # milliseconds
HIT = "a hit in the disk cache"
EXAMPLES = Path(__file__).parents[1] / "examples"


def _operations() -> dict[str, Any]:
    """A builder for each operation; a call compiles it."""
    add, gemm, walked = map(
        tw.kernel(deny_checks=True), (kernels.add, kernels.gemm, kernels.walked)
    )
    attention = runpy.run_path(str(EXAMPLES / "attention.py"))["attention"]
    return {
        "attention": lambda: attention(_heads().partition(1, 1, 128, 128), *_three_heads(), 0.1),
        "add": lambda: add(_line().partition(1024), _line(), _line()),
        "gemm": lambda: gemm(_square().partition(128, 128), _square(), _square()),
        "gemm, persistent": lambda: walked(
            _square().partition(128, 128).persistent(), _square(), _square()
        ),
        "attention, causal": lambda: attention(
            _heads().partition(1, 1, 128, 128), *_three_heads(), 0.1, CAUSAL=True
        ),
    }


def _line() -> tw.Tensor:
    return tw.meta((4096,), tw.f32, target=TARGET)


def _square() -> tw.Tensor:
    return tw.meta((4096, 4096), tw.f16, target=TARGET)


def _heads() -> tw.Tensor:
    return tw.meta((2, 16, 1024, 128), tw.f16, target=TARGET)


def _three_heads() -> tuple[tw.Tensor, ...]:
    return _heads(), _heads(), _heads()


def _once() -> None:
    """Compile or find each kernel, and write the milliseconds as JSON."""
    found = {}
    for name, make in _operations().items():
        start = time.perf_counter()
        make().compile().close()
        found[name] = (time.perf_counter() - start) * 1e3
    front_end = "tilewright.jit.compile.compiler" in sys.modules
    sys.stdout.write(json.dumps({"times": found, "front end": front_end}) + "\n")


def _process(processes: FreshProcesses, folder: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(
        processes.run([__file__, "--once"], TILEWRIGHT_CACHE=folder)
    )
    return answer


def _hits(repetitions: int) -> dict[str, dict[str, float]]:
    """Milliseconds by kernel: with an empty cache, and of a hit."""
    with tempfile.TemporaryDirectory() as folder, fresh_processes() as processes:
        cold = _process(processes, folder)
        hits = [_process(processes, folder) for _ in range(repetitions)]
    if any(hit["front end"] for hit in hits):
        raise RuntimeError("a kernel was compiled again: these are no hits")
    found = {}
    for name, first in cold["times"].items():
        times = [hit["times"][name] for hit in hits]
        found[name] = {"cold": first, "median": statistics.median(times), "least": min(times)}
    return found


def show_hits(report: Report, repetitions: int) -> None:
    """Measure hits, and add a table, figures and the target to a report."""
    table = Table("From the disk cache, milliseconds", ("kernel", "cold", "hit", "least hit"))
    found = _hits(repetitions)
    for place, (name, row) in enumerate(found.items()):
        label = name if place else f"{name} (first of a process, loads the cache)"
        table.add(label, f"{row['cold']:.0f}", f"{row['median']:.2f}", f"{row['least']:.2f}")
        report.figure("hits", kernel=name, **row)
    print(table.to_text(), flush=True)
    report.table(table)
    _, *warm = found.values()
    worst = max(row["median"] for row in warm)
    report.target(Target(HIT, Bound.AT_MOST, LONGEST, worst, "ms"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--json", type=Path, help="output file of all figures")
    parser.add_argument("--once", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.once:
        _once()
        return
    show_hits(Report("cache_hit", "Hits in the disk cache", options.json), options.repetitions)


if __name__ == "__main__":
    main()
