"""CUDA graphs, built node by node.

The work of one recorded operation may be several driver nodes (a launch with its audit, a fill of
eight-byte elements): they form a chain, whose first node follows the operation's predecessors. The
driver copies parameters when a node is added or changed.

The host cost of a graph launch grows with the number of root nodes: a hundred of them take longer
to launch than to run. So at most a fixed number of chains (lanes) run in parallel; other nodes are
appended to one of those, although they do not depend on it. Several roots get a common predecessor,
a kernel that does nothing: then the GPU alone distributes them.

A kernel that itself waits for its predecessors may start early after another one. Its node is never
changed to launch a kernel that does not wait.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum, auto
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn

from tilewright.backends.cuda.driver import Copy, Driver, MatrixFill
from tilewright.backends.cuda.stream import CudaAllocation, CudaQueue
from tilewright.runtime.devices.backend import Bytes, Recipe
from tilewright.runtime.devices.function import LaunchShape
from tilewright.runtime.graphs.recording import allocation_in_graph, copy_to_host_in_graph

__all__ = ["CudaGraph", "in_lanes", "starts_together"]

_NOTHING_RAISES: Mapping[int, BaseException] = MappingProxyType({})
# Fewer lanes delay nodes that could run, more lanes take the GPU longer to distribute.
_LANES = 20
# Number of root nodes from which on they get a common predecessor.
_MANY = 3


class _NodeKind(Enum):
    """Kind of a driver node, which never changes."""

    LAUNCH = auto()
    WAITING_LAUNCH = auto()  # of a kernel that itself waits
    FILL = auto()
    COPY = auto()
    EMPTY = auto()


_LAUNCHES = (_NodeKind.LAUNCH, _NodeKind.WAITING_LAUNCH)


class _DriverNode(NamedTuple):
    """One driver node."""

    kind: _NodeKind
    handle: Any


def _launch_kind(driver: Driver, kernel: Any) -> _NodeKind:
    return _NodeKind.WAITING_LAUNCH if driver.waits(kernel) else _NodeKind.LAUNCH


class _Mismatch(Exception):
    """New work of a node does not fit its driver nodes."""


class _Target(ABC):
    """A sink of work, with the interface of a queue."""

    @abstractmethod
    def launch_shape(self, kernel: Any, shape: LaunchShape, parameters: int) -> None:
        """Add a launch of blocks of threads."""

    def launch(self, kernel: Any, blocks: int, parameters: int) -> None:
        """Add a launch of a one-dimensional grid."""
        self.launch_shape(kernel, LaunchShape.of_blocks(blocks), parameters)

    @abstractmethod
    def put_fill(self, fill: MatrixFill) -> None:
        """Add a fill."""

    @abstractmethod
    def put_copy(self, copy: Copy) -> None:
        """Add a copy."""

    def fill(
        self, allocation: CudaAllocation, pattern: bytes, repeats: int, offset: int = 0
    ) -> None:
        """Fill memory with a repeated pattern."""
        for fill in _fills(allocation.address + offset, pattern, repeats):
            self.put_fill(fill)

    def copy(
        self,
        target: CudaAllocation,
        target_offset: int,
        source: CudaAllocation,
        offset: int,
        nbytes: int,
    ) -> None:
        """Copy bytes on the device."""
        self.put_copy(Copy(target.address + target_offset, source.address + offset, nbytes, False))

    def upload(self, allocation: CudaAllocation, source: Bytes) -> None:
        """Copy host bytes in, at every replay; the caller keeps them alive."""
        self.put_copy(Copy(allocation.address, source.ctypes.data, source.size, True))

    def allocate(self, nbytes: int, pool: object) -> NoReturn:
        """Refuse."""
        raise allocation_in_graph()

    free = allocate

    def download(self, allocation: CudaAllocation, offset: int, target: Bytes) -> NoReturn:
        """Refuse."""
        raise copy_to_host_in_graph()


class _Adding(_Target):
    """Adds work to a graph as a chain of nodes."""

    def __init__(self, driver: Driver, graph: Any, after: list[_DriverNode]) -> None:
        self._driver = driver
        self._graph = graph
        self._behind = after
        self.pieces: list[_DriverNode] = []

    @property
    def _after(self) -> list[Any]:
        return [piece.handle for piece in self._behind]

    def _add(self, kind: _NodeKind, handle: Any) -> None:
        self.pieces.append(_DriverNode(kind, handle))
        self._behind = self.pieces[-1:]

    def launch_shape(self, kernel: Any, shape: LaunchShape, parameters: int) -> None:
        """Add a kernel node."""
        kind, kinds = _launch_kind(self._driver, kernel), [piece.kind for piece in self._behind]
        if kind is _NodeKind.WAITING_LAUNCH and len(kinds) == 1 and kinds[0] in _LAUNCHES:
            add, after = self._driver.add_early_node, self._after[0]
        else:
            add, after = self._driver.add_launch_node, self._after
        self._add(kind, add(self._graph, after, kernel, shape, parameters))

    def put_fill(self, fill: MatrixFill) -> None:
        """Add a memset node."""
        self._add(_NodeKind.FILL, self._driver.add_fill_node(self._graph, self._after, fill))

    def put_copy(self, copy: Copy) -> None:
        """Add a memcpy node."""
        self._add(_NodeKind.COPY, self._driver.add_copy_node(self._graph, self._after, copy))

    def finish(self) -> list[_DriverNode]:
        """Return the nodes; an operation without work gets an empty node, for its successors."""
        if not self.pieces:
            self._add(_NodeKind.EMPTY, self._driver.add_empty_node(self._graph, self._after))
        return self.pieces


class _Changing(_Target):
    """Replaces the work of one recorded operation's nodes, in the same order."""

    def __init__(self, driver: Driver, graph: Any, pieces: list[_DriverNode]) -> None:
        self._driver = driver
        self._graph = graph
        self._left = [piece for piece in pieces if piece.kind is not _NodeKind.EMPTY]

    def _next(self, kind: _NodeKind) -> Any:
        if not self._left or self._left[0].kind is not kind:
            raise _Mismatch
        return self._left.pop(0).handle

    def launch_shape(self, kernel: Any, shape: LaunchShape, parameters: int) -> None:
        """Replace a launch."""
        node = self._next(_launch_kind(self._driver, kernel))
        self._driver.set_launch_node(self._graph, node, kernel, shape, parameters)

    def put_fill(self, fill: MatrixFill) -> None:
        """Replace a fill."""
        self._driver.set_fill_node(self._graph, self._next(_NodeKind.FILL), fill)

    def put_copy(self, copy: Copy) -> None:
        """Replace a copy."""
        self._driver.set_copy_node(self._graph, self._next(_NodeKind.COPY), copy)

    def finish(self) -> None:
        """Check that all nodes have been replaced."""
        if self._left:
            raise _Mismatch


