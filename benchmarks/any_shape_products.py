"""Matrix products of random shapes, beside cuBLAS as torch calls it.

M is drawn from 1 to 16384 and N and K from 64 to 32768, log-uniformly; a third of the shapes has
sides that are multiples of 128, a third multiples of 8, a third any numbers. Dtypes are f16 and
bf16, and each operand is transposed or not. Products are nodes of graphs, which excludes host time;
operands rotate beyond the cache, both libraries take turns, and results are checked first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from lab import Lab

import tilewright as tw
from tilewright import bf16, f16, kernels
from tilewright.bench import Timer, graph_of
from tilewright.kernels.gemm.aligned import aligned, is_worth_copying
from tilewright.kernels.gemm.configs import choose_product
from tilewright.kernels.gemm.matmuls import launch_matmul
from tilewright.kernels.gemm.operands import ProductRequest, product

__all__ = ["Operands", "Problem", "draw", "layers", "measure"]

ROTATED = 1.5e8  # bytes of rotating operands: several times the cache
SETS = 12  # most rotating sets
GRAPH = 3e-4  # least estimated seconds of a graph
NODES = 24  # most products in a graph
LIMIT = {f16: 2e-3, bf16: 1e-2}  # relative error in the norm
SMALL = 96  # largest extent on the CPU
# Rows of the outputs of linear layers, and the length of their sums: Qwen3 4B, 8B, 32B.
LAYERS = (
    (6144, 2560), (2560, 4096), (19456, 2560), (2560, 9728), (6144, 4096), (4096, 4096),
    (24576, 4096), (4096, 12288), (10240, 5120), (5120, 8192), (51200, 5120), (5120, 25600),
)  # fmt: skip
FEW = (1, 2, 5, 8, 13, 16, 17, 31, 48, 64, 96, 100, 128, 160, 200, 256)


@dataclass(frozen=True)
class Problem:
    """One product: `[m, k] @ [k, n]`, each operand perhaps stored transposed."""

    m: int
    n: int
    k: int
    dtype: type[tw.DType] = f16
    transpose_a: bool = False
    transpose_b: bool = False
    kind: str = ""  # how the sides were drawn

    @property
    def stored(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """The shapes of the operands in memory."""
        a, b = (self.m, self.k), (self.k, self.n)
        return a[::-1] if self.transpose_a else a, b[::-1] if self.transpose_b else b

    @property
    def nbytes(self) -> int:
        """Bytes of the operands."""
        return 2 * self.k * (self.m + self.n)

    @property
    def is_aligned(self) -> bool:
        """Whether the rows of all three matrices begin at multiples of 16 bytes."""
        return all(shape[1] % 8 == 0 for shape in (*self.stored, (self.m, self.n)))

    @property
    def least_seconds(self) -> float:
        """A lower bound on an H200."""
        return max(
            2 * self.m * self.n * self.k / 8e14, (self.nbytes + 2 * self.m * self.n) / 4.4e12
        )

    def __str__(self) -> str:
        layout = "".join("nt"[one] for one in (self.transpose_a, self.transpose_b))
        return f"{self.m} x {self.n} x {self.k} {layout} {self.dtype.label}"


def draw(seed: int, count: int) -> list[Problem]:
    """Random problems."""
    rng = np.random.default_rng(seed)
    found = []
    for number in range(count):
        kind, unit = (("of 128", 128), ("of 8", 8), ("any", 1))[number % 3]
        low, high = (1, 64, 64), (16384, 32768, 32768)
        sides = (
            math.exp(rng.uniform(math.log(a), math.log(b))) for a, b in zip(low, high, strict=True)
        )
        m, n, k = (max(unit, round(side / unit) * unit) for side in sides)
        dtype = (f16, bf16)[int(rng.integers(2))]
        transposes = (bool(rng.integers(2)), bool(rng.integers(2)))
        found.append(Problem(m, n, k, dtype, *transposes, kind=kind))
    return found


def layers(seed: int, count: int) -> list[Problem]:
    """Few rows against the layers of three models, in a random order."""
    rng = np.random.default_rng(seed)
    every = [Problem(m, n, k, bf16, False, True, "layer") for n, k in LAYERS for m in FEW]
    return [every[place] for place in rng.permutation(len(every))[:count]]


class Operands:
    """The operands of a problem on one device, and the builders of both libraries."""

    def __init__(self, lab: Lab, problem: Problem) -> None:
        self.lab, self.problem = lab, problem
        torch = self.torch = lab.load("torch")
        device = "cuda" if lab.has_gpu else "cpu"
        dtype = torch.float16 if problem.dtype is f16 else torch.bfloat16
        sets = max(1, min(SETS, math.ceil(ROTATED / problem.nbytes))) if lab.has_gpu else 1
        count = max(sets, min(NODES, math.ceil(GRAPH / problem.least_seconds)))
        self.count = count if lab.has_gpu else 1
        torch.manual_seed(problem.m + problem.k)
        self.pairs = [
            tuple(torch.randn(shape, device=device, dtype=dtype) for shape in problem.stored)
            for _ in range(sets)
        ]
        self.out = torch.empty((problem.m, problem.n), device=device, dtype=dtype)
        self.wait()

    def wait(self) -> None:
        """Wait for torch."""
        if self.lab.has_gpu:
            self.torch.cuda.synchronize()

    def request(self) -> ProductRequest:
        """The options of our call."""
        problem, out = self.problem, tw.from_dlpack(self.out)
        turned = {"transpose_a": problem.transpose_a, "transpose_b": problem.transpose_b}
        return ProductRequest("matmul", out=out, **turned)

    def ours(self) -> list[tuple[tw.Tensor, tw.Tensor]]:
        """Our tensors, one pair for each set of operands."""
        return [(tw.from_dlpack(a), tw.from_dlpack(b)) for a, b in self.pairs]

    def launches(self) -> list[Callable[[], tw.DeviceOp[Any]]]:
        """Builders of our launches, one for each set of operands."""
        asked = self.request()
        turned = {"transpose_a": asked.transpose_a, "transpose_b": asked.transpose_b}
        return [
            lambda a=a, b=b: kernels.matmul(a, b, out=asked.out, **turned) for a, b in self.ours()
        ]

    def theirs(self) -> list[Callable[[], Any]]:
        """Products of torch, one for each set of operands."""
        return [
            lambda a=a, b=b: self.torch.matmul(a, b, out=self.out)
            for a, b in map(self._seen, self.pairs)
        ]

    def _seen(self, pair: tuple[Any, ...]) -> tuple[Any, Any]:
        a, b = pair
        return a.T if self.problem.transpose_a else a, b.T if self.problem.transpose_b else b

    def error(self) -> float:
        """The relative error of our product beside one in f32 (on a GPU) or f64."""
        a, b = self._seen(self.pairs[0])
        self.out.fill_(math.nan)
        self.wait()
        self.launches()[0]().sync()
        rows = min(self.problem.m, 512)
        wide = self.torch.float32 if self.lab.has_gpu else self.torch.float64
        exact = a[-rows:].to(wide) @ b.to(wide)
        self.wait()
        off = self.torch.linalg.vector_norm(self.out[-rows:].to(wide) - exact)
        return float(off / self.torch.linalg.vector_norm(exact))


def measure(lab: Lab, problems: Sequence[Problem]) -> Iterator[dict[str, Any]]:
    """The time of each product, ours and torch's; checked only, without a GPU."""
    if not lab.has_gpu:
        problems = [_small(one) for one in problems]
    assemble(lab, problems)
    timer = lab.timer(repetitions=5, rounds=2, warmup=0.002)
    for problem in problems:
        yield _measured(lab, timer, problem)


