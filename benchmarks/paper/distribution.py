"""Work distribution: 2,000 matrix products, four fifths small and one fifth large, over S streams.

One host thread for each stream, against asyncio tasks on a single thread; each takes the next
product from one queue, launches it on its own stream and waits for it. Figures are products a
second, the best of the turns, which alternate. "Thinking" is a pause of the given length before
each product: a thread sleeps, a task yields to the others.
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
THINK = (10, 100, 300, 1000, 3000)  # microseconds, at 16 streams
THINKING_STREAMS = 16
PAPER = {  # thousands a second on an RTX 5090: threads and one thread with tasks; serial is 36.9
    1: (36.9, 21.8), 2: (53.8, 40.8), 4: (68.3, 47.9),
    8: (77.4, 77.6), 16: (76.9, 77.0), 32: (76.7, 76.7),
}  # fmt: skip
PAPER_SERIAL = 36.9
PAPER_THINK = {  # one after the other, threads, tasks
    10: (26.7, 76.9, 76.8), 100: (7.7, 76.4, 76.7), 300: (3.0, 46.0, 44.5),
    1000: (0.97, 14.8, 15.2), 3000: (0.33, 5.2, 5.2),
}  # fmt: skip


@dataclass(frozen=True)
class Lane:
    """A stream with tensors of its own, by size."""

    stream: tw.Stream
    tensors: dict[int, tuple[tw.Tensor, ...]]


class Queue:
    """A queue of products, large ones spread evenly; any thread takes the next."""

    def __init__(self, count: int, sizes: tuple[int, int]) -> None:
        small, large = sizes
        self.count = count
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

    def queue(self, think: float) -> Queue:
        """All products; fewer with long pauses."""
        most = self.count if think <= 100 else round(self.count * 100 / think)
        return Queue(max(most, min(self.count, 5)), self.sizes)

    def rate(self, way: Way, streams: int, think: float) -> float:
        """Products a second."""
        queue = self.queue(think)
        start = time.perf_counter()
        way(self, queue, streams, think)
        return queue.count / (time.perf_counter() - start)


Way = Callable[[Shop, Queue, int, float], None]


def serial(shop: Shop, queue: Queue, streams: int, think: float) -> None:
    """One after the other."""
    del streams
    lane = shop.lanes[0]
    while (size := queue.take()) is not None:
        spin(think)
        shop.product(lane, size).sync_on(lane.stream)


def threads(shop: Shop, queue: Queue, streams: int, think: float) -> None:
    """A thread for each stream."""

    def work(lane: Lane) -> None:
        while (size := queue.take()) is not None:
            if think:
                time.sleep(think / 1e6)
            shop.product(lane, size).sync_on(lane.stream)

    workers = [threading.Thread(target=work, args=(lane,)) for lane in shop.lanes[:streams]]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def tasks(shop: Shop, queue: Queue, streams: int, think: float) -> None:
    """A task for each stream, all on this thread."""

    async def work(lane: Lane) -> None:
        while (size := queue.take()) is not None:
            if think:
                await _pause(think)
            await shop.product(lane, size).submit(lane.stream)

    async def main() -> None:
        await asyncio.gather(*(work(lane) for lane in shop.lanes[:streams]))

    asyncio.run(main())


async def _pause(microseconds: float) -> None:
    """Yield for so long; timers of an event loop are exact to a millisecond only."""
    end = time.perf_counter() + microseconds / 1e6
    while time.perf_counter() < end:
        await asyncio.sleep(0)


def run(lab: Lab, report: Report) -> None:
    shop = Shop(lab)
    streams = (1, 2) if lab.is_quick else STREAMS
    table = Table(
        f"Thousand products a second (80 % {SMALL}³, 20 % {LARGE}³)",
        ("streams", "threads", "tasks", "tasks / threads", "paper: threads", "paper: tasks"),
    )
    report.table(table)
    (alone,) = _best(shop, (serial,), 1, 0)
    table.add("one after the other", f"{alone / 1e3:.1f}", "", "", f"{PAPER_SERIAL}", "")
    found = {}
    for count in streams:
        threaded, tasked = found[count] = tuple(_best(shop, (threads, tasks), count, 0))
        cells = f"{threaded / 1e3:.1f}", f"{tasked / 1e3:.1f}", f"{tasked / threaded:.2f}"
        table.add(str(count), *cells, *map(str, PAPER[count]))
        report.figure("distribution", streams=count, threads=threaded, tasks=tasked, serial=alone)
    print(table.to_text(), flush=True)
    if 8 in found:
        what = "products a second of tasks on one thread, of a thread a stream, at 8 streams"
        report.target(Target(what, Bound.AT_LEAST, 1.0, found[8][1] / found[8][0]))
    _think(shop, report)
    report.plot(_plot(found, alone))


def _think(shop: Shop, report: Report) -> None:
    streams = min(THINKING_STREAMS, len(shop.lanes))
    table = Table(
        f"Thinking before each product, {streams} streams, thousand a second",
        ("microseconds", "one after the other", "threads", "tasks", "paper: one after the other",
         "paper: threads", "paper: tasks"),
    )  # fmt: skip
    report.table(table)
    for think in THINK[:1] if shop.lab.is_quick else THINK:
        found = tuple(_best(shop, (serial, threads, tasks), streams, think))
        table.add(
            str(think), *(f"{rate / 1e3:.2f}" for rate in found), *map(str, PAPER_THINK[think])
        )
        report.figure("thinking", work=think, serial=found[0], threads=found[1], tasks=found[2])
    print(table.to_text(), flush=True)


def _best(shop: Shop, ways: tuple[Way, ...], streams: int, think: float) -> Iterator[float]:
    turns = [
        [shop.rate(way, streams, think) for way in ways]
        for _ in range(1 if shop.lab.is_quick else 3)
    ]
    return (max(column) for column in zip(*turns, strict=True))


def _plot(found: dict[int, tuple[float, ...]], alone: float) -> Plot:
    series = [
        Series(name, [(count, rates[place] / 1e3) for count, rates in found.items()])
        for place, name in enumerate(("a thread a stream", "tasks on one thread"))
    ]
    series.append(Series("one after the other", [(c, alone / 1e3) for c in found], is_dashed=True))
    return Plot("distribution", TITLE, "streams", "thousand products a second", series)
