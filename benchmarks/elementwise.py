"""f32 addition of large vectors: ours and cuTile Python's by tile, and torch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import kernels
import torch
from harness import Candidate, Report, Table, Timer, as_torch, compare
from peers import Peer

import tilewright as tw
from tilewright import f32

__all__ = ["TILES", "measure_add"]

TILES = (1024, 2048, 4096)
LIMIT = 1e-12  # one rounding, the same everywhere: nothing may differ


def _candidates(
    ours: tuple[tw.Tensor, ...], theirs: tuple[Any, ...], timer: Timer, peers: dict[str, Peer]
) -> Iterator[Candidate]:
    output, left, right = theirs

    def candidate(name: str, run: Callable[[int], None], against: str = "") -> Candidate:
        def error() -> float:
            output.fill_(math.nan)
            torch.cuda.synchronize()
            with torch.cuda.stream(timer.foreign):
                run(0)
            timer.stream.sync()
            torch.cuda.synchronize()
            expected = left + right
            return 0.0 if torch.equal(output, expected) else 1.0

        return Candidate(name, run, error, against)

    def torch_run(_: int) -> None:
        torch.add(left, right, out=output)

    yield candidate("torch.add", torch_run)
    kernel = tw.kernel(deny_checks=True)(kernels.add)
    z, x, y = ours
    for tile in TILES:
        kernel(z.partition(tile), x, y).close()  # all assemblers start now
    for tile in TILES:

        def run(_: int, tile: int = tile) -> None:
            kernel(z.partition(tile), x, y).submit()

        yield candidate(f"ours, tile {tile}", run, "torch.add")
        if f"add-{tile}" in peers:
            launch = peers[f"add-{tile}"].launch(timer.stream, 0, *ours)
            yield candidate(f"cuTile, tile {tile}", lambda _, launch=launch: launch(), "torch.add")


def measure_add(timer: Timer, length: int, peers: dict[str, Peer], report: Report) -> None:
    ours = tuple(tw.empty((length,), f32, device="cuda:0") for _ in "zxy")
    theirs = tuple(as_torch(tensor) for tensor in ours)
    torch.manual_seed(1)
    theirs[1].normal_()
    theirs[2].normal_()
    candidates = list(_candidates(ours, theirs, timer, peers))
    timer.warm_up()
    times, _ = compare(timer, candidates, LIMIT)
    table = Table(
        f"z = x + y, f32, {length} elements, best of {timer.rounds} interleaved medians",
        ("candidate", "TB/s", "us", "of torch.add"),
    )
    for name, found in times.items():
        base = times["torch.add"].best if "torch.add" in times else math.nan
        rate = 3 * 4 * length / found.best / 1e12
        table.rows.append(
            (name, f"{rate:.3f}", f"{found.best * 1e6:.1f}", f"{base / found.best:.4f}")
        )
        report.add("add", {"length": length, "name": name, "medians": found.medians})
    table.show()
