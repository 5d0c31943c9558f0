"""Host time of a library call beside torch's: with `out=`, and with a new output.

    python benchmarks/calls.py [--device cuda] [--quick] [--json FILE]

A hundred calls are timed until the last one is queued, on tensors so small that the device does not
delay the host; calls take turns, and the least of many rounds counts. Results are checked first. On
the CPU the script only shows that it works.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from lab import TORCH, Lab, add_options, open_lab

import tilewright as tw
from tilewright import kernels
from tilewright.bench import Report, Table

__all__ = ["main", "measure_calls"]

CALLS = 100  # in a round
SIDE, TOKENS, CHANNELS = 256, 128, 64  # of matrices; of a head
LIMIT = 5e-3  # relative to the largest element
GIVEN, MADE = "output given", "output made"
TITLE = "Host time of a call of the library, beside torch's"
NOTE = f"""\
Microseconds until a call has returned, the least of many rounds of {CALLS}, with `out=` and with \
a new output; functions without a torch equivalent, or without `out=` there, have no row."""


@dataclass(frozen=True)
class Function:
    """One library function, and its torch equivalent."""

    name: str
    ours: Callable[..., tw.DeviceOp[tw.Tensor]]
    operands: tuple[tuple[int, ...], ...]  # their shapes
    theirs: Callable[[Any], Callable[..., Any]]  # of torch
    takes_out: bool = False  # of the torch function

    def calls(self, lab: Lab) -> dict[tuple[str, str], Callable[[], Any]]:
        """The callables by library and output; every call of ours is submitted."""
        inputs = [lab.random(*shape, seed=seed) for seed, shape in enumerate(self.operands)]
        out = lab.empty(*inputs[0].shape)
        ours = {
            ("tilewright", GIVEN): lambda: self.ours(*inputs, out=out).submit(),
            ("tilewright", MADE): lambda: self.ours(*inputs).submit(),
        }
        if not lab.has(TORCH):
            return ours
        call, views = self.theirs(lab.load(TORCH)), [lab.as_torch(one) for one in inputs]
        self._check(inputs, call(*views))
        there, place = lab.as_torch(out), (TORCH, GIVEN)
        given = {place: lambda: call(*views, out=there)} if self.takes_out else {}
        return {**ours, **given, (TORCH, MADE): lambda: call(*views)}

    def _check(self, inputs: list[tw.Tensor], expected: Any) -> None:
        found = self.ours(*inputs).sync().numpy().astype(np.float64)
        exact = expected.double().cpu().numpy()
        error = np.abs(found - exact).max() / np.abs(exact).max()
        assert error < LIMIT, f"{self.name} is off by {error:.1e}"


MATRIX, ROW, HEADS = (SIDE, SIDE), (SIDE,), (1, 2, TOKENS, CHANNELS)
FUNCTIONS = (
    Function("matmul", kernels.matmul, (MATRIX, MATRIX), lambda torch: torch.matmul, True),
    Function("add", kernels.add, (MATRIX, MATRIX), lambda torch: torch.add, True),
    Function("gelu", kernels.gelu, (MATRIX,), lambda torch: torch.nn.functional.gelu),
    Function("softmax", kernels.softmax, (MATRIX,), lambda torch: lambda x: torch.softmax(x, -1)),
    Function(
        "rms_norm", kernels.rms_norm, (MATRIX, ROW),
        lambda torch: lambda x, w: torch.nn.functional.rms_norm(x, (SIDE,), w, 1e-6),
    ),
    Function(
        "layer_norm", kernels.layer_norm, (MATRIX, ROW, ROW),
        lambda torch: lambda x, w, b: torch.nn.functional.layer_norm(x, (SIDE,), w, b),
    ),
    Function(
        "attention", kernels.attention, (HEADS, HEADS, HEADS),
        lambda torch: torch.nn.functional.scaled_dot_product_attention,
    ),
)  # fmt: skip


def _settle(lab: Lab) -> None:
    """Wait for all devices."""
    lab.device.synchronize()
    if lab.has(TORCH):
        lab.load(TORCH).cuda.synchronize()


def _measure(
    lab: Lab, calls: dict[tuple[str, str], Callable[[], Any]]
) -> dict[tuple[str, str], float]:
    """Microseconds of each, in turns."""
    for call in calls.values():
        for _ in range(5):  # compile, plan, cache
            call()
    least = dict.fromkeys(calls, float("inf"))
    rounds, number = (1, 2) if lab.is_quick else (30, CALLS)
    for _ in range(rounds):
        for way, call in calls.items():
            _settle(lab)
            start = time.perf_counter_ns()
            for _ in range(number):
                call()
            least[way] = min(least[way], (time.perf_counter_ns() - start) / number / 1e3)
    _settle(lab)
    return least


def measure_calls(lab: Lab, report: Report) -> None:
    """Every function in turn, ours and torch's."""
    ways = [(who, how) for how in (GIVEN, MADE) for who in ("tilewright", TORCH)]
    report.note(NOTE)
    table = Table("Microseconds a call", ("function", *(f"{who}, {how}" for who, how in ways)))
    report.table(table)
    for function in FUNCTIONS:
        found = _measure(lab, function.calls(lab))
        table.add(function.name, *(f"{found[way]:.2f}" if way in found else "" for way in ways))
        for (who, how), microseconds in found.items():
            report.figure("calls", function=function.name, who=who, how=how, us=microseconds)
    print(table.to_text(), flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--json", type=Path)
    add_options(parser)
    options = parser.parse_args()
    report = Report("calls", TITLE, options.json)
    measure_calls(open_lab(options), report)


if __name__ == "__main__":
    main()
