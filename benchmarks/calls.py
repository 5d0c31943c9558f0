"""Host time of a library call beside torch's: own tensors, torch tensors, fresh torch tensors.

    python benchmarks/calls.py [--device cuda] [--quick] [--only add,matmul] [--json FILE]

A hundred calls are timed until the last one is queued, on tensors so small that the device does not
delay the host; calls take turns, and the least of many rounds counts. Results are checked first. On
the CPU the script only shows that it works.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kernels as own_kernels
import numpy as np
from lab import TORCH, Lab, add_options, open_lab
from torch_counterparts import COUNTERPARTS, Counterpart

import tilewright as tw
from tilewright.bench import Bound, Report, Table, Target

__all__ = ["main", "measure_calls"]

CALLS = 100  # in a round
LENGTH = 2048  # of the vectors of our own kernel
LIMIT = 5e-3  # relative to the largest element
OWN, KNOWN, FRESH = "own tensors", "torch tensors", "fresh torch tensors"
GIVEN, MADE = "given", "made"
LAUNCH = "launch of an own kernel"
OURS = "tilewright"
IN_EVERY_ROW, IN_THE_MEAN, OF_A_LAUNCH = 1.2, 0.8, 1.1  # targets, relative to torch
TITLE = "Host time of a call of the library, beside torch's"
NOTE = f"""\
Microseconds until a call has returned, the least of many rounds of {CALLS}, for every function \
that torch has as one function. Fresh torch tensors are inputs that no call has seen, and an \
output that torch makes for the call, in the times of both libraries. Where torch has no `out=`, \
its call that makes the output stands beside ours. A kernel of one's own is a sum of two vectors \
and stands beside `torch.add`."""

Run = Callable[[], Any]
Call = Callable[..., Any]


@dataclass(frozen=True)
class Row:
    """One way to call a function, by both libraries; a round repeats what a maker returns."""

    name: str
    arrays: str
    output: str
    ours: Callable[[], Run]
    theirs: Callable[[], Run] | None  # without torch there is none


@dataclass(frozen=True)
class Case:
    """A function with its tensors, compiled and checked."""

    function: Counterpart
    theirs: Call | None
    own: list[tw.Tensor]
    own_out: Any
    known: list[Any]
    known_out: Any

    def rows(self) -> Iterator[Row]:
        """Every kind of tensors, with the output given and made."""
        name, ours, theirs = self.function.name, self.function.ours, self.theirs
        for output in (GIVEN, MADE):
            is_given = output == GIVEN
            own, known = (
                {"out": out} if is_given else {} for out in (self.own_out, self.known_out)
            )
            if theirs is None:
                yield Row(name, OWN, output, lambda own=own: _submits(ours, self.own, own), None)
                continue
            there = known if self.function.takes_out else {}
            beside = lambda there=there: _calls(theirs, self.known, there)  # noqa: E731
            yield Row(name, OWN, output, lambda own=own: _submits(ours, self.own, own), beside)
            yield Row(
                name, KNOWN, output, lambda out=known: _submits(ours, self.known, out), beside
            )
            yield Row(
                name, FRESH, output,
                lambda out=known: self._fresh(_submitting(ours), out),
                lambda out=there: self._fresh(theirs, out),
            )  # fmt: skip

    def _fresh(self, call: Call, out: dict[str, Any]) -> Run:
        """Calls on clones made before, with an output made by torch for each if one is given."""
        inputs = iter([[one.clone() for one in self.known] for _ in range(CALLS)])
        if not out:
            return lambda: call(*next(inputs))
        like = self.known_out
        if isinstance(like, tuple):
            return lambda: call(
                *next(inputs), out=tuple([one.new_empty(one.shape) for one in like])
            )
        return lambda: call(*next(inputs), out=like.new_empty(like.shape))


def _calls(call: Call, inputs: list[Any], out: dict[str, Any]) -> Run:
    return lambda: call(*inputs, **out)


def _submits(call: Call, inputs: list[Any], out: dict[str, Any]) -> Run:
    return lambda: call(*inputs, **out).submit()


def _submitting(call: Call) -> Call:
    return lambda *inputs, **out: call(*inputs, **out).submit()


def _torch(lab: Lab) -> Any:
    """The module, on the GPU or on the CPU."""
    return lab.load(TORCH) if importlib.util.find_spec(TORCH) else None


def _prepare(lab: Lab, function: Counterpart) -> Case:
    """Make the tensors, compile, and check the result."""
    random = np.random.default_rng(17)
    arrays = [make(random) for make in function.operands]
    own = [tw.from_numpy(one, device=lab.device) for one in arrays]
    made = function.ours(*own).sync()
    results = [one.numpy() for one in (made if isinstance(made, tuple) else (made,))]
    own_outs = tuple([tw.from_numpy(one, device=lab.device) for one in results])
    own_out = own_outs if isinstance(made, tuple) else own_outs[0]
    torch = _torch(lab)
    if torch is None:
        return Case(function, None, own, own_out, [], None)
    place = "cuda" if lab.has_gpu else "cpu"
    known = [torch.from_numpy(one).to(place) for one in arrays]
    outs = tuple([torch.from_numpy(one.copy()).to(place) for one in results])
    theirs = function.theirs(torch)
    if not function.is_random:
        _check(function.name, results, theirs(*known))
    return Case(function, theirs, own, own_out, known, outs if len(outs) > 1 else outs[0])