def in_lanes(after: Sequence[tuple[int, ...]], lanes: int = _LANES) -> list[tuple[int, ...]]:
    """Return the same edges, with more of them where too many nodes would run in parallel.

    `after` lists the predecessors of each node, all with lower indices. A node continues the lane
    of one of its predecessors; if none of those ends a lane, it starts a new lane while there are
    free ones, and otherwise continues the least recently used one.
    """
    ends: dict[int, None] = {}  # the last node of each lane, the least recently used first
    found: list[tuple[int, ...]] = []
    for node, before in enumerate(after):
        last = next((one for one in before if one in ends), None)
        if last is None and len(ends) == lanes:
            last = next(iter(ends))
            before = (*before, last)
        if last is not None:
            del ends[last]
        ends[node] = None
        found.append(before)
    return found


def starts_together(after: Sequence[tuple[int, ...]]) -> bool:
    """Whether the number of root nodes warrants a common predecessor."""
    return sum(not before for before in after) >= _MANY


class CudaGraph:
    """An instantiated graph and the graph it was made of, which names its nodes."""

    def __init__(self, driver: Driver, nodes: Sequence[tuple[Recipe, tuple[int, ...]]]) -> None:
        self._driver = driver
        self._pieces: list[list[_DriverNode]] = []
        self._graph = driver.create_graph()
        try:
            behind = in_lanes([after for _, after in nodes])
            together = starts_together(behind)
            start = (
                [_DriverNode(_NodeKind.EMPTY, driver.add_idle_node(self._graph))]
                if together
                else []
            )
            for (recipe, _), after in zip(nodes, behind, strict=True):
                ends = [self._pieces[node][-1] for node in after]
                target = _Adding(driver, self._graph, ends or start)
                recipe(target)
                self._pieces.append(target.finish())
            self._executable = driver.instantiate_graph(self._graph)
        except BaseException:
            driver.destroy_graph(self._graph)
            raise

    def change(self, node: int, recipe: Recipe) -> bool:
        """Set the parameters of a node; launches in flight keep theirs."""
        target = _Changing(self._driver, self._executable, self._pieces[node])
        try:
            recipe(target)
            target.finish()
        except _Mismatch:
            return False
        return True

    def launch(self, queue: CudaQueue) -> Mapping[int, BaseException]:
        """Launch the graph by one driver call; a kernel reports through its record."""
        self._driver.launch_graph(self._executable, queue.handle)
        return _NOTHING_RAISES

    def destroy(self) -> None:
        """Destroy both graphs."""
        self._driver.destroy_executable_graph(self._executable)
        self._driver.destroy_graph(self._graph)


def _fills(address: int, pattern: bytes, repeats: int) -> Iterator[MatrixFill]:
    """Split a fill into elements of 1, 2 or 4 bytes, the sizes that the driver has."""
    if pattern == pattern[:1] * len(pattern):
        yield MatrixFill(address, pattern[:1], 0, repeats * len(pattern), 1)
    elif len(pattern) <= 4:
        yield MatrixFill(address, pattern, 0, repeats, 1)
    else:
        for start in range(0, len(pattern), 4):  # columns of a matrix with a row for each element
            yield MatrixFill(address + start, pattern[start : start + 4], len(pattern), 1, repeats)
