"""Kernels as a user writes them, without hints, beside the same kernels with every hint swept.

    python benchmarks/own_kernel.py [--only products,small,once,attention,rows] [--json FILE]

The default hints follow from a kernel's tiles (`tilewright.passes.choose_hints`). Each row has the
speed of the default beside a peer (cuBLAS, cuDNN, torch) and beside the best hints of the sweep,
all timed in turns. `--quick` shows on any device that the script works.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product as pairs
from pathlib import Path
from typing import Any

from lab import Lab, add_options, open_lab
from user_kernels import attention, gemm, gemm_tile, softmax

import tilewright as tw
from tilewright.bench import Candidate, Report, Table, compare

__all__ = ["main"]

PEER, DEFAULT = "peer", "default"
SIZES = (4096, 7000, 8192)
LARGE = ((128, 128), (128, 256), (256, 128), (256, 256))
SMALL = ((64, 64), (64, 128), (128, 64), (64, 256), (256, 64), (32, 128), (128, 32), (16, 128))
TALL = ((512, 128), (128, 512), (512, 256))
HEADS = ((64, 64, 64), (128, 64, 64), (128, 128, 64), (64, 64, 128), (64, 128, 128),
         (128, 64, 128), (128, 128, 128))  # fmt: skip
WIDTHS = (1024, 4096, 16384)
LIMIT = 3e-3  # relative error
Hinted = dict[str, int]


@dataclass(frozen=True)
class Case:
    """One kernel on one problem."""

    part: str
    name: str
    work: float  # operations or bytes
    launch: Callable[[Hinted], Any]
    out: tw.Tensor
    peer: Callable[[], Any] | None
    expected: Any  # torch tensor; None where there is no torch
    sweep: tuple[Hinted, ...]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="output file of all figures")
    parser.add_argument("--only", default=",".join(PARTS), help="parts, separated by commas")
    parser.add_argument("--no-sweep", action="store_true", help="the default and the peer alone")
    add_options(parser)
    options = parser.parse_args()
    lab = open_lab(options)
    report = Report("own_kernel", "Kernels of users, without hints", options.json)
    with tw.device(lab.device):
        for part in options.only.split(","):
            cases = [*PARTS[part](lab)]
            for case in cases:  # starts all assemblers
                for hints in ({}, *(() if options.no_sweep else case.sweep)):
                    case.launch(hints).close()
            table = Table(part, ("case", "beside the peer", "beside the best hints", "best hints"))
            for case in cases:
                _measure(lab, report, table, case, () if options.no_sweep else case.sweep)
            print(table.to_text(), flush=True)
            report.table(table)


def _measure(lab: Lab, report: Report, table: Table, case: Case, sweep: tuple[Hinted, ...]) -> None:
    def error(run: Callable[[], Any]) -> Callable[[], float]:
        def off() -> float:
            run().sync()
            if case.expected is None:
                return 0.0
            found = lab.as_torch(case.out).float()
            return float((found - case.expected).norm() / case.expected.norm())

        return off

    candidates = [] if case.peer is None else [Candidate(PEER, case.peer)]
    for hints in ({}, *sweep):
        run = lambda h=hints: case.launch(h)  # noqa: E731
        name = " ".join(f"{key}={value}" for key, value in hints.items()) or DEFAULT
        candidates.append(Candidate(name, run, error(run), LIMIT))
    timer = lab.timer(repetitions=7, warmup=0.002, shortest=0.0, rounds=3, longest=0.02)
    found = compare(candidates, timer=timer)
    for name, why in found.failures.items():
        print(f"{case.name}, {name}: {why.splitlines()[0][:200]}", flush=True)
    ours = {name: found.seconds(name) for name in found.timings if name != PEER}
    if DEFAULT not in ours:
        return
    best = min(ours, key=lambda name: ours[name])
    beside = f"{found.speed(DEFAULT, PEER):.3f}" if PEER in found else "-"
    table.add(
        case.name, f"{beside} ({case.work / ours[DEFAULT] / 1e12:.3g} T/s)",
        f"{ours[best] / ours[DEFAULT]:.3f}", best,
    )  # fmt: skip
    report.figure(case.part, case=case.name, **found.to_json())
    every = ", ".join(f"{name} {case.work / ours[name] / 1e12:.3g}" for name in ours)
    print(f"{case.name}: peer {beside}; {every}", flush=True)


# --- products -------------------------------------------------------------------------------------


def _swept(**values: tuple[int, ...]) -> tuple[Hinted, ...]:
    return tuple(dict(zip(values, chosen, strict=True)) for chosen in pairs(*values.values()))


def _products(lab: Lab) -> Iterator[Case]:
    sweep = _swept(num_worker_warps=(4, 8), num_ctas=(1, 2))
    for size in (256,) if lab.is_quick else SIZES:
        yield from _cases(lab, "products", size, LARGE, sweep)


def _small(lab: Lab) -> Iterator[Case]:
    sweep = _swept(num_worker_warps=(4,), occupancy=(1, 2, 4))
    yield from _cases(lab, "small", 256 if lab.is_quick else 4096, SMALL, sweep)
    sweep = _swept(num_worker_warps=(8,), num_ctas=(1, 2, 4))
    yield from _cases(lab, "small", 512 if lab.is_quick else 4096, TALL, sweep)


def _once(lab: Lab) -> Iterator[Case]:
    """One tile to a block."""
    sweep = _swept(num_worker_warps=(4, 8), occupancy=(1, 2))
    tiles = (*SMALL[:3], *LARGE)
    yield from _cases(lab, "once", 256 if lab.is_quick else 4096, tiles, sweep, is_walked=False)


def _cases(
    lab: Lab, part: str, size: int, tiles: tuple[tuple[int, int], ...], sweep: tuple[Hinted, ...],
    *, is_walked: bool = True,
) -> Iterator[Case]:  # fmt: skip
    x, y = (lab.random(size, size, seed=seed) for seed in (1, 2))
    z = lab.empty(size, size)
    peer, expected = None, None
    if lab.has_gpu:
        torch = lab.load("torch")
        a, b = lab.as_torch(x), lab.as_torch(y)
        c = torch.empty_like(a)
        peer = lambda: torch.matmul(a, b, out=c)  # noqa: E731
        expected = a.float() @ b.float()

    for tile in tiles:

        def launch(hints: Hinted, tile: tuple[int, int] = tile) -> Any:
            cut = z.partition(*tile)
            if is_walked:
                return gemm.with_hints(**hints)(cut.persistent(), x, y)
            return gemm_tile.with_hints(**hints)(cut, x, y)

        name = f"{size}, tile {tile[0]} x {tile[1]}"
        yield Case(part, name, 2 * size**3, launch, z, peer, expected, sweep)


# --- attention and rows ---------------------------------------------------------------------------


def _attention(lab: Lab) -> Iterator[Case]:
    batch, heads, length = (1, 2, 128) if lab.is_quick else (2, 16, 4096)
    sweep = _swept(num_worker_warps=(4, 8), occupancy=(1, 2))
    for bm, bn, channels in HEADS[:1] if lab.is_quick else HEADS:
        shape = (batch, heads, length, channels)
        q, k, v = (lab.random(*shape, seed=seed) for seed in (1, 2, 3))
        z = lab.empty(*shape)
        peer, expected = None, None
        if lab.has_gpu:
            torch = lab.load("torch")
            given = [lab.as_torch(one) for one in (q, k, v)]
            of = torch.nn.functional.scaled_dot_product_attention
            backends = lab.load("torch.nn.attention")

            def peer(of: Any = of, given: Any = given, backends: Any = backends) -> Any:
                with backends.sdpa_kernel(backends.SDPBackend.CUDNN_ATTENTION):
                    return of(*given)

            expected = of(*(one.float() for one in given))
        scale = math.log2(math.e) / math.sqrt(channels)

        def launch(
            hints: Hinted, z: tw.Tensor = z, given: Any = (q, k, v), scale: float = scale,
            bm: int = bm, bn: int = bn, channels: int = channels,
        ) -> Any:  # fmt: skip
            cut = z.partition(1, 1, bm, channels)
            return attention.with_hints(**hints)(cut, *given, scale, KEYS=bn)

        work = 4 * batch * heads * length**2 * channels
        name = f"{bm} queries x {bn} keys, {channels} channels"
        yield Case("attention", name, work, launch, z, peer, expected, sweep)


def _rows(lab: Lab) -> Iterator[Case]:
    sweep = (*_swept(num_worker_warps=(4, 8), occupancy=(1, 2, 4, 8)), {"num_worker_warps": 4})
    for width in (256,) if lab.is_quick else WIDTHS:
        rows = 64 if lab.is_quick else (1 << 27) // width
        x, z = lab.random(rows, width, seed=1), lab.empty(rows, width)
        peer, expected = None, None
        if lab.has_gpu:
            torch = lab.load("torch")
            a = lab.as_torch(x)
            peer = lambda a=a, of=torch.softmax: of(a, -1)  # noqa: E731
            expected = torch.softmax(a.float(), -1)
        for tall in (1, 4) if width <= 4096 else (1,):

            def launch(
                hints: Hinted, x: tw.Tensor = x, z: tw.Tensor = z, tile: Any = (tall, width)
            ) -> Any:
                return softmax.with_hints(**hints)(z.partition(*tile), x)

            name = f"softmax, tile {tall} x {width}"
            yield Case("rows", name, 4 * rows * width, launch, z, peer, expected, sweep)


PARTS: dict[str, Callable[[Lab], Iterator[Case]]] = {
    "products": _products,
    "small": _small,
    "once": _once,
    "attention": _attention,
    "rows": _rows,
}

if __name__ == "__main__":
    main()
