"""Host time of one launch, by launch path: the work of Python around the driver call.

    python benchmarks/host_path.py [--device null,cuda,cpu] [--only prepared,planned] [--json FILE]

`null` is a GPU whose driver does nothing, so the time is our own; it needs no GPU and no toolchain.
`cuda` is a real GPU, and its first row is the driver's share. `cpu` is the CPU device, whose stream
is held meanwhile. Several devices, each in a process of its own, make columns of one table. Times
are those of the calling thread, the least of many rounds. The published comparison with other
libraries is `launch.py`.
"""

from __future__ import annotations

import argparse
import cProfile
import functools
import gc
import itertools
import multiprocessing
import pstats
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import kernels
from host_path_torch import TorchCases
from null_gpu import null_gpu

import tilewright as tw
from tilewright import Mut, Ref, f16
from tilewright import kernels as library
from tilewright.bench import Report, Table
from tilewright.dims import B, N

__all__ = ["main"]

LENGTH = 2048
LAUNCHES = 100  # in a round
MANY = 300  # tensors of the large graph
SIDE = 256  # of matrices


def scaled(z: Mut[f16, B], x: Ref[f16, N], factor: f16) -> None:
    z.store(x.load_like(z) * factor)


def _tensors(device: str, count: int = 3, length: int = LENGTH) -> list[tw.Tensor]:
    made = [tw.zeros((length,), f16, device=device) for _ in range(count)]
    for tensor in made:
        tw.fill(tensor, 1.0).sync()
    return made


