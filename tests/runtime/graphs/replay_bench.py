"""Replays of one graph on a GPU on paper, and one that the driver refuses."""

from __future__ import annotations

import pytest
import runtime_names as tw
from paper_launches import FunctionWork, load, mix_kernel
from runtime_doubles import reads, updates

from tilewright.errors import DriverError


class Bench:
    """A graph that mixes `x` into `z`, replayed once."""

    def __init__(self, driver, device):
        self.function = load(driver, "mix", mix_kernel)
        self.driver, self.device = driver, device
        self.z, self.x, self.other = tw.zeros(8), tw.full(8, 2), tw.zeros(8)
        self.g = self.mix(self.z, self.x).graph()
        self.g.launch().submit()
        self.replays = 1

    def mix(self, z, x):
        work = FunctionWork(self.function, (z, x))
        return tw.make_operation("mix", self.device, (updates(z), reads(x)), work, None)

    def replay(self, times=1, stream=None):
        for _ in range(times):
            self.g.launch().submit(stream)
            self.replays += 1

    @property
    def is_calm(self):
        return self.g._built.access.quick_stream is not None

    @property
    def value(self):
        return sum(3**power * 3 for power in range(self.replays))


def refused_replay(graph, monkeypatch):
    """One that the driver does not take."""

    def fail(_):
        raise DriverError("no")

    with monkeypatch.context() as patch:
        patch.setattr(graph._built._instance, "launch", fail)
        refused = graph.launch()
        with pytest.raises(DriverError, match="no"):
            refused.submit()
    return refused
