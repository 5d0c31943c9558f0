"""Row functions on random problems, beside the better of torch.compile and plain Triton.

The problems are those of `row_problems.py`. torch.compile compiles for the exact shape and strides.
Candidates are graphs of several launches, which exclude host time; they take turns, inputs rotate
beyond the cache, and results are checked against float64. All compilers run before the
measurements, in parallel. Without a GPU, small problems are checked and nothing is timed.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from lab import COMPILED, TRITON, Lab, add_options, open_lab

import tilewright as tw
from tilewright.bench import Candidate, Table, compare, graph_of, on_stream

__all__ = ["main", "measure", "table_of"]

COUNT = 8  # launches in a graph
ROTATED = 2.5e8  # bytes of rotating inputs: several times the cache
PROCESSES = 14  # that compile peers
AHEAD = 60.0  # seconds for that
LONGEST = 1 << 15  # elements of a row that a plain Triton kernel holds
SMALL = 1 << 14  # elements of a problem on the CPU
OURS = "ours"


class Operands:
    """Tensors of one problem, as ours and as torch tensors: one set of outputs, rotating inputs."""

    def __init__(self, lab: Lab, problem: Any) -> None:
        self.lab, self.problem = lab, problem
        count = max(1, min(4, math.ceil(ROTATED / problem.nbytes))) if lab.has_gpu else 1
        made = [self._pair(one, 0) for one in problem.outs]
        self.outs, self.torch_outs = [ours for ours, _ in made], [theirs for _, theirs in made]
        sets = [[self._pair(one, seed) for one in problem.ins] for seed in range(count)]
        self.ins = [[ours for ours, _ in pairs] for pairs in sets]
        self.torch_ins = [[theirs for _, theirs in pairs] for pairs in sets]

    def _pair(self, of: Any, seed: int) -> tuple[tw.Tensor, Any]:
        """An operand on one memory, ours and torch's."""
        torch = self.lab.load("torch")
        torch.manual_seed(seed)
        if not self.lab.has_gpu:
            filled = _filled(torch.empty(of.allocated, dtype=_torch_dtype(torch, of.dtype)), of)
            return of.view(tw.from_dlpack(filled)), of.view(filled)
        made = self.lab.empty(*of.allocated, dtype=of.dtype)
        seen = _filled(self.lab.as_torch(made), of)
        torch.cuda.synchronize()
        return of.view(made), of.view(seen)

    def error(self, run: Callable[[list[Any]], Any]) -> float:
        """The error of a function of torch tensors, or of one on our tensors, beside float64."""
        torch = self.lab.load("torch")
        for out in self.torch_outs:
            out.fill_(math.nan if out.is_floating_point() else 0)
        self._wait(torch)
        made = run(self.torch_ins[0])
        if isinstance(made, tw.DeviceOp):
            made.sync()
        self._wait(torch)
        given = (made,) if isinstance(made, torch.Tensor) else made
        found = given if isinstance(given, tuple) else self.torch_outs
        if self.problem.off is not None:
            return float(self.problem.off(found[0], self.torch_ins[0]))
        exact = [one.double() if one.is_floating_point() else one for one in self.torch_ins[0]]
        expected = self.problem.theirs(*exact)
        expected = expected if isinstance(expected, tuple) else (expected,)
        pairs = list(zip(found, expected, strict=False))[: self.problem.checked]
        return max(_difference(torch, *pair) for pair in pairs)

    def _wait(self, torch: Any) -> None:
        if self.lab.has_gpu:
            torch.cuda.synchronize()

    def our_error(self) -> float:
        """The error of our function."""
        return self.error(lambda _: self.problem.ours(self.outs, self.ins[0]))

    def our_candidate(self) -> Candidate:
        """A graph of our launches."""
        builders = [lambda ins=ins: self.problem.ours(self.outs, ins) for ins in self.ins]
        made = graph_of(builders, COUNT)
        return Candidate(OURS, lambda: made.launch().submit(), self.our_error, self.problem.limit)

    def candidate(self, name: str, run: Callable[..., Any]) -> Candidate:
        """A graph of a peer's launches, captured on first use."""
        captured: list[Callable[[], None]] = []
        runs = [lambda given=given: run(self.torch_outs, given) for given in self.torch_ins]

        def replay() -> None:
            if not captured:
                captured.append(self.lab.captured(runs, COUNT))
            captured[0]()

        check = partial(self.error, lambda given: run(self.torch_outs, given))
        return Candidate(name, replay, check, self.problem.limit)


