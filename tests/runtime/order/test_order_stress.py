"""Threads and event loops that do everything at once: values, borrows, failures, nothing left over.

Eight threads and three event loops make random changes on tensors of their own and on shared ones.
`make stress` makes many more, with another seed each time. A failure names the seed, the worker and
the change; a worker draws the same again, and the threads meet otherwise.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
import time
import traceback
import warnings
from collections import Counter

import numpy as np
import pytest
from stress_model import SIZE, Cell
from stress_tasks import AsyncWorker
from stress_workers import Worker, World

import tilewright as tw
from tilewright.backends.cpu import workers

COUNT = int(os.environ.get("STRESS_COUNT", "1000"))
SEED = int(os.environ.get("STRESS_SEED", "0"))
THREADS, LOOPS, TASKS = 8, 3, 3
STUCK_SECONDS = 60 + COUNT / 50


@pytest.fixture(params=["cpu", pytest.param("cuda:0", marks=pytest.mark.gpu)])
def devices(request, monkeypatch, fresh_devices):
    """Two devices with nothing on them; idle workers of streams end soon."""
    monkeypatch.setattr(workers, "_IDLE_SECONDS", 0.1)
    return tuple(fresh_devices(name) for name in (request.param, "cpu:1"))


class Crew:
    """All the threads, and what went wrong in them."""

    def __init__(self, world: World) -> None:
        self.errors: list[BaseException] = []
        self.workers: list[Worker] = []
        each = COUNT // (THREADS + LOOPS)
        self.threads = [
            threading.Thread(target=self._work, args=(world, f"thread {n}", each), daemon=True)
            for n in range(THREADS)
        ]
        self.threads += [
            threading.Thread(target=self._loop, args=(world, f"loop {n}", each), daemon=True)
            for n in range(LOOPS)
        ]

    def run(self) -> None:
        for thread in self.threads:
            thread.start()
        deadline = time.monotonic() + STUCK_SECONDS
        for thread in self.threads:
            thread.join(max(deadline - time.monotonic(), 0))
        stuck = [thread for thread in self.threads if thread.is_alive()]
        assert not stuck or self.errors, f"seed {SEED}: no end in sight\n{_stacks()}"
        if self.errors:
            raise self.errors[0]

    def _guard(self, run):
        try:
            run()
        except BaseException as error:  # noqa: BLE001 (raised again by the test)
            error.add_note(f"STRESS_SEED={SEED} STRESS_COUNT={COUNT}")
            self.errors.append(error)

    def _work(self, world: World, name: str, count: int) -> None:
        def run() -> None:
            worker = Worker(world, name, SEED)
            for _ in range(count):
                if self.errors:
                    return
                worker.act()
            worker.end()

        self._guard(run)

    def _loop(self, world: World, name: str, count: int) -> None:
        async def main() -> None:
            workers = [AsyncWorker(world, f"{name}, task {n}", SEED) for n in range(TASKS)]
            await asyncio.gather(*(worker.run(count // TASKS) for worker in workers))

        self._guard(lambda: asyncio.run(main()))


def _stacks() -> str:
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return "\n".join(
        f"--- {names.get(ident, ident)}\n{''.join(traceback.format_stack(frame))}"
        for ident, frame in sys._current_frames().items()
    )


def test_everything_at_once(devices, record_property):
    names = tuple(device.name for device in devices)
    before = [_state(device) for device in devices]
    rng = np.random.default_rng(SEED)
    cells = {
        name: [Cell(name, rng.integers(0, 99, SIZE).astype(np.float32)) for _ in range(2)]
        for name in names
    }
    streams = {device.name: [device.new_stream() for _ in range(3)] for device in devices}
    world = World(names, cells, streams)
    _collect_earlier()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", tw.ExtentWarning)  # about values of kernels
        crew = Crew(world)
        crew.run()
        for cell in (cell for some in cells.values() for cell in some):
            cell.check(slice(0, SIZE), cell.tensor.numpy)
        del cell
        cells.clear()
        gc.collect()
        for device in devices:
            _settle(device)
    others = [one for one in caught if "was never run" not in str(one.message)]
    assert [str(one.message) for one in others] == []
    said = Counter(str(one.message) for one in caught)
    assert said.total() == world.counts().get("dropped", 0), said
    assert [_state(device) for device in devices] == before
    _check_threads_end()
    summary = ", ".join(f"{number:,} {what}" for what, number in sorted(world.counts().items()))
    record_property("changes", summary)
    print(f"\nseed {SEED}, {names}: {summary}")  # noqa: T201 (for those who run `make stress`)


def _collect_earlier() -> None:
    """End operations in garbage of earlier tests, whose warnings would be counted here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        gc.collect()


def _settle(device: tw.Device) -> None:
    """Wait for everything, and hear of failures that were not told yet."""
    for _ in range(5):
        for _ in range(100_000):
            try:
                device.synchronize()
                break
            except tw.OutOfBoundsError:
                continue
        device.unseen.clear()
        gc.collect()


def _state(device: tw.Device) -> dict[str, object]:
    """State that a device holds."""
    free = device.backend._records._free
    taken = [device.new_record() for _ in range(free.qsize())]
    missing = len(taken) % _chunk(device)
    return {
        "bytes": device.pool.statistics().used,
        "storages": len(device.storages),
        "records": missing,
        "under way": [len(one._kept) + len(one._unsettled) for one in device.streams if
                      one._kept or one._unsettled],
        "notes": len(device.deferred),
    }  # fmt: skip


def _chunk(device: tw.Device) -> int:
    """How many failure records are made at a time."""
    record = device.new_record()
    assert record.read()[0] == 0
    return device.backend._records._free.qsize() + 1


def _check_threads_end() -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        left = [one.name for one in threading.enumerate() if "stream" in one.name]
        if not left:
            return
        time.sleep(0.05)
    raise AssertionError(f"threads that do not end: {left}")
