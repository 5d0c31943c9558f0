"""Attention of random shapes beside cuDNN and FlashAttention, as provided by torch.

    python benchmarks/any_shape_attention.py [--only attention,decode] [--seed 1] [--count 60]

`attention` draws problems with as many queries as keys, half of them causal, or with fewer queries
and no mask. `decode` draws caches of 1 to 256 sequences with 1 to 65,536 places. Candidates take
turns inside graphs, with operands that exceed the L2 cache; some rows of each result are compared
with float64. A speed is that of ours relative to the better peer.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import numpy as np
from attention import (
    CUDNN,
    FLASH,
    GUESS,
    OURS,
    Problem,
    Shape,
    compare_problem,
    compile_shapes,
)
from lab import Lab, add_options, open_lab
from parts import chosen_parts, run_parts

import tilewright as tw
from tilewright.bench import Report, Table

__all__ = ["PARTS", "draw_decode", "draw_prefill", "measure", "measure_decode", "summary"]

CHANNELS = (64, 64, 64, 80, 96, 112, 128, 128, 128, 128, 160, 192, 256, 256)
GROUPS = (1, 1, 2, 4, 8)  # query heads that share a key head
DECODE_GROUPS = (1, 2, 4, 4, 5, 7, 8, 16)
KEY_HEADS = (1, 2, 4, 8, 16, 32)
MOST_HEADS = 64
LENGTHS = (32, 16384)  # keys of a sequence, log-uniform
TOKENS = (1024, 65536)  # queries of all sequences together, log-uniform
MULTIPLES = (128, 8, 1)  # of lengths, each in a third of the problems
MOST_FLOPS = 3e12
SEQUENCES, PLACES = 256, 65536
MOST_BYTES = 8 << 30  # of a cache
LARGE = 256 << 20  # bytes of a cache that is read at the bandwidth of memory
RATE = 4e12  # bytes a second, to estimate times
START = 4e-6  # seconds of an empty problem


def _log_uniform(draw: np.random.Generator, low: float, high: float) -> int:
    return round(math.exp(draw.uniform(math.log(low), math.log(high))))


def _length(draw: np.random.Generator) -> int:
    multiple = int(draw.choice(MULTIPLES))
    return max(1, round(_log_uniform(draw, *LENGTHS) / multiple)) * multiple


def _dtype(draw: np.random.Generator) -> type[tw.DType]:
    return tw.f16 if draw.integers(2) else tw.bf16


def draw_prefill(draw: np.random.Generator) -> Shape:
    """A problem of many queries, with at most `MOST_FLOPS`."""
    while True:
        key_heads, group = int(draw.choice(KEY_HEADS)), int(draw.choice(GROUPS))
        length, causal = _length(draw), bool(draw.integers(2))
        queries = length if causal or draw.integers(3) else _log_uniform(draw, 16, max(length, 16))
        batch = max(1, _log_uniform(draw, *TOKENS) // queries)
        channels = int(draw.choice(CHANNELS))
        heads = key_heads * group
        shape = Shape(
            batch, heads, key_heads, queries, length, channels, causal=causal, dtype=_dtype(draw)
        )
        if heads <= MOST_HEADS and shape.flops <= MOST_FLOPS and shape.nbytes <= MOST_BYTES // 4:
            return shape


def draw_decode(draw: np.random.Generator) -> Shape:
    """A problem of one query a sequence, whose cache has at most `MOST_BYTES`."""
    while True:
        key_heads, group = int(draw.choice(KEY_HEADS)), int(draw.choice(DECODE_GROUPS))
        batch, length = _log_uniform(draw, 1, SEQUENCES), _log_uniform(draw, 1, PLACES)
        channels = int(draw.choice(CHANNELS))
        heads = key_heads * group
        shape = Shape(batch, heads, key_heads, 1, length, channels, dtype=_dtype(draw))
        if heads <= 2 * MOST_HEADS and shape.nbytes <= MOST_BYTES:
            return shape


def _small(shape: Shape) -> Shape:
    """A shape of the same kind for a run that only shows that everything works."""
    lengths = (min(shape.queries, 70), min(shape.length, 70))
    small = (min(shape.batch, 2), shape.heads // shape.key_heads, 1, *lengths, shape.channels)
    return Shape(*small, causal=shape.causal, dtype=shape.dtype)


def measure(lab: Lab, seed: int, count: int) -> list[dict[str, Any]]:
    """Measure random prefill problems; one row each."""
    return _measured(lab, seed, count, draw_prefill, Problem.ours)


def measure_decode(lab: Lab, seed: int, count: int) -> list[dict[str, Any]]:
    """Measure random decode problems; one row each."""
    return _measured(lab, seed, count, draw_decode, Problem.decoding)


def _measured(
    lab: Lab,
    seed: int,
    count: int,
    draw: Callable[[np.random.Generator], Shape],
    ours: Callable[[Problem], list[Any]],
) -> list[dict[str, Any]]:
    numbers = np.random.default_rng(seed)
    shapes = [draw(numbers) for _ in range(count)]
    if lab.is_quick:
        shapes = [_small(shape) for shape in shapes]
    compile_shapes(lab, shapes)
    rows = []
    for shape in shapes:
        problem = Problem(lab, shape)
        seconds = max(shape.flops / GUESS, shape.nbytes / RATE) + START
        found, runs = compare_problem(
            lab, problem, ours(problem), seconds, rounds=3, warmup=0.01, longest=0.05
        )
        if OURS not in found:
            raise RuntimeError(f"{shape}: {found.failures}")
        times = {name: found.seconds(name) / runs for name in (CUDNN, FLASH, OURS) if name in found}
        rows.append(_row(shape, times))
        print(_line(rows[-1]), flush=True)
    return rows


def _row(shape: Shape, times: dict[str, float]) -> dict[str, Any]:
    best = min((time for name, time in times.items() if name != OURS), default=math.nan)
    return {
        **shape.to_json(),
        "nbytes": shape.nbytes,
        "seconds": times,
        "speed": best / times[OURS],
        "tflops": shape.flops / times[OURS] / 1e12,
        "tbps": shape.nbytes / times[OURS] / 1e12,
    }


def _line(row: dict[str, Any]) -> str:
    times = " ".join(f"{name} {1e6 * time:.1f}" for name, time in row["seconds"].items())
    mask = " causal" if row["causal"] else ""
    return (
        f"{row['batch']} x {row['heads']}/{row['key_heads']} {row['queries']} x {row['length']}"
        f" D {row['channels']} {row['dtype']}{mask}: {times} us, {row['tflops']:.0f} TFLOP/s,"
        f" {row['tbps']:.2f} TB/s, speed {row['speed']:.3f}"
    )


def summary(part: str, seed: int, rows: list[dict[str, Any]]) -> Table:
    """The speeds of a part: the geometric mean, the worst, and the bandwidth of large caches."""
    speeds = sorted(row["speed"] for row in rows if row["speed"] > 0)
    table = Table(f"{part}, seed {seed}", ("problems", "geometric mean", "worst", "least TB/s"))
    large = [row["tbps"] for row in rows if part == "decode" and row["nbytes"] > LARGE]
    shown = (f"{geometric_mean(speeds):.3f}", f"{speeds[0]:.3f}") if speeds else ("", "")
    table.add(str(len(rows)), *shown, f"{min(large):.2f}" if large else "")
    return table


PARTS = {"attention": measure, "decode": measure_decode}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=",".join(PARTS), help=f"some of {', '.join(PARTS)}")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--json", type=Path, help="output file of all figures")
    add_options(parser)
    options = parser.parse_args()
    lab = open_lab(options)
    report = Report("any_shape_attention", "Attention of random shapes", options.json)

    def run(part: str) -> None:
        count = 3 if lab.is_quick else options.count
        rows = PARTS[part](lab, options.seed, count)
        table = summary(part, options.seed, rows)
        report.table(table)
        for row in rows:
            report.figure(part, **row)
        print(table.to_text(), flush=True)

    parts = chosen_parts(parser, PARTS, options.only)
    with tw.device(lab.device):
        run_parts({name: lambda name=name: run(name) for name in parts})


if __name__ == "__main__":
    main()