def _torch_dtype(torch: Any, dtype: type[tw.DType]) -> Any:
    names = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "i64": "int64"}
    return getattr(torch, names[dtype.label])


def _filled(seen: Any, of: Any) -> Any:
    if of.below:
        return seen.random_(0, of.below)
    return seen.normal_() if seen.is_floating_point() else seen.zero_()


def _difference(torch: Any, found: Any, expected: Any) -> float:
    """The relative error in the norm."""
    off = torch.linalg.vector_norm(found.double() - expected.double())
    return float(off / torch.linalg.vector_norm(expected.double()))


def peers(problem: Any) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Every peer by name; compiled on the first run."""
    import peer_triton  # noqa: PLC0415 (needs Triton)
    import torch  # noqa: PLC0415
    import torch._inductor.config as inductor  # noqa: PLC0415

    inductor.autotune_local_cache = False  # tune alone on the GPU, not beside other compilers
    if problem.triton and problem.is_contiguous and problem.ins[0].shape[-1] <= LONGEST:
        launch = peer_triton.LAUNCHES[problem.triton]
        yield TRITON, lambda outs, ins: _done(launch(outs, ins)())
    torch._dynamo.reset()  # noqa: SLF001 (compile each problem separately)
    made = torch.compile(problem.theirs, dynamic=False)
    yield COMPILED, lambda _, ins: made(*ins)


def _done(_: object) -> None:
    """The outputs are written."""


def _compile_share(seed: int, count: int, part: int, parts: int) -> None:
    """Compile the peers of every `parts`-th problem; the compilers' caches keep the results."""
    import torch  # noqa: PLC0415
    from row_problems import draw  # noqa: PLC0415

    for problem in list(draw(seed, count))[part::parts]:
        try:
            outs, ins = (
                [_empty(torch, one) for one in side] for side in (problem.outs, problem.ins)
            )
            for _, run in peers(problem):
                run(outs, ins)
                torch.cuda.synchronize()
            del outs, ins
        except Exception as error:  # noqa: BLE001 (reported at the measurement)
            print(f"{problem.name}: {error!r:.200}", flush=True)
        torch.cuda.empty_cache()


def _empty(torch: Any, of: Any) -> Any:
    dtype = _torch_dtype(torch, of.dtype)
    return of.view(torch.zeros(of.allocated, dtype=dtype, device="cuda"))


def _compile_ahead(seed: int, count: int) -> None:
    """Compile the peers of all problems, in several processes."""
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
    end = time.monotonic() + AHEAD
    context = multiprocessing.get_context("spawn")
    parts = min(PROCESSES, count)
    workers = [
        context.Process(target=_compile_share, args=(seed, count, part, parts), daemon=True)
        for part in range(parts)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(max(end - time.monotonic(), 0))
        if worker.is_alive():
            worker.terminate()
            worker.join()


def _assemble(problems: Sequence[Any], target: str) -> None:
    """Compile ours at once; failures are reported at the measurement."""

    def build(problem: Any) -> None:
        outs, ins = (
            [one.view(tw.meta(one.allocated, one.dtype, target=target)) for one in side]
            for side in (problem.outs, problem.ins)
        )
        try:
            with closing(problem.ours(outs, ins)) as operation:
                operation.compile()
        except tw.TilewrightError as error:
            print(f"{problem.name} {problem.title}: {error!s:.300}", flush=True)

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(build, problems))