def assemble(lab: Lab, problems: Sequence[Problem]) -> None:
    """Start all assemblers, which run in parallel, also those of launches behind others."""
    if not lab.has_gpu:
        return
    for one in problems:
        a, b = (tw.meta(shape, one.dtype, target=lab.device.target) for shape in one.stored)
        request = ProductRequest("matmul", transpose_a=one.transpose_a, transpose_b=one.transpose_b)
        wanted, _ = product(a, b, request)
        if is_worth_copying(wanted):
            copies, wanted = aligned(wanted)
            copies.close()
        config = choose_product(wanted.form)
        launch_matmul(wanted, config).close()


def _small(one: Problem) -> Problem:
    m, n, k = (1 + side % SMALL for side in (one.m, one.n, one.k))
    return Problem(m, n, k, one.dtype, one.transpose_a, one.transpose_b, one.kind)


def _measured(lab: Lab, timer: Timer, problem: Problem) -> dict[str, Any]:
    one = Operands(lab, problem)
    error = one.error()
    found: dict[str, Any] = {
        "problem": str(problem),
        "kind": problem.kind,
        "error": error,
        "aligned": problem.is_aligned,
    }
    if not error < LIMIT[problem.dtype]:
        return {**found, "failed": f"off by {error:.1e}"}
    if not lab.has_gpu:
        return found
    made = graph_of(one.launches(), one.count)
    replay = lab.captured(one.theirs(), one.count, here=True)
    subjects = [timer.prepare(run) for run in (made.launch, replay)]
    least = [math.inf, math.inf]
    for _ in range(3):
        for which, subject in enumerate(subjects):
            least[which] = min(least[which], timer.measure(*subject).median / one.count)
    config = str(choose_product(product(*one.ours()[0], one.request())[0].form))
    return {
        **found,
        "config": config,
        "ours": least[0],
        "cublas": least[1],
        "speed": least[1] / least[0],
    }
