"""The CPU backend beside the Triton interpreter and NumPy, with and without race detection.

Four workloads, with the same tile shapes on both sides: vector addition, softmax of rows, matrix
product, causal attention. A time of ours includes the launch on the CPU device and the wait for it.
Triton runs under TRITON_INTERPRET=1 in a process of its own, by the Python that `--peer-python`
names (`pip install triton torch`); without it the column stays empty. Our workloads take turns in
rounds and the figure of each is its best; the interpreter takes seconds for one repetition, and
gets the best of `--peer-rounds`. The machine should be idle otherwise.
"""

# ruff: noqa: N803 (static dims are upper case: BK)

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

import tilewright as tw
from tilewright import Const, Mut, Ref, f32, i32
from tilewright.bench import Bound, Report, Table, Target
from tilewright.dims import BM, BN, B, D, H, K, M, N

RESULTS = Path(__file__).parent / "results" / "cpu_backend.json"
PEER = Path(__file__).parent / "triton_interpreter.py"
LOG2_E = math.log2(math.e)
FASTER, NUMPY_FACTOR, WATCH_FACTOR = 50, 3, 4  # targets


@tw.kernel
def add(z: Mut[f32, B], x: Ref[f32, N], y: Ref[f32, N]) -> None:
    z.store(x.load_like(z) + y.load_like(z))


@tw.kernel
def softmax(z: Mut[f32, Literal[1], D], x: Ref[f32, M, D]) -> None:
    row = x.load_like(z, padding=-math.inf)
    powers = tw.exp(row - tw.max(row, axis=1, keepdims=True))
    z.store(powers / tw.sum(powers, axis=1, keepdims=True))


@tw.kernel
def gemm(z: Mut[f32, BM, BN], x: Ref[f32, M, K], y: Ref[f32, K, N], *, BK: Const[int]) -> None:
    xs, ys = x.partition(BM, BK), y.partition(BK, BN)
    i, j = z.index
    acc = tw.zeros((BM, BN), f32)
    for k in range(xs.num_tiles(1)):
        acc = tw.mma(xs[i, k], ys[k, j], acc)
    z.store(acc)


@tw.kernel
def attention(
    o: Mut[f32, Literal[1], BM, D],
    q: Ref[f32, H, M, D],
    k: Ref[f32, H, M, D],
    v: Ref[f32, H, M, D],
    scale: f32,
) -> None:
    """Causal attention: a block has BM queries and iterates over the keys up to them."""
    h, i, d = o.index
    ks, vs = k.partition(1, BM, D), v.partition(1, BM, D)
    queries = q.load_like(o).reshape((BM, D)) * scale
    highest = tw.full((BM, 1), -math.inf, f32)
    total = tw.zeros((BM, 1), f32)
    acc = tw.zeros((BM, D), f32)
    rows = tw.arange(BM, i32)[:, None]
    columns = tw.arange(BM, i32)[None, :]
    for j in range(i + 1):
        scores = queries @ ks[h, j, d].reshape((BM, D)).T
        if j == i:
            scores = tw.where(rows >= columns, scores, -math.inf)
        top = tw.maximum(highest, tw.max(scores, axis=1, keepdims=True))
        weights = tw.exp2(scores - top)
        fade = tw.exp2(highest - top)
        total = total * fade + tw.sum(weights, axis=1, keepdims=True)
        acc = tw.mma(weights, vs[h, j, d].reshape((BM, D)), acc * fade)
        highest = top
    o.store((acc / total).reshape((1, BM, D)))


# --- workloads -------------------------------------------------------------------------------


@dataclass
class Workload:
    """One workload: its launch, and its expected result."""

    name: str
    what: str
    launch: Callable[[], Any]  # returns the output
    expected: np.ndarray[Any, Any]
    numpy: Callable[[], Any] | None = None
    plain: list[float] = field(default_factory=list)
    watched: list[float] = field(default_factory=list)
    of_numpy: list[float] = field(default_factory=list)


def workloads(rng: np.random.Generator) -> list[Workload]:
    return [_add(rng), _softmax(rng), _gemm(rng), _attention(rng)]


def _add(rng: np.random.Generator) -> Workload:
    a, b = (rng.standard_normal(1 << 22, np.float32) for _ in range(2))
    x, y, z = tw.from_numpy(a), tw.from_numpy(b), tw.zeros(a.shape, f32)

    def launch() -> Any:
        add(z.partition(1024), x, y).sync()
        return z

    return Workload("add", "2^22 f32 in tiles of 1024", launch, a + b, lambda: a + b)


def _softmax(rng: np.random.Generator) -> Workload:
    a = rng.standard_normal((4096, 1024), np.float32)
    x, z = tw.from_numpy(a), tw.zeros(a.shape, f32)

    def launch() -> Any:
        softmax(z.partition(1, 1024), x).sync()
        return z

    def of_numpy() -> Any:
        powers = np.exp(a - a.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)

    return Workload("softmax", "4096 x 1024 f32, a row a block", launch, of_numpy(), of_numpy)


def _gemm(rng: np.random.Generator) -> Workload:
    a, b = (rng.standard_normal((1024, 1024), np.float32) for _ in range(2))
    x, y, z = tw.from_numpy(a), tw.from_numpy(b), tw.zeros(a.shape, f32)

    def launch() -> Any:
        gemm(z.partition(128, 128), x, y, BK=64).sync()
        return z

    expected = (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float32)
    return Workload("gemm", "1024^3 f32 in 128 x 128 x 64", launch, expected, lambda: a @ b)


