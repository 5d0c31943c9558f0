"""Other forms of the memory-bound kernels beside those of the library, each timed in a graph.

Rows: one tile a block (as in the library), a block that loops over some rows and so loads the
weights once, and a persistent walk; with and without the tensor memory accelerator. Elements: tiles
along one axis and a persistent walk. Every form has several tiles, warps and blocks at once.
"""

# ruff: noqa: N803 (constants of a kernel are upper case)

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from lab import Lab, add_options, open_lab

import tilewright as tw
from tilewright import Const, Mapped, Mut, Ref, f32
from tilewright import kernels as library
from tilewright.bench import Candidate, Report, Table, compare, graph_of, on_stream
from tilewright.dims import BM, BN, B, K, M, N, T

__all__ = ["main"]

COUNT = 6  # launches in a graph
LOOPED = 16  # tiles of a block that loops
REGISTERS = 65536  # of a multiprocessor
WIDTHS = (1024, 2560, 4096, 8192, 16384)
KINDS = ("softmax", "rms_norm", "layer_norm", "layer_norm in one pass")
ELEMENTWISE = ("silu_mul", "gelu_tanh")
LOG2_E = math.log2(math.e)


class ROWS(tw.Dim):
    """Rows of a block."""


def normalised(x: Any, weight: Any, bias: Any, columns: Any, kind: int) -> Any:
    """A tile of whole rows, by one of `KINDS`."""
    rows = x.astype(f32)
    if kind == 0:
        powers = tw.exp2((rows - tw.max(rows, axis=1, keepdims=True)) * LOG2_E)
        return tw.divide(powers, tw.sum(powers, axis=1, keepdims=True), rounding="approx")
    if kind == 1:
        square = tw.sum(rows * rows, axis=1, keepdims=True) / float(columns)
        return rows * tw.rsqrt(square + 1e-6) * weight
    mean = tw.sum(rows, axis=1, keepdims=True) / float(columns)
    if kind == 2:
        rows = tw.where(tw.arange(rows.shape[1]) < columns, rows - mean, 0.0)
        variance = tw.sum(rows * rows, axis=1, keepdims=True) / float(columns)
    else:
        square = tw.sum(rows * rows, axis=1, keepdims=True) / float(columns)
        rows, variance = rows - mean, square - mean * mean
    return rows * tw.rsqrt(variance + 1e-5) * weight + bias


@tw.kernel(deny_checks=True)
def one_tile(
    z: Mut[T, BM, BN], x: Ref[T, M, N], weight: Ref[T, K], bias: Ref[T, K],
    *, KIND: Const[int] = 0, TMA: Const[bool] = True,
) -> None:  # fmt: skip
    """BM rows to a block."""
    xs = x.partition(BM, BN, padding=-math.inf if KIND == 0 else 0.0)
    w, b = weight.partition(BN)[0].astype(f32), bias.partition(BN)[0].astype(f32)
    rows = xs.load(*z.index, allow_tma=TMA)
    z.store(normalised(rows, w, b, N, KIND).astype(z.dtype))