class _Cases(TorchCases):
    """The measured paths: each returns a function to repeat, made anew for every round."""

    def __init__(self, device: str, theirs: str) -> None:
        super().__init__(tw.kernel(kernels.add), theirs, LENGTH, LAUNCHES)
        self.device = device
        self.scaled: Any = tw.kernel(scaled)
        self.z, self.x, self.y = _tensors(device)
        self._outputs: list[tw.Tensor] = []
        self._long: list[tw.Tensor] = []
        self._lengths = itertools.count(100)
        for _ in range(3):
            self.add(self.z.partition(LENGTH), self.x, self.y).sync()

    def driver_call(self) -> Callable[[], object]:
        """The raw driver call through our bindings."""
        stream = self.z.device.stream
        operation: Any = self.add(self.z.partition(LENGTH), self.x, self.y)
        call, tensors = operation.work.launch, operation.tensors
        operation.close()
        return lambda: call(stream, tensors)

    def partition(self) -> Callable[[], object]:
        z = self.z
        return lambda: z.partition(LENGTH)

    def prepared(self) -> Callable[[], object]:
        add, z, x, y = self.add, self.z, self.x, self.y
        return lambda: add(z.partition(LENGTH), x, y).submit()

    def prepared_cut(self) -> Callable[[], object]:
        add, z, x, y = self.add, self.z.partition(LENGTH), self.x, self.y
        return lambda: add(z, x, y).submit()

    def built(self) -> Callable[[], object]:
        add, z, x, y = self.add, self.z.partition(LENGTH), self.x, self.y
        return lambda: add(z, x, y).close()

    def alternating(self) -> Callable[[], object]:
        """Two kernels that pass results to each other: one launch is half of the time."""
        add, z, x, y = self.add, self.z, self.x, self.y

        def both() -> None:
            add(z.partition(LENGTH), x, y).submit()
            add(x.partition(LENGTH), z, y).submit()

        return both

    def planned(self) -> Callable[[], object]:
        """Tensors with memory of their own."""
        return self._each([tuple(_tensors(self.device)) for _ in range(LAUNCHES)])

    def slices(self) -> Callable[[], object]:
        """Parts of larger tensors without an earlier launch."""
        whole = _tensors(self.device, length=LENGTH * LAUNCHES)
        places = [slice(n * LENGTH, (n + 1) * LENGTH) for n in range(LAUNCHES)]
        return self._each([tuple(t[place] for t in whole) for place in places])

    def _each(self, tensors: list[tuple[tw.Tensor, ...]]) -> Callable[[], object]:
        add, handles = self.add, iter(tensors)

        def launch() -> None:
            z, x, y = next(handles)
            add(z.partition(LENGTH), x, y).submit()

        return launch

    def views(self) -> Callable[[], object]:
        """New handles on memory of earlier launches."""
        add, z, x, y = self.add, self.z, self.x, self.y
        handles = iter([(z[:].partition(LENGTH), x[:], y[:]) for _ in range(LAUNCHES)])
        return lambda: add(*next(handles)).submit()

    def extents(self) -> Callable[[], object]:
        """Tensors of new lengths."""
        add = self.add
        if not self._long:
            self._long = [tw.zeros((1 << 20,), f16, device=self.device) for _ in range(3)]
            for tensor in self._long:
                tensor.wait()
        z, x, y = self._long
        lengths = [16 * next(self._lengths) for _ in range(LAUNCHES)]
        handles = iter([(z[:n].partition(LENGTH), x[:n], y[:n]) for n in lengths])
        return lambda: add(*next(handles)).submit()

    def new_tensors(self) -> Callable[[], object]:
        add, device, x, y = self.add, self.device, self.x, self.y

        def launch() -> None:
            add(tw.empty((LENGTH,), f16, device=device).partition(LENGTH), x, y).submit()

        return launch

    def scalars(self) -> Callable[[], object]:
        scaled, z, x = self.scaled, self.z, self.x
        numbers = itertools.count()
        return lambda: scaled(z.partition(LENGTH), x, next(numbers) * 0.5).submit()

    @functools.cached_property
    def _matrices(self) -> list[tw.Tensor]:
        made = [tw.zeros((SIDE, SIDE), f16, device=self.device) for _ in range(3)]
        for tensor in made:
            tensor.wait()
        for _ in range(3):  # the first compiles, the second plans
            library.matmul(made[0], made[1], out=made[2]).sync()
            library.matmul(made[0], made[1]).sync()
            library.softmax(made[0], out=made[2]).sync()
            library.softmax(made[0]).sync()
        return made

    def library_out(self) -> Callable[[], object]:
        a, b, c = self._matrices
        return lambda: library.matmul(a, b, out=c).submit()

    def library_made(self) -> Callable[[], object]:
        a, b, _ = self._matrices
        return lambda: library.matmul(a, b).submit()

    def library_rows_out(self) -> Callable[[], object]:
        x, _, z = self._matrices
        return lambda: library.softmax(x, out=z).submit()

    def library_rows_made(self) -> Callable[[], object]:
        x, _, _ = self._matrices
        return lambda: library.softmax(x).submit()

    def zipped(self) -> Callable[[], object]:
        """A step of operations built before and submitted as one."""
        add, x, y = self.add, self.x, self.y
        self._outputs = self._outputs or self._many(LAUNCHES)
        whole = tw.zip(*(add(z.partition(LENGTH), x, y) for z in self._outputs))
        return _once(whole.submit)

    def chained(self) -> Callable[[], object]:
        """A step of a chain whose functions build the next launch."""
        add = self.add
        whole = add(self.z.partition(LENGTH), self.x, self.y)
        for _ in range(LAUNCHES - 1):
            whole = whole.then(lambda handles: add(*handles))
        return _once(whole.submit)

    def graph_few(self) -> Callable[[], object]:
        return self._replays([self.z, self.x, self.y])

    def graph_many(self) -> Callable[[], object]:
        return self._replays(self._many(MANY))

    def graph_read(self) -> Callable[[], object]:
        """A replay, and a launch that reads its result."""
        made, x, y = self._many(3)
        return _both(
            self._replays([made, x, y]),
            lambda: self.add(self.z.partition(LENGTH), made, y).submit(),
        )

    def graph_turns(self) -> Callable[[], object]:
        """Two graphs that write the same tensors."""
        tensors = self._many(MANY)
        return _both(self._replays(tensors), self._replays(tensors))

    def _replays(self, tensors: list[tw.Tensor]) -> Callable[[], object]:
        """Replays of a graph after the first one, which inspects every tensor."""
        with tw.graph() as graph:
            for z, x, y in zip(tensors[::3], tensors[1::3], tensors[2::3], strict=True):
                graph.record(self.add(z.partition(LENGTH), x, y))
        graph.launch().sync()
        return lambda: graph.launch().submit()

    def graph_call(self) -> Callable[[], object]:
        """The driver's share of the replay of the small graph."""
        with tw.graph() as graph:
            graph.record(self.add(self.z.partition(LENGTH), self.x, self.y))
        queue = self.z.device.stream.queue
        return lambda: graph._built._instance.launch(queue)  # type: ignore[union-attr] # noqa: SLF001

    def _many(self, count: int) -> list[tw.Tensor]:
        return _tensors(self.device, count)


def _once(whole: Callable[[], object]) -> Callable[[], object]:
    """All steps at the first call, none at the others; a round divides by their number."""
    left = [whole]
    return lambda: left.pop()() if left else None


def _both(first: Callable[[], object], second: Callable[[], object]) -> Callable[[], object]:
    """Repeat until the fast path is reached."""

    def both() -> None:
        first()
        second()

    for _ in range(3):
        both()
    return both


