"""Time of the front end, from a kernel's AST to bytecode with all checks, and of the import.

    python benchmarks/front_end.py [--repetitions 25] [--json FILE]

Needs no GPU and no toolchain. A kernel is specialised afresh each time, without a cache; imports
are timed in fresh interpreters, less the time of an empty one.
"""

from __future__ import annotations

import argparse
import runpy
import statistics
import time
from pathlib import Path

import kernels
from fresh_process import FreshProcesses, fresh_processes

import tilewright as tw
from tilewright import Kernel
from tilewright.bench import Bound, Report, Table, Target
from tilewright.frontend.signature.samples import sample_specialization

__all__ = ["IMPORT", "main", "show_front_end", "target_name"]

TARGET = "sm_90"
EXAMPLES = Path(__file__).parents[1] / "examples"
CHOSEN = {"BM": 128, "D": 128, "CAUSAL": True, "GROUP": 4}  # of attention: all options
LIMITED = ("gemm", "gemm, persistent", "attention")
LONGEST, LONGEST_IMPORT = 40.0, 300.0  # milliseconds
IMPORT = "import of tilewright, NumPy with it"


def _kernels() -> dict[str, Kernel]:
    checked = tw.kernel(deny_checks=True)
    return {
        "add": checked(kernels.add),
        "gemm": checked(kernels.gemm),
        "gemm, persistent": checked(kernels.walked),
        "gemm, checked": tw.kernel(report=tw.ReportForm.AT_END)(kernels.gemm_listed),
        "attention": runpy.run_path(str(EXAMPLES / "attention.py"))["attention"],
    }


def _front_end(kernel: Kernel, repetitions: int) -> dict[str, float]:
    """Milliseconds; the first run imports the compiler, so first runs are separate."""
    chosen = CHOSEN if kernel.__name__ == "attention" else None
    hints = kernel.hints.of(TARGET)
    specialization = sample_specialization(kernel.signature, TARGET, chosen, hints)
    times = []
    for _ in range(repetitions + 1):
        fresh = Kernel(kernel.__wrapped__, kernel.options, kernel.hints, {})
        start = time.perf_counter()
        size = len(fresh.specialized(specialization).bytecode.data)
        times.append((time.perf_counter() - start) * 1e3)
    first, *rest = times
    return {"first": first, "median": statistics.median(rest), "least": min(rest), "bytes": size}


def _import(processes: FreshProcesses, statement: str, repetitions: int) -> float:
    times = []
    for _ in range(repetitions + 1):
        start = time.perf_counter()
        processes.run(["-c", statement])
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times[1:])  # the first one compiles modules


def _imports(repetitions: int) -> dict[str, float]:
    """Milliseconds of fresh interpreters that import nothing, NumPy, and tilewright."""
    statements = {"empty": "pass", "numpy": "import numpy", "tilewright": "import tilewright"}
    with fresh_processes() as processes:
        return {
            name: _import(processes, statement, repetitions)
            for name, statement in statements.items()
        }


def target_name(kernel: str) -> str:
    """The target of a kernel's front end."""
    return f"front end of {kernel}"


def show_front_end(report: Report, repetitions: int) -> None:
    """Measure both, and add tables, figures and targets to a report."""
    table = Table(
        "Front end, checks included: milliseconds", ("kernel", "median", "least", "bytecode, bytes")
    )
    for name, kernel in _kernels().items():
        row = _front_end(kernel, repetitions)
        table.add(name, f"{row['median']:.1f}", f"{row['least']:.1f}", f"{row['bytes']:.0f}")
        report.figure("front_end", kernel=name, **row)
        if name in LIMITED:
            report.target(Target(target_name(name), Bound.AT_MOST, LONGEST, row["median"], "ms"))
    imports = _imports(max(3, repetitions // 3))
    report.figure("imports", **imports)
    whole, numpy = (imports[name] - imports["empty"] for name in ("tilewright", "numpy"))
    taken = Table("Import, milliseconds", ("of", "median"))
    taken.add("tilewright", f"{whole:.0f}")
    taken.add("NumPy alone, which it loads", f"{numpy:.0f}")
    report.target(Target(IMPORT, Bound.AT_MOST, LONGEST_IMPORT, whole, "ms"))
    for one in (table, taken):
        print(one.to_text(), flush=True)
        report.table(one)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=25)
    parser.add_argument("--json", type=Path, help="output file of all figures")
    options = parser.parse_args()
    report = Report("front_end", "Front end and import", options.json)
    show_front_end(report, options.repetitions)


if __name__ == "__main__":
    main()
