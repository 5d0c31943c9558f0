"""Library matrix products beside cuBLAS: shapes of Qwen3, decoding, other dtypes.

    python benchmarks/matmul.py [--only prefill,decode,dtypes] [--quick] [--json FILE]

Weights have the layout of checkpoints, `[N, K]`, and are multiplied transposed. `prefill` has 512
rows and more; `decode` has 1 and 16, in graphs, which exclude host time, beside a copy of as many
bytes; `dtypes` has squares of bf16 and of 8-bit floats. Small operands rotate over more memory than
the cache holds. Squares of f16, and the unchecked twins, are among the experiments of the paper
(`run_paper.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import geometric_mean
from typing import Any

from lab import Lab, open_lab
from parts import read_options, run_parts

import tilewright as tw
from tilewright import bf16, f8e4m3fn, f16
from tilewright.bench import Bound, Candidate, Report, Table, Target, compare, graph_of
from tilewright.kernels import matmul

__all__ = ["DECODED", "LAYERS", "PREFILLED", "main"]

COLD = 240 << 20  # bytes of operands to rotate over
LIMIT = 5e-3
NARROW_LIMIT = 2e-2  # 8-bit floats with fast accumulation
SQUARES = (2048, 4096, 8192)
OURS, CUBLAS, COPY = "tilewright", "cuBLAS", "copy"
# Targets.
PREFILLED = "linear layers of Qwen3, 512 rows and more, speed beside cuBLAS, geometric mean"
DECODED = (
    "linear layers of Qwen3-4B, one row, in a graph, beside a copy of as many bytes, the least"
)


@dataclass(frozen=True)
class Layer:
    """A linear layer: numbers of outputs and inputs."""

    model: str
    name: str
    outputs: int
    inputs: int


LAYERS = (
    Layer("4B", "qkv", 6144, 2560),
    Layer("4B", "o", 2560, 4096),
    Layer("4B", "gate_up", 19456, 2560),
    Layer("4B", "down", 2560, 9728),
    Layer("4B", "lm_head", 151936, 2560),
    Layer("32B", "qkv", 10240, 5120),
    Layer("32B", "o", 5120, 8192),
    Layer("32B", "gate_up", 51200, 5120),
    Layer("32B", "down", 5120, 25600),
)


class Operands:
    """Several sets of operands of one product, `a @ b.T`, and its check."""

    def __init__(
        self,
        lab: Lab,
        m: int,
        layer: Layer,
        dtype: type[tw.DType] = f16,
        out: type[tw.DType] = f16,
    ) -> None:
        self.lab, self.m, self.n, self.k = lab, m, layer.outputs, layer.inputs
        size = (self.m + self.n) * self.k * (1 if dtype is f8e4m3fn else 2)
        count = 1 if lab.is_quick else max(1, min(10, math.ceil(COLD / size)))
        self.a = [lab.random(self.m, self.k, dtype=dtype, seed=2 * n) for n in range(count)]
        self.b = [lab.random(self.n, self.k, dtype=dtype, seed=2 * n + 1) for n in range(count)]
        self.out = lab.empty(self.m, self.n, dtype=out)

    @property
    def flops(self) -> int:
        return 2 * self.m * self.n * self.k

    @property
    def nbytes(self) -> int:
        return self.a[0].nbytes + self.b[0].nbytes + self.out.nbytes

    def ours(self, **options: Any) -> list[Callable[[], tw.DeviceOp[tw.Tensor]]]:
        return [
            lambda a=a, b=b: matmul(a, b, out=self.out, transpose_b=True, **options)
            for a, b in zip(self.a, self.b, strict=True)
        ]

    def theirs(self) -> list[Callable[[], Any]]:
        torch, view = self.lab.load("torch"), self.lab.as_torch
        pairs = [(view(a), view(b).t()) for a, b in zip(self.a, self.b, strict=True)]
        out = view(self.out)
        if self.a[0].dtype is not f8e4m3fn:
            return [lambda a=a, b=b: torch.matmul(a, b, out=out) for a, b in pairs]
        one = torch.ones((), device="cuda")
        return [
            lambda a=a, b=b: torch._scaled_mm(  # noqa: SLF001 (torch has no public name)
                a, b, one, one, out=out, out_dtype=out.dtype, use_fast_accum=True
            )
            for a, b in pairs
        ]

    def check(self, run: Callable[[], object], number: int) -> Callable[[], float] | None:
        """The check of a run that ends with one of the sets; on the CPU it only has to run."""
        return (lambda: self._error(run, number)) if self.lab.has_gpu else None

    def _error(self, run: Callable[[], object], number: int) -> float:
        """The relative error of some rows."""
        torch, view = self.lab.load("torch"), self.lab.as_torch
        out = view(self.out)
        out.fill_(math.nan)
        torch.cuda.synchronize()
        made = run()
        if isinstance(made, tw.DeviceOp):
            made.sync()
        torch.cuda.synchronize()
        rows = torch.arange(0, self.m, max(1, self.m // 32), device="cuda")
        exact = view(self.a[number])[rows].float() @ view(self.b[number]).float().t()
        return float((out[rows].float() - exact).norm() / exact.norm())


# --- many rows ------------------------------------------------------------------------------------


def prefill(lab: Lab, report: Report) -> None:
    table = Table(
        "TFLOP/s of a linear layer, f16",
        ("layer", "M", "N", "K", CUBLAS, OURS, "ours / cuBLAS", "noise"),
    )
    report.table(table)
    ratios = []
    problems = [
        (m, layer)
        for layer in (LAYERS[:1] if lab.is_quick else LAYERS)
        for m in ((32,) if lab.is_quick else (512, 2048, 8192))
        if layer.name != "lm_head" or m <= 2048
    ]
    _assemble(lab, problems)
    for m, layer in problems:
        operands = Operands(lab, m, layer)
        found = _paired(lab, operands, LIMIT)
        ratios.append(found.speed(OURS))
        _row(table, report, "prefill", f"{layer.model} {layer.name}", operands, found)
    print(table.to_text(), flush=True)
    report.target(Target(PREFILLED, Bound.AT_LEAST, 1.0, geometric_mean(ratios)))


def _assemble(lab: Lab, problems: Iterable[tuple[int, Layer]]) -> None:
    """Start all assemblers at once, on tensors without memory, with the library's choices."""
    if not lab.has_gpu:
        return
    for m, layer in problems:
        shapes = (m, layer.inputs), (layer.outputs, layer.inputs), (m, layer.outputs)
        a, b, out = (tw.meta(shape, f16, target=lab.device.target) for shape in shapes)
        matmul(a, b, out=out, transpose_b=True).close()