def _attention(rng: np.random.Generator) -> Workload:
    heads, length, width = 4, 1024, 64
    arrays = [rng.standard_normal((heads, length, width), np.float32) for _ in range(3)]
    q, k, v = (tw.from_numpy(array) for array in arrays)
    o = tw.zeros((heads, length, width), f32)
    scale = LOG2_E / math.sqrt(width)

    def launch() -> Any:
        attention(o.partition(1, 64, width), q, k, v, scale).sync()
        return o

    a, b, c = (array.astype(np.float64) for array in arrays)
    scores = np.einsum("hid,hjd->hij", a, b) / math.sqrt(width)
    scores[:, np.triu(np.ones((length, length), bool), 1)] = -np.inf
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    expected = np.einsum("hij,hjd->hid", weights / weights.sum(axis=-1, keepdims=True), c)
    what = f"causal, H={heads} S={length} D={width}, 64 x 64"
    return Workload("attention", what, launch, expected.astype(np.float32))


# --- measuring -------------------------------------------------------------------------------


def seconds(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def measure(all_: list[Workload], rounds: int) -> None:
    """Check each result, then time all in turns."""
    for one in all_:
        for watch in (False, True):
            with tw.race_check(watch):
                found = one.launch().numpy()
            np.testing.assert_allclose(found, one.expected, rtol=2e-3, atol=2e-3)
    for _ in range(rounds):
        for one in all_:
            one.plain.append(seconds(one.launch))
            with tw.race_check():
                one.watched.append(seconds(one.launch))
    # NumPy runs separately: the threads of its products keep a core busy for a while.
    for _ in range(rounds):
        for one in all_:
            if one.numpy is not None:
                one.of_numpy.append(seconds(one.numpy))


def measure_peer(python: str, rounds: int) -> dict[str, Any]:
    """The times of the interpreter, from a process of its own."""
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run(
        [python, str(PEER), "--rounds", str(rounds)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{python} {PEER} failed:\n{done.stderr}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


# --- reporting -------------------------------------------------------------------------------


def row(one: Workload, peer: dict[str, Any] | None) -> dict[str, Any]:
    triton = None if peer is None else min(peer["seconds"][one.name])
    plain, watched = min(one.plain), min(one.watched)
    of_numpy = min(one.of_numpy) if one.of_numpy else None
    return {
        "workload": one.name,
        "what": one.what,
        "triton_interpreter_s": triton,
        "tilewright_s": plain,
        "times_faster": None if triton is None else triton / plain,
        "numpy_s": of_numpy,
        "times_numpy": None if of_numpy is None else plain / of_numpy,
        "watched_s": watched,
        "watch_factor": watched / plain,
    }


def shown(number: float | None, form: str, scale: float = 1.0) -> str:
    return "" if number is None else format(number * scale, form)


def report_of(rows: list[dict[str, Any]], peer: dict[str, Any] | None, path: Path) -> Report:
    """All figures, as a table and beside their targets."""
    report = Report("cpu_backend", "The CPU device", path)
    report.note(
        "A launch and the wait for it, without a GPU. The interpreter is Triton's own"
        " (TRITON_INTERPRET=1) on the same tile shapes, in a process of its own; the column"
        " `watched` is under `tw.race_check()`."
    )
    if peer is not None:
        versions = ", ".join(f"{name} {number}" for name, number in peer["versions"].items())
        report.note(f"The interpreter's versions: {versions}.")
    table = Table(
        "Milliseconds",
        ("workload", "interpreter", "ours", "times as fast", "NumPy", "of NumPy's time", "watched",
         "of ours"),
    )  # fmt: skip
    report.table(table)
    for one in rows:
        table.add(
            f"{one['workload']}, {one['what']}",
            shown(one["triton_interpreter_s"], ".0f", 1e3),
            shown(one["tilewright_s"], ".1f", 1e3),
            shown(one["times_faster"], ".0f"),
            shown(one["numpy_s"], ".1f", 1e3),
            shown(one["times_numpy"], ".1f"),
            shown(one["watched_s"], ".1f", 1e3),
            shown(one["watch_factor"], ".1f"),
        )
        report.figure("cpu_backend", **one)
    for target in targets(rows):
        report.target(target)
    return report


def targets(rows: list[dict[str, Any]]) -> Iterator[Target]:
    """The targets, with the measured values."""
    for one in rows:
        what = f"{one['workload']} on the CPU"
        if one["times_faster"] is not None:
            words = f"{what}, speed beside Triton's interpreter"
            yield Target(words, Bound.AT_LEAST, FASTER, one["times_faster"])
        if one["workload"] == "gemm" and one["times_numpy"] is not None:
            words = f"{what}, of NumPy's time"
            yield Target(words, Bound.AT_MOST, NUMPY_FACTOR, one["times_numpy"])
        yield Target(f"{what}, watched for races, of its time unwatched", Bound.AT_MOST,
                     WATCH_FACTOR, one["watch_factor"])  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--peer-python", help="a Python with triton and torch")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--peer-rounds", type=int, default=1)
    parser.add_argument("--json", type=Path, default=RESULTS)
    options = parser.parse_args()
    peer = measure_peer(options.peer_python, options.peer_rounds) if options.peer_python else None
    with tw.device("cpu"):
        all_ = workloads(np.random.default_rng(0))
        measure(all_, options.rounds)
    rows = [row(one, peer) for one in all_]
    data = report_of(rows, peer, options.json).data
    print(Table(**data["tables"][0]).to_text())
    for target in data["targets"]:
        if not target["is_met"]:
            print(f"missed: {target['what']}: {target['measured']:.3g}")
    print(f"wrote {options.json}")


if __name__ == "__main__":
    main()
