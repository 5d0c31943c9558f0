"""Compile time of the matrix product: front end, tileiras, loading, and a disk cache hit.

The front end goes from the syntax tree to bytecode with all checks, tileiras from bytecode to GPU
code; both are medians of fresh runs. A hit is timed in processes of its own.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import kernels
from cache_hit import show_hits
from front_end import show_front_end
from lab import Lab

import tilewright as tw
from tilewright import Kernel
from tilewright.backends.cuda.cubin import cubin_resources
from tilewright.backends.cuda.toolchain import find_toolchain
from tilewright.bench import Plot, Report, Series, Table
from tilewright.frontend.signature.samples import sample_specialization

__all__ = ["TITLE", "run"]

TITLE = "Compile time"
TARGET = "sm_90"
TILES = ((128, 128, 64), (128, 256, 128), (256, 256, 128))  # the paper's
WARPS = {(128, 256, 128): 8, (256, 256, 128): 8}  # tileiras chooses for other tiles
PRODUCTS = {"safe": kernels.gemm, "unchecked": kernels.gemm_unchecked}
PAPER = (  # milliseconds of cuTile Rust on an RTX 5090
    ("safe, 128x128x64", "23.4", "181.8", "2.2"),
    ("safe, 128x256x128", "23.7", "340.0", "0.7"),
    ("safe, 256x256x128", "21.5", "556.2", "0.5"),
    ("unchecked, 128x128x64", "", "130", ""),
    ("unchecked, 128x256x128", "", "237", ""),
    ("unchecked, 256x256x128", "", "525", ""),
    ("`full`, which fills a tensor", "7.8", "41.6", "2.3"),
)


def run(lab: Lab, report: Report) -> None:
    columns = ("kernel and tile", "front end, ms", "tileiras, ms", "load, ms")
    table = Table("From source to a loaded kernel", columns)
    lines: dict[str, list[tuple[float, float]]] = {}
    for name, function, tile in _kernels(lab):
        front, back, load = _times(lab, function, tile)
        label = f"{name}, {'x'.join(map(str, tile.values()))}"
        table.add(label, f"{front:.1f}", f"{back:.0f}", "" if math.isnan(load) else f"{load:.2f}")
        report.figure("jit", kernel=name, tile=tile, front_end=front, back_end=back, load=load)
        for part, taken in {"front end": front, "tileiras": back}.items():
            lines.setdefault(f"{name}: {part}", []).append((math.prod(tile.values()), taken))
    for one in (table, Table("The paper: cuTile Rust", columns, list(PAPER))):
        print(one.to_text(), flush=True)
        report.table(one)
    series = [Series(name, points) for name, points in lines.items() if len(points) > 1]
    axes = "numbers in BM x BN x BK", "milliseconds"
    report.plot(Plot("jit", "Compile time of the matrix product", *axes, series, log_y=True))
    show_front_end(report, 3 if lab.is_quick else 11)
    show_hits(report, 2 if lab.is_quick else 4)


def _kernels(lab: Lab) -> Iterator[tuple[str, Any, dict[str, int]]]:
    for tile in TILES[:1] if lab.is_quick else TILES:
        for name, function in PRODUCTS.items():
            yield name, function, dict(zip(("BM", "BN", "BK"), tile, strict=True))
    yield "addition", kernels.add, {"B": 1024}


def _times(lab: Lab, function: Any, tile: dict[str, int]) -> tuple[float, float, float]:
    kernel = tw.kernel(num_worker_warps=WARPS.get(tuple(tile.values())))(function)
    wanted = sample_specialization(kernel.signature, TARGET, tile, kernel.hints.of(TARGET))

    def front_end() -> Any:
        fresh = Kernel(kernel.__wrapped__, kernel.options, kernel.hints, {})
        return fresh.specialized(wanted).bytecode

    front_end()  # imports the compiler
    front, bytecode = _median(front_end, 9)
    find_toolchain()  # queries its version, once
    back, cubin = _median(lambda: find_toolchain().assemble(bytecode, TARGET), 2)
    return front, back, _load(lab, cubin)


def _load(lab: Lab, cubin: bytes) -> float:
    if not lab.has_gpu:
        return math.nan
    backend: Any = lab.device.backend
    (name,) = cubin_resources(cubin)
    return _median(lambda: backend.driver.load_kernel(cubin, name, waits=False), 5)[0]


def _median(run: Callable[[], Any], count: int) -> tuple[float, Any]:
    """Milliseconds, and the result of the last run."""
    times, result = [], None
    for _ in range(count):
        start = time.perf_counter()
        result = run()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times), result
