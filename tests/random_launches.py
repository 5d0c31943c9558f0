"""Launches of random kernels: their arguments, what Python makes of them, and a device."""

import importlib.util
import itertools
from pathlib import Path
from random import Random

import numpy as np
from python_meaning import Accum, DType, Mapped, Mut, Outside, Ref, Tile, run_blocks
from random_kernels import TILE, Output

import tilewright as tw
from tilewright.kernel import Kernel

__all__ = ["Launch", "load_kernel"]

HEAD = """from __future__ import annotations
import tilewright as tw
from tilewright import Accum, All, Const, Mapped, Mut, Ref, bool_, i8, i32, i64, u8, u32
from tilewright.dims import B, K, L, M, N
"""
_numbers = itertools.count()


def load_kernel(folder: Path, source: str) -> Kernel:
    """The kernel of a source text, from a file of its own."""
    name = f"random_kernel_{next(_numbers)}"
    path = folder / f"{name}.py"
    path.write_text(HEAD + source.replace("from __future__ import annotations", ""))
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.kernel


def integers(random: Random, count: int, low: int = -50, high: int = 50) -> np.ndarray:
    return np.array([random.randint(low, high) for _ in range(count)], np.int32)


class Launch:
    """The arguments of one launch, for Python and for a device."""

    def __init__(self, random: Random, output: Output) -> None:
        n, m = random.choice((0, 1, 3, 4, 5, 8, 11, 16)), random.choice((1, 4, 7, 8, 13))
        self.cut, self.blocks = output, random.choice((1, 2, 3))
        self.output = integers(random, random.choice((1, 2, 4, 5, 8, 11)))
        self.sums = integers(random, random.choice((1, 4, 7)))
        self.inputs = {
            "x": integers(random, n), "y": integers(random, m),
            "m": integers(random, n * m).reshape(n, m),
            "ids": np.array([random.choice((0, 1, 3, -1, 2**31 - 1, -(2**31)))], np.int32),
        }  # fmt: skip
        self.scalars = {
            "a": np.int32(random.choice((0, 1, 2, -1, 3, 5, 2**31 - 1, -(2**31)))),
            "b": np.int32(random.randint(-3, 6)), "flag": np.bool_(random.random() < 0.5),
            "u": np.uint32(random.choice((0, 1, 2, 5, 2**31, 2**32 - 1))),
            "w": np.int64(random.choice((0, 1, -1, 4, 2**40, -(2**63), 2**63 - 1))),
        }  # fmt: skip
        self.constant = random.choice((0, 1, 2, 5))

    @property
    def grid(self) -> int:
        """Blocks that run."""
        tiles = -(-len(self.output) // TILE)
        counts = {Output.PIECES: tiles, Output.WALKED: min(self.blocks, tiles), Output.WHOLE: 1}
        return counts[self.cut]

    def expected(self, source: str) -> list[int] | None:
        """What Python leaves in the outputs, or None if it stopped."""
        output, sums = self.output.copy(), self.sums.copy()

        def arguments(block):
            piece = {
                Output.PIECES: lambda: Mut(output, (TILE,), block),
                Output.WALKED: lambda: Mapped(output, (TILE,), *block, self.grid),
                Output.WHOLE: lambda: Mut(output, (None,), block),
            }
            scalars = {name: Tile(value) for name, value in self.scalars.items()}
            inputs = {name: Ref(array) for name, array in self.inputs.items()}
            outputs = {"z": piece[self.cut](), "acc": Accum(sums)}
            return {**outputs, **inputs, **scalars, "C": self.constant}

        i32 = DType(np.int32)
        extents = {"N": self.inputs["x"], "M": self.inputs["y"], "L": self.sums}
        dims = {name: i32(len(array)) for name, array in extents.items()}
        try:
            run_blocks(source, "kernel", (self.grid,), {"B": TILE, **dims}, arguments)
        except (Outside, ZeroDivisionError):
            return None
        return [*output.tolist(), *sums.tolist()]

    def build(self, kernel: Kernel) -> tuple[tw.DeviceOp, list[tw.Tensor]]:
        """The operation on the current device, and its outputs."""
        output, sums = tw.from_numpy(self.output), tw.from_numpy(self.sums)
        cut = output.partition(None if self.cut is Output.WHOLE else TILE)
        z = cut.persistent(blocks=self.blocks) if self.cut.is_walked else cut
        inputs = [tw.from_numpy(self.inputs[name]) for name in ("x", "y", "m", "ids")]
        scalars = [self.scalars[name].item() for name in ("a", "b", "u", "w", "flag")]
        return kernel(z, sums, *inputs, *scalars, C=self.constant), [output, sums]

    def run(self, kernel: Kernel) -> list[int]:
        """What the device leaves in the outputs."""
        operation, outputs = self.build(kernel)
        operation.sync()
        return [number for tensor in outputs for number in tensor.numpy().tolist()]
