"""Host time of one launch: an addition of 2,048 numbers, many times in a row on one stream.

Two figures each: until the last launch is queued, which is the host's own cost while the queue is
not full, and until the GPU is done.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import kernels
import torch
from harness import Report, Table, Timer, as_torch
from peers import Peer

import tilewright as tw
from tilewright import f32

__all__ = ["measure_launch"]

LENGTH = 2048
LAUNCHES = 1000  # below the depth of a stream's queue, so that no launch waits for room
TURNS = 9


def _seconds(run: Callable[[], None], timer: Timer) -> tuple[float, float]:
    timer.stream.sync()
    torch.cuda.synchronize()
    with torch.cuda.stream(timer.foreign):
        start = time.perf_counter()
        for _ in range(LAUNCHES):
            run()
        queued = time.perf_counter()
        timer.stream.sync()
        torch.cuda.synchronize()
        done = time.perf_counter()
    return (queued - start) / LAUNCHES, (done - start) / LAUNCHES


def _runs(
    ours: tuple[tw.Tensor, ...], theirs: tuple[Any, ...], timer: Timer, peers: dict[str, Peer]
) -> dict[str, Callable[[], None]]:
    z, x, y = ours
    output, left, right = theirs
    kernel: Any = tw.kernel(kernels.add)
    cut = z.partition(LENGTH)
    runs: dict[str, Callable[[], None]] = {}
    if f"add-{LENGTH}" in peers:
        runs["cuLaunchKernel, parameters ready"] = peers[f"add-{LENGTH}"].launch(
            timer.stream, 0, *ours
        )
    runs["torch.add"] = lambda: torch.add(left, right, out=output)
    runs["ours, built and submitted"] = lambda: kernel(z.partition(LENGTH), x, y).submit()
    runs["ours, partition made before"] = lambda: kernel(cut, x, y).submit()
    return runs


def measure_launch(timer: Timer, peers: dict[str, Peer], report: Report) -> None:
    ours = tuple(tw.empty((LENGTH,), f32, device="cuda:0") for _ in "zxy")
    theirs = tuple(as_torch(tensor) for tensor in ours)
    theirs[1].normal_()
    theirs[2].normal_()
    runs = _runs(ours, theirs, timer, peers)
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    for name, run in runs.items():
        theirs[0].fill_(0)
        _seconds(run, timer)
        assert torch.equal(theirs[0], theirs[1] + theirs[2]), name
    for _ in range(TURNS):
        for name, run in runs.items():
            found[name].append(_seconds(run, timer))
    table = Table(
        f"Launching z = x + y, {LENGTH} elements, {LAUNCHES} in a row, best of {TURNS}",
        ("way", "us until queued", "us until done"),
    )
    for name, times in found.items():
        queued, done = (min(column) * 1e6 for column in zip(*times, strict=True))
        table.rows.append((name, f"{queued:.2f}", f"{done:.2f}"))
        report.add("launch", {"name": name, "times": times})
    table.show()
