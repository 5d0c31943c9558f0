"""Products with scales of random shapes, beside `torch._scaled_mm` and cuBLAS.

M, N and K are drawn as in `any_shape_products`. Factors are 8-bit floats with scales of the tensor,
of rows, or of parts and blocks of 128, or bf16 rows and 8-bit weights with scales of channels or
blocks. The peer multiplies the same factors: `torch._scaled_mm` where it takes them, else cuBLAS in
bf16, which is the peer of 8-bit weights as well; each row names it. Sums are exact in both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from any_shape_products import FEW, LAYERS, NODES, ROTATED, SETS, SMALL
from any_shape_products import draw as draw_products
from lab import Lab

import tilewright as tw
from tilewright import bf16, kernels
from tilewright.bench import Timer, graph_of
from tilewright.kernels.reference import products as reference

__all__ = ["Problem", "draw", "layers", "measure"]

KINDS = {  # of the scales of both factors; rows without one are bf16
    "tensor": ("tensor", "tensor"),
    "row": ("row", "row"),
    "block": ("part", "block"),
    "weights by row": (None, "row"),
    "weights by block": (None, "block"),
}
LIMIT = 1e-2  # relative error in the norm, with the result rounded to bf16
PEAK, BANDWIDTH = 1.6e15, 4.4e12  # of an H200
GRAPH = 3e-4  # least estimated seconds of a graph
EVEN = 16  # extents that torch multiplies in 8 bits are multiples of it


@dataclass(frozen=True)
class Problem:
    """One product: `[m, k]` by a weight of `[n, k]`."""

    m: int
    n: int
    k: int
    kind: str

    @property
    def has_wide_rows(self) -> bool:
        """Whether only the weights are 8-bit floats."""
        return KINDS[self.kind][0] is None

    @property
    def nbytes(self) -> int:
        """Bytes of the factors."""
        return self.k * (self.m * (2 if self.has_wide_rows else 1) + self.n)

    @property
    def is_aligned(self) -> bool:
        """Whether torch takes the extents."""
        return self.n % EVEN == 0 and self.k % EVEN == 0

    @property
    def least_seconds(self) -> float:
        """A lower bound on an H200."""
        return max(2 * self.m * self.n * self.k / PEAK, self.nbytes / BANDWIDTH)

    def __str__(self) -> str:
        return f"{self.m} x {self.n} x {self.k} {self.kind}"


def draw(seed: int, count: int) -> list[Problem]:
    """Random problems, each kind in turn."""
    kinds = [*KINDS]
    shapes = draw_products(seed, count)
    return [
        Problem(one.m, one.n, one.k, kinds[place // 3 % len(kinds)])
        for place, one in enumerate(shapes)
    ]


def layers(seed: int, count: int) -> list[Problem]:
    """Few rows against the layers of three models, in a random order."""
    kinds = ("block", "weights by row", "weights by block")
    every = [Problem(m, n, k, kind) for n, k in LAYERS for m in FEW for kind in kinds]
    order = np.random.default_rng(seed).permutation(len(every))[:count]
    return [every[place] for place in order]


class Factors:
    """Quantised factors on one device, in several sets, and the builders of both libraries."""

    def __init__(self, lab: Lab, problem: Problem) -> None:
        self.lab, self.problem = lab, problem
        sets = max(1, min(SETS, math.ceil(ROTATED / problem.nbytes))) if lab.has_gpu else 1
        count = max(sets, min(NODES, math.ceil(GRAPH / problem.least_seconds)))
        self.count = count if lab.has_gpu else 1
        self.sets = [self._drawn(seed) for seed in range(sets)]
        self.out = tw.empty((problem.m, problem.n), bf16, device=lab.device)

    def _drawn(self, seed: int) -> tuple[Any, ...]:
        """Both factors with their scales."""
        problem, found = self.problem, []
        for place, rows in enumerate((problem.m, problem.n)):
            wide = self.lab.random(rows, problem.k, dtype=bf16, seed=2 * seed + place)
            kind = KINDS[problem.kind][place]
            found.append((wide, None) if kind is None else kernels.quantise(wide, kind).sync())
        (a, a_scale), (b, b_scale) = found
        return a, b, a_scale, b_scale

    def launches(self) -> list[Callable[[], tw.DeviceOp[Any]]]:
        """Builders of our launches, one for each set."""
        return [
            lambda one=one: kernels.scaled_matmul(*one, transpose_b=True, out=self.out)
            for one in self.sets
        ]

    def error(self) -> float:
        """The relative error of our product."""
        self.launches()[0]().sync()
        rows = min(self.problem.m, 64)
        a, b, a_scale, b_scale = (
            None if one is None else one.numpy().astype(np.float64) for one in self.sets[0]
        )
        left, right = reference.scaled(a, a_scale)[:rows], reference.scaled(b, b_scale)
        exact = left @ right.T
        off = self.out[:rows].numpy().astype(np.float64) - exact
        return float(np.linalg.norm(off) / np.linalg.norm(exact))

    def theirs(self) -> tuple[str, list[Callable[[], Any]]]:
        """The name of the peer, and its products, one for each set."""
        torch, problem = self.lab.load("torch"), self.problem
        seen = [
            tuple(None if one is None else self.lab.as_torch(one) for one in some)
            for some in self.sets
        ]
        if not problem.has_wide_rows and problem.is_aligned:
            multiply = getattr(torch, "_scaled_mm")  # noqa: B009 (the name that users call)
            given = [_as_torch_wants(problem.kind, *one) for one in seen]
            runs = [lambda one=one: multiply(*one, out_dtype=torch.bfloat16) for one in given]
            try:
                runs[0]()
            except (RuntimeError, ValueError, NotImplementedError):
                pass  # this release of torch has no such scales
            else:
                return "torch._scaled_mm", runs
        wide = [(a.to(torch.bfloat16), b.to(torch.bfloat16)) for a, b, *_ in seen]
        return "cuBLAS in bf16", [lambda a=a, b=b: torch.matmul(a, b.T) for a, b in wide]


def _as_torch_wants(kind: str, a: Any, b: Any, a_scale: Any, b_scale: Any) -> tuple[Any, ...]:
    """The arguments of torch's product; scales of parts are contiguous along rows."""
    if kind == "tensor":
        return a, b.T, a_scale.reshape(()), b_scale.reshape(())
    if kind == "block":
        a_scale = a_scale.T.contiguous().T
    return a, b.T, a_scale, b_scale.T


