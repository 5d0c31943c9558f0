"""Graphs of a GPU that exists on paper: nodes, edges, and launches in any order they allow."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np


class _PaperNode:
    def __init__(self, number: int, after: list[_PaperNode]) -> None:
        self.number = number
        self.after = tuple(after)

    def __repr__(self) -> str:
        return f"n{self.number}"


class PaperGraphs:
    """Graphs on paper: a launch runs the nodes in any order that their edges allow."""

    def __init__(self, seed: int) -> None:
        self.log: list[tuple] = []
        self.graphs: list[dict[_PaperNode, Callable[[], None]]] = []  # that are not destroyed
        self.executables: list[dict[_PaperNode, Callable[[], None]]] = []
        self._random = random.Random(seed)

    def create_graph(self) -> dict:
        self.log.append(("create_graph",))
        self.graphs.append({})
        return self.graphs[-1]

    def _add(self, graph: dict, after: list[_PaperNode], name: str, task) -> _PaperNode:
        assert all(one in graph for one in after)
        node = _PaperNode(len(graph), after)
        graph[node] = task
        self.log.append((name, node.number, tuple(one.number for one in after)))
        return node

    def add_empty_node(self, graph: dict, after: list[_PaperNode]) -> _PaperNode:
        return self._add(graph, after, "add_empty", lambda: None)

    def add_idle_node(self, graph: dict) -> _PaperNode:
        return self._add(graph, [], "add_idle", lambda: None)

    def add_launch_node(self, graph, after, kernel, shape, parameters) -> _PaperNode:
        task = self.shaped_task(kernel, shape, parameters)
        return self._add(graph, after, "add_launch", task)

    def add_early_node(self, graph, after, kernel, shape, parameters) -> _PaperNode:
        task = self.shaped_task(kernel, shape, parameters)
        return self._add(graph, [after], "add_early", task)

    def set_launch_node(self, executable, node, kernel, shape, parameters) -> None:
        self.log.append(("set_launch", node.number))
        executable[node] = self.shaped_task(kernel, shape, parameters)

    def add_fill_node(self, graph, after, fill) -> _PaperNode:
        return self._add(graph, after, "add_fill", partial(self._fill, fill))

    def set_fill_node(self, executable, node, fill) -> None:
        self.log.append(("set_fill", node.number))
        executable[node] = partial(self._fill, fill)

    def _fill(self, fill) -> None:
        for row in range(fill.height):
            nbytes = fill.width * len(fill.pattern)
            target = self.at(fill.address + row * fill.pitch, nbytes)
            target[:] = np.tile(np.frombuffer(fill.pattern, np.uint8), fill.width)

    def add_copy_node(self, graph, after, copy) -> _PaperNode:
        return self._add(graph, after, "add_copy", partial(self._copy, copy))

    def set_copy_node(self, executable, node, copy) -> None:
        self.log.append(("set_copy", node.number))
        executable[node] = partial(self._copy, copy)

    def _copy(self, copy) -> None:
        source = copy.source
        if not copy.from_host:
            source = self.at(source, copy.nbytes).ctypes.data
        ctypes.memmove(self.at(copy.target, copy.nbytes).ctypes.data, source, copy.nbytes)

    def instantiate_graph(self, graph: dict) -> dict:
        self.log.append(("instantiate", len(graph)))
        self.executables.append(dict(graph))
        return self.executables[-1]

    def launch_graph(self, executable: dict, stream: Any) -> None:
        self.log.append(("launch_graph", stream, len(executable)))
        tasks = dict(executable)  # later parameters are for later launches
        self._put(stream, "launch_graph", lambda: self._run_graph(executable, tasks))

    def _run_graph(self, executable: dict, tasks: dict) -> None:
        assert any(one is executable for one in self.executables), "destroyed while under way"
        done: set[_PaperNode] = set()
        while len(done) < len(tasks):
            ready = [node for node in tasks if node not in done and done.issuperset(node.after)]
            node = self._random.choice(ready)
            tasks[node]()
            done.add(node)

    def destroy_executable_graph(self, executable: dict) -> None:
        self.log.append(("destroy_executable",))
        self.executables = [one for one in self.executables if one is not executable]

    def destroy_graph(self, graph: dict) -> None:
        self.log.append(("destroy_graph",))
        self.graphs = [one for one in self.graphs if one is not graph]