CASES = {
    "driver_call": "the driver's call alone, as we reach it",
    "partition": "`z.partition(2048)` alone",
    "prepared": "same handles: partition, build, submit",
    "prepared_cut": "same handles, partition made before",
    "built": "built and closed, not submitted",
    "alternating": "two kernels that hand results to each other (both)",
    "planned": "tensors that no launch has seen",
    "slices": "slices that no launch has seen, on memory that none has used",
    "views": "handles that no launch has seen, on memory that others have used",
    "extents": "lengths that no launch has seen",
    "new_tensors": "an output that is made for the launch",
    "scalars": "another number each time",
    "library_out": "`kernels.matmul(a, b, out=c)`",
    "library_made": "`kernels.matmul(a, b)`, whose output is made for it",
    "library_rows_out": "`kernels.softmax(x, out=z)`",
    "library_rows_made": "`kernels.softmax(x)`, whose output is made for it",
    "zipped": "a step of operations built before, submitted as one",
    "chained": "a step of a chain whose functions build the next",
    "graph_call": "the driver's replay of a graph alone",
    "graph_few": "a graph of one launch: build, submit",
    "graph_many": "a graph over 300 tensors: build, submit",
    "graph_read": "a graph of one launch, and a launch that reads its result (both)",
    "graph_turns": "two graphs that write the same 100 of 300 tensors, in turns (both)",
    "torch_tensors": "torch tensors as arguments",
    "torch_views": "torch tensors that no launch has seen, on memory that is known",
    "torch_new": "torch tensors that no launch has seen, with memory of their own",
    "torch_outputs": "an output of torch that is made for the launch",
}
LEFT_OUT = {
    "null": set[str](),
    "cpu": {"driver_call", "graph_call"},  # there is no driver to call
    "cuda": set[str](),
}
COLUMNS = {"null": "a driver that does nothing", "cuda": "the GPU", "cpu": "the CPU device"}
TITLE = "Host time of one launch, by launch path"
NOTE = """\
Time of the calling thread, the least of many rounds of a hundred launches. With a driver that \
does nothing, the time is our own; the rest is the driver's."""


def _measure(cases: _Cases, name: str, rounds: int) -> float:
    """Microseconds of one launch."""
    stream = cases.z.device.stream
    least = float("inf")
    for _ in range(rounds):
        run = getattr(cases, name)()
        cases.z.device.synchronize()  # frees the tensors dropped by the last round
        hold = stream.hold() if cases.device == "cpu" else None
        gc.collect()
        gc.disable()
        start = time.thread_time_ns()
        for _ in range(LAUNCHES):
            run()
        least = min(least, time.thread_time_ns() - start)
        gc.enable()
        if hold is not None:
            hold.release()
        stream.sync()
    return least / LAUNCHES / 1e3


def _profile(cases: _Cases, name: str) -> None:
    run = getattr(cases, name)()
    profile = cProfile.Profile()
    profile.enable()
    for _ in range(LAUNCHES):
        run()
    profile.disable()
    pstats.Stats(profile).sort_stats("tottime").print_stats(30)


def _figures(device: str, options: argparse.Namespace) -> Iterator[tuple[str, float]]:
    """Paths and their microseconds on one device, in this process."""
    names = options.only.split(",") if options.only else list(CASES)
    with null_gpu() if device == "null" else mock.MagicMock():
        # The null driver's streams are mere numbers, so torch's allocator must not record them.
        theirs = "cuda" if device == "cuda" else "cpu"
        cases = _Cases("cpu" if device == "cpu" else "cuda", theirs)
        for name in names:
            if name in LEFT_OUT[device]:
                continue
            if options.profile:
                _profile(cases, name)
                continue
            try:
                yield name, _measure(cases, name, options.rounds)
            except Exception as error:  # noqa: BLE001 (the other paths are still measured)
                print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)


def _all_figures(device: str, options: argparse.Namespace) -> list[tuple[str, float]]:
    return list(_figures(device, options))


def _elsewhere(device: str, options: argparse.Namespace) -> list[tuple[str, float]]:
    """Measure one device in a child process, which keeps its substitute driver."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
        return process.submit(_all_figures, device, options).result()


def _fill(table: Table, found: dict[str, dict[str, float]]) -> None:
    """All rows with figures, in the order of the paths."""
    table.rows = [
        (what, *(f"{times[name]:.2f}" if name in times else "" for times in found.values()))
        for name, what in CASES.items()
        if any(name in times for times in found.values())
    ]


def _show(devices: list[str], options: argparse.Namespace) -> None:
    """Measure all devices; each figure is written at once, and the last device needs no child."""
    report = Report("host_path", TITLE, options.json)
    report.note(NOTE)
    table = Table("Microseconds a launch", ("way", *(COLUMNS[device] for device in devices)))
    report.table(table)
    found: dict[str, dict[str, float]] = {device: {} for device in devices}
    *others, last = devices
    sources = {device: partial(_elsewhere, device, options) for device in others}
    for device, source in {**sources, last: partial(_figures, last, options)}.items():
        for name, microseconds in source():
            found[device][name] = microseconds
            _fill(table, found)
            report.figure("host_path", name=name, device=device, microseconds=microseconds)
    print(table.to_text(), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="null", help=f"some of {', '.join(COLUMNS)}")
    parser.add_argument("--only", help=f"some of {','.join(CASES)}")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--profile", action="store_true", help="print a profile instead")
    parser.add_argument("--json", type=Path, help="output file of all figures")
    options = parser.parse_args()
    devices = options.device.split(",")
    if unknown := set(devices) - COLUMNS.keys():
        parser.error(f"there is no {', '.join(sorted(unknown))}; there are {', '.join(COLUMNS)}")
    _show(devices, options)


if __name__ == "__main__":
    main()
