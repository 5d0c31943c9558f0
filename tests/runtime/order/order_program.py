"""A random program on four streams of a GPU on paper, which is checked with vector clocks."""

from __future__ import annotations

import os
import random
from contextlib import nullcontext, suppress

import numpy as np
import runtime_names as tw
from collector_points import Ended
from paper_launches import FunctionWork, paper_device
from runtime_doubles import edges, reads, updates, writes
from vector_clocks import ClockedDriver, touch

from tilewright.backends.cuda.module import POINTER, CudaFunction
from tilewright.dtypes import f32
from tilewright.errors import BorrowError

COUNT = int(os.environ.get("MODEL_COUNT", "4000"))
SEED = int(os.environ.get("MODEL_SEED", "0"))
EACH = 250  # changes of one program
ROOTS, STREAMS, SHAPE = 5, 4, (4, 6)

# Views of a root, which overlap or do not: rows, columns, boxes, every other element.
VIEWS = (
    lambda t: t,
    lambda t: t[:2],
    lambda t: t[2:],
    lambda t: t[1:3],
    lambda t: t[:, :3],
    lambda t: t[:, 3:],
    lambda t: t[::2],
    lambda t: t[1::2],
    lambda t: t[:, 1::3],
    lambda t: t[1:3, 2:4],
    lambda t: t.reshape(24)[5:11],
    lambda t: t.T[2:4],
    lambda t: t[3, 4],
)
CREATORS = (
    lambda device: tw.zeros(SHAPE, f32, device=device),
    lambda device: tw.empty(SHAPE, f32, device=device),
    lambda device: tw.from_numpy(np.ones(SHAPE, np.float32), device=device),
)


