"""The kernels of the GPU tests, and how one launch is run on the GPU and on the CPU backend.

The CPU backend executes the same Tile IR, so it is the reference; NumPy in float64 is the second.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import tilewright as tw
from tilewright import Const, Mapped, Mut, Ref, bool_, f32, i32
from tilewright.dims import BM, BN, B, D, K, M, N, T

GPU, CPU = "cuda:0", "cpu"


@tw.kernel(deny_checks=True)
def add(z: Mut[T, B], x: Ref[T, N], y: Ref[T, N]) -> None:
    z.store(x.load_like(z) + y.load_like(z))


@tw.kernel(deny_checks=True)
def saxpy(z: Mut[f32, B], x: Ref[f32, N], y: Ref[f32, N], alpha: f32) -> None:
    z.store(alpha * x.load_like(z) + y.load_like(z))


@tw.kernel(deny_checks=True)
def softmax(z: Mut[f32, B, D], x: Ref[f32, M, N]) -> None:
    row = x.load_like(z, padding=-math.inf)
    powers = tw.exp(row - tw.max(row, axis=1, keepdims=True))
    z.store(powers / tw.sum(powers, axis=1, keepdims=True))


@tw.kernel(deny_checks=True)
def gemm(z: Mut[T, BM, BN], x: Ref[T, M, K], y: Ref[T, K, N], *, BK: Const[int] = 64) -> None:
    xs, ys = x.partition(BM, BK), y.partition(BK, BN)
    i, j = z.index
    acc = tw.zeros((BM, BN), f32)
    for k in range(xs.num_tiles(1)):
        acc = tw.mma(xs[i, k], ys[k, j], acc)
    z.store(acc.astype(z.dtype))


@tw.kernel(deny_checks=True)
def gemm_persistent(
    z: Mapped[T, BM, BN], x: Ref[T, M, K], y: Ref[T, K, N], *, BK: Const[int] = 64
) -> None:
    xs, ys = x.partition(BM, BK), y.partition(BK, BN)
    for at in z.indices():
        i, j = at
        acc = tw.zeros((BM, BN), f32)
        for k in range(xs.num_tiles(1)):
            acc = tw.mma(xs[i, k], ys[k, j], acc)
        z.store(acc.astype(z.dtype), at)


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
    value = -(2**20) if kind.kind == "i" else np.nan
    return np.full(shape, value).astype(kind)


def relative_error(found: Any, expected: Any) -> float:
    """The norm of the difference over the norm of what is expected."""
    difference = np.linalg.norm(found.astype(np.float64) - expected)
    return float(difference / max(np.linalg.norm(expected), 1e-30))
