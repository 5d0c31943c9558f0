"""Microseconds a launch: z = x + y of 2,048 f16 numbers in one block, a thousand in a row.

Every way to launch is timed in turn with its peers: until the last launch is queued, and until the
device is done. The floor is the driver's own call with packed parameters; beside it is the driver's
call for a graph of that one launch, the form of our launches where the host is the bottleneck.

"New handles" are tensors with memory of their own and without an earlier launch; others of the same
shape, dtype and alignment have been launched. They are allocated before the timer starts; the timer
includes partition, build and submission. "New slices" are new parts of larger tensors, and "new
views" are on memory of earlier launches. torch tensors are the same objects every time; "new torch
tensors" are new objects, with memory of their own or on known memory, made before; "a new torch
output" is made inside the timer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import kernels
import numpy as np
from lab import Lab
from raw_graphs import in_a_chain, raw_graph
from timed_ways import later, timed_ways

import tilewright as tw
from tilewright.bench import Bound, HostCost, Prepare, Report, Table, Target, each

__all__ = [
    "ALLOWED",
    "BESIDE_CUTILE",
    "CHAIN",
    "CUTILE",
    "FLOOR",
    "LENGTH",
    "NEW_HANDLES",
    "ONE_NODE",
    "OURS",
    "TORCH_ARGUMENTS",
    "Additions",
    "measure_rates",
    "target_name",
]

LENGTH = 2048
LAUNCHES = 1000  # below the depth of a stream's queue, so that no launch waits for a slot
FLOOR = "driver, parameters ready"
ONE_NODE = "driver, a graph of one node"
CUTILE = "cuTile Python, ct.launch"
OURS = "ours, same handles"
CHAIN = "ours, chain built before"
NEW_HANDLES = "ours, new handles"
TORCH_ARGUMENTS = "ours, torch tensors"
BESIDE_CUTILE = f"a launch, {OURS}: beside cuTile Python"
# Allowed microseconds above the floor.
ALLOWED = {OURS: 2.0, CHAIN: 0.8, NEW_HANDLES: 5.0, TORCH_ARGUMENTS: 5.0}


KERNEL: Any = tw.kernel(deny_checks=True)(kernels.add)


class Additions:
    """Tensors, the kernel, and all available ways to launch it."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.kernel = KERNEL
        self.z = lab.empty(LENGTH)
        self.x, self.y = lab.random(LENGTH, seed=1), lab.random(LENGTH, seed=2)
        self._chains: list[tw.Tensor] = []

    def op(self, z: tw.Tensor | None = None) -> tw.DeviceOp[Any]:
        """One addition of ours."""
        output = self.z if z is None else z
        operation: tw.DeviceOp[Any] = self.kernel(output.partition(LENGTH), self.x, self.y)
        return operation

    def ways(self) -> Iterator[tuple[str, Prepare]]:
        """The floor first, then the peers, then ours."""
        if f"add-f16-{LENGTH}" in self.lab.peers:
            yield FLOOR, later(self.raw)
            yield ONE_NODE, later(lambda: raw_graph(self.lab, [self.raw()], in_a_chain(1)))
        if self.lab.has_gpu:
            yield from self._peers()
        cut = self.z.partition(LENGTH)
        yield OURS, each(lambda: self.kernel(self.z.partition(LENGTH), self.x, self.y).submit())
        yield "ours, partition made before", each(lambda: self.kernel(cut, self.x, self.y).submit())
        yield NEW_HANDLES, self._new_handles
        yield "ours, new slices", self._new_slices
        yield "ours, new views", self._new_views
        yield CHAIN, self._chain
        yield "ours, chain built inside the timer", self._chain_inside
        if self.lab.has_gpu:
            yield TORCH_ARGUMENTS, later(self._torch_arguments)
            yield "ours, new torch tensors", self._new_torch_tensors
            yield "ours, new torch views", self._new_torch_views
            yield "ours, a new torch output", later(self._new_torch_output)

    def raw(self) -> Callable[[], None]:
        """The driver's call on the same tensors."""
        peer = self.lab.peers[f"add-f16-{LENGTH}"]
        return peer.launch(self.lab.stream, 0, self.z, self.x, self.y)

    def _peers(self) -> Iterator[tuple[str, Prepare]]:
        lab = self.lab
        torch = lab.load("torch")
        z, x, y = map(lab.as_torch, (self.z, self.x, self.y))
        yield "torch.add", each(lambda: torch.add(x, y, out=z))
        if lab.has("triton"):
            yield "Triton", later(lambda: lab.load("triton_kernels").adder(z, x, y, LENGTH))
        if lab.has("cuda.tile"):
            yield (
                CUTILE,
                later(lambda: lab.load("cutile_launch").adder(z, x, y, LENGTH, lab.stream)),
            )

    def _of_torch(self) -> tuple[Any, ...]:
        """Tensors of torch in place of ours."""
        torch = self.lab.load("torch")
        made = tuple(self.lab.as_torch(one).clone() for one in (self.z, self.x, self.y))
        torch.cuda.synchronize()
        return made

    def _torch_arguments(self) -> Callable[[], object]:
        """The same torch tensors every time."""
        z, x, y = self._of_torch()
        return lambda: self.kernel(tw.partition(z, LENGTH), x, y).submit()

    def _new_torch_tensors(self, count: int) -> Callable[[], None]:
        """New torch tensors, made before."""
        made = self._of_torch()
        return self._each_of_torch([tuple(t.clone() for t in made) for _ in range(count)])

    def _new_torch_views(self, count: int) -> Callable[[], None]:
        """New torch tensors on known memory."""
        made = self._of_torch()
        return self._each_of_torch([tuple(t.view(LENGTH) for t in made) for _ in range(count)])

    def _each_of_torch(self, fresh: list[tuple[Any, ...]]) -> Callable[[], None]:
        def run() -> None:
            for z, x, y in fresh:
                self.kernel(tw.partition(z, LENGTH), x, y).submit()

        return run

    def _new_torch_output(self) -> Callable[[], object]:
        """An output that torch makes for the launch, in its own memory."""
        z, x, y = self._of_torch()
        return lambda: self.kernel(tw.partition(z.new_empty(LENGTH), LENGTH), x, y).submit()

    def _new_handles(self, count: int) -> Callable[[], None]:
        """Tensors without an earlier launch, made before."""
        empty = self.lab.empty
        return self._each_cut([tuple(empty(LENGTH) for _ in range(3)) for _ in range(count)])

    def _new_slices(self, count: int) -> Callable[[], None]:
        """Parts of larger tensors without an earlier launch, made before."""
        whole = [self.lab.empty(LENGTH * count) for _ in range(3)]
        places = [slice(n * LENGTH, (n + 1) * LENGTH) for n in range(count)]
        return self._each_cut([tuple(t[place] for t in whole) for place in places])

    def _new_views(self, count: int) -> Callable[[], None]:
        """New handles on memory of earlier launches, made before."""
        tensors = (self.z, self.x, self.y)
        return self._each_cut([tuple(t.view(LENGTH) for t in tensors) for _ in range(count)])

    def _each_cut(self, fresh: list[tuple[Any, ...]]) -> Callable[[], None]:
        """A launch for each of some outputs and inputs."""

        def run() -> None:
            for z, x, y in fresh:
                self.kernel(z.partition(LENGTH), x, y).submit()

        return run

    def _chain(self, count: int) -> Callable[[], object]:
        """Prebuilt operations, each with an output, as one; the timer includes only the run."""
        while len(self._chains) < count:
            self._chains.append(self.lab.empty(LENGTH))
        chain = tw.zip(*(self.op(z) for z in self._chains[:count])).compile()
        return chain.submit

    def _chain_inside(self, count: int) -> Callable[[], object]:
        """A chain whose steps build their operations when they are reached."""

        def run() -> None:
            chain = self.op()
            for _ in range(count - 1):
                chain = chain.then(lambda _: self.op())
            chain.submit()

        return run


