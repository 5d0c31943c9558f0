"""Finalisers that launch in the middle of a launch, at every point where the collector may run.

A GPU on paper, of which nothing runs before all is there: so each way to a launch is taken with
something else at every point of it, and what comes of that must be the same in whatever order the
streams run, and what one after the other gives.
"""

from __future__ import annotations

import itertools
from collections import deque

import numpy as np
import paper_kernels
import pytest
from collector_points import Points
from paper_kernels import SIZE

import tilewright as tw
from tilewright import f32
from tilewright.errors import BorrowError, LaunchError
from tilewright.runtime.graphs.replay import Replay
from tilewright.runtime.ops.operation import Chain
from tilewright.runtime.ops.ready import ReadyOp
from tilewright.runtime.ops.series import Series
from tilewright.runtime.ops.zip import Zip
from tilewright.runtime.order.alone import alone

NAMES = "zxabuv"


class Bench:
    """Six tensors, launches that write one of them and read another, and two more streams."""

    def __init__(self, gpu, cuda):
        self.gpu, self.device = gpu, cuda
        self.kernel = paper_kernels.one_more()
        self.elsewhere, self.third = cuda.new_stream(), cuda.new_stream()
        numbers = np.zeros(SIZE, np.float32)
        self.tensors = {name: tw.from_numpy(numbers) for name in NAMES}
        for tensor in self.tensors.values():
            with cuda.lock:
                alone(cuda, tensor.storage.materialise, cuda.stream)
        self.kept = []

    def launch(self, z, x):
        return self.kernel(self.tensors[z].partition(SIZE), self.tensors[x])

    def series(self):
        @tw.function
        def thrice(x: tw.Tensor, z: tw.Tensor, a: tw.Tensor, b: tw.Tensor) -> tw.DeviceOp:
            return (
                self.kernel(z.partition(SIZE), x)
                .then(lambda _: self.kernel(a.partition(SIZE), z))
                .then(lambda _: self.kernel(b.partition(SIZE), a))
                .giving(b)
            )

        return lambda: thrice(*(self.tensors[name] for name in "xzab")).submit()

    def made(self):
        @tw.function
        def made(x: tw.Tensor) -> tw.DeviceOp:
            z = tw.empty(SIZE, f32, device=x.device)
            return self.kernel(z.partition(SIZE), x).giving(z)

        def launch():
            found = made(self.tensors["x"]).sync()
            self.kernel(self.tensors["z"].partition(SIZE), found).submit()

        return launch

    def new(self):
        z = tw.empty(SIZE, f32)
        self.kernel(z.partition(SIZE), self.tensors["x"]).submit()
        self.kernel(self.tensors["z"].partition(SIZE), z).submit()

    def elsewhere_and_here(self):
        self.launch("z", "x").submit(self.third)
        self.launch("a", "z").submit()

    def replay(self, z, x, stream=None):
        with tw.graph() as graph:
            graph.record(self.launch(z, x))
        return lambda: graph.launch().submit(stream)

    def replay_and_launch(self, step, behind):
        replay = self.replay(*step)

        def both():
            replay()
            self.launch(*behind).submit()

        return both

    def keep(self):
        self.kept.append(self.launch("u", "v"))

    def settle(self):
        while self.kept:
            self.kept.pop().close()
        self.device.synchronize()

    def reset(self):
        """Another number in each tensor."""
        for number, name in enumerate(NAMES):
            self._floats(name)[:] = 100.0 * number

    def _floats(self, name):
        return self.gpu.at(self.tensors[name].address, 4 * SIZE).view(np.float32)

    def results(self):
        """What is in the tensors, whichever stream goes ahead."""
        streams = [stream for stream in self.gpu.streams if stream.tasks]
        before = [(stream, stream.tasks, stream.done) for stream in self.gpu.streams]
        memory = self.gpu.memory
        for order in itertools.permutations(streams):
            self.gpu.memory = {address: one.copy() for address, one in memory.items()}
            for stream, tasks, done in before:
                stream.tasks, stream.done = deque(tasks), done
            while any(stream.tasks for stream in streams):
                assert any(self.gpu.step(stream) for stream in order), "they wait for each other"
            yield {name: self._floats(name)[0] for name in NAMES}


def one_by_one(steps):
    """What is in the tensors after some launches."""
    found = {name: 100.0 * number for number, name in enumerate(NAMES)}
    for z, x in steps:
        found[z] = found[x] + 1
    return {name: found[name] for name in NAMES}


