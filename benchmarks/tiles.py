"""Costs of the tiles of matrix products (`tilewright.kernels.gemm.tiles`), fitted to times.

    python benchmarks/tiles.py [--seed S] [--count N] [--seconds S] [--json FILE]

Every tile computes random shapes, several times in a graph with rotating operands, beside cuBLAS.
The six costs of a tile are a least-squares fit of relative times, none negative. The table shows
the costs, the error of the fit, and how the choice by the fitted costs compares with the fastest
tile and with cuBLAS. Needs a GPU and torch.
"""

from __future__ import annotations

import argparse
import math
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import any_shape_products as products
import numpy as np
from lab import Lab, add_options, open_lab

import tilewright as tw
from tilewright.bench import Report, Table, graph_of
from tilewright.kernels.gemm.configs import size_of
from tilewright.kernels.gemm.matmuls import launch_matmul
from tilewright.kernels.gemm.operands import MatrixProduct, product
from tilewright.kernels.gemm.tiles import HALF, Costs, ProductSize, ProductTile
from tilewright.tune import Config

__all__ = ["main"]

LARGEST = 8e11  # operations of a product
UNIT = Costs(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
ROBUST = 0.1  # relative error from which a time counts less
FIGURES = ("start", "edge", "step", "near", "uneven", "far")


class Measured(NamedTuple):
    """The time of one tile on one product."""

    tile: ProductTile
    size: ProductSize
    config: Config
    seconds: float


def shapes(seed: int, count: int) -> list[products.Problem]:
    """Random aligned products that do not take too long."""
    drawn = (one for one in products.draw(seed, 20 * count) if one.is_aligned and one.m > 1)
    return [one for one in drawn if 2 * one.m * one.n * one.k < LARGEST][:count]


def measure(lab: Lab, problem: products.Problem) -> tuple[list[Measured], float]:
    """All tiles on one problem, and cuBLAS."""
    held = products.Operands(lab, problem)
    wanted = [product(*pair, held.request())[0] for pair in held.ours()]
    size, found = size_of(wanted[0].form), []
    for tile in HALF:
        for _, config in tile.plans(size):
            found.append(Measured(tile, size, config, _seconds(lab, wanted, config, held.count)))
    replay = lab.captured(held.theirs(), held.count, here=True)
    timer = lab.timer(repetitions=3, rounds=2, warmup=0.002)
    return found, timer.time(replay).median / held.count


def _seconds(lab: Lab, wanted: list[MatrixProduct], config: Config, count: int) -> float:
    builders = [lambda one=one: launch_matmul(one, config) for one in wanted]
    timer = lab.timer(repetitions=3, rounds=2, warmup=0.002)
    return timer.time(graph_of(builders, count).launch).median / count


def terms(one: Measured) -> list[float]:
    """The number by which each cost is multiplied in the estimate of a time."""
    splits = one.config.values.get("SPLITS", 1)
    times = []
    for number in range(len(UNIT)):
        alone = Costs(*(float(number == other) for other in range(len(UNIT))))
        tile = ProductTile(one.tile.config, alone, splits=one.tile.splits)
        found = {config.values.get("SPLITS", 1): time for time, config in tile.plans(one.size)}
        times.append(found[splits] - _adding(one))
    return times


def _adding(one: Measured) -> float:
    """Microseconds of the sum of splits, which no cost of a tile changes."""
    splits = one.config.values.get("SPLITS", 1)
    tile = ProductTile(one.tile.config, UNIT, splits=one.tile.splits)
    return {config.values.get("SPLITS", 1): time for time, config in tile.plans(one.size)}[splits]


def fitted(some: list[Measured]) -> tuple[Costs, float]:
    """Costs, none negative, and the error of the fit as a root mean square."""
    matrix = np.array([terms(one) for one in some])
    times = np.array([1e6 * one.seconds - _adding(one) for one in some]).clip(0.5)
    weights = 1 / times
    for _ in range(9):
        costs = _non_negative(matrix * weights[:, None], times * weights)
        error = matrix @ costs / times - 1
        weights = np.minimum(1, ROBUST / np.abs(error).clip(1e-3)) / times
    return Costs(*map(float, costs)), float(np.sqrt(np.mean(error**2)))


def _non_negative(matrix: Any, values: Any) -> Any:
    """Least squares over the terms that stay positive: the most negative one is left out first."""
    kept = list(range(matrix.shape[1]))
    while True:
        found = np.linalg.lstsq(matrix[:, kept], values, rcond=None)[0]
        if found.min() >= 0 or len(kept) == 1:
            costs = np.zeros(matrix.shape[1])
            costs[kept] = found.clip(0)
            return costs
        del kept[int(found.argmin())]


def choices(measured: dict[Any, list[Measured]], peers: dict[Any, float], costs: Any) -> str:
    """How fast the tile with the least estimated time is, beside the fastest and cuBLAS."""
    beside_best, beside_peer = [], []
    for problem, some in measured.items():
        estimates = [float(np.dot(terms(one), costs[one.tile])) + _adding(one) for one in some]
        chosen = some[int(np.argmin(estimates))].seconds
        beside_best.append(min(one.seconds for one in some) / chosen)
        beside_peer.append(peers[problem] / chosen)
    means = [math.exp(float(np.mean(np.log(one)))) for one in (beside_best, beside_peer)]
    return f"chosen tiles: {means[0]:.3f} of the fastest, {means[1]:.3f} of cuBLAS"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="output file of all figures")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=80)
    parser.add_argument("--seconds", type=float, default=math.inf)
    add_options(parser)
    options = parser.parse_args()
    lab, report = open_lab(options), Report("tiles", "Tiles of matrix products", options.json)
    if not lab.has_gpu:
        raise SystemExit("the costs of tiles are those of a GPU, and there is none")
    with tw.device(lab.device):
        measured, peers = _measure_all(lab, options)
    by_tile = defaultdict(list)
    for one in (one for some in measured.values() for one in some):
        by_tile[one.tile].append(one)
    table = Table("Microseconds, also of a megabyte", ("tile", *FIGURES, "error", "shapes"))
    costs = {}
    for tile, some in by_tile.items():
        costs[tile], error = fitted(some)
        shown = (f"{cost:.4f}" for cost in costs[tile])
        table.add(str(tile.config), *shown, f"{error:.0%}", str(len(some)))
        report.figure("tiles", config=tile.config.to_json(), costs=list(costs[tile]), error=error)
    print(table.to_text())
    print(choices(measured, peers, costs))
    report.table(table)


def _measure_all(
    lab: Lab, options: argparse.Namespace
) -> tuple[dict[products.Problem, list[Measured]], dict[products.Problem, float]]:
    end, measured, peers = time.monotonic() + options.seconds, {}, {}
    for problem in shapes(options.seed, options.count):
        if time.monotonic() > end:
            break
        measured[problem], peers[problem] = measure(lab, problem)
        best = min(measured[problem], key=lambda one: one.seconds)
        speed = peers[problem] / best.seconds
        print(f"{problem!s:36} {1e6 * best.seconds:9.1f} us, {speed:.3f} of cuBLAS, {best.config}")
    return measured, peers


if __name__ == "__main__":
    main()
