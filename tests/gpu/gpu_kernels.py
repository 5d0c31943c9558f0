"""The kernels of the GPU tests, and how one launch is run on the GPU and on the CPU backend.

The CPU backend executes the same Tile IR, so it is the reference; NumPy in float64 is the second.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

import tilewright as tw
from tilewright import Mapped, Mut, Ref, bool_, i32
from tilewright.cli.tour_kernels import gemm, gemm_persistent, saxpy, softmax
from tilewright.dims import B, N, T

# The tour's kernels are tested here as well.
__all__ = ["gemm", "gemm_persistent", "saxpy", "softmax"]

GPU, CPU = "cuda:0", "cpu"


@tw.kernel(deny_checks=True)
def add(z: Mut[T, B], x: Ref[T, N], y: Ref[T, N]) -> None:
    z.store(x.load_like(z) + y.load_like(z))


@tw.kernel(deny_checks=True)
def less(z: Mut[bool_, B], x: Ref[T, N], y: Ref[T, N]) -> None:
    z.store(x.load_like(z) < y.load_like(z))


@tw.kernel(deny_checks=True)
def choose(z: Mut[i32, B], condition: Ref[bool_, N], x: Ref[i32, N]) -> None:
    value = x.load_like(z)
    z.store(tw.where(condition.load_like(z), value, -value))


Launch = Callable[..., Any]


def run_on(device: str, launch: Launch, output: Any, *inputs: Any) -> Any:
    """The output after a launch on a device; `launch` gets the output's tensor and the inputs'."""
    z = tw.from_numpy(output, device=device)
    launch(z, *(tw.from_numpy(array, device=device) for array in inputs)).sync()
    return z.numpy()


def run_both(launch: Launch, output: Any, *inputs: Any) -> tuple[Any, Any]:
    """The output after the same launch on the GPU and on the CPU backend."""
    return run_on(GPU, launch, output, *inputs), run_on(CPU, launch, output, *inputs)


def poisoned(shape: int | tuple[int, ...], dtype: Any) -> Any:
    """An output whose every element shows if it was not written."""
    kind = np.dtype(dtype)
    if kind == np.bool_:
        return np.ones(shape, kind)
    if kind.kind in "iu":
        return np.full(shape, -(2**20)).astype(kind)
    return np.full(shape, np.nan).astype(kind)


def relative_error(found: Any, expected: Any) -> float:
    """The norm of the difference over the norm of what is expected."""
    difference = np.linalg.norm(found.astype(np.float64) - expected)
    return float(difference / max(np.linalg.norm(expected), 1e-30))


@tw.kernel(deny_checks=True)
def add_to_rows(z: Mapped[i32, 1, tw.All], first: Ref[i32, 1], n: i32) -> None:
    """Small tiles of an output, read and written again and again."""
    start = first.partition(1)[0].item()
    for turn in range(3):
        for at in z.indices_within((start, start + n), None):
            parts = z.piece(at).partition(1, 16)
            for c in range(parts.num_tiles(1)):
                parts.store(parts[0, c] + (1 + turn), 0, c)