class Program:
    """One program on a paper GPU; a change is a method, drawn by weight."""

    WEIGHTS = {
        "submit": 60, "chain": 6, "read": 8, "drop": 8, "record": 4, "replay": 20, "in_turns": 12,
        "update": 4, "forget": 2, "step": 12, "wait": 2, "wait_for_stream": 2, "synchronize": 1,
        "end": 6,
    }  # fmt: skip

    def __init__(self, seed: int, streams: int = STREAMS) -> None:
        self.draw = random.Random(seed)
        self.driver = ClockedDriver(seed)
        self.driver.patient = self.draw.random() < 0.5
        for arity in (1, 2, 3):
            self.driver.kernels[f"touch{arity}"] = ((8,) * arity, lambda *_: None)
        self.device = paper_device(self.driver)
        self.functions = [
            CudaFunction(self.driver, b"", f"touch{arity}", (POINTER,) * arity)
            for arity in (1, 2, 3)
        ]
        self.streams = [self.device.new_stream() for _ in range(streams)]
        self.roots = [self.create() for _ in range(ROOTS)]
        self.graphs: list[tuple[tw.Graph, list]] = []
        self.submissions = 0
        self.direct = 0  # submissions with a direct timeline of a graph

    def run(self, changes: int) -> None:
        names, weights = zip(*self.WEIGHTS.items(), strict=True)
        # With one stream that is the current one, too, so that host reads use it.
        alone = tw.stream(self.streams[0]) if len(self.streams) == 1 else nullcontext()
        with tw.device(self.device), alone:
            for name in self.draw.choices(names, weights, k=changes):
                getattr(self, name)()
                assert not self.driver.problems, (name, self.driver.problems)
                self.check()
            self.let_go()
            for _ in range(3):  # graphs are destroyed first, then their memory
                self.device.synchronize()
                with self.device.lock:
                    self.device.empty_free_lists()
        for stream in self.driver.streams:
            self.driver.synchronize_stream(stream)
        assert not self.driver.problems
        assert not self.driver.memory, "something was never freed"

    def check(self) -> None:
        """Invariants of graph accesses, which show long before work is out of order."""
        for graph, _ in self.graphs:
            for access in graph._built.access.timelines:
                if access.timeline.stream is not None:
                    self.check_direct(access)
                self.check_conflicting(access)
                if access.index not in access.graph.dirty and not self.is_direct(access):
                    self.check_clean(access)

    def is_direct(self, access) -> bool:
        return access.timeline in access.graph.direct

    def check_direct(self, access) -> None:
        """A timeline with a sole stream has no other replay, and its graphs check it next time."""
        graph, stream = access.graph, access.timeline.stream
        assert self.is_direct(access) or access.index in graph.dirty
        assert not graph.holders
        if graph.stamp not in (None, access.seen):
            assert graph.stamp.stream is stream
            assert not graph.stamp.is_doubtful
        assert all(use.stream is stream and use.outcome is None for use in access.timeline.uses)

    def check_conflicting(self, access) -> None:
        """Conflicting replays that a timeline has not recorded are all on one stream."""
        graph = access.graph
        if graph.stamp in (None, access.seen):
            return
        for other in access.member.storage.timeline.graphs:
            stamp = other.graph.stamp
            conflicts = access.index in graph.conflicting.get(other.graph, ())
            if conflicts and stamp not in (None, other.seen):
                assert stamp.stream is graph.stamp.stream

    def check_clean(self, access) -> None:
        """Uses of a timeline that is not dirty come before the last replay."""
        graph = access.graph
        if any(access.index in graph.conflicting[other] for other in graph.overtaken):
            return
        for use in access.member.storage.timeline.uses:
            is_behind = use.stream is graph.stamp.stream and use.count > graph.stamp.count
            conflicts = access.member.conflicts(use.region, writes=use.writes) is not None
            assert not is_behind or not conflicts

    def let_go(self) -> None:
        self.graphs.clear()
        self.roots.clear()

    def create(self) -> tw.Tensor:
        return self.draw.choice(CREATORS)(self.device)

    def view(self) -> tw.Tensor:
        return self.draw.choice(VIEWS)(self.draw.choice(self.roots))

    def stream(self) -> tw.Stream:
        return self.draw.choice(self.streams)

    def build(self) -> tuple[tw.DeviceOp, list]:
        """An operation that writes one view and reads up to two others; and what it touches."""
        z = self.view()
        given = [x for x in (self.view(), self.view()) if _apart(z, x)]
        inputs = given[: self.draw.randrange(3)]
        mode = self.draw.choice((writes, updates))
        accesses = (mode(z), *(reads(x) for x in inputs))
        work = FunctionWork(self.functions[len(inputs)], (z, *inputs))
        made = tw.make_operation(f"touch{len(inputs)}", self.device, accesses, work, None)
        return made, [(z, True), *((x, False) for x in inputs)]

    def put(self, operation: tw.DeviceOp, subject: list, stream: tw.Stream | None = None) -> None:
        self.driver.subject = tuple(subject)
        timelines = {tensor.storage.timeline for tensor, _ in subject}
        self.direct += any(one.graphs and one.stream for one in timelines)
        operation.submit(stream or self.stream())
        self.driver.subject = ()
        self.submissions += 1

    # The changes.

    def submit(self) -> None:
        self.put(*self.build())

    def chain(self) -> None:
        """Steps of a chain run on one stream and are submissions like any other."""
        first, subject = self.build()

        def step(_):
            made, self.driver.subject = self.build()
            self.submissions += 1
            return made

        self.put(first.then(step).then(step), subject)

    def read(self) -> None:
        view = self.view()
        self.driver.subject = ((view, False),)
        view.numpy()
        self.driver.subject = ()
        self.submissions += 1

    def drop(self) -> None:
        self.roots[self.draw.randrange(ROOTS)] = self.create()

    def record(self) -> None:
        if len(self.graphs) == 3:
            return
        nodes = []
        with tw.graph() as g:
            for _ in range(self.draw.randint(1, 5)):
                nodes += self.record_one(g)
        if nodes:
            self.graphs.append((g, nodes))
            _check_edges(g, nodes)

    def record_one(self, graph: tw.Graph) -> list:
        """Uses of the node, if there is one."""
        operation, subject = self.build()
        graph.record(operation)
        return [subject]

    def replay(self) -> None:
        """Once, or several graphs in turns on one stream."""
        stream = self.stream()
        for _ in range(self.draw.choice((1, 1, 3, 6))):
            if self.graphs:
                g, nodes = self.draw.choice(self.graphs)
                self.put(g.launch(), [use for subject in nodes for use in subject], stream)

    def in_turns(self) -> None:
        """Launches and replays on one stream, most of them of one graph."""
        stream = self.stream()
        mostly = self.draw.choice(self.graphs) if self.graphs else None
        for _ in range(self.draw.choice((3, 6, 12))):
            if mostly is None or self.draw.random() < 0.5:
                self.put(*self.build(), stream)
            else:
                often = self.draw.random() < 0.8
                g, nodes = mostly if often else self.draw.choice(self.graphs)
                self.put(g.launch(), [use for subject in nodes for use in subject], stream)
            self.check()

    def update(self) -> None:
        if self.graphs:
            g, nodes = self.draw.choice(self.graphs)
            operation, subject = self.build()
            alike = [n for n, one in enumerate(nodes) if len(one) == len(subject)]
            if not alike:
                operation.close()
                return
            number = self.draw.choice(alike)
            g.update(operation, node=number)
            nodes[number] = subject
            _check_edges(g, nodes)

    def forget(self) -> None:
        if self.graphs:
            self.graphs.pop(self.draw.randrange(len(self.graphs)))

    def step(self) -> None:
        for stream in self.draw.choices(self.driver.used_streams, k=6):
            self.driver.step(stream)

    def wait(self) -> None:
        self.view().wait()

    def wait_for_stream(self) -> None:
        self.stream().sync()

    def synchronize(self) -> None:
        self.device.synchronize()

    def end(self) -> None:
        """Something ends when its stream is next looked at, and launches as it likes."""
        stream = self.stream()
        with self.device.lock:
            stream._kept.appendleft((0, Ended(self.submit_in_between), 0))
            stream.has_loose_ends = True

    def submit_in_between(self) -> None:
        subject = self.driver.subject  # of the operation that is being submitted
        if self.roots:
            with suppress(BorrowError):  # and holds what this one would like to have
                self.submit()
        self.driver.subject = subject


def _apart(z: tw.Tensor, x: tw.Tensor) -> bool:
    return z.storage is not x.storage or not z.region.overlaps(x.region)


def _check_edges(graph: tw.Graph, nodes: list) -> None:
    """Nodes in conflict have a way from one to the other, and no edge is implied by others."""
    before: list[set[int]] = []
    touches = [[touch(tensor, writes=w) for tensor, w in subject] for subject in nodes]
    for number, after in enumerate(edges(graph)):
        implied = set().union(*(before[one] for one in after))
        assert not implied & set(after), "an edge that others imply"
        before.append(implied | set(after))
        for one in range(number):
            meeting = any(a.meets(b) for a in touches[one] for b in touches[number])
            assert not meeting or one in before[number], "nodes in conflict without an order"
