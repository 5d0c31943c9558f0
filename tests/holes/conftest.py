"""Holes are looked for on the CPU device, which reports what is undefined and watches for races."""

from collections.abc import Iterator

import pytest

import tilewright as tw
from tilewright.backends.cpu.executor import CpuKernel


@pytest.fixture(autouse=True)
def _watched_cpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    run = CpuKernel.run

    def run_watched(self, *args, **kwargs):
        return run(self, *args, **{**kwargs, "race_check": True})

    monkeypatch.setattr(CpuKernel, "run", run_watched)
    with tw.device("cpu"):
        yield
