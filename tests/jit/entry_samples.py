"""Kernels whose facts have every kind of part, compiled on the CPU, and their requests."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import tilewright as tw
from tilewright import Const, Mapped, Mut, Ref, f32, i32
from tilewright.dims import B, M, N
from tilewright.jit.bind.binding import Binding, LaunchEnvironment
from tilewright.jit.compile.compiled import LaunchFacts, Request


@tw.kernel
def plain(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    z.store(x.load_like(z) + 1.0)


@tw.kernel
def picked(z: Mut[f32, B], x: Ref[f32, M], rows: Ref[i32, N]) -> None:
    assert rows.partition(1)[0].item() >= 0, "rows are not negative"
    z.store(x.partition(B)[rows.partition(1)[z.index[0]].item()])


@tw.kernel
def reduced(z: Mut[f32, 1], x: Ref[f32, N], BN: Const[int] = 16) -> None:
    cut = x.partition(BN)
    best = tw.full((1,), -1.0, f32)
    for j in range(cut.num_tiles(0)):
        best = tw.maximum(best, tw.max(cut[j], axis=0, keepdims=True))
    z.store(best)


@tw.kernel
def stepped(z: Mut[f32, B], x: Ref[f32, N], first: i32, step: i32, last: i32) -> None:
    tw.require(first >= 0 and (step > 0 or last == 3) and not first > last)
    cut = x.partition(B)
    total = tw.zeros((B,), f32)
    for j in range(first, last, step):
        at = min(j * step // last, last % step) if j > 2 else max(j // step, first)
        total += cut[at]
    z.store(total)


@tw.kernel
def walked(z: Mapped[f32, B], x: Ref[f32, N]) -> None:
    cut = x.partition(B)
    for at in z.indices():
        i = at[0]
        z.store(cut[i * i // (i + 1)], at)


@dataclass(frozen=True)
class Sample:
    """A compiled kernel, and the launch it was compiled for."""

    facts: LaunchFacts
    request: Request
    functions: tuple[object, ...]
    environment: LaunchEnvironment


@cache
def samples() -> tuple[Sample, ...]:
    """One for each kernel, and one for each way to place its checks."""
    found = []
    bound = []
    check_launch = tw.kernel.__globals__["check_launch"]

    def seen(facts: LaunchFacts, binding: Binding) -> bool:
        bound.append(binding)
        return check_launch(facts, binding)

    with tw.device("cpu"):
        x, y = tw.ones((64,), f32), tw.zeros((60,), f32)
        rows, one = tw.zeros((64,), i32), tw.zeros((1,), f32)
        calls = [
            (plain, lambda: plain(tw.zeros((64,), f32).partition(16), x)),
            (picked, lambda: picked(tw.zeros((64,), f32).partition(16), x, rows)),
            (reduced, lambda: reduced(one.partition(1), x)),
            (stepped, lambda: stepped(y.partition(4), x, 0, 1, 3)),
            (walked, lambda: walked(tw.zeros((64,), f32).partition(16).persistent(), x)),
        ]
        tw.kernel.__globals__["check_launch"] = seen
        try:
            for kernel, call in calls:
                call().close()
                found += _of(kernel, bound[-1])
        finally:
            tw.kernel.__globals__["check_launch"] = check_launch
    return tuple(found)


def _of(kernel: tw.Kernel, binding: Binding) -> list[Sample]:
    found = []
    for (_, placement, specialization, _), flight in kernel._executables._entries.items():
        (made,) = flight.made
        request = Request(
            kernel.source, kernel.signature, specialization, kernel.options, placement
        )
        functions = (kernel.source.plain(), *made.captures.helpers())
        found.append(Sample(made.facts, request, functions, binding.environment))
    return found
