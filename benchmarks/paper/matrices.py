"""The matrices of the product experiments, and the schedules of their kernels.

M = N = K, f16, random; small matrices come several times, so that no cache serves them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from lab import Lab

import tilewright as tw
from tilewright.bench import Candidate

__all__ = ["SCHEDULES", "SMALL", "Matrices", "Schedule", "tflops"]

LIMIT = 1e-3  # f16 in, f32 sums, f16 out give about 3e-4
COLD = 240 << 20  # bytes of rotating buffers, so that no cache serves them
GROUP = (8, 1)


@dataclass(frozen=True)
class Schedule:
    """Partition and walk of a product; `blocks` None is one block a tile."""

    name: str
    tile: tuple[int, int]
    blocks: int | None = None
    hints: tuple[tuple[str, int], ...] = ()
    peer: str = ""

    def cut(self, output: tw.Tensor) -> Any:
        """The output with the partition that a kernel takes."""
        partition = output.partition(*self.tile)
        if self.blocks is None:
            return partition
        return partition.persistent(blocks=self.blocks, group=GROUP)

    def kernel(self, plain: Any, walked: Any, **options: Any) -> Any:
        """The kernel of two that this schedule needs, with its hints."""
        chosen = plain if self.blocks is None else walked
        return tw.kernel(**dict(self.hints), **options)(chosen)


SCHEDULES = (
    Schedule("128x128x64", (128, 128), peer="gemm-rows-128x128x64"),
    Schedule(
        "128x128x64, walked, 4 warps", (128, 128), 132, (("num_worker_warps", 4),),
        "gemm-persistent-128x128x64-worker4",
    ),
    Schedule(
        "256x256x64, walked, 2 CTAs, 8 warps", (256, 256), 66,
        (("num_ctas", 2), ("num_worker_warps", 8)), "gemm-persistent-256x256x64-ctas2-worker8",
    ),
)  # fmt: skip
SMALL = (Schedule("32x32x64", (32, 32)), Schedule("32x32x64, walked", (32, 32), 2))


class Matrices:
    """Inputs, outputs and the exact product; small ones several times."""

    def __init__(self, lab: Lab, size: int) -> None:
        self.lab, self.size = lab, size
        count = 1 if lab.is_quick else max(1, min(10, math.ceil(COLD / (6 * size * size))))
        self.sets = [
            (
                lab.empty(size, size),
                lab.random(size, size, seed=2 * number),
                lab.random(size, size, seed=2 * number + 1),
            )
            for number in range(count)
        ]
        self._exact = self._product()

    def _product(self) -> Any:
        _, x, y = self.sets[0]
        if self.lab.has_gpu:
            left, right = map(self.lab.as_torch, (x, y))
            return left.double() @ right.double()
        return x.numpy().astype(np.float64) @ y.numpy().astype(np.float64)

    def error(self, run: Callable[[], object]) -> float:
        """The relative error of the first set's product, whose output is poisoned first."""
        output = self.sets[0][0]
        tw.fill(output, math.nan).sync()
        made = run()
        if isinstance(made, tw.DeviceOp):
            made.sync()
        elif self.lab.has_gpu:
            self.lab.load("torch").cuda.synchronize()
        if self.lab.has_gpu:
            found = self.lab.as_torch(output).double()
            return float((found - self._exact).norm() / self._exact.norm())
        found = output.numpy().astype(np.float64)
        return float(np.linalg.norm(found - self._exact) / np.linalg.norm(self._exact))

    def candidate(self, name: str, runs: list[Callable[[], object]]) -> Candidate:
        """A candidate that rotates over the sets."""
        return Candidate(name, runs, lambda: self.error(runs[0]), LIMIT)


def tflops(size: int, seconds: float) -> float:
    """10^12 operations a second."""
    return 2 * size**3 / seconds / 1e12