def _check(name: str, found: list[np.ndarray], expected: Any) -> None:
    """Compare with torch's results; results that torch does not give are left out."""
    them = expected if isinstance(expected, tuple | list) else (expected,)
    for ours, theirs in zip(found, them, strict=False):
        exact = theirs.double().cpu().numpy().reshape(ours.shape)
        error = np.abs(ours.astype(np.float64) - exact).max() / np.abs(exact).max()
        assert error < LIMIT or ours.dtype.kind == "i", f"{name} is off by {error:.1e}"


def _launches(lab: Lab) -> Iterator[Row]:
    """One's own kernel on torch tensors, and into an output that torch makes for it."""
    torch = _torch(lab)
    if torch is None:
        return
    add: Any = tw.kernel(own_kernels.add)
    place = "cuda" if lab.has_gpu else "cpu"
    z, x, y = (torch.randn(LENGTH, dtype=torch.float16, device=place) for _ in range(3))
    add(tw.partition(z, LENGTH), x, y).sync()
    assert torch.equal(z, x + y), "the sum of two vectors is off"
    yield Row(
        LAUNCH, KNOWN, GIVEN,
        lambda: lambda: add(tw.partition(z, LENGTH), x, y).submit(),
        lambda: lambda: torch.add(x, y, out=z),
    )  # fmt: skip
    make = z.new_empty
    yield Row(
        LAUNCH, FRESH, GIVEN,
        lambda: lambda: add(tw.partition(make(LENGTH), LENGTH), x, y).submit(),
        lambda: lambda: torch.add(x, y, out=make(LENGTH)),
    )  # fmt: skip


def _settle(lab: Lab) -> None:
    """Wait for all devices."""
    lab.device.synchronize()
    if lab.has(TORCH):
        lab.load(TORCH).cuda.synchronize()


def _measure(lab: Lab, row: Row) -> dict[str, float]:
    """Microseconds of both, in turns."""
    rounds = {OURS: row.ours} | ({TORCH: row.theirs} if row.theirs else {})
    least = dict.fromkeys(rounds, math.inf)
    first, count, number = (1, 1, 1) if lab.is_quick else (0, 30, CALLS)
    for turn in range(first, count + 1):
        for who, make in rounds.items():
            run = make()
            _settle(lab)
            start = time.perf_counter_ns()
            for _ in range(number):
                run()
            taken = (time.perf_counter_ns() - start) / number / 1e3
            least[who] = min(least[who], taken if turn else math.inf)  # the first one plans
    _settle(lab)
    return least


def _rows(lab: Lab, only: tuple[str, ...]) -> Iterator[Row]:
    """Rows of the chosen functions; their kernels are compiled at the same time."""
    chosen = [one for one in COUNTERPARTS if not only or one.name in only]
    with ThreadPoolExecutor(max_workers=16 if lab.has_gpu else 1) as pool:
        cases = [(one.name, pool.submit(_prepare, lab, one)) for one in chosen]
    for name, case in cases:
        if error := case.exception():
            print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        else:
            yield from case.result().rows()
    if not only or LAUNCH in only:
        yield from _launches(lab)


def measure_calls(lab: Lab, report: Report, only: tuple[str, ...] = ()) -> None:
    """Every function in turn, ours and torch's."""
    report.note(NOTE)
    columns = ("function", "arrays", "output", OURS, TORCH, "ratio")
    table = Table("Microseconds a call", columns)
    report.table(table)
    ratios: dict[tuple[str, str, str], float] = {}
    for row in _rows(lab, only):
        found = _measure(lab, row)
        ratio = found[OURS] / found[TORCH] if TORCH in found else math.nan
        cells = (f"{found[who]:.2f}" if who in found else "" for who in (OURS, TORCH))
        table.add(row.name, row.arrays, row.output, *cells, f"{ratio:.2f}")
        print(("{:24}{:20}{:6}" + "{:>9}" * 3).format(*table.rows[-1]), flush=True)
        ratios[row.name, row.arrays, row.output] = ratio
        for who, microseconds in found.items():
            report.figure(
                "calls", function=row.name, arrays=row.arrays, how=row.output, who=who,
                us=microseconds,
            )  # fmt: skip
    if lab.has_gpu:
        _judge(report, ratios)


def _judge(report: Report, ratios: dict[tuple[str, str, str], float]) -> None:
    """The targets: the mean and the worst row of library calls, and each launch."""
    launches = {row: ratio for row, ratio in ratios.items() if row[0] == LAUNCH}
    calls = {row: ratio for row, ratio in ratios.items() if row[0] != LAUNCH}
    targets = [(", ".join(row), ratio, OF_A_LAUNCH) for row, ratio in launches.items()]
    if calls:
        mean = math.exp(sum(map(math.log, calls.values())) / len(calls))
        worst = max(calls, key=lambda row: calls[row])
        targets.append(("library calls, geometric mean", mean, IN_THE_MEAN))
        targets.append(
            (f"library calls, worst row ({', '.join(worst)})", calls[worst], IN_EVERY_ROW)
        )
    for what, ratio, wanted in targets:
        target = Target(f"{what}, of torch's", Bound.AT_MOST, wanted, ratio)
        report.target(target)
        print(f"{target.what}: {ratio:.2f} (at most {wanted})", flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", default="", help="functions, separated by commas")
    add_options(parser)
    options = parser.parse_args()
    report = Report("calls", TITLE, options.json)
    measure_calls(open_lab(options), report, tuple(filter(None, options.only.split(","))))


if __name__ == "__main__":
    main()
