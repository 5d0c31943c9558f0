"""cuTile Python kernels, launched from the cubins of `export_peers.py`.

They run on our streams with the addresses of our tensors, through the driver's launch call with
packed parameters, so the time is that of the kernel alone.
"""

from __future__ import annotations

import ctypes
import json
from math import prod
from pathlib import Path
from typing import Any

from cuda.bindings import driver as cu

import tilewright as tw
from tilewright.runtime.devices.function import LaunchShape

__all__ = ["Peer", "PeerLaunch", "load_peers"]


class Peer:
    """One exported kernel."""

    def __init__(self, folder: Path, name: str, about: dict[str, Any]) -> None:
        self.name = name
        self.tile: tuple[int, ...] = tuple(about["tile"])
        self._grid: str = about["grid"]
        self._entry: str = about["entry"]
        self._cubin = (folder / about["cubin"]).read_bytes()
        self._kernel: Any = None

    def launch(self, stream: tw.Stream, blocks: int, *tensors: tw.Tensor) -> PeerLaunch:
        """A launch on our tensors, the output first; `blocks` is for persistent kernels."""
        if self._kernel is None:
            driver: Any = stream.device.backend
            self._kernel = driver.driver.load_kernel(self._cubin, self._entry, waits=False)
        grid = self._tiles(tensors[0])
        line = {"line": prod(grid), "persistent": min(blocks, prod(grid))}
        shape = (grid[1], grid[0]) if self._grid == "rows" else (line[self._grid], 1)
        return PeerLaunch(self._kernel, stream, shape, tensors)

    def _tiles(self, output: tw.Tensor) -> tuple[int, ...]:
        return tuple(-(-extent // tile) for extent, tile in zip(output.shape, self.tile))  # noqa: B905


class PeerLaunch:
    """A launch with packed parameters."""

    def __init__(
        self,
        kernel: Any,
        stream: tw.Stream,
        grid: tuple[int, int],
        tensors: tuple[tw.Tensor, ...],
    ) -> None:
        assert all(tensor.address for tensor in tensors), "a tensor without bytes has no address"
        queue: Any = stream.queue
        self._loaded = kernel
        self._kernel, self._stream, self._grid = kernel.handle, queue.handle.handle, grid
        self._tensors = tensors  # kept alive
        self._values: list[Any] = []
        for tensor in tensors:
            self._values.append(ctypes.c_uint64(tensor.address))
            self._values += map(ctypes.c_int32, (*tensor.shape, *tensor.strides))
        addresses = map(ctypes.addressof, self._values)
        self._pointers = (ctypes.c_void_p * len(self._values))(*addresses)
        self._parameters = ctypes.addressof(self._pointers)

    def add_to(self, driver: Any, graph: Any, after: list[Any]) -> Any:
        """The launch as a node of a raw graph."""
        shape = LaunchShape((*self._grid, 1), (1, 1, 1), 0)
        return driver.add_launch_node(graph, after, self._loaded, shape, self._parameters)

    def __call__(self) -> None:
        """Launch on the stream."""
        (code,) = cu.cuLaunchKernel(
            self._kernel, *self._grid, 1, 1, 1, 1, 0, self._stream, self._parameters, 0
        )
        if code != cu.CUresult.CUDA_SUCCESS:
            raise RuntimeError(f"cuLaunchKernel: {code.name}")


def load_peers(folder: Path) -> dict[str, Peer]:
    """Every exported peer by its name."""
    manifest = folder / "manifest.json"
    if not manifest.exists():
        print(f"no peers in {folder}: run benchmarks/export_peers.py where cuTile is installed")
        return {}
    peers = json.loads(manifest.read_text())["peers"]
    return {name: Peer(folder, name, about) for name, about in peers.items()}