def measure_rates(lab: Lab, report: Report) -> None:
    additions = Additions(lab)
    found = timed_ways(lab, report, "rates", dict(additions.ways()), count=LAUNCHES)
    table = Table(
        "Microseconds a launch, back to back on one stream (best turn)",
        ("way", "until queued", "until done", "above the floor", "allowed"),
    )
    floor = _microseconds(found.get(FLOOR))
    for name, cost in found.items():
        done = _microseconds(cost)
        allowed = f"{ALLOWED[name]:.1f}" if name in ALLOWED else ""
        table.add(
            name, f"{cost.queued.least * 1e6:.2f}", f"{done:.2f}", f"{done - floor:+.2f}", allowed
        )
        report.figure("rates", name=name, **cost.to_json())
    print(table.to_text(), flush=True)
    report.table(table)
    for target in _targets(found, floor):
        report.target(target)
    _check(additions)


def _microseconds(cost: HostCost | None) -> float:
    return math.nan if cost is None else cost.done.least * 1e6


def target_name(way: str) -> str:
    """The target of a way: microseconds above the driver's own call."""
    return f"a launch, {way}: above the driver's own call"


def _targets(found: dict[str, HostCost], floor: float) -> Iterator[Target]:
    for name, allowed in ALLOWED.items():
        above = _microseconds(found.get(name)) - floor
        yield Target(target_name(name), Bound.AT_MOST, allowed, above, "us")
    yield Target(
        BESIDE_CUTILE,
        Bound.AT_MOST,
        _microseconds(found.get(CUTILE)),
        _microseconds(found.get(OURS)),
        "us",
    )


def _check(additions: Additions) -> None:
    """Check the result of the last way; every way writes the same values."""
    z, x, y = (t.numpy().astype(np.float32) for t in (additions.z, additions.x, additions.y))
    np.testing.assert_array_equal(z, (x + y).astype(np.float16).astype(np.float32))
