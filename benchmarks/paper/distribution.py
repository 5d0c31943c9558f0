"""Work distribution: 2,000 matrix products, four fifths small and one fifth large, over S streams.

One host thread for each stream, against asyncio tasks on a single thread; each takes the next
product from one queue, launches it on its own stream and waits for it. Figures are products a
second, the best of the turns, which alternate. With "think" the host works that long before each.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import kernels
from lab import Lab

import tilewright as tw
from paper.overlap import spin
from tilewright.bench import Bound, Plot, Report, Series, Table, Target

__all__ = ["TITLE", "run"]

TITLE = "Work distribution: products a second by number of streams"
SMALL, LARGE = 512, 2048
PRODUCTS = 2000
STREAMS = (1, 2, 4, 8, 16, 32)
THINK = (10, 100, 300)  # microseconds, at 16 streams
THINKING_STREAMS = 16
PAPER = {  # thousands a second on an RTX 5090: threads and one thread with tasks; serial is 36.9
    1: (36.9, 21.8), 2: (53.8, 40.8), 4: (68.3, 47.9),
    8: (77.4, 77.6), 16: (76.9, 77.0), 32: (76.7, 76.7),
}  # fmt: skip
PAPER_SERIAL = 36.9
PAPER_THINK = {10: (76.9, 76.8), 100: (76.4, 76.7), 300: (46.0, 44.5)}


@dataclass(frozen=True)
class Lane:
    """A stream with tensors of its own, by size."""

    stream: tw.Stream
    tensors: dict[int, tuple[tw.Tensor, ...]]


class Queue:
    """Products to do, large ones spread evenly; any thread takes the next."""

    def __init__(self, count: int, sizes: tuple[int, int]) -> None:
        small, large = sizes
        self._todo = iter([large if number % 5 == 0 else small for number in range(count)])
        self._lock = threading.Lock()

    def take(self) -> int | None:
        with self._lock:
            return next(self._todo, None)


class Shop:
    """The lanes and the kernel."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.sizes = (64, 128) if lab.is_quick else (SMALL, LARGE)
        self.count = 10 if lab.is_quick else PRODUCTS
        self._kernel: Any = tw.kernel(deny_checks=True)(kernels.gemm)
        self._tile = (64, 64) if lab.is_quick else (128, 128)
        self.lanes = [self._lane(number) for number in range(2 if lab.is_quick else max(STREAMS))]
        for lane in self.lanes:
            for size in self.sizes:
                self.product(lane, size).sync_on(lane.stream)

    def _lane(self, number: int) -> Lane:
        tensors = {
            size: (
                self.lab.empty(size, size),
                self.lab.random(size, size, seed=2 * number),
                self.lab.random(size, size, seed=2 * number + 1),
            )
            for size in self.sizes
        }
        return Lane(self.lab.device.new_stream(), tensors)

    def product(self, lane: Lane, size: int) -> tw.DeviceOp[Any]:
        z, x, y = lane.tensors[size]
        operation: tw.DeviceOp[Any] = self._kernel(z.partition(*self._tile), x, y)
        return operation

    def rate(self, way: Callable[[Shop, int, float], None], streams: int, think: float) -> float:
        """Products a second."""
        start = time.perf_counter()
        way(self, streams, think)
        return self.count / (time.perf_counter() - start)


def serial(shop: Shop, streams: int, think: float) -> None:
    """One after the other."""
    del streams
    _work(shop, shop.lanes[0], Queue(shop.count, shop.sizes), think)


def threads(shop: Shop, streams: int, think: float) -> None:
    """A thread for each stream."""
    queue = Queue(shop.count, shop.sizes)
    workers = [
        threading.Thread(target=_work, args=(shop, lane, queue, think))
        for lane in shop.lanes[:streams]
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def _work(shop: Shop, lane: Lane, queue: Queue, think: float) -> None:
    while (size := queue.take()) is not None:
        spin(think)
        shop.product(lane, size).sync_on(lane.stream)


def tasks(shop: Shop, streams: int, think: float) -> None:
    """A task for each stream, all on this thread."""
    queue = Queue(shop.count, shop.sizes)

    async def work(lane: Lane) -> None:
        while (size := queue.take()) is not None:
            spin(think)
            await shop.product(lane, size).submit(lane.stream)

    async def main() -> None:
        await asyncio.gather(*(work(lane) for lane in shop.lanes[:streams]))

    asyncio.run(main())


def run(lab: Lab, report: Report) -> None:
    shop = Shop(lab)
    streams = (1, 2) if lab.is_quick else STREAMS
    table = Table(
        f"Thousand products a second (80 % {SMALL}³, 20 % {LARGE}³)",
        ("streams", "threads", "tasks", "tasks / threads", "paper: threads", "paper: tasks"),
    )
    (alone,) = _best(shop, (serial,), 1, 0)
    table.add("one after the other", f"{alone / 1e3:.1f}", "", "", f"{PAPER_SERIAL}", "")
    found = {count: tuple(_best(shop, (threads, tasks), count, 0)) for count in streams}
    for count, (threaded, tasked) in found.items():
        cells = f"{threaded / 1e3:.1f}", f"{tasked / 1e3:.1f}", f"{tasked / threaded:.2f}"
        table.add(str(count), *cells, *map(str, PAPER[count]))
        report.figure("distribution", streams=count, threads=threaded, tasks=tasked, serial=alone)
    report.table(table)
    print(table.to_text(), flush=True)
    if 8 in found:
        what = "products a second of tasks on one thread, of a thread a stream, at 8 streams"
        report.target(Target(what, Bound.AT_LEAST, 1.0, found[8][1] / found[8][0]))
    _think(shop, report)
    report.plot(_plot(found, alone))


def _think(shop: Shop, report: Report) -> None:
    streams = min(THINKING_STREAMS, len(shop.lanes))
    table = Table(
        f"With host work before each product, {streams} streams, thousand a second",
        ("host work, us", "threads", "tasks", "paper: threads", "paper: tasks"),
    )
    for think in THINK[:1] if shop.lab.is_quick else THINK:
        threaded, tasked = _best(shop, (threads, tasks), streams, think)
        cells = f"{threaded / 1e3:.1f}", f"{tasked / 1e3:.1f}"
        table.add(str(think), *cells, *map(str, PAPER_THINK[think]))
        report.figure("thinking", work=think, threads=threaded, tasks=tasked)
    report.table(table)
    print(table.to_text(), flush=True)


def _best(shop: Shop, ways: tuple[Any, ...], streams: int, think: float) -> Iterator[float]:
    turns = [
        [shop.rate(way, streams, think) for way in ways]
        for _ in range(1 if shop.lab.is_quick or think > 10 else 2)
    ]
    return (max(column) for column in zip(*turns, strict=True))


def _plot(found: dict[int, tuple[float, ...]], alone: float) -> Plot:
    series = [
        Series(name, [(count, rates[place] / 1e3) for count, rates in found.items()])
        for place, name in enumerate(("a thread a stream", "tasks on one thread"))
    ]
    series.append(Series("one after the other", [(c, alone / 1e3) for c in found], is_dashed=True))
    return Plot("distribution", TITLE, "streams", "thousand products a second", series)