def measure(lab: Lab, seed: int, count: int, *, seconds: float = math.inf) -> list[dict[str, Any]]:
    """Measure the first problems of a seed: times of a launch in seconds, and our ratio.

    The ratio is the time of the better peer over ours; it is NaN where ours failed. No problem
    starts after `seconds`.
    """
    end = time.monotonic() + seconds
    draw = lab.load("row_problems").draw
    problems = list(draw(seed, count)) if lab.has_gpu else list(draw(seed, count, SMALL))
    if lab.has_gpu:
        with ThreadPoolExecutor(1) as beside:
            ahead = beside.submit(_compile_ahead, seed, count)
            _assemble(problems, lab.device.target)
            ahead.result()
    found = []
    for number, problem in enumerate(problems):
        if time.monotonic() > end:
            break
        try:
            one = _measured(lab, problem) if lab.has_gpu else _checked(lab, problem)
        except Exception:  # noqa: BLE001 (the other problems continue)
            one = {"failures": {OURS: traceback.format_exc()[-600:]}, "ratio": math.nan}
        one = {"number": number, "name": problem.name, "title": problem.title, **one}
        found.append(one)
        print(_line(one), flush=True)
    return found


def _checked(lab: Lab, problem: Any) -> dict[str, Any]:
    """Only the error of ours, on a machine without a GPU."""
    error = Operands(lab, problem).our_error()
    if not error <= problem.limit:
        raise ValueError(f"wrong: relative error {error:.3g}")
    return {"error": error, "ratio": math.nan, "failures": {}}


def _measured(lab: Lab, problem: Any) -> dict[str, Any]:
    timer = lab.timer(repetitions=11, rounds=2, warmup=0.005)
    with on_stream(lab.stream):
        operands = Operands(lab, problem)
        entries = [operands.our_candidate()]
        entries += [operands.candidate(name, run) for name, run in peers(problem)]
        found = compare(entries, timer=timer).per(COUNT)
    times = {name: found.seconds(name) for name in (OURS, COMPILED, TRITON) if name in found}
    theirs = [seconds for name, seconds in times.items() if name != OURS]
    ratio = min(theirs) / times[OURS] if theirs and OURS in times else math.nan
    rate = problem.nbytes / times[OURS] / 1e12 if OURS in times else math.nan
    return {
        "times": times,
        "ratio": ratio,
        "rate": rate,
        "nbytes": problem.nbytes,
        "noise": found.noise,
        "failures": dict(found.failures),
    }


def _line(one: dict[str, Any]) -> str:
    times = " ".join(f"{name} {1e6 * t:.1f}" for name, t in one.get("times", {}).items())
    failed = " ".join(f"{name}: {why}" for name, why in one["failures"].items())
    rate = one.get("rate", math.nan)
    return (
        f"{one['number']:3} {one['ratio']:.3f} {rate:.2f} TB/s {one['name']}"
        f" [{one['title']}] {times} {failed}"
    )


def table_of(found: Sequence[dict[str, Any]]) -> Table:
    """The problems from the worst ratio to the best, with the geometric mean in the title."""
    ratios = [one["ratio"] for one in found if math.isfinite(one["ratio"])]
    mean = geometric_mean(ratios) if ratios else math.nan
    worst = min(ratios, default=math.nan)
    table = Table(
        f"Rows: {len(ratios)} of {len(found)} problems, geometric mean {mean:.3f},"
        f" worst {worst:.3f}",
        ("function", "operand", "ours, us", "torch.compile", "Triton", "TB/s", "of best", "noise"),
    )
    for one in sorted(found, key=lambda one: one["ratio"]):
        times = one.get("times", {})
        shown = (f"{1e6 * times[n]:.1f}" if n in times else "-" for n in (OURS, COMPILED, TRITON))
        rest = (one.get("rate", math.nan), one["ratio"], one.get("noise", math.nan))
        table.add(one["name"], one["title"], *shown, *(f"{value:.3f}" for value in rest))
    return table


def main() -> None:
    """Measure random problems."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--seconds", type=float, default=math.inf)
    options = parser.parse_args()
    found = measure(open_lab(options), options.seed, options.count, seconds=options.seconds)
    print(table_of(found).to_text())
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
