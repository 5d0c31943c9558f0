"""Matrix products: f16 in and out, sums in f32, M = N = K, random data; safe, unchecked and peers.

"Library" is `kernels.matmul`, safe, without checks inside, and with its own configuration. "Safe"
and "unchecked" are twins, the second without any proof: they share a few schedules with cuTile
Python, and the best of each counts. The twins, and the library with cuBLAS, are then timed again in
pairs and in turns, and those figures count. Small matrices rotate over more memory than the cache
holds.

Products queued back to back exclude host time. Products launched one by one, with an event before
and behind each, include it where the device waits for the host; a graph has none.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import median
from typing import Any

import kernels
from lab import Lab

from paper.families import Families
from paper.launched import ALL, CUBLAS, LARGE, LIBRARY, Launched
from paper.matrices import SCHEDULES, SMALL, Matrices, tflops
from tilewright.bench import Bound, Candidate, Plot, Report, Series, Table, Target, compare
from tilewright.kernels import matmul

__all__ = ["ALL", "CUBLAS", "LARGE", "LIBRARY", "SIZES", "TITLE", "TWIN", "run"]

TITLE = "Matrix products: TFLOP/s by size"
SIZES = (1024, 2048, 4096, 8192, 16384)
PAPER = {  # TFLOP/s on a B200, sums in f16: safe, raw pointers, cuTile Python, cuBLASLt
    1024: (210.1, 208.5, 215.7, 209.5), 2048: (958.4, 954.9, 989.8, 923.9),
    4096: (1638.7, 1645.8, 1608.3, 1741.7), 8192: (2068.9, 2074.1, 2037.8, 2147.3),
    16384: (2127.3, 2130.7, 2108.8, 2193.2),
}  # fmt: skip
SAFE, UNCHECKED, CUTILE, TRITON = "safe", "unchecked", "cuTile Python", "Triton"
# A target beside those of `launched`.
TWIN = "product of 8192, safe of unchecked"


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
            runs[0]().close()  # starts all assemblers
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
        "TFLOP/s (best schedule), queued back to back; the paper's on a B200, with sums in f16",
        ("M = N = K", CUBLAS, LIBRARY, SAFE, UNCHECKED, CUTILE, TRITON, "library / cuBLAS",
         "safe / unchecked", "noise", "paper: safe / cuBLASLt", "paper: safe / raw"),
    )  # fmt: skip
    report.table(table)
    launched = Launched(report)
    lines: dict[str, dict[int, float]] = {}
    twins = {}
    for size in (64,) if lab.is_quick else SIZES:
        matrices, families = Matrices(lab, size), Families()
        candidates = {one.name: one for one in _candidates(matrices, families)}
        lab.timer(warmup=0.5).prepare(next(iter(candidates.values())).run)  # raises the clocks
        effort = {"repetitions": 5 if size > 8192 else 11, "rounds": 4}
        found = compare(candidates.values(), timer=lab.timer(**effort))
        best = families.best(found)
        rates = {name: tflops(size, one.seconds) for name, one in best.items()}
        rates |= launched.measure(matrices)  # two alone heat the GPU less
        for name, rate in rates.items():
            lines.setdefault(name, {})[size] = rate
        twins[size] = (
            _twins(lab, candidates, families, best[SAFE].how) if SAFE in best else math.nan
        )
        safe, raw, _, cublas = PAPER.get(size, (math.nan,) * 4)
        table.add(
            str(size),
            *(f"{rates[name]:.0f}" if name in rates else "" for name in table.columns[1:7]),
            _ratio(rates, LIBRARY, CUBLAS), f"{twins[size]:.4f}", f"{found.noise:.2%}",
            f"{safe / cublas:.3f}", f"{safe / raw:.4f}",
        )  # fmt: skip
        chosen = {name: one.how for name, one in best.items()}
        report.figure(
            "products", size=size, rates=rates, chosen=chosen, twin=twins[size], **found.to_json()
        )
        for name, reason in found.failures.items():
            print(f"{name}: {reason}", flush=True)
    print(table.to_text(), flush=True)
    launched.show()
    series = [Series(name, list(rates.items())) for name, rates in lines.items()]
    report.plot(Plot("products", TITLE, "M = N = K", "TFLOP/s", series))
    if not lab.is_quick:
        launched.targets()
        report.target(Target(TWIN, Bound.AT_LEAST, 0.997, twins[8192]))


def _twins(lab: Lab, candidates: dict[str, Candidate], families: Families, how: str) -> float:
    """The rate of the safe product relative to its twin: the two alone, in turns, by round."""
    pair = [families.name(family, how) for family in (SAFE, UNCHECKED)]
    found = compare(
        [Candidate(name, candidates[name].run) for name in pair],
        timer=lab.timer(repetitions=5, rounds=10),
    )
    safe, unchecked = (found.timings.get(name, ()) for name in pair)
    ratios = [u.median / s.median for s, u in zip(safe, unchecked, strict=False)]
    return median(ratios) if ratios else math.nan


def _ratio(rates: dict[str, float], one: str, other: str) -> str:
    return f"{rates[one] / rates[other]:.4f}" if one in rates and other in rates else ""