@tw.kernel(deny_checks=True)
def some_tiles(
    z: Mut[T, ROWS, tw.All], x: Ref[T, M, N], weight: Ref[T, K], bias: Ref[T, K],
    *, STEP: Const[int] = 1, PART: Const[int] = 1024, KIND: Const[int] = 0,
) -> None:  # fmt: skip
    """ROWS rows to a block, STEP at a time."""
    tw.require(z.shape[0] == M and z.shape[1] == N)
    xs = x.partition(STEP, PART, padding=-math.inf if KIND == 0 else 0.0)
    w, b = weight.partition(PART)[0].astype(f32), bias.partition(PART)[0].astype(f32)
    parts, start = z.partition(STEP, PART), z.index[0] * (ROWS // STEP)
    for k in range(parts.num_tiles(0)):
        parts.store(normalised(xs[start + k, 0], w, b, N, KIND).astype(z.dtype), k, 0)


@tw.kernel(deny_checks=True)
def walked_tiles(
    z: Mapped[T, BM, BN], x: Ref[T, M, N], weight: Ref[T, K], bias: Ref[T, K],
    *, KIND: Const[int] = 0,
) -> None:  # fmt: skip
    """As many blocks as run at once, each with its share of the rows."""
    tw.require(z.shape[0] == M and z.shape[1] == N and N <= BN)
    xs = x.partition(BM, BN, padding=-math.inf if KIND == 0 else 0.0)
    w, b = weight.partition(BN)[0].astype(f32), bias.partition(BN)[0].astype(f32)
    for at in z.indices():
        i, j = at
        z.store(normalised(xs[i, j], w, b, N, KIND).astype(z.dtype), at)


def element(x: Any, y: Any, kind: int) -> Any:
    """One of `ELEMENTWISE`."""
    v = x.astype(f32)
    if kind == 0:
        return tw.divide(v, 1.0 + tw.exp2(v * -LOG2_E), rounding="approx") * y.astype(f32)
    inner = v * (0.7978845608028654 + 0.035677408136300125 * v * v)
    return 0.5 * v * (1.0 + tw.tanh(inner, rounding="approx"))


@tw.kernel(deny_checks=True)
def one_line(
    z: Mut[T, B], x: Ref[T, N], y: Ref[T, N], *, KIND: Const[int] = 0, TMA: Const[bool] = True
) -> None:
    """B elements to a block."""
    i = z.index[0]
    v, u = x.partition(B).load(i, allow_tma=TMA), y.partition(B).load(i, allow_tma=TMA)
    z.store(element(v, u, KIND).astype(z.dtype))


@tw.kernel(deny_checks=True)
def walked_lines(z: Mapped[T, B], x: Ref[T, N], y: Ref[T, N], *, KIND: Const[int] = 0) -> None:
    """As many blocks as run at once, each with its share of the tiles."""
    tw.require(z.shape[0] == N)
    xs, ys = x.partition(B), y.partition(B)
    for at in z.indices():
        (i,) = at
        z.store(element(xs[i], ys[i], KIND).astype(z.dtype), at)


# --- what is tried --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Form:
    """One form of a kernel with one configuration."""

    name: str
    build: Callable[[], tw.DeviceOp[Any]]


def _fits(elements: int, warps: int, blocks: int) -> bool:
    """Whether each thread has a register for each of its elements, and some more."""
    threads = 32 * warps
    return warps * blocks <= 32 and REGISTERS // (threads * blocks) >= elements // threads + 14


def _hints(elements: int) -> Iterator[tuple[int, int]]:
    for warps, blocks in product((4, 8), (1, 2, 3, 4, 6, 8)):
        if _fits(elements, warps, blocks) and not _fits(elements, warps, 2 * blocks):
            yield warps, blocks


def row_forms(kind: int, z: tw.Tensor, inputs: list[tw.Tensor]) -> Iterator[Form]:
    """Rows by every form."""
    columns = z.shape[1]
    part = 1 << (columns - 1).bit_length()
    for rows in (1, 2, 4, 8):
        if not 2048 <= rows * part <= 16384:
            continue
        for warps, blocks in _hints(rows * part):
            shown = f"{rows} x {part}, {warps} warps, {blocks} blocks"
            how = {"num_worker_warps": warps, "occupancy": blocks}
            cut = z.partition(rows, part)
            for tma in (True, False):
                yield Form(
                    f"one tile, {shown}" + ("" if tma else ", no TMA"),
                    lambda cut=cut, how=how, tma=tma: one_tile.with_hints(**how)(
                        cut, *inputs, KIND=kind, TMA=tma
                    ),
                )
            many = z.partition(LOOPED * rows, None)
            yield Form(
                f"{LOOPED} tiles, {shown}",
                lambda many=many, how=how, rows=rows: some_tiles.with_hints(**how)(
                    many, *inputs, STEP=rows, PART=part, KIND=kind
                ),
            )
            walk = cut.persistent(blocks=132 * blocks)
            yield Form(
                f"walk, {shown}",
                lambda walk=walk, how=how: walked_tiles.with_hints(**how)(walk, *inputs, KIND=kind),
            )


def line_forms(kind: int, z: tw.Tensor, inputs: list[tw.Tensor]) -> Iterator[Form]:
    """Elements by every form."""
    for tile, warps, blocks in product((1024, 2048, 4096, 8192), (4, 8), (4, 8)):
        if not _fits(tile, warps, blocks):
            continue
        shown = f"{tile}, {warps} warps, {blocks} blocks"
        how = {"num_worker_warps": warps, "occupancy": blocks}
        cut = z.partition(tile)
        for tma in (True, False):
            yield Form(
                f"one tile, {shown}" + ("" if tma else ", no TMA"),
                lambda cut=cut, how=how, tma=tma: one_line.with_hints(**how)(
                    cut, *inputs, KIND=kind, TMA=tma
                ),
            )
        walk = cut.persistent(blocks=132 * blocks)
        yield Form(
            f"walk, {shown}",
            lambda walk=walk, how=how: walked_lines.with_hints(**how)(walk, *inputs, KIND=kind),
        )


# --- the comparison -------------------------------------------------------------------------------


def measure(
    lab: Lab, report: Report, title: str, nbytes: int, forms: list[Form], z: tw.Tensor
) -> None:
    """All forms of one kernel; the first is the library's, and says what is right."""
    for form in forms:
        form.build().close()  # all assemblers start now
    forms[0].build().sync()
    some = (slice(None, None, max(z.shape[0] // 64, 1)),)
    expected = z[some].clone().numpy().astype(np.float64)

    def error(form: Form) -> float:
        tw.fill(z, math.nan).sync()
        form.build().sync()
        found = z[some].clone().numpy().astype(np.float64)
        return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))

    candidates = []
    for form in forms:
        graph = graph_of(form.build, COUNT)
        run = lambda graph=graph: graph.launch().submit()  # noqa: E731
        candidates.append(Candidate(form.name, run, lambda form=form: error(form), 2e-3))
    found = compare(candidates, timer=lab.timer(repetitions=5, rounds=2, warmup=0.0))
    table = Table(title, ("form", "TB/s", "of the library"))
    for name in sorted(found.timings, key=found.seconds)[:6]:
        rate = COUNT * nbytes / found.seconds(name) / 1e12
        table.add(name, f"{rate:.3f}", f"{found.speed(name):.3f}")
    print(table.to_text(), flush=True)
    for name, why in found.failures.items():
        print(f"  {name}: {why[-200:]}")
    report.table(table)
    report.figure("forms", title=title, nbytes=nbytes, launches=COUNT, **found.to_json())


def measure_rows(lab: Lab, report: Report, kind: int, columns: int) -> None:
    rows = 8 if lab.is_quick else max((1 << 26) // columns, 4096)
    x, z = lab.random(rows, columns), lab.empty(rows, columns)
    weight, bias = lab.random(columns, seed=1), lab.random(columns, seed=2)
    calls: tuple[Callable[[], tw.DeviceOp[Any]], ...] = (
        lambda: library.softmax(x, out=z),
        lambda: library.rms_norm(x, weight, out=z),
        lambda: library.layer_norm(x, weight, bias, out=z),
        lambda: library.layer_norm(x, weight, bias, out=z),
    )
    forms = [Form("library", calls[kind]), *row_forms(kind, z, [x, weight, bias])]
    title = f"{KINDS[kind]} of {rows} x {columns}"
    measure(lab, report, title, 4 * rows * columns, _some(lab, forms), z)


def measure_lines(lab: Lab, report: Report, kind: int) -> None:
    n = 1 << (13 if lab.is_quick else 26)
    x, y, z = lab.random(n), lab.random(n, seed=1), lab.empty(n)
    calls: tuple[Callable[[], tw.DeviceOp[Any]], ...] = (
        lambda: library.silu_mul(x, y, out=z),
        lambda: library.gelu(x, approximate="tanh", out=z),
    )
    forms = [Form("library", calls[kind]), *line_forms(kind, z, [x, y])]
    measure(lab, report, ELEMENTWISE[kind], (6, 4)[kind] * n, _some(lab, forms), z)


def _some(lab: Lab, forms: list[Form]) -> list[Form]:
    return forms[:6] if lab.is_quick else forms


def main() -> None:
    """Measure rows of every width, and elements."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    lab = open_lab(options)
    report = Report("memory_forms", "Forms of memory-bound kernels", options.json)
    with on_stream(lab.stream):
        for kind in range(len(ELEMENTWISE)):
            measure_lines(lab, report, kind)
        for columns, kind in product(WIDTHS[:1] if lab.is_quick else WIDTHS, range(len(KINDS))):
            measure_rows(lab, report, kind, columns)


if __name__ == "__main__":
    main()
