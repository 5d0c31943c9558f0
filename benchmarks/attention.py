"""Library attention beside cuDNN and FlashAttention, as provided by torch.

    python benchmarks/attention.py [--only causal,full,decode,grouped] [--quick] [--json FILE]

Everything is timed inside graphs, which excludes launch overhead. `causal` and `full` have 16,384
tokens in sequences of 1,024 to 16,384, heads of 64 and 128 channels; `grouped` has four query heads
to a key head; `decode` has one query a sequence and a filled KV cache, larger than the L2 cache or
rotated over several. Some rows of each result are compared with float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from statistics import geometric_mean
from typing import Any

import numpy as np
from lab import Lab, open_lab
from parts import read_options, run_parts

import tilewright as tw
from tilewright.bench import (
    Bound,
    Candidate,
    Comparison,
    Plot,
    Report,
    Series,
    Table,
    Target,
    compare,
    graph_of,
)
from tilewright.kernels import attention, decode_attention, decode_parts

__all__ = [
    "CUDNN",
    "FLASH",
    "GUESS",
    "LIMIT",
    "OURS",
    "PEERS",
    "Problem",
    "Shape",
    "compare_problem",
    "compile_shapes",
    "main",
    "peer",
    "target_name",
]

COLD = 240 << 20  # bytes of operands to rotate over
LIMIT = 1e-3  # relative error; rounding of f16 weights and results gives about 3e-4
SHOWN = 1.5e-3  # least seconds of a graph, by an estimate of the speed
GUESS = 5e14  # flops a second
OURS, CUDNN, FLASH = "tilewright", "cuDNN", "FlashAttention"
PEERS = {CUDNN: "CUDNN_ATTENTION", FLASH: "FLASH_ATTENTION"}  # backend names of torch


@dataclass(frozen=True)
class Shape:
    """Sequences, query heads, key heads, queries and keys of a sequence, channels of a head."""

    batch: int
    heads: int
    key_heads: int
    queries: int
    length: int
    channels: int
    causal: bool = False
    dtype: type[tw.DType] = tw.f16

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "dtype": self.dtype.label}

    @property
    def limit(self) -> float:
        """The largest relative error: bf16 has 3 bits less than f16."""
        return LIMIT if self.dtype is tw.f16 else 8 * LIMIT

    @property
    def flops(self) -> int:
        pairs = self.queries * self.length // (2 if self.causal else 1)
        return 4 * self.batch * self.heads * pairs * self.channels

    @property
    def decoded(self) -> tuple[int, int, int]:
        """The queries of a shape with one query a sequence."""
        return self.batch, self.heads, self.channels

    @property
    def nbytes(self) -> int:
        """The shape of keys and values."""
        return 4 * self.batch * self.key_heads * self.length * self.channels


class Problem:
    """Several sets of operands of one shape, and the check of a result."""

    def __init__(self, lab: Lab, shape: Shape, sets: int | None = None) -> None:
        self.lab, self.shape = lab, shape
        if sets is None:
            sets = 1 if lab.is_quick else max(1, min(8, math.ceil(COLD / shape.nbytes)))
        queries = (shape.batch, shape.heads, shape.queries, shape.channels)
        keys = (shape.batch, shape.key_heads, shape.length, shape.channels)
        self.sets = [
            tuple(
                lab.random(*x, dtype=shape.dtype, seed=3 * n + m)
                for m, x in enumerate((queries, keys, keys))
            )
            for n in range(sets)
        ]
        self.out = lab.empty(*queries, dtype=shape.dtype)

    def ours(self) -> list[Callable[[], tw.DeviceOp[Any]]]:
        return [
            lambda one=one: attention(*one, causal=self.shape.causal, out=self.out)
            for one in self.sets
        ]

    def decoding(self) -> list[Callable[[], tw.DeviceOp[Any]]]:
        shape = self.shape
        filled = np.full(shape.batch, shape.length, np.int32)
        lengths = tw.from_numpy(filled, device=self.lab.device)
        flat = shape.decoded
        out = self.out.reshape(flat)
        parts = decode_parts(self.sets[0][0].reshape(flat), self.sets[0][1])
        return [
            lambda one=one: decode_attention(
                one[0].reshape(flat), *one[1:], lengths, out=out, parts=parts
            )
            for one in self.sets
        ]

    def theirs(self, backend: str, made: list[Any]) -> list[Callable[[], Any]]:
        """Runs of torch; `made` holds the last result."""
        torch, inside = self.lab.load("torch"), self.lab.load("torch.nn.attention")
        attend = torch.nn.functional.scaled_dot_product_attention
        kind, grouped = (
            getattr(inside.SDPBackend, backend),
            self.shape.heads != self.shape.key_heads,
        )

        def run(q: Any, k: Any, v: Any) -> None:
            with inside.sdpa_kernel([kind]):
                made[:] = [attend(q, k, v, is_causal=self.shape.causal, enable_gqa=grouped)]

        views = [tuple(self.lab.as_torch(x) for x in one) for one in self.sets]
        return [lambda one=one: run(*one) for one in views]

    def error(self, run: Callable[[], object], out: Any) -> float:
        """The relative error of some rows of the last set, which the run writes last."""
        torch = self.lab.load("torch")
        out.fill_(math.nan)
        torch.cuda.synchronize()
        made = run()
        if isinstance(made, tw.DeviceOp):
            made.sync()
        torch.cuda.synchronize()
        found = out[-1, -1].double()
        q, k, v = (self.lab.as_torch(x)[-1, -1].double() for x in self.sets[-1])
        rows = torch.arange(0, q.shape[0], max(1, q.shape[0] // 64), device="cuda")
        scores = q[rows] @ k.t() / math.sqrt(self.shape.channels)
        if self.shape.causal:
            seen = torch.arange(k.shape[0], device="cuda") <= rows[:, None]
            scores = scores.masked_fill(~seen, -math.inf)
        exact = scores.softmax(dim=-1) @ v
        return float((found[rows] - exact).norm() / exact.norm())


def peer(problem: Problem, name: str, backend: str, count: int) -> Candidate:
    """Repeated runs of a torch backend in a graph, captured at the check."""
    made: list[Any] = []
    replays: list[Callable[[], None]] = []

    def run() -> None:
        replays[0]()

    def check() -> float:
        replays.append(problem.lab.captured(problem.theirs(backend, made), count))
        return problem.error(run, made[0])

    return Candidate(name, run, check, problem.shape.limit)


def compare_problem(
    lab: Lab, problem: Problem, ours: list[Any], seconds: float, **effort: Any
) -> tuple[Comparison, int]:
    """All candidates in graphs of as many runs, each about `seconds` long."""
    sets = len(problem.sets)
    count = 1 if lab.is_quick else sets * max(1, math.ceil(SHOWN / seconds / sets))
    peers = PEERS if lab.has_gpu else {}
    candidates = [peer(problem, name, backend, count) for name, backend in peers.items()]
    graph = graph_of(ours, count)
    out = lab.as_torch(problem.out) if lab.has_gpu else None
    check = (lambda: problem.error(graph.launch, out)) if lab.has_gpu else None
    candidates.append(Candidate(OURS, graph.launch, check, problem.shape.limit))
    found = compare(candidates, timer=lab.timer(**{"repetitions": 7, "rounds": 4, **effort}))
    for name, reason in found.failures.items():
        print(f"{name}: {reason}", flush=True)
    return found, count


def compile_shapes(lab: Lab, shapes: list[Shape]) -> None:
    """Compile all kernels in parallel; a compilation takes longer than a measurement."""
    if not lab.has_gpu:
        return
    target = lab.device.target

    def compile_one(shape: Shape) -> None:
        q, k = (
            tw.meta((shape.batch, heads, places, shape.channels), shape.dtype, target=target)
            for heads, places in ((shape.heads, shape.queries), (shape.key_heads, shape.length))
        )
        if shape.queries == 1:
            lengths = tw.meta((shape.batch,), tw.i32, target=target)
            one = decode_attention(q.reshape(*shape.decoded), k, k, lengths)
        else:
            one = attention(q, k, k, causal=shape.causal)
        with closing(one) as operation:
            operation.compile()

    with ThreadPoolExecutor() as pool:
        list(pool.map(compile_one, shapes))


def _rows(lab: Lab, report: Report, part: str, table: Table, shapes: list[Shape]) -> list[float]:
    """A row for each shape; returns the speeds beside cuDNN."""
    report.table(table)
    speeds = []
    for shape in shapes:
        problem = Problem(lab, shape)
        found, count = compare_problem(lab, problem, problem.ours(), shape.flops / GUESS)
        rates = {
            name: shape.flops * count / found.seconds(name) / 1e12
            for name in (CUDNN, FLASH, OURS) if name in found
        }  # fmt: skip
        kind = "causal" if shape.causal else "full"
        heads = f"{shape.batch} x {shape.heads}/{shape.key_heads}"
        shown = (f"{rates[name]:.0f}" if name in rates else "" for name in (CUDNN, FLASH, OURS))
        table.add(
            kind, str(shape.channels), str(shape.length), heads, *shown,
            f"{found.speed(OURS):.3f}", f"{found.noise:.1%}",
        )  # fmt: skip
        report.figure(part, shape=shape.to_json(), count=count, rates=rates, **found.to_json())
        speeds.append(found.speed(OURS))
    print(table.to_text(), flush=True)
    return speeds


COLUMNS = ("keys", "D", "length", "heads", CUDNN, FLASH, OURS, "ours / cuDNN", "noise")


def prefill(lab: Lab, report: Report, *, causal: bool) -> None:
    lengths = (64,) if lab.is_quick else (1024, 2048, 4096, 8192, 16384)
    kind = "causal" if causal else "full"
    shapes_of = {
        channels: [Shape(max(lengths) // n, heads, heads, n, n, channels, causal) for n in lengths]
        for channels, heads in ((128, 16), (64, 32))
    }
    compile_shapes(lab, [shape for shapes in shapes_of.values() for shape in shapes])
    for channels, shapes in shapes_of.items():
        table = Table(f"TFLOP/s of {kind} attention, {channels} channels, f16", COLUMNS)
        speeds = _rows(lab, report, "prefill", table, shapes)
        what = target_name(kind, channels)
        report.target(Target(what, Bound.AT_LEAST, 1.0, geometric_mean(speeds)))
        report.plot(_plot(table, kind, channels))


def target_name(kind: str, channels: int) -> str:
    """The target of a kind of attention, relative to cuDNN."""
    return f"{kind} attention, {channels} channels, speed beside cuDNN, geometric mean"


def _plot(table: Table, kind: str, channels: int) -> Plot:
    """The rows of a table as lines over the length."""
    names, length = (OURS, CUDNN, FLASH), table.columns.index("length")
    places = {name: table.columns.index(name) for name in names}
    series = [
        Series(name, [(float(row[length]), float(row[at])) for row in table.rows if row[at]])
        for name, at in places.items()
    ]
    title = f"Attention, {'causal' if kind == 'causal' else 'all keys'}, {channels} channels, f16"
    name = f"attention-{kind}-{channels}"
    return Plot(name, title, "tokens in a sequence (16,384 in all)", "TFLOP/s", series)


def grouped(lab: Lab, report: Report) -> None:
    lengths = (64,) if lab.is_quick else (2048, 8192)
    shapes = [
        Shape(max(lengths) // n, 32, 8, n, n, 128, causal)
        for causal in (False, True) for n in lengths
    ]  # fmt: skip
    compile_shapes(lab, shapes)
    table = Table("TFLOP/s of attention with four query heads to a key head, f16", COLUMNS)
    _rows(lab, report, "grouped", table, shapes)


def decode(lab: Lab, report: Report) -> None:
    table = Table(
        "TB/s of attention of one query a sequence, f16, 128 channels",
        (
            "sequences",
            "heads",
            "length",
            CUDNN,
            FLASH,
            OURS,
            "ours / cuDNN",
            "ours / Flash",
            "noise",
        ),
    )
    report.table(table)
    problems = [(1, 32, 8, 8192), (1, 32, 8, 65536), (8, 32, 8, 4096), (32, 32, 8, 4096)]
    problems += [(16, 32, 32, 4096)]
    shapes = [
        Shape(batch, heads, key_heads, 1, length, 128)
        for batch, heads, key_heads, length in ([(2, 4, 2, 100)] if lab.is_quick else problems)
    ]
    compile_shapes(lab, shapes)
    for shape in shapes:
        problem = Problem(lab, shape)
        found, count = compare_problem(lab, problem, problem.decoding(), shape.nbytes / 4e12)
        rates = {
            name: shape.nbytes * count / found.seconds(name) / 1e12
            for name in (CUDNN, FLASH, OURS) if name in found
        }  # fmt: skip
        shown = (f"{rates[name]:.2f}" if name in rates else "" for name in (CUDNN, FLASH, OURS))
        flash = f"{found.speed(OURS, FLASH):.3f}" if FLASH in found else ""
        table.add(
            str(shape.batch), f"{shape.heads}/{shape.key_heads}", str(shape.length), *shown,
            f"{found.speed(OURS):.3f}", flash, f"{found.noise:.1%}",
        )  # fmt: skip
        report.figure("decode", shape=shape.to_json(), count=count, rates=rates, **found.to_json())
    print(table.to_text(), flush=True)


PARTS = {
    "causal": partial(prefill, causal=True),
    "full": partial(prefill, causal=False),
    "decode": decode,
    "grouped": grouped,
}


def main() -> None:
    options, parts = read_options(__doc__, PARTS)
    lab = open_lab(options)
    report = Report("attention", "Attention of the library", options.json)
    with tw.device(lab.device):
        run_parts({name: lambda part=part: part(lab, report) for name, part in parts.items()})


if __name__ == "__main__":
    main()
