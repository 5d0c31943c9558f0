"""The first call of each library function, and a call with another number of rows.

    python benchmarks/first_calls.py [--only softmax,matmul] [--on sm_90,cpu] [--json FILE]

Every figure is that of a fresh process. *Cold* is a first call with an empty disk cache, *disk* one
that finds its kernels there, each from the call to the result; the import of tilewright and the
making of the tensors come before. *New rows* are later calls in the same process with other numbers
of rows whose kernel exists, by their median and by the most processor time, which other work on the
machine changes little; *kernels* are those of all calls together. On a GPU all of that runs.
Without one, functions run on the CPU, and for `--on sm_90` tensors have no memory: kernels are
compiled and assembled, and not launched.
"""

from __future__ import annotations

import argparse
import json
import logging
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from fresh_process import FreshProcesses, fresh_processes

import tilewright as tw
from tilewright import bf16, f8e4m3fn, f16, f32, i32, kernels
from tilewright.bench import Bound, Report, Table, Target

__all__ = ["CASES", "main"]

LONGEST = 5.0  # milliseconds of a call with another number of rows
ROWS = (300, 301, 97, 40, 1000, 513, 64, 17, 2048)  # the first is that of the first call
WIDTH = 512
PARTS = WIDTH // 128
HEADS, CHANNELS = 4, 64
NEW_ROWS = "a new number of rows, where its kernel exists"

Spec = tuple[tuple[int, ...], type[tw.DType]]


def of(*shape: int, dtype: type[tw.DType] = f16) -> Spec:
    """A tensor of a call."""
    return shape, dtype


def rows_of(m: int) -> Spec:
    """Rows of half floats."""
    return of(m, WIDTH)


def heads_of(m: int) -> Spec:
    """Rows of several heads."""
    return of(1, HEADS, m, CHANNELS)