def dtypes(lab: Lab, report: Report) -> None:
    table = Table(
        "TFLOP/s of squares, operands transposed as cuBLAS wants them for 8-bit floats",
        ("dtype", "M", "N", "K", CUBLAS, OURS, "ours / cuBLAS", "noise"),
    )
    report.table(table)
    for dtype, out in ((f16, f16), (bf16, bf16), (f8e4m3fn, bf16)):
        narrow = dtype is f8e4m3fn
        for size in (64,) if lab.is_quick else SQUARES:
            operands = Operands(lab, size, Layer("", "square", size, size), dtype, out)
            options = {"fast_accumulate": True} if narrow else {}
            found = _paired(lab, operands, NARROW_LIMIT if narrow else LIMIT, **options)
            _row(table, report, "dtypes", dtype.label, operands, found)
    print(table.to_text(), flush=True)


def _paired(lab: Lab, operands: Operands, limit: float, **options: Any) -> Any:
    def candidate(name: str, runs: list[Any]) -> Candidate:
        return Candidate(name, runs, operands.check(runs[0], 0), limit)

    candidates = [candidate(OURS, operands.ours(**options))]
    if lab.has_gpu:
        candidates.insert(0, candidate(CUBLAS, operands.theirs()))
    found = compare(candidates, timer=lab.timer(repetitions=9, rounds=4))
    for name, reason in found.failures.items():
        print(f"{name}: {reason}", flush=True)
    return found


def _row(
    table: Table, report: Report, part: str, name: str, operands: Operands, found: Any
) -> None:
    rate = {
        one: operands.flops / found.seconds(one) / 1e12 for one in (CUBLAS, OURS) if one in found
    }
    shape = operands.m, operands.n, operands.k
    shown = (f"{rate[one]:.0f}" if one in rate else "" for one in (CUBLAS, OURS))
    table.add(name, *map(str, shape), *shown, f"{found.speed(OURS):.3f}", f"{found.noise:.1%}")
    report.figure(part, name=name, shape=shape, rates=rate, **found.to_json())


# --- few rows -------------------------------------------------------------------------------------


def decode(lab: Lab, report: Report) -> None:
    """Repetitions write one output, which orders them."""
    table = Table(
        "TB/s of a linear layer in a graph, f16",
        ("layer", "M", CUBLAS, COPY, OURS, "ours / cuBLAS", "ours / copy"),
    )
    report.table(table)
    least = math.inf
    problems = [(m, layer) for layer in (LAYERS[:1] if lab.is_quick else LAYERS) for m in (1, 16)]
    _assemble(lab, problems)
    for m, layer in problems:
        operands = Operands(lab, m, layer)
        found, count = _in_graphs(lab, operands)
        seconds = {one: found.seconds(one) / count for one in (CUBLAS, COPY, OURS)}
        beside = seconds[COPY] / seconds[OURS]
        if m == 1 and layer.model == "4B":
            least = min(least, beside)
        table.add(
            f"{layer.model} {layer.name}", str(m),
            *(f"{operands.nbytes / seconds[one] / 1e12:.2f}" for one in seconds),
            f"{seconds[CUBLAS] / seconds[OURS]:.3f}", f"{beside:.3f}",
        )  # fmt: skip
        report.figure("decode", layer=layer.name, rows=m, count=count, **found.to_json())
    print(table.to_text(), flush=True)
    report.target(Target(DECODED, Bound.AT_LEAST, 0.9, least))


def _in_graphs(lab: Lab, operands: Operands) -> tuple[Any, int]:
    sets = len(operands.a)
    count = 2 * sets
    ours = graph_of(operands.ours(), count)
    candidates = [Candidate(OURS, ours.launch, operands.check(ours.launch, sets - 1), LIMIT)]
    if lab.has_gpu:
        theirs = lab.captured(operands.theirs(), count)
        halves = [lab.as_torch(lab.random(operands.n * operands.k // 2)) for _ in range(2 * sets)]
        copies = [
            lambda to=to, by=by: to.copy_(by)
            for to, by in zip(halves[::2], halves[1::2], strict=True)
        ]
        candidates[:0] = [
            Candidate(CUBLAS, theirs, operands.check(theirs, sets - 1), LIMIT),
            Candidate(COPY, lab.captured(copies, count)),
        ]
    return compare(candidates, timer=lab.timer(repetitions=9, rounds=4)), count


PARTS = {"prefill": prefill, "decode": decode, "dtypes": dtypes}


def main() -> None:
    options, parts = read_options(__doc__, PARTS)
    lab = open_lab(options)
    report = Report("matmul", "Matrix products of the library", options.json)
    with tw.device(lab.device):
        run_parts({name: lambda part=part: part(lab, report) for name, part in parts.items()})


if __name__ == "__main__":
    main()
