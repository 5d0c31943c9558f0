"""Matrix products: f16 in and out, sums in f32, M = N = K, random data; safe, unchecked and peers.

"Library" is `kernels.matmul`, safe and with no check inside, as it chooses for itself. "Safe" and
"unchecked" are twins, the second without any proof: with cuTile Python they share a few schedules,
and the best of each counts. Small matrices rotate over more than the cache holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import kernels
import numpy as np
from lab import Lab

import tilewright as tw
from paper.families import Families
from tilewright.bench import Bound, Candidate, Plot, Report, Series, Table, Target, compare
from tilewright.kernels import matmul

__all__ = [
    "ALL",
    "CUBLAS",
    "LARGE",
    "LIBRARY",
    "SCHEDULES",
    "SIZES",
    "SMALL",
    "TITLE",
    "TWIN",
    "Matrices",
    "Schedule",
    "run",
    "tflops",
]

TITLE = "Matrix products: TFLOP/s by size"
SIZES = (1024, 2048, 4096, 8192, 16384)
LIMIT = 1e-3  # f16 in, f32 sums, f16 out is about 3e-4
COLD = 240 << 20  # bytes of buffers to rotate over, so that the cache does not serve them
GROUP = (8, 1)
PAPER = {  # TFLOP/s on a B200, sums in f16: safe, raw pointers, cuTile Python, cuBLASLt
    1024: (210.1, 208.5, 215.7, 209.5), 2048: (958.4, 954.9, 989.8, 923.9),
    4096: (1638.7, 1645.8, 1608.3, 1741.7), 8192: (2068.9, 2074.1, 2037.8, 2147.3),
    16384: (2127.3, 2130.7, 2108.8, 2193.2),
}  # fmt: skip
CUBLAS, LIBRARY, SAFE, UNCHECKED = "cuBLAS", "library", "safe", "unchecked"
CUTILE, TRITON = "cuTile Python", "Triton"
# Targets.
LARGE = "product of 8192, TFLOP/s of cuBLAS's"
ALL = "products of 1024 to 16384, TFLOP/s of cuBLAS's, geometric mean"
TWIN = "product of 8192, safe of unchecked"


@dataclass(frozen=True)
class Schedule:
    """How a product is cut and walked; `blocks` None is one block a tile."""

    name: str
    tile: tuple[int, int]
    blocks: int | None = None
    hints: tuple[tuple[str, int], ...] = ()
    peer: str = ""

    def cut(self, output: tw.Tensor) -> Any:
        """The output as a kernel takes it."""
        partition = output.partition(*self.tile)
        if self.blocks is None:
            return partition
        return partition.persistent(blocks=self.blocks, group=GROUP)

    def kernel(self, plain: Any, walked: Any, **options: Any) -> Any:
        """The one of two kernels that this schedule needs, with its hints."""
        chosen = plain if self.blocks is None else walked
        return tw.kernel(**dict(self.hints), **options)(chosen)


SCHEDULES = (
    Schedule("128x128x64", (128, 128), peer="gemm-rows-128x128x64"),
    Schedule(
        "128x128x64, walked, 4 warps", (128, 128), 132, (("num_worker_warps", 4),),
        "gemm-persistent-128x128x64-worker4",
    ),
    Schedule(
        "256x256x64, walked, 2 CTAs, 8 warps", (256, 256), 66,
        (("num_ctas", 2), ("num_worker_warps", 8)), "gemm-persistent-256x256x64-ctas2-worker8",
    ),
)  # fmt: skip
SMALL = (Schedule("32x32x64", (32, 32)), Schedule("32x32x64, walked", (32, 32), 2))


class Matrices:
    """Inputs, outputs and the exact product; small ones several times."""

    def __init__(self, lab: Lab, size: int) -> None:
        self.lab, self.size = lab, size
        count = 1 if lab.is_quick else max(1, min(10, math.ceil(COLD / (6 * size * size))))
        self.sets = [
            (
                lab.empty(size, size),
                lab.random(size, size, seed=2 * number),
                lab.random(size, size, seed=2 * number + 1),
            )
            for number in range(count)
        ]
        self._exact = self._product()

    def _product(self) -> Any:
        _, x, y = self.sets[0]
        if self.lab.has_gpu:
            left, right = map(self.lab.as_torch, (x, y))
            return left.double() @ right.double()
        return x.numpy().astype(np.float64) @ y.numpy().astype(np.float64)

    def error(self, run: Callable[[], object]) -> float:
        """The relative error of the first set's product, whose output is poisoned first."""
        output = self.sets[0][0]
        tw.fill(output, math.nan).sync()
        made = run()
        if isinstance(made, tw.DeviceOp):
            made.sync()
        elif self.lab.has_gpu:
            self.lab.load("torch").cuda.synchronize()
        if self.lab.has_gpu:
            found = self.lab.as_torch(output).double()
            return float((found - self._exact).norm() / self._exact.norm())
        found = output.numpy().astype(np.float64)
        return float(np.linalg.norm(found - self._exact) / np.linalg.norm(self._exact))

    def candidate(self, name: str, runs: list[Callable[[], object]]) -> Candidate:
        """A candidate that rotates over the sets."""
        return Candidate(name, runs, lambda: self.error(runs[0]), LIMIT)


