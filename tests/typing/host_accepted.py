"""Host code that must pass mypy --strict and pyright (standard and strict) without a word.

Never run: `test_typing_checkers.py` hands this file to the checkers.
"""

# pyright: strict

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

import tilewright as tw
from tilewright import DeviceOp, Mapped, Mut, Ref, Tensor, f32, i32
from tilewright.dims import B, N
from tilewright.external import ExternalKernel, In, InOut, Out
from tilewright.tune import Config, Space, chosen, key_of


@tw.kernel
def add(z: Mut[f32, B], x: Ref[f32, N], y: Ref[f32, N]) -> None:
    z.store(x.load_like(z) + y.load_like(z))


@tw.kernel
def walk(z: Mapped[f32, B], x: Ref[f32, N]) -> None:
    for at in z.indices():
        (i,) = at
        z.store(x.partition(B)[i], at)


def shifted(z: Tensor, x: Tensor) -> object:
    return x.numpy() + 1


@tw.autotune(Space(B=(64, 128), occupancy=(None, 2)), key=("N",), reference=shifted)
@tw.kernel
def shift(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    z.store(x.load_like(z) + 1.0)


def configurations(z: Tensor, x: Tensor) -> DeviceOp[tuple[object, ...]]:
    config: Config = chosen("add", key_of(x.dtype, x.shape), x.device.target) or Config.of(B=128)
    shift(z, x).sync()
    best: Config = shift.choose(z, x)
    cut = best.walk(z.partition(config["B"]))
    return config.applied_to(walk)(cut, x, **config.arguments(walk))


def operations_as_arguments(x: Tensor, z: DeviceOp[Tensor], y: DeviceOp[Tensor]) -> Tensor:
    first = add(z.partition(128), x, y).first().unpartition()
    walked: DeviceOp[tw.PersistentPartition] = first.partition(128).persistent(blocks=4)
    copied: DeviceOp[Tensor] = tw.copy(tw.fill(x, 1), walk(walked, x).first().unpartition())
    return copied.sync()


def arrays_of_others(array: npt.NDArray[np.float32], x: Tensor) -> Tensor:
    filled: DeviceOp[npt.NDArray[np.float32]] = tw.fill(array, 1.0)
    filled.close()
    tw.copy(array, x).sync().sum()
    return tw.copy(x, array).sync()


def kernels_of_others(path: Path, z: Tensor, x: DeviceOp[Tensor]) -> None:
    saxpy: ExternalKernel = tw.external.load(path).kernel(
        "saxpy", "below n it reads x and writes z", z=InOut(f32), x=In(f32), y=Out(), a=f32, n=i32
    )
    launch = saxpy.grid(8, block=(32, 4), shared_bytes=1024)
    launch.unsafe(z, x, z, 2.0, n=64).then(lambda got: launch.unsafe(*got)).sync()
