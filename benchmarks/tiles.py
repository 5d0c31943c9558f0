"""Fit of the tile rates in `tilewright.kernels.gemm.tiles`.

    python benchmarks/tiles.py [--json FILE]

Every tile computes every shape, several times in a graph. Its rate and its start are a
least-squares fit of the relative times: `start + rounds * operations of a round / rate`. Needs a
GPU and torch.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

import numpy as np
from lab import Lab, add_options, open_lab

import tilewright as tw
from tilewright import f8e4m3fn, f16
from tilewright.bench import Report, Table, graph_of
from tilewright.kernels.gemm.matmuls import add_splits, launch_matmul
from tilewright.kernels.gemm.operands import MatrixProduct, ProductRequest, product
from tilewright.kernels.gemm.tiles import HALF, NARROW, SHALLOW, ProductTile

__all__ = ["main"]

# M, N, K: one round and many, deep and flat.
SHAPES = (
    (1024, 1024, 1024), (2048, 2048, 2048), (4096, 4096, 4096), (512, 6144, 2560),
    (512, 5120, 8192), (512, 19456, 2560), (2048, 2560, 4096), (2048, 10240, 5120),
    (8192, 2560, 4096),
)  # fmt: skip
SPLIT = ((3, 512, 2560), (4, 512, 5120), (4, 2048, 512), (8, 512, 512))  # splits, M, N
LEAST = 4e-4  # least seconds of a graph


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="output file of all figures")
    add_options(parser)
    options = parser.parse_args()
    lab = open_lab(options)
    report = Report("tiles", "Tiles of matrix products", options.json)
    with tw.device(lab.device):
        for dtype, tiles in ((f16, HALF), (f16, SHALLOW), (f8e4m3fn, NARROW)):
            _measure_tiles(lab, report, dtype, tiles)
        _measure_sums(lab, report)


def _measure_tiles(
    lab: Lab, report: Report, dtype: type[tw.DType], tiles: tuple[ProductTile, ...]
) -> None:
    shapes = ((64, 64, 64),) if lab.is_quick else SHAPES
    make = _product_as_it_is if tiles is SHALLOW else _product
    wanted = [make(lab, dtype, *shape) for shape in shapes]
    for tile in tiles:  # starts all assemblers
        launch_matmul(wanted[0], tile.config).close()
    table = Table(
        f"{dtype.label}: 10^12 operations a second, and microseconds beside them",
        ("tile", "rate", "start", "worst error"),
    )
    for tile in tiles:
        times = {
            shape: _seconds(lab, one, tile)
            for shape, one in zip(shapes, wanted, strict=True)
            if _work(tile, shape)
        }
        if not times:
            continue
        rate, start, error = _fitted(tile, times)
        table.add(str(tile.config), f"{rate / 1e12:.0f}", f"{start * 1e6:.1f}", f"{error:.0%}")
        report.figure(
            "tiles", dtype=dtype.label, config=tile.config.to_json(), rate=rate, start=start,
            times={str(shape): seconds for shape, seconds in times.items()},
        )  # fmt: skip
    print(table.to_text(), flush=True)
    report.table(table)


def _measure_sums(lab: Lab, report: Report) -> None:
    """The cost of adding splits: a start, and bytes a second."""
    rows = []
    for splits, m, n in ((2, 64, 64), (3, 64, 128)) if lab.is_quick else SPLIT:
        wanted, parts = _product(lab, f16, m, n, 64), lab.empty(splits, m, n, dtype=tw.f32)
        graph = graph_of(lambda w=wanted, p=parts, s=splits: add_splits(w, p, s), 16)
        rows.append((parts.nbytes, lab.timer(repetitions=9).time(graph.launch).median / 16))
    found = np.linalg.lstsq(
        np.array([[1 / t, size / t] for size, t in rows]), np.ones(len(rows)), rcond=None
    )[0]
    start, rate = float(found[0]), 1 / float(found[1])
    print(f"adding splits: {start * 1e6:.1f} us and {rate / 1e12:.2f} TB/s", flush=True)
    report.figure("sums", start=start, rate=rate, times=rows)


def _product(lab: Lab, dtype: type[tw.DType], m: int, n: int, k: int) -> MatrixProduct:
    """The product with a transposed `b`, like weights; 8-bit floats with fast accumulation."""
    a, b = lab.random(m, k, dtype=dtype, seed=1), lab.random(n, k, dtype=dtype, seed=2)
    request = ProductRequest("matmul", out=lab.empty(m, n), fast_accumulate=dtype is f8e4m3fn)
    return product(a, b.T, request)[0]


def _product_as_it_is(lab: Lab, dtype: type[tw.DType], m: int, n: int, k: int) -> MatrixProduct:
    a, b = lab.random(m, k, dtype=dtype, seed=1), lab.random(k, n, dtype=dtype, seed=2)
    return product(a, b, ProductRequest("matmul", out=lab.empty(m, n)))[0]


def _seconds(lab: Lab, wanted: MatrixProduct, tile: ProductTile) -> float:
    count = max(1, min(16, int(LEAST / (2 * math.prod(wanted.form.shape) / 7e14))))
    graph = graph_of(lambda: launch_matmul(wanted, tile.config), count)
    timer = lab.timer(repetitions=5, warmup=0.01)
    prepared: Any = timer.prepare(graph.launch)
    return min(timer.measure(*prepared).median for _ in range(3)) / count


def _work(tile: ProductTile, shape: tuple[int, int, int]) -> float:
    """Operations of all rounds, idle blocks included; 0 if the tile does not fit."""
    plans = ProductTile(tile.config, 1e-12, 0.0).plans(*shape)
    return next((seconds for seconds, _ in plans), 0.0)


def _fitted(
    tile: ProductTile, times: dict[tuple[int, int, int], float]
) -> tuple[float, float, float]:
    """The rate, the non-negative start, and the worst relative error."""
    work = np.array([_work(tile, shape) for shape in times])
    seconds = np.array([*times.values()])
    found = np.linalg.lstsq(
        np.stack([1 / seconds, work / seconds], axis=1), np.ones(len(times)), rcond=None
    )[0]
    start, slowness = float(found[0]), float(found[1])
    if start < 0 or len(times) < 2:
        start, slowness = 0.0, float(np.mean(seconds / work))
    error = float(abs((start + work * slowness) / seconds - 1).max())
    return 1 / slowness, start, error


if __name__ == "__main__":
    main()