def tflops(size: int, seconds: float) -> float:
    """Arithmetic a second, in units of 10^12."""
    return 2 * size**3 / seconds / 1e12


def _candidates(matrices: Matrices, families: Families) -> Iterator[Candidate]:
    lab = matrices.lab
    if lab.has_gpu:
        yield from _torch_and_triton(matrices, families)
    chosen = [lambda s=s: matmul(s[1], s[2], out=s[0]) for s in matrices.sets]
    yield matrices.candidate(families.name(LIBRARY), chosen)
    for schedule in SMALL if lab.is_quick else SCHEDULES:
        for family, (plain, walked, options) in _FAMILIES.items():
            kernel = schedule.kernel(plain, walked, **options)
            runs = [
                lambda s=s, k=kernel, way=schedule: k(way.cut(s[0]), *s[1:]) for s in matrices.sets
            ]
            runs[0]().close()  # all assemblers start now
            yield matrices.candidate(families.name(family, schedule.name), runs)
        if (peer := lab.peers.get(schedule.peer)) is not None:
            launches: list[Any] = [
                peer.launch(lab.stream, schedule.blocks or 0, *one) for one in matrices.sets
            ]
            yield matrices.candidate(families.name(CUTILE, schedule.name), launches)


_FAMILIES: dict[str, tuple[Any, Any, dict[str, bool]]] = {
    SAFE: (kernels.gemm, kernels.walked, {"deny_checks": True}),
    UNCHECKED: (kernels.gemm_unchecked, kernels.walked_unchecked, {}),
}


def _torch_and_triton(matrices: Matrices, families: Families) -> Iterator[Candidate]:
    lab = matrices.lab
    torch = lab.load("torch")
    theirs = [tuple(map(lab.as_torch, one)) for one in matrices.sets]
    products = [lambda s=s: torch.matmul(s[1], s[2], out=s[0]) for s in theirs]
    yield matrices.candidate(families.name(CUBLAS), products)
    if lab.has("triton"):
        multiplier = lab.load("triton_kernels").multiplier
        yield matrices.candidate(families.name(TRITON), [multiplier(*one) for one in theirs])


def run(lab: Lab, report: Report) -> None:
    table = Table(
        "TFLOP/s (best schedule); the paper's on a B200, with sums in f16",
        ("M = N = K", CUBLAS, LIBRARY, SAFE, UNCHECKED, CUTILE, TRITON, "library / cuBLAS",
         "safe / unchecked", "noise", "paper: safe / cuBLASLt", "paper: safe / raw"),
    )  # fmt: skip
    report.table(table)
    lines: dict[str, dict[int, float]] = {}
    for size in (64,) if lab.is_quick else SIZES:
        families = Families()
        candidates = list(_candidates(Matrices(lab, size), families))
        effort = {"repetitions": 11, "rounds": 3} if size > 8192 else {"rounds": 4}
        lab.timer(warmup=1.0).prepare(candidates[0].run)  # until the clocks are up
        found = compare(candidates, timer=lab.timer(**effort))
        best = families.best(found)
        rates = {name: tflops(size, one.seconds) for name, one in best.items()}
        for name, rate in rates.items():
            lines.setdefault(name, {})[size] = rate
        safe, raw, _, cublas = PAPER.get(size, (math.nan,) * 4)
        table.add(
            str(size),
            *(f"{rates[name]:.0f}" if name in rates else "" for name in table.columns[1:7]),
            _ratio(rates, LIBRARY, CUBLAS), _ratio(rates, SAFE, UNCHECKED), f"{found.noise:.2%}",
            f"{safe / cublas:.3f}", f"{safe / raw:.4f}",
        )  # fmt: skip
        chosen = {name: one.how for name, one in best.items()}
        report.figure("products", size=size, rates=rates, chosen=chosen, **found.to_json())
        for name, reason in found.failures.items():
            print(f"{name}: {reason}", flush=True)
    print(table.to_text(), flush=True)
    series = [Series(name, list(rates.items())) for name, rates in lines.items()]
    report.plot(Plot("products", TITLE, "M = N = K", "TFLOP/s", series))
    if not lab.is_quick:
        _targets(lines, report)


def _ratio(rates: dict[str, float], one: str, other: str) -> str:
    return f"{rates[one] / rates[other]:.4f}" if one in rates and other in rates else ""


def _targets(lines: dict[str, dict[int, float]], report: Report) -> None:
    def beside(size: int, one: str, other: str) -> float:
        rates = (lines.get(name, {}).get(size, math.nan) for name in (one, other))
        return next(rates) / next(rates)

    ratios = [beside(size, LIBRARY, CUBLAS) for size in SIZES]
    mean = math.exp(math.fsum(map(math.log, ratios)) / len(ratios))
    report.target(Target(LARGE, Bound.AT_LEAST, 1.02, beside(8192, LIBRARY, CUBLAS)))
    report.target(Target(ALL, Bound.AT_LEAST, 1.05, mean))
    report.target(Target(TWIN, Bound.AT_LEAST, 0.997, beside(8192, SAFE, UNCHECKED)))
