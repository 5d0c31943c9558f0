"""f16 matrix products: ours, cuTile Python's with the same tiles and order, and torch (cuBLAS)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import kernels
import torch
from harness import Candidate, Report, Table, Timer, Times, as_torch, compare
from peers import Peer

import tilewright as tw
from tilewright import f16, i32

__all__ = ["LIMIT", "Matrices", "Schedule", "measure_gemm", "our_products", "tflops"]

LIMIT = 1e-3  # f16 in, f32 sums, f16 out is about 3e-4
COLD = 240 << 20  # bytes of buffers to rotate over, so that the L2 cache does not serve them
GROUP = (8, 1)


class Matrices:
    """Inputs, outputs and the exact product; small ones several times."""

    def __init__(self, size: int) -> None:
        self.size = size
        sets = max(1, min(10, math.ceil(COLD / (3 * 2 * size * size))))
        shape = (size, size)
        self.ours = [
            tuple(tw.empty(shape, f16, device="cuda:0") for _ in "zxy") for _ in range(sets)
        ]
        self.torch = [tuple(as_torch(tensor) for tensor in one) for one in self.ours]
        torch.manual_seed(size)
        for _, x, y in self.torch:
            x.normal_()
            y.normal_()
        # For checked products: its first element is the shift, all of it is the order of the sum.
        self.table = tw.arange(size // 64, i32, device="cuda:0")
        as_torch(self.table)
        _, x, y = self.torch[0]
        self.exact = x.double() @ y.double()
        torch.cuda.synchronize()

    def pick(self, number: int) -> tuple[tw.Tensor, ...]:
        """The buffers of one repetition."""
        return self.ours[number % len(self.ours)]

    def error(self, run: Callable[[int], None], timer: Timer) -> float:
        """The relative error of the first set's product, whose output is poisoned first."""
        output = self.torch[0][0]
        output.fill_(math.nan)
        torch.cuda.synchronize()
        with torch.cuda.stream(timer.foreign):
            run(0)
        timer.stream.sync()
        torch.cuda.synchronize()
        return float((output.double() - self.exact).norm() / self.exact.norm())


def _matrices(size: int) -> tuple[tw.Tensor, ...]:
    return tuple(tw.empty((size, size), f16, device="cuda:0") for _ in "zxy")


@dataclass(frozen=True)
class Schedule:
    """How a product is cut and walked; `blocks` None is one block a tile."""

    name: str
    tile: tuple[int, int]
    walked: bool = False
    blocks: int | None = None
    hints: tuple[tuple[str, int], ...] = ()
    peer: str = ""

    def cut(self, output: tw.Tensor) -> Any:
        """The output as a kernel takes it."""
        partition = output.partition(*self.tile)
        if not self.walked:
            return partition
        return partition.persistent(blocks=self.blocks or math.prod(partition.grid), group=GROUP)

    def kernel(self, function: Any, **options: Any) -> Any:
        """A kernel with this schedule's hints."""
        return tw.kernel(**dict(self.hints), **options)(function)


_SQUARE = (128, 128)
_WARPS4, _WARPS8 = (("num_worker_warps", 4),), (("num_worker_warps", 8),)
_WIDE = (("num_ctas", 2), ("num_worker_warps", 8))
SCHEDULES = (
    Schedule("plain 128x128x64", _SQUARE, peer="gemm-rows-128x128x64"),
    Schedule(
        "plain 128x128x64, 8 warps", _SQUARE, hints=_WARPS8, peer="gemm-rows-128x128x64-worker8"
    ),
    Schedule("banded 128x128x64", _SQUARE, walked=True, peer="gemm-bands-128x128x64"),
    Schedule("persistent 128x128x64", _SQUARE, True, 132, peer="gemm-persistent-128x128x64"),
    Schedule(
        "persistent 128x128x64, 4 warps", _SQUARE, True, 132, _WARPS4,
        "gemm-persistent-128x128x64-worker4",
    ),
    Schedule(
        "persistent 128x128x64, 8 warps", _SQUARE, True, 132, _WARPS8,
        "gemm-persistent-128x128x64-worker8",
    ),
    Schedule(
        "persistent 256x256x64, 2 CTAs, 8 warps", (256, 256), True, 66, _WIDE,
        "gemm-persistent-256x256x64-ctas2-worker8",
    ),
)  # fmt: skip


def our_products() -> list[tuple[Schedule, Any]]:
    """Each schedule with its kernel, made once: compiled kernels are kept by them."""
    return [
        (
            schedule,
            schedule.kernel(kernels.walked if schedule.walked else kernels.gemm, deny_checks=True),
        )
        for schedule in SCHEDULES
    ]


def tflops(size: int, seconds: float) -> float:
    """Arithmetic a second, in units of 10^12."""
    return 2 * size**3 / seconds / 1e12


def _candidates(
    matrices: Matrices, timer: Timer, products: list[tuple[Schedule, Any]], peers: dict[str, Peer]
) -> Iterator[Candidate]:
    def candidate(name: str, run: Callable[[int], None], against: str = "") -> Candidate:
        return Candidate(name, run, lambda: matrices.error(run, timer), against)

    def torch_run(number: int) -> None:
        z, x, y = matrices.torch[number % len(matrices.torch)]
        torch.matmul(x, y, out=z)

    yield candidate("torch", torch_run)
    for schedule, kernel in products:

        def ours(number: int, schedule: Schedule = schedule, kernel: Any = kernel) -> None:
            z, x, y = matrices.pick(number)
            kernel(schedule.cut(z), x, y).submit()

        against = schedule.peer if schedule.peer in peers else "torch"
        yield candidate(f"ours {schedule.name}", ours, against)
        if schedule.peer in peers:
            peer = peers[schedule.peer]
            launches = [
                peer.launch(timer.stream, schedule.blocks or 0, *one) for one in matrices.ours
            ]
            yield candidate(
                schedule.peer, lambda n, launches=launches: launches[n % len(launches)]()
            )


def measure_gemm(
    timer: Timer, sizes: tuple[int, ...], peers: dict[str, Peer], report: Report
) -> None:
    products = our_products()
    for size in sizes:
        matrices = Matrices(size)
        for schedule, kernel in products:  # all assemblers start now
            kernel(schedule.cut(matrices.pick(0)[0]), *matrices.pick(0)[1:]).close()
        candidates = list(_candidates(matrices, timer, products, peers))
        timer.warm_up()
        times, errors = compare(timer, candidates, LIMIT)
        _show(timer, size, candidates, times, errors)
        for name, found in times.items():
            entry = {"size": size, "name": name, "error": errors[name]}
            report.add("gemm", {**entry, "medians": found.medians})


def _show(
    timer: Timer,
    size: int,
    candidates: list[Candidate],
    times: dict[str, Times],
    errors: dict[str, float],
) -> None:
    table = Table(
        f"GEMM f16, M=N=K={size}, best of {timer.rounds} interleaved medians",
        ("candidate", "TFLOP/s", "us", "of torch", "of its peer", "error"),
    )
    for one in candidates:
        if one.name in times:
            best = times[one.name].best
            table.rows.append(
                (
                    one.name,
                    f"{tflops(size, best):.1f}",
                    f"{best * 1e6:.1f}",
                    _ratio(times, "torch", best),
                    _ratio(times, one.against, best),
                    f"{errors[one.name]:.1e}",
                )
            )
    table.show()


def _ratio(times: dict[str, Times], other: str, seconds: float) -> str:
    return f"{times[other].best / seconds:.3f}" if other in times else ""
