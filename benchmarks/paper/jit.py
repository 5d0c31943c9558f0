"""Compile time of the matrix product: front end, tileiras, loading, and a hit in the disk cache.

The front end goes from the syntax tree to bytecode with all checks, tileiras from bytecode to code
for the GPU; both are medians of fresh runs. A hit is timed in processes of their own.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from typing import Any

import kernels
from cache_hit import measure_hits
from front_end import LIMITS, measure_front_end, measure_imports
from lab import Lab

import tilewright as tw
from tilewright import Kernel
from tilewright.backends.cuda.cubin import cubin_resources
from tilewright.backends.cuda.toolchain import find_toolchain
from tilewright.bench import Bound, Report, Table, Target
from tilewright.jit.defaults import sample_specialization

__all__ = ["TITLE", "run"]

TITLE = "Compile time"
TARGET = "sm_90"
TILES = ((128, 128, 64), (128, 256, 64), (256, 256, 64))
WARPS = {(128, 128, 64): None}  # what tileiras chooses, or 8
PAPER = (  # milliseconds of cuTile Rust, checked, on an RTX 5090
    ("128x128x64", "23.4", "181.8", "2.2"),
    ("128x256x128", "23.7", "340.0", "0.7"),
    ("256x256x128", "21.5", "556.2", "0.5"),
)
HIT = 5.0  # milliseconds


def run(lab: Lab, report: Report) -> None:
    columns = ("kernel and tile", "front end, ms", "tileiras, ms", "load, ms")
    table = Table("From source to a loaded kernel", columns)
    for tile in TILES[:1] if lab.is_quick else TILES:
        for name, function in {"safe": kernels.gemm, "unchecked": kernels.gemm_unchecked}.items():
            front, back, load = _times(lab, function, tile)
            label = f"{name}, {'x'.join(map(str, tile))}"
            table.add(label, f"{front:.1f}", f"{back:.0f}", f"{load:.2f}")
            report.figure("jit", kernel=name, tile=tile, front_end=front, back_end=back, load=load)
    for one in (table, Table("The paper: cuTile Rust", columns, list(PAPER))):
        print(one.to_text(), flush=True)
        report.table(one)
    _show_front_end(lab, report)
    _show_hits(lab, report)


def _show_front_end(lab: Lab, report: Report) -> None:
    table = Table("Front end, checks included", ("kernel", "ms", "bytes of bytecode"))
    found = measure_front_end(3 if lab.is_quick else 15)
    for name, row in found.items():
        table.add(name, f"{row['median']:.1f}", f"{row['bytes']:.0f}")
        report.figure("front_end", kernel=name, **row)
    imports = measure_imports(3 if lab.is_quick else 7)
    whole = imports["tilewright"] - imports["empty"]
    table.add("(import tilewright)", f"{whole:.0f}", "")
    report.figure("imports", **imports)
    print(table.to_text(), flush=True)
    report.table(table)
    for name in ("gemm", "gemm, persistent", "attention"):
        what = f"front end of {name}"
        limit, median = LIMITS["front end"], found[name]["median"]
        report.target(Target(what, Bound.AT_MOST, limit, median, "ms"))
    report.target(Target("import of tilewright", Bound.AT_MOST, LIMITS["import"], whole, "ms"))


def _show_hits(lab: Lab, report: Report) -> None:
    table = Table("From the disk cache", ("kernel", "cold, ms", "hit, ms (least)"))
    found = measure_hits(2 if lab.is_quick else 6)
    for name, row in found.items():
        table.add(name, f"{row['cold']:.0f}", f"{row['median']:.2f} ({row['least']:.2f})")
        report.figure("hits", kernel=name, **row)
    print(table.to_text(), flush=True)
    report.table(table)
    _, *warm = found.values()  # the first kernel of a process loads what reads the cache
    worst = max(row["median"] for row in warm)
    report.target(Target("a hit in the disk cache", Bound.AT_MOST, HIT, worst, "ms"))


def _times(lab: Lab, function: Any, tile: tuple[int, int, int]) -> tuple[float, float, float]:
    hints = {"num_worker_warps": WARPS.get(tile, 8)}
    kernel = tw.kernel(**hints)(function)
    chosen = dict(zip(("BM", "BN", "BK"), tile, strict=True))
    wanted = sample_specialization(kernel.signature, TARGET, chosen, kernel.hints.of(TARGET))

    def front_end() -> Any:
        fresh = Kernel(kernel.__wrapped__, kernel.options, kernel.hints, {})
        return fresh.specialized(wanted).bytecode

    front, bytecode = _median(front_end, 9)
    back, cubin = _median(lambda: find_toolchain().assemble(bytecode, TARGET), 3)
    return front, back, _load(lab, cubin)


def _load(lab: Lab, cubin: bytes) -> float:
    if not lab.has_gpu:
        return math.nan
    backend: Any = lab.device.backend
    (name,) = cubin_resources(cubin)
    return _median(lambda: backend.driver.load_kernel(cubin, name), 5)[0]


def _median(run: Callable[[], Any], count: int) -> tuple[float, Any]:
    """Milliseconds, and what the last run gave; the first one loads the compiler."""
    result, times = run(), []
    for _ in range(count):
        start = time.perf_counter()
        result = run()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times), result
