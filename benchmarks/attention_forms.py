"""Fit of the times in `tilewright.kernels.heads.forms`.

    python benchmarks/attention_forms.py [--channels 64,128] [--json FILE]

Every form computes every problem in a graph. Its start and its step are those with the least
squares of relative errors of the model. Needs a GPU and torch.
"""

from __future__ import annotations

import argparse
import math
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import numpy as np
from attention import GUESS, Problem, Shape
from lab import Lab, add_options, open_lab

import tilewright as tw
from tilewright.bench import Report, Table, graph_of
from tilewright.kernels import attention
from tilewright.kernels.heads.arguments import Heads
from tilewright.kernels.heads.channels import rest_of
from tilewright.kernels.heads.forms import FORMS, Mask, PrefillForm, may_lag, microseconds
from tilewright.tune import Config, forcing

__all__ = ["main"]

# Sequences, heads, length and causality: short and long, few tiles and many.
SHAPES = (
    (256, 8, 77, False), (64, 12, 256, False), (32, 16, 512, True), (8, 16, 1000, False),
    (4, 16, 2048, True), (2, 16, 4096, False), (1, 4, 4096, True),
)  # fmt: skip
STARTS = np.arange(0.25, 8.01, 0.25)
STEPS = np.geomspace(0.5, 6.0, 160)
LEAST = 6e-4  # seconds of a graph


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--channels", default=",".join(map(str, FORMS)), help="some of them")
    parser.add_argument("--json", type=Path, help="output file of all figures")
    add_options(parser)
    options = parser.parse_args()
    lab = open_lab(options)
    report = Report("attention_forms", "Forms of attention", options.json)
    table = Table("microseconds", ("channels", "form", "start", "step", "worst error"))
    report.table(table)
    with tw.device(lab.device):
        for channels in map(int, options.channels.split(",")):
            _measure(lab, report, table, channels)
    print(table.to_text(), flush=True)


def _measure(lab: Lab, report: Report, table: Table, channels: int) -> None:
    shapes = [
        Shape(batch, heads, heads, length, length, channels, causal=causal)
        for batch, heads, length, causal in (((1, 2, 70, True),) if lab.is_quick else SHAPES)
    ]
    forms = [(shape, form) for shape in shapes for form in FORMS[channels] if _fits(shape, form)]
    if lab.has_gpu:
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda one: _compile(lab, *one), forms))
    times: dict[PrefillForm, dict[Shape, float]] = {}
    for shape in shapes:
        problem = Problem(lab, shape)
        for form in FORMS[channels]:
            if _fits(shape, form):
                times.setdefault(form, {})[shape] = _seconds(lab, problem, form) * 1e6
    for form, found in times.items():
        start, step, error = _fitted(form, found)
        name = str(_config(form, channels))
        table.add(str(channels), name, f"{start:.2f}", f"{step:.2f}", f"{error:.0%}")
        seen = [(shape.to_json(), time) for shape, time in found.items()]
        report.figure("forms", channels=channels, form=name, start=start, step=step, times=seen)


def _heads(shape: Shape) -> Heads:
    sizes = (shape.queries, shape.length, shape.channels)
    return Heads(shape.dtype, "sm_90", shape.batch, shape.heads, 1, *sizes)


def _fits(shape: Shape, form: PrefillForm) -> bool:
    lags = not form.behind or may_lag(_heads(shape), form.BM, form.BN, Mask(shape.causal, None))
    return lags and (shape.causal or not form.across)


def _config(form: PrefillForm, channels: int) -> Config:
    return form.config(rest_of(channels))


def _compile(lab: Lab, shape: Shape, form: PrefillForm) -> None:
    extents = (shape.batch, shape.heads, shape.length, shape.channels)
    one = tw.meta(extents, shape.dtype, target=lab.device.target)
    with forcing("attention", _config(form, shape.channels)):
        operation = attention(one, one, one, causal=shape.causal)
    with closing(operation):
        operation.compile()


def _seconds(lab: Lab, problem: Problem, form: PrefillForm) -> float:
    count = 1 if lab.is_quick else max(1, math.ceil(LEAST / (problem.shape.flops / GUESS + 5e-6)))
    with forcing("attention", _config(form, problem.shape.channels)):
        graph = graph_of(problem.ours(), count)
    timer = lab.timer(repetitions=5, rounds=1, warmup=0.01)
    prepared = timer.prepare(graph.launch)
    return min(timer.measure(*prepared).median for _ in range(3)) / count


def _fitted(form: PrefillForm, times: dict[Shape, float]) -> tuple[float, float, float]:
    """The start and the step, and the worst relative error."""

    def errors(start: float, step: float) -> np.ndarray:
        tried = form._replace(start=start, step=step)
        found = [
            microseconds(tried, _heads(shape), Mask(shape.causal, None)) / time
            for shape, time in times.items()
        ]
        return np.log(found)

    pairs = ((float(start), float(step)) for start in STARTS for step in STEPS)
    start, step = min(pairs, key=lambda pair: float((errors(*pair) ** 2).sum()))
    return start, step, float(abs(np.expm1(errors(start, step))).max())


if __name__ == "__main__":
    main()