# How to make it on a bench, and what it launches.
WAYS = {
    "prepared": (lambda b: lambda: b.launch("z", "x").submit(), ["zx"]),
    "waited for": (lambda b: lambda: b.launch("z", "x").sync(), ["zx"]),
    "new": (lambda b: b.new, ["nx", "zn"]),
    "made": (lambda b: b.made(), ["nx", "zn"]),
    "chain": (
        lambda b: lambda: b.launch("z", "x").then(lambda _: b.launch("a", "z")).submit(),
        ["zx", "az"],
    ),
    "series": (lambda b: b.series(), ["zx", "az", "ba"]),
    "zip": (
        lambda b: lambda: tw.zip(b.launch("z", "x"), b.launch("a", "b")).submit(),
        ["zx", "ab"],
    ),
    "elsewhere": (lambda b: b.elsewhere_and_here, ["zx", "az"]),
    "zip elsewhere": (
        lambda b: lambda: tw.zip(b.launch("z", "x"), b.launch("a", "b")).submit(b.third),
        ["zx", "ab"],
    ),
    "replay": (lambda b: b.replay("z", "x"), ["zx"]),
    "replay and launch": (lambda b: b.replay_and_launch("zx", "az"), ["zx", "az"]),
}
NESTED = {
    "other tensors": (lambda b: lambda: b.launch("u", "v").submit(), ["uv"]),
    "the same tensors": (lambda b: lambda: b.launch("z", "x").submit(), ["zx"]),
    "a reader elsewhere": (lambda b: lambda: b.launch("u", "x").submit(b.elsewhere), ["ux"]),
    "another reader elsewhere": (lambda b: lambda: b.launch("u", "z").submit(b.elsewhere), ["uz"]),
    "a writer elsewhere": (lambda b: lambda: b.launch("a", "v").submit(b.elsewhere), ["av"]),
    "a replay": (lambda b: b.replay("u", "v", b.elsewhere), ["uv"]),
    "a replay of the same": (lambda b: b.replay("z", "x"), ["zx"]),
    "a replay of the same elsewhere": (lambda b: b.replay("z", "x", b.elsewhere), ["zx"]),
    "a reading replay": (lambda b: b.replay("u", "x"), ["ux"]),
    "a reading replay elsewhere": (lambda b: b.replay("u", "x", b.elsewhere), ["ux"]),
    "another reading replay": (lambda b: b.replay("u", "z"), ["uz"]),
    "built and kept": (lambda b: b.keep, []),
}
# What follows on another stream: a write that has to wait, and reads of what is there.
WRITES = ["xu", "av", "bv"]
READS = ["uz", "va", "zb"]


@pytest.fixture
def bench(driver, cuda, monkeypatch):
    return Bench(paper_kernels.set_up(driver, monkeypatch), cuda)


def prepare(bench, launch, nested):
    """All ways as quick as they get, and nothing under way."""
    bench.gpu.patient = False
    for again in (launch, nested, launch):
        for _ in range(4):
            again()
            while bench.kept:
                bench.kept.pop().close()
        bench.settle()
    bench.reset()
    bench.gpu.patient = True
    bench.gpu.log.clear()


def check(bench, steps, stream, behind):
    """Nobody holds anything, and the order of the streams is seen to."""
    device = bench.device
    for one in bench.kept:
        one.close()
    assert device.latest is None
    assert not device.told
    assert not any(tensor.storage.borrows for tensor in bench.tensors.values())
    for z, x in behind:
        bench.launch(z, x).submit(stream)
    first, *others = bench.results()
    assert all(one == first for one in others), "one has not waited for another"
    assert first in [one_by_one([*some, *behind]) for some in steps]


def run_nested(bench, way, other, *, by_signals):
    """One in the middle of another, at every point; gives what those say that are refused."""
    (make, steps), (make_other, others) = WAYS[way], NESTED[other]
    launch, nested = make(bench), make_other(bench)
    said, refused = [], []

    def collected():
        try:
            nested()
        except (BorrowError, LaunchError) as error:
            refused.append(str(error))

    for at in itertools.count(0, 7 if by_signals else 1):  # of all, those would take minutes
        prepare(bench, launch, nested)
        refused.clear()
        with Points(at, collected, of_signals=by_signals) as points:
            launch()
        if points.where is None:
            return at, said
        said += refused
        added = [] if refused else others
        both = [[*steps[:cut], *added, *steps[cut:]] for cut in range(len(steps) + 1)]
        assert len(bench.gpu.calls("launch", "launch_graph")) == len(both[0]), points.where
        try:
            stream = (bench.third, bench.elsewhere)[at % 2]
            check(bench, both, stream, [WRITES[at // 2 % 3], *READS])
        except BaseException as error:
            error.add_note(f"at point {at}, {points.where}")
            raise


@pytest.mark.parametrize("other", NESTED)
@pytest.mark.parametrize("way", WAYS)
def test_a_launch_in_the_middle_of_another(bench, way, other):
    count, said = run_nested(bench, way, other, by_signals=False)
    assert count > 10
    assert not any("signal" in text for text in said), "finalisers are not refused for that"


@pytest.mark.parametrize("other", NESTED)
@pytest.mark.parametrize("way", ["elsewhere", "zip elsewhere"])
def test_a_launch_in_a_signal_handler_is_refused_where_it_cannot_be_ordered(bench, way, other):
    count, said = run_nested(bench, way, other, by_signals=True)
    assert any("in the middle of another call" in text for text in said)
    assert len(said) < count // 7, "and not elsewhere"


def test_the_ways_are_what_they_are_called(bench):
    kinds = {"prepared": ReadyOp, "chain": Chain, "series": Series, "zip": Zip, "replay": Replay}
    for way, kind in kinds.items():
        launch = WAYS[way][0](bench)
        for _ in range(4):
            launch().sync()
        assert type(launch()) is kind