def measure(lab: Lab, problems: Sequence[Problem]) -> Iterator[dict[str, Any]]:
    """The time of each product, ours and the peer's; checked only, without a GPU."""
    if not lab.has_gpu:
        problems = [
            Problem(*(1 + side % (2 * SMALL) for side in (one.m, one.n, one.k)), one.kind)
            for one in problems
        ]
    timer = lab.timer(repetitions=5, rounds=2, warmup=0.002)
    for problem in problems:
        yield _measured(lab, timer, problem)


def _measured(lab: Lab, timer: Timer, problem: Problem) -> dict[str, Any]:
    one = Factors(lab, problem)
    error = one.error()
    found: dict[str, Any] = {
        "problem": str(problem),
        "kind": problem.kind,
        "error": error,
        "aligned": problem.is_aligned,
    }
    if not error < LIMIT:
        return {**found, "failed": f"off by {error:.1e}"}
    if not lab.has_gpu:
        return found
    made = graph_of(one.launches(), one.count)
    peer, runs = one.theirs()
    replay = lab.captured(runs, one.count, here=True)
    subjects = [timer.prepare(run) for run in (made.launch, replay)]
    least = [math.inf, math.inf]
    for _ in range(3):
        for which, subject in enumerate(subjects):
            least[which] = min(least[which], timer.measure(*subject).median / one.count)
    return {
        **found,
        "peer": peer,
        "ours": least[0],
        "cublas": least[1],
        "speed": least[1] / least[0],
    }
