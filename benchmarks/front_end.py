"""Time of the front end, from a kernel's AST to bytecode with all checks, and of the import.

    python benchmarks/front_end.py [--repetitions 25] [--json FILE]

Needs no GPU and no toolchain. A kernel is specialised afresh each time, so no cache helps; imports
are timed in fresh interpreters, and the time of an empty one is taken off.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import runpy
import statistics
import subprocess
import sys
import time
from pathlib import Path

import kernels

import tilewright as tw
from tilewright import Kernel
from tilewright.jit.defaults import sample_specialization

__all__ = ["LIMITS", "main", "measure_front_end", "measure_imports"]

TARGET = "sm_90"
EXAMPLES = Path(__file__).parents[1] / "examples"
CHOSEN = {"BM": 128, "D": 128, "CAUSAL": True, "GROUP": 4}  # of attention: all it can do
LIMITS = {"import": 300.0, "front end": 40.0}  # milliseconds


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
    """Milliseconds; the first run of all loads the compiler, so first runs are told apart."""
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


def _import(statement: str, repetitions: int) -> float:
    times = []
    for _ in range(repetitions):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", statement], check=True)
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


def measure_front_end(repetitions: int) -> dict[str, dict[str, float]]:
    """Milliseconds from the syntax tree to bytecode, by kernel."""
    return {name: _front_end(kernel, repetitions) for name, kernel in _kernels().items()}


def measure_imports(repetitions: int) -> dict[str, float]:
    """Milliseconds of fresh interpreters that import nothing, NumPy, and us."""
    statements = {"empty": "pass", "numpy": "import numpy", "tilewright": "import tilewright"}
    return {name: _import(statement, repetitions) for name, statement in statements.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=25)
    parser.add_argument("--json", type=Path, help="where to write all figures")
    options = parser.parse_args()
    imports = measure_imports(max(3, options.repetitions // 3))
    whole, numpy = (imports[name] - imports["empty"] for name in ("tilewright", "numpy"))
    print(f"import tilewright: {whole:.0f} ms (limit {LIMITS['import']:.0f} ms), of which")
    print(f"import numpy: {numpy:.0f} ms\n")
    print(f"front end, ms (limit {LIMITS['front end']:.0f})    first   median    least   bytes")
    found = measure_front_end(options.repetitions)
    for name, row in found.items():
        figures = f"{row['first']:8.1f} {row['median']:8.1f} {row['least']:8.1f}"
        print(f"{name:24} {figures} {row['bytes']:7}", flush=True)
    if options.json is not None:
        data = {
            "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "python": platform.python_version(),
            "machine": platform.machine(),
            "import": imports,
            "front end": found,
        }
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(data, indent=1) + "\n")


if __name__ == "__main__":
    main()
