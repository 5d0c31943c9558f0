"""The environment of an experiment: the device, its stream, and the available peers.

On the CPU every experiment runs without peers and with small sizes, only to show that it works;
such figures are never kept.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from peers import Peer, load_peers

import tilewright as tw
from tilewright.bench import EagerClock, Effort, Timer

__all__ = ["COMPILED", "TORCH", "TRITON", "Lab", "add_options", "open_lab"]

TORCH, COMPILED, TRITON = "torch", "torch.compile", "Triton"  # peers, as tables name them


@dataclass(frozen=True)
class Lab:
    """One device and the libraries to compare with."""

    device: tw.Device
    stream: tw.Stream
    peers: dict[str, Peer]
    is_quick: bool
    only: tuple[str, ...] = ()  # parts of the names to time; empty for all
    without: tuple[str, ...] = ()

    def wants(self, name: str) -> bool:
        """Whether a way to launch is selected."""
        chosen = not self.only or any(part in name for part in self.only)
        return chosen and not any(part in name for part in self.without)

    @property
    def has_gpu(self) -> bool:
        """Whether the device is a GPU: figures are meaningful, and peers available."""
        return self.device.kind == "cuda"

    def has(self, module: str) -> bool:
        """Whether a peer is installed and can run here."""
        return self.has_gpu and importlib.util.find_spec(module) is not None

    def load(self, module: str) -> Any:
        """Import a peer, or one of our modules that needs a peer known to be installed."""
        return importlib.import_module(module)

    def timer(self, **effort: Any) -> Timer:
        """A timer on the stream of this lab."""
        if self.is_quick:
            effort = {"repetitions": 3, "rounds": 2, "warmup": 0.0}
        return Timer(self.stream, Effort(**effort))

    def eager_timer(self, **effort: Any) -> Timer:
        """A timer that does not hold the stream: waits of the device for the host count."""
        timer = self.timer(shortest=0.0, **effort)
        clock = EagerClock(self.stream) if self.has_gpu else None
        return Timer(self.stream, timer.effort, clock=clock)

    def empty(self, *shape: int, dtype: type[tw.DType] = tw.f16) -> tw.Tensor:
        """A tensor with allocated memory on this lab's device; peers receive its address."""
        return tw.fill(tw.empty(shape, dtype, device=self.device), 0).sync()

    def random(self, *shape: int, dtype: type[tw.DType] = tw.f16, seed: int = 0) -> tw.Tensor:
        """Normally distributed numbers."""
        if not self.has_gpu:
            drawn = np.random.default_rng(seed).standard_normal(shape, np.float32)
            return tw.from_numpy(drawn, device=self.device).astype(dtype)
        torch = self.load("torch")
        torch.manual_seed(seed)
        made = self.empty(*shape, dtype=dtype)
        view = self.as_torch(made)
        if view.element_size() > 1:
            view.normal_()
        else:  # torch has no random 8-bit floats
            view.copy_(torch.randn(shape, device="cuda"))
        torch.cuda.synchronize()
        return made

    def as_torch(self, tensor: tw.Tensor) -> Any:
        """A view of the same memory as a torch tensor."""
        return self.load("torch_memory").as_torch(tensor)

    def captured(
        self, runs: Sequence[Callable[[], Any]], count: int, *, here: bool = False
    ) -> Callable[[], None]:
        """A torch graph in which the runs take turns; the first run compiles before the capture.

        `here` captures on this lab's stream, for runs that do not use torch's current stream.
        """
        torch = self.load("torch")
        runs[0]()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        place = {"stream": torch.cuda.ExternalStream(self.stream.queue.number)} if here else {}
        with torch.cuda.graph(graph, **place):
            for number in range(count):
                runs[number % len(runs)]()
        replay: Callable[[], None] = graph.replay
        return replay


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of every experiment."""
    parser.add_argument("--device", default=None, help="default: the GPU if there is one")
    parser.add_argument("--quick", action="store_true", help="small sizes, few repetitions")
    parser.add_argument(
        "--ways",
        default="",
        help="only ways to launch whose names contain one of these, separated by `;`",
    )
    parser.add_argument("--without", action="append", default=[], help="a way to omit")
    parser.add_argument("--peers", type=Path, default=Path(".gpu/peers"))


def open_lab(options: argparse.Namespace) -> Lab:
    """The lab of the chosen options."""
    device = tw.Device(options.device) if options.device else tw.empty((1,), tw.f32).device
    has_gpu = device.kind == "cuda"
    peers = load_peers(options.peers) if has_gpu else {}
    only = tuple(filter(None, options.ways.split(";")))
    is_quick = options.quick or not has_gpu
    return Lab(device, device.stream, peers, is_quick, only, tuple(options.without))
