"""Random operations, recorded and replayed, against the same operations run one by one.

Everything is submitted to held streams, so that no failure is known before the end; then the
values must be those of NumPy in program order, and a failure must reach all that depends on it:
at least where elements really come from it, and nowhere where running one by one would not say so.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
import runtime_names as tw
from hypothesis import given, settings
from hypothesis import strategies as st
from paper_launches import FunctionWork, floats, load, paper_device
from runtime_doubles import RecordingDriver, operation, reads, updates, writes

from tilewright.backends.cpu.device import CpuBackend
from tilewright.backends.cpu.graph import CpuGraph
from tilewright.dtypes import f32
from tilewright.errors import OutOfBoundsError

TENSORS, SIZE, STREAMS = 4, 4, 3
PARTS = (slice(0, 4), slice(0, 2), slice(2, 4), slice(1, 3))


@dataclass(frozen=True)
class Step:
    """An operation: `z` becomes a mixture of itself and of `x`, or a number if there is no `x`."""

    z: int
    z_part: slice
    x: int | None
    x_part: slice
    fails: bool

    @property
    def makes_sense(self):
        apart = self.x_part.stop <= self.z_part.start or self.z_part.stop <= self.x_part.start
        return self.x is None or self.x != self.z or apart

    def build(self, tensors):
        z = tensors[self.z][self.z_part]
        accesses = [writes(z)]
        if self.x is not None:
            x = tensors[self.x][self.x_part]
            accesses = [updates(z), reads(x)]

        def run(*arrays):
            mix(*arrays)
            if self.fails:
                raise OutOfBoundsError("on purpose")

        return operation("step", run, *accesses)


def mix(z, x=None):
    z[:] = 5 if x is None else (z * 3 + x.mean() + 1) % 97


@dataclass
class Truth:
    """The values by NumPy, and the elements that come from a failure."""

    values: list = field(
        default_factory=lambda: [np.full(SIZE, n, np.float32) for n in range(TENSORS)]
    )
    tainted: list = field(default_factory=lambda: [np.zeros(SIZE, bool) for _ in range(TENSORS)])

    def run(self, step):
        bad = step.fails
        arrays = [self.values[step.z][step.z_part]]
        if step.x is not None:
            arrays.append(self.values[step.x][step.x_part])
            bad = bad or self.tainted[step.x][step.x_part].any()
            bad = bad or self.tainted[step.z][step.z_part].any()
        mix(*arrays)
        self.tainted[step.z][step.z_part] = bad


steps = st.builds(
    Step,
    st.integers(0, TENSORS - 1),
    st.sampled_from(PARTS),
    st.none() | st.integers(0, TENSORS - 1),
    st.sampled_from(PARTS),
    st.integers(0, 7).map(lambda n: n == 0),
).filter(lambda step: step.makes_sense)
graphs = st.lists(st.lists(steps, max_size=7), min_size=1, max_size=3)
# An operation by itself or, by its number, a graph, which is as likely; and the stream.
plans = st.lists(
    st.tuples(st.one_of(steps, st.integers(0, 2)), st.integers(0, STREAMS - 1)), max_size=12
)


def cpu_device():
    device = object.__new__(tw.Device)
    device.attach("cpu", 0, CpuBackend())
    return device


def make_tensors(device):
    return [tw.full(SIZE, number, f32, device=device) for number in range(TENSORS)]


def look(tensors):
    """The values of every part, or None where reading it raises."""
    found = {}
    for number, tensor in enumerate(tensors):
        for part in PARTS:
            try:
                found[number, part.start, part.stop] = tensor[part].numpy().tolist()
            except OutOfBoundsError:
                found[number, part.start, part.stop] = None
    return found


def run(device, recorded, plan, submit):
    """Submit a plan to held streams and look at the end."""
    tensors = make_tensors(device)
    for tensor in tensors:
        tensor.wait()
    streams = [device.new_stream() for _ in range(STREAMS)]
    made = recorded(tensors)
    holds = [stream.hold() for stream in streams]
    for what, stream in plan:
        submit(tensors, made, what, streams[stream])
    for hold in holds:
        hold.release()
    found = look(tensors)
    device.unseen.clear()
    return found


def steps_of(what, graphs):
    """The operations that a part of a plan stands for."""
    return [what] if isinstance(what, Step) else graphs[what % len(graphs)]


def record(tensors, graphs):
    made = []
    for steps in graphs:
        with tw.graph() as g:
            for step in steps:
                g.record(step.build(tensors))
        made.append(g)
    return made


def run_replaying(graphs, plan):
    def replay(tensors, made, what, stream):
        is_step = isinstance(what, Step)
        op = what.build(tensors) if is_step else made[what % len(made)].launch()
        op.submit(stream)

    device = cpu_device()
    with tw.device(device):
        return run(device, lambda tensors: record(tensors, graphs), plan, replay)


def run_one_by_one(graphs, plan):
    def submit(tensors, _, what, stream):
        for step in steps_of(what, graphs):
            step.build(tensors).submit(stream)

    return run(cpu_device(), lambda _: None, plan, submit)


@settings(max_examples=120, deadline=None)
@given(graphs=graphs, plan=plans)
def test_replays_are_what_running_one_by_one_is(graphs, plan):
    truth = Truth()
    for step in (step for what, _ in plan for step in steps_of(what, graphs)):
        truth.run(step)
    replayed, eager = run_replaying(graphs, plan), run_one_by_one(graphs, plan)
    for key, value in replayed.items():
        number, part = key[0], slice(*key[1:])
        if truth.tainted[number][part].any():
            assert value is None
        if value is None:
            assert eager[key] is None
        else:
            assert value == truth.values[number][part].tolist()


def whole_kernel(driver, _blocks, z, x):
    mix(floats(driver, z, SIZE), floats(driver, x, SIZE))


class OnPaper:
    """One graph of random launches on the paper GPU, beside NumPy."""

    def __init__(self, pairs, seed):
        self.driver = RecordingDriver(seed)
        self.device = paper_device(self.driver)
        self.function = load(self.driver, "mix", whole_kernel)
        self.tensors, self.truth = make_tensors(self.device), Truth()
        self.streams = [self.device.new_stream() for _ in range(STREAMS)]
        self.pairs = pairs
        self.record()

    def build(self, z, x):
        z, x = self.tensors[z], self.tensors[x]
        work = FunctionWork(self.function, (z, x))
        return tw.make_operation("mix", self.device, (updates(z), reads(x)), work, None)

    def expect(self, *pairs):
        for z, x in pairs:
            mix(self.truth.values[z], self.truth.values[x])

    def record(self, *_):
        with tw.device(self.device), tw.graph() as self.graph:
            for pair in self.pairs:
                self.graph.record(self.build(*pair))

    def run(self, pair, stream):
        self.build(*pair).submit(self.streams[stream])
        self.expect(pair)

    def replay(self, _, stream):
        self.graph.launch().submit(self.streams[stream])
        self.expect(*self.pairs)

    def update(self, pair, _):
        number = sum(pair) % len(self.pairs)
        self.graph.update(self.build(*pair), node=number)
        self.pairs[number] = pair

    def read(self, pair, _):
        for number in pair:
            values = self.truth.values[number]
            assert self.tensors[number].numpy().tolist() == values.tolist()


pairs = st.permutations(range(TENSORS)).map(lambda order: tuple(order[:2]))
changes = st.tuples(
    st.sampled_from(["run", "replay", "replay", "update", "record", "read"]),
    pairs,
    st.integers(0, STREAMS - 1),
)


@settings(max_examples=80, deadline=None)
@given(
    pairs=st.lists(pairs, min_size=1, max_size=6),
    plan=st.lists(changes, max_size=16),
    seed=st.integers(0, 2**16),
)
def test_the_paper_gpu_runs_nodes_in_any_order_that_edges_allow(pairs, plan, seed):
    paper = OnPaper(pairs, seed)
    for kind, pair, stream in plan:
        getattr(paper, kind)(pair, stream)
        paper.driver.step(paper.driver.streams[seed % STREAMS])
    paper.read(range(TENSORS), None)
    paper.graph = None
    paper.device.synchronize()
    paper.device.synchronize()
    assert paper.driver.executables == paper.driver.graphs == []


@pytest.mark.parametrize("missing", [0, 1])
def test_a_missing_edge_would_show(missing, cpu):
    """The order that the CPU takes is not that of recording: this test has teeth."""
    order = []
    after = [(), (0,)] if not missing else [(), ()]
    nodes = [(lambda queue, n=n: queue.put(lambda: order.append(n)), after[n]) for n in range(2)]
    CpuGraph(nodes).launch(cpu.stream.queue)
    cpu.stream.wait(cpu.stream.advance())
    assert order == ([1, 0] if missing else [0, 1])