LINE, NARROW = of(WIDTH), {"dtype": f8e4m3fn}
# Each function with the tensors of a call, by the number of rows.
CASES: dict[str, tuple[Callable[..., tw.DeviceOp[Any]], Callable[[int], list[Spec]]]] = {
    "add": (kernels.add, lambda m: [rows_of(m)] * 2),
    "add_rms_norm": (kernels.add_rms_norm, lambda m: [rows_of(m), rows_of(m), LINE]),
    "append_kv": (
        kernels.append_kv, lambda m: [*[heads_of(4096)] * 2, *[heads_of(m)] * 2, of(1, dtype=i32)]
    ),
    "argmax": (kernels.argmax, lambda m: [rows_of(m)]),
    "attention": (partial(kernels.attention, causal=True), lambda m: [heads_of(m)] * 3),
    "cross_entropy": (kernels.cross_entropy, lambda m: [rows_of(m), of(m, dtype=i32)]),
    "cross_entropy_gradient": (
        kernels.cross_entropy_gradient,
        lambda m: [rows_of(m), of(m, dtype=i32), *[of(m, dtype=f32)] * 2],
    ),
    "cumsum": (kernels.cumsum, lambda m: [rows_of(m)]),
    "decode_attention": (
        kernels.decode_attention,
        lambda m: [of(1, HEADS, CHANNELS), *[heads_of(m)] * 2, of(1, dtype=i32)],
    ),
    "dropout": (partial(kernels.dropout, share=0.1, seed=1), lambda m: [rows_of(m)]),
    "embedding": (kernels.embedding, lambda m: [of(m, dtype=i32), of(1000, WIDTH)]),
    "gelu": (kernels.gelu, lambda m: [rows_of(m)]),
    "grouped_matmul": (
        kernels.grouped_matmul, lambda m: [rows_of(m), of(4, WIDTH, WIDTH), of(5, dtype=i32)]
    ),
    "histogram": (partial(kernels.histogram, bins=256), lambda m: [of(m, dtype=i32)]),
    "layer_norm": (kernels.layer_norm, lambda m: [rows_of(m), LINE, LINE]),
    "layer_norm_gradient": (
        kernels.layer_norm_gradient, lambda m: [rows_of(m), rows_of(m), LINE]
    ),
    "matmul": (partial(kernels.matmul, transpose_b=True), lambda m: [rows_of(m), rows_of(WIDTH)]),
    "matvec": (kernels.matvec, lambda m: [rows_of(m), LINE]),
    "max": (partial(kernels.max, axis=1), lambda m: [rows_of(m)]),
    "mean": (partial(kernels.mean, axis=1), lambda m: [rows_of(m)]),
    "min": (kernels.min, lambda m: [rows_of(m)]),
    "quantise": (partial(kernels.quantise, kind="part"), lambda m: [rows_of(m)]),
    "rms_norm": (kernels.rms_norm, lambda m: [rows_of(m), LINE]),
    "rms_norm_gradient": (kernels.rms_norm_gradient, lambda m: [rows_of(m), rows_of(m), LINE]),
    "rope": (kernels.rope, lambda m: [heads_of(m), *[of(4096, CHANNELS // 2, dtype=f32)] * 2]),
    "scaled_matmul": (
        partial(kernels.scaled_matmul, transpose_b=True),
        lambda m: [of(m, WIDTH, **NARROW), of(WIDTH, WIDTH, **NARROW), of(m, PARTS, dtype=f32),
                   of(PARTS, PARTS, dtype=f32)],
    ),
    "scaled_matmul, weights": (
        lambda x, w, scale: kernels.scaled_matmul(x, w, None, scale, transpose_b=True),
        lambda m: [of(m, WIDTH, dtype=bf16), of(WIDTH, WIDTH, **NARROW), of(WIDTH, 1, dtype=f32)],
    ),
    "scatter": (
        lambda x, places, out: kernels.scatter(x, places, out=out),
        lambda m: [rows_of(m), of(m, dtype=i32), rows_of(4096)],
    ),
    "silu_mul": (kernels.silu_mul, lambda m: [rows_of(m)] * 2),
    "softmax": (kernels.softmax, lambda m: [rows_of(m)]),
    "sum": (partial(kernels.sum, axis=0), lambda m: [rows_of(m)]),
    "top_k": (partial(kernels.top_k, k=8), lambda m: [rows_of(m)]),
    "transpose": (kernels.transpose, lambda m: [rows_of(m)]),
    "varlen_attention": (
        kernels.varlen_attention,
        lambda m: [*[of(HEADS, m, CHANNELS)] * 3, *[of(3, dtype=i32)] * 2],
    ),
}  # fmt: skip


class _Compilations(logging.Handler):
    """Counts the kernels that the front end has compiled, or that were found on disk."""

    count = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Count a new kernel."""
        message = record.getMessage()
        self.count += ": compiled in " in message or ": found on disk in " in message


def _tensor(spec: Spec, on: str) -> tw.Tensor:
    """A tensor of zeros on a device, or one without memory for a target."""
    if on.startswith("sm_"):
        return tw.meta(*spec, target=on)
    made: tw.Tensor = tw.fill(tw.empty(*spec, device=on), 0).sync()
    return made


def _once(name: str, on: str) -> None:
    """The first call and calls with other numbers of rows, in milliseconds, as JSON."""
    counted, log = _Compilations(), logging.getLogger("tilewright")
    log.addHandler(counted)
    log.setLevel(logging.DEBUG)
    log.propagate = False
    found = []
    call, specs = CASES[name]
    for rows in ROWS:
        tensors = [_tensor(spec, on) for spec in specs(rows)]
        before, start, worked = counted.count, time.perf_counter(), time.process_time()
        operation = call(*tensors)
        if on.startswith("sm_"):
            operation.compile().close()
        else:
            operation.sync()
        took = 1e3 * (time.perf_counter() - start)
        busy = 1e3 * (time.process_time() - worked)
        new = counted.count - before
        found.append({"rows": rows, "ms": took, "processor ms": busy, "kernels": new})
    sys.stdout.write(json.dumps(found) + "\n")


def _measured(processes: FreshProcesses, name: str, on: str) -> dict[str, Any]:
    """Cold, from the disk cache, and with other numbers of rows."""
    with tempfile.TemporaryDirectory() as folder:
        cold, disk = (
            json.loads(
                processes.run([__file__, "--once", name, "--on", on], TILEWRIGHT_CACHE=folder)
            )
            for _ in range(2)
        )
    seen = [call for call in cold[1:] if not call["kernels"]]
    return {
        "cold": cold[0]["ms"],
        "disk": disk[0]["ms"],
        "disk, processor": disk[0]["processor ms"],
        "kernels": sum(call["kernels"] for call in cold),
        "new rows": statistics.median(call["ms"] for call in seen) if seen else None,
        "new rows, processor": max((call["processor ms"] for call in seen), default=None),
        "calls": cold,
    }


def show(report: Report, names: list[str], on: str) -> None:
    """Measure functions on one device, and add a table, figures and the target to a report."""
    columns = {
        "cold, ms": "cold",
        "disk, ms": "disk",
        "of processor": "disk, processor",
        "kernels": "kernels",
        "new rows, ms": "new rows",
        "most of processor": "new rows, processor",
    }
    table = Table(f"First calls on {on}", ("function", *columns))
    worst = 0.0
    with fresh_processes() as processes:
        processes.run([__file__, "--once", "add", "--on", on], TILEWRIGHT_CACHE="off")
        for name in names:
            row = _measured(processes, name, on)
            table.add(name, *(_shown(row[one]) for one in columns.values()))
            report.figure(on, function=name, **row)
            worst = max(worst, row["new rows"] or 0.0)
    print(table.to_text(), flush=True)
    report.table(table)
    report.target(Target(f"{NEW_ROWS}, on {on}", Bound.AT_MOST, LONGEST, worst, "ms"))


def _shown(figure: float | None) -> str:
    if figure is None:
        return ""
    return str(figure) if isinstance(figure, int) else f"{figure:.{1 if figure > 9 else 2}f}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="output file of all figures")
    parser.add_argument("--only", default="", help="functions, separated by commas")
    parser.add_argument("--on", default="", help="devices or targets; default: cuda, or cpu,sm_90")
    parser.add_argument("--once", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.once:
        _once(options.once, options.on)
        return
    has_gpu = tw.empty((1,), f32).device.kind == "cuda"
    places = options.on or ("cuda:0" if has_gpu else "cpu,sm_90")
    names = [name for name in CASES if not options.only or name in options.only.split(",")]
    report = Report("first_calls", "First calls of the library", options.json)
    facts = report.data["machine"]
    print(f"{facts['processor']}, {facts['cores']} cores, {facts['date']}", flush=True)
    for on in places.split(","):
        show(report, names, on)


if __name__ == "__main__":
    main()
