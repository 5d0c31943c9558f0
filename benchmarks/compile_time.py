"""Compile time of growing kernels: k branches, k unrolled steps, k nested loops, and so on.

    python benchmarks/compile_time.py [--largest 128] [--only branches,elif] [--json FILE]

Needs no GPU and no toolchain: from the source to the program of the CPU backend. Each family is
compiled at doubling sizes; the exponent is the slope of the time over the size between the last
two, less the time of the smallest. The target is at most quadratic.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from pathlib import Path

import growing_kernels

import tilewright as tw
from tilewright.bench import Bound, Report, Table, Target

__all__ = ["exponent", "main", "show_compile_time", "sizes", "times"]

QUADRATIC = 2.0
SHORTEST = 0.02  # seconds; growth below this is noise
WARM = ("branches", 2)  # the first kernel of a process imports the compiler


def sizes(family: str, largest: int) -> list[int]:
    """Doubling sizes up to the largest that the family, and Python, allows."""
    most = min(largest, growing_kernels.MOST.get(family, largest))
    return [k for k in (most >> shift for shift in range(8, -1, -1)) if k >= 2]


def _seconds(family: str, k: int, folder: Path) -> float:
    kernel = growing_kernels.define(family, k, folder)
    start = time.process_time()
    growing_kernels.compiled(family, k, kernel)
    return time.process_time() - start


def times(family: str, largest: int, folder: Path) -> dict[int, float]:
    """Processor seconds by size, the better of two."""
    return {k: min(_seconds(family, k, folder) for _ in range(2)) for k in sizes(family, largest)}


def exponent(found: dict[int, float]) -> float | None:
    """The power of the size with which the time grows; None without measurable growth."""
    (k, before), (double, last) = [*found.items()][-2:]
    least = min(found.values())
    if last - least < SHORTEST or before <= least:
        return None
    return math.log((last - least) / (before - least)) / math.log(double / k)


def show_compile_time(report: Report, families: list[str], largest: int) -> None:
    """Measure families, and add a table, figures and targets to a report."""
    table = Table("Compile time of kernels that grow", ("growing part", "k", "ms", "exponent"))
    with tw.device("cpu"), tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        growing_kernels.compiled(*WARM, growing_kernels.define(*WARM, folder))
        for family in families:
            found = times(family, largest, folder)
            slope, (k, last) = exponent(found), [*found.items()][-1]
            table.add(
                family, str(k), f"{last * 1e3:.0f}", "flat" if slope is None else f"{slope:.1f}"
            )
            report.figure("compile_time", family=family, seconds=found, exponent=slope)
            if slope is not None:
                name_ = f"exponent of compile time over {family}"
                report.target(Target(name_, Bound.AT_MOST, QUADRATIC, slope, ""))
    print(table.to_text(), flush=True)
    report.table(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--largest", type=int, default=128, help="the largest k")
    parser.add_argument("--only", default=",".join(growing_kernels.FAMILIES), help="families")
    parser.add_argument("--json", type=Path, help="output file of all figures")
    options = parser.parse_args()
    report = Report("compile_time", "Compile time of kernels that grow", options.json)
    show_compile_time(report, options.only.split(","), options.largest)


if __name__ == "__main__":
    main()
