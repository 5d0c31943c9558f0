"""Launches of peers' cubins: parameters as the driver takes them, alone and in a graph."""

import ctypes
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import tilewright as tw

bindings = pytest.importorskip("cuda.bindings.driver")

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
if str(BENCHMARKS) not in sys.path:
    sys.path.append(str(BENCHMARKS))

import peers  # noqa: E402

from tilewright.backends.cuda import graph_bindings  # noqa: E402

STREAM = SimpleNamespace(queue=SimpleNamespace(handle=SimpleNamespace(handle=7)))


class Calls(graph_bindings.GraphCalls):
    """The real calls on graphs, without a driver below them."""

    context = bindings.CUcontext(1)

    def bind(self) -> None:
        pass

    def load(self, read: object, code: bytes, name: str) -> object:
        raise AssertionError("nothing here loads a kernel")

    def check(self, call: str, code: object) -> None:
        assert code == bindings.CUresult.CUDA_SUCCESS


class Recorder:
    """The bindings, but for the calls that reach the driver."""

    def __init__(self) -> None:
        self.calls: list[tuple] = []

    def __getattr__(self, name: str):
        return getattr(bindings, name)

    def cuGraphAddKernelNode(self, graph, after, count, node):
        self.calls.append((graph, after, count, node))
        return bindings.CUresult.CUDA_SUCCESS, f"node {len(self.calls)}"

    def cuLaunchKernel(self, *arguments):
        self.calls.append(arguments)
        return (bindings.CUresult.CUDA_SUCCESS,)


def _launch(grid: tuple[int, int]) -> tuple[peers.PeerLaunch, list[tw.Tensor]]:
    kernel = SimpleNamespace(handle=3, kernel_handle=bindings.CUkernel(5))
    tensors = [tw.fill(tw.empty((64,), tw.f16), 0).sync() for _ in range(3)]
    return peers.PeerLaunch(kernel, STREAM, grid, tuple(tensors)), tensors


def _words(pointers: int, count: int) -> list[int]:
    """What the parameters are: an address, an extent and a stride for each tensor."""
    kinds = (ctypes.c_uint64, ctypes.c_int32, ctypes.c_int32)
    places = (ctypes.c_void_p * count).from_address(pointers)
    return [kinds[n % 3].from_address(place).value for n, place in enumerate(places)]


def test_a_launch_by_the_driver(monkeypatch):
    recorder = Recorder()
    monkeypatch.setattr(peers, "cu", recorder)
    launch, tensors = _launch((4, 2))
    launch()
    ((kernel, *grid, pointers, extra),) = recorder.calls
    assert (kernel, grid, extra) == (3, [4, 2, 1, 1, 1, 1, 0, 7], 0)
    assert _words(pointers, 9) == [word for one in tensors for word in (one.address, 64, 1)]


def test_the_same_as_a_node_of_a_graph(monkeypatch):
    recorder = Recorder()
    monkeypatch.setattr(graph_bindings, "cu", recorder)
    launch, tensors = _launch((4, 1))
    first = launch.add_to(Calls(), "graph", [])
    launch.add_to(Calls(), "graph", [first])
    (_, _, _, node), (graph, after, count, _) = recorder.calls
    assert (graph, after, count) == ("graph", ["node 1"], 1)
    assert (node.gridDimX, node.gridDimY, node.gridDimZ) == (4, 1, 1)
    assert (node.blockDimX, node.blockDimY, node.blockDimZ) == (1, 1, 1)
    assert _words(int(node.kernelParams), 9)[0] == tensors[0].address


def test_a_tensor_without_bytes_is_refused():
    kernel = SimpleNamespace(handle=3, kernel_handle=5)
    with pytest.raises(AssertionError, match="has no address"):
        peers.PeerLaunch(kernel, STREAM, (1, 1), (tw.empty((64,), tw.f16),))
