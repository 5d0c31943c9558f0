"""Element-wise bandwidth: z = x + y in f16, safe and unchecked, beside torch, Triton and cuTile.

The bytes counted are two reads and a write. Buffers rotate over a gibibyte, so no cache serves
them. Every library but torch has several tiles, and its best one counts. Two tiles of ours are the
library's own addition, with tuned hints: they cover all elements exactly, so no access has a mask.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import kernels
import numpy as np
from lab import Lab

import tilewright as tw
from paper.families import Families
from tilewright.bench import Bound, Candidate, Plot, Report, Series, Table, Target, compare

__all__ = ["BESIDE_TORCH", "SAFE", "TITLE", "TORCH", "run"]

TITLE = "Element-wise addition: bandwidth"
POWERS = (20, 22, 24, 26, 28)
TILES = (2048, 4096, 8192, 16384)
SEARCHED = {  # by tile: a 16-byte load for each thread, without TMA
    1024: {"num_worker_warps": 4, "occupancy": 16, "allow_tma": False},
    2048: {"num_worker_warps": 8, "occupancy": 8, "allow_tma": False},
}
TRITON_TILES = (1024, 4096)
BESIDE_TORCH = f"addition of 2^{POWERS[-1]} numbers, bandwidth of torch.add's"
ROTATED = 1 << 30  # bytes
MOST_SETS = 128
PAPER = {  # GB/s on a B200: safe, unchecked, cuTile Python
    20: (1151.1, 1134.5, 1212.1), 22: (3520.3, 3520.3, 3560.1), 24: (5345.3, 5352.6, 5384.7),
    26: (6724.9, 6724.2, 6722.4), 28: (7020.5, 7016.8, 7013.0),
}  # fmt: skip
TORCH, SAFE, UNCHECKED, CUTILE, TRITON = "torch", "safe", "unchecked", "cuTile Python", "Triton"


class Vectors:
    """Sets of three vectors to rotate over."""

    def __init__(self, lab: Lab, length: int) -> None:
        self.lab, self.length = lab, length
        count = 2 if lab.is_quick else max(1, min(MOST_SETS, math.ceil(ROTATED / (6 * length))))
        self.sets = [
            (lab.empty(length), lab.random(length, seed=2 * n), lab.random(length, seed=2 * n + 1))
            for n in range(count)
        ]

    def candidate(self, name: str, runs: list[Callable[[], object]]) -> Candidate:
        """A candidate whose first sum is checked exactly; the sum is rounded once."""

        def error() -> float:
            z, x, y = self.sets[0]
            tw.fill(z, math.nan).sync()
            made = runs[0]()
            if isinstance(made, tw.DeviceOp):
                made.sync()
            elif self.lab.has_gpu:
                self.lab.load("torch").cuda.synchronize()
            return self._difference(z, x, y)

        return Candidate(name, runs, error)

    def _difference(self, z: tw.Tensor, x: tw.Tensor, y: tw.Tensor) -> float:
        if self.lab.has_gpu:
            torch = self.lab.load("torch")
            found, left, right = map(self.lab.as_torch, (z, x, y))
            return 0.0 if torch.equal(found, left + right) else 1.0
        return 0.0 if np.array_equal(z.numpy(), x.numpy() + y.numpy()) else 1.0

    def candidates(self, families: Families) -> Iterator[Candidate]:
        """Each family by tile; torch comes first."""
        if self.lab.has_gpu:
            torch = self.lab.load("torch")
            theirs = [tuple(map(self.lab.as_torch, one)) for one in self.sets]
            adds = [lambda s=s: torch.add(s[1], s[2], out=s[0]) for s in theirs]
            yield self.candidate(families.name(TORCH), adds)
            yield from self._triton(families, theirs)
        for tile in TILES[:1] if self.lab.is_quick else TILES:
            for family, kernel in _KERNELS.items():
                yield self._ours(families.name(family, f"tile {tile}"), kernel, tile)
            if (peer := self.lab.peers.get(f"add-f16-{tile}")) is not None:
                launches: list[Any] = [peer.launch(self.lab.stream, 0, *one) for one in self.sets]
                yield self.candidate(families.name(CUTILE, f"tile {tile}"), launches)
        for tile, hints in SEARCHED.items():
            for family, kernel in _WHOLE.items():
                name = families.name(family, f"tile {tile}, searched")
                yield self._ours(name, kernel.with_hints(**hints), tile)

    def _ours(self, name: str, kernel: Any, tile: int) -> Candidate:
        runs = [lambda s=s: kernel(s[0].partition(tile), *s[1:]) for s in self.sets]
        return self.candidate(name, runs)

    def _triton(self, families: Families, theirs: list[Any]) -> Iterator[Candidate]:
        if self.lab.has("triton"):
            adder = self.lab.load("triton_kernels").adder
            for tile in TRITON_TILES:
                runs = [adder(*one, tile) for one in theirs]
                yield self.candidate(families.name(TRITON, f"tile {tile}"), runs)


_KERNELS: dict[str, Any] = {
    SAFE: tw.kernel(deny_checks=True)(kernels.add),
    UNCHECKED: tw.kernel(kernels.add_unchecked),
}
_WHOLE: dict[str, Any] = {
    SAFE: tw.kernel(deny_checks=True)(kernels.add_whole),
    UNCHECKED: tw.kernel(kernels.add_whole_unchecked),
}


def run(lab: Lab, report: Report) -> None:
    powers = (12,) if lab.is_quick else POWERS
    table = Table(
        "GB/s (best tile), and of torch; the paper's on a B200",
        ("elements", TORCH, SAFE, UNCHECKED, CUTILE, TRITON, "safe / torch", "safe / unchecked",
         "noise", "paper: safe", "paper: unchecked", "paper: cuTile Python"),
    )  # fmt: skip
    report.table(table)
    lines: dict[str, list[tuple[float, float]]] = {}
    for power in powers:
        families = Families()
        candidates = list(Vectors(lab, 1 << power).candidates(families))
        found = compare(candidates, timer=lab.timer(rounds=4, repetitions=15, shortest=6e-5))
        best = families.best(found)
        rates = {name: 6 * (1 << power) / one.seconds / 1e9 for name, one in best.items()}
        for name, rate in rates.items():
            lines.setdefault(name, []).append((1 << power, rate))
        table.add(
            f"2^{power}",
            *(f"{rates[name]:.0f}" if name in rates else "" for name in table.columns[1:6]),
            _ratio(rates, TORCH), _ratio(rates, UNCHECKED), f"{found.noise:.2%}",
            *(f"{rate:.0f}" for rate in PAPER.get(power, ())),
            *[""] * (0 if power in PAPER else 3),
        )  # fmt: skip
        chosen = {name: one.how for name, one in best.items()}
        report.figure("add", power=power, rates=rates, chosen=chosen, **found.to_json())
    print(table.to_text(), flush=True)
    series = [Series(name, points) for name, points in lines.items()]
    report.plot(Plot("elementwise", TITLE, "elements", "GB/s", series))
    if not lab.is_quick:
        _targets(lines, report)


def _ratio(rates: dict[str, float], other: str) -> str:
    return f"{rates[SAFE] / rates[other]:.4f}" if other in rates else ""


def _targets(lines: dict[str, list[tuple[float, float]]], report: Report) -> None:
    largest = {name: points[-1][1] for name, points in lines.items()}
    report.target(Target(BESIDE_TORCH, Bound.AT_LEAST, 1.0, largest[SAFE] / largest[TORCH]))
    what = f"addition of 2^{POWERS[-1]} numbers, safe of unchecked"
    report.target(Target(what, Bound.AT_LEAST, 0.997, largest[SAFE] / largest[UNCHECKED]))
