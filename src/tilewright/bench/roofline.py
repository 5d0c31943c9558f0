"""The roofline: a lower bound on the time of work, from measured ceilings of this device.

Ceilings are measured, not taken from a datasheet: bytes per second of a plain copy, and operations
per second of the fastest available matrix product, ours or torch's where it is loaded.
"""

# ruff: noqa: N803 (constants of a kernel are upper case)

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from tilewright.bench.paired import Candidate, compare
from tilewright.bench.subjects import on_stream
from tilewright.bench.timer import do_bench
from tilewright.bench.timing import Effort
from tilewright.dims import BM, BN, K, M, N, T
from tilewright.dtypes import DType, f16, f32, u8
from tilewright.errors import TilewrightError
from tilewright.host import randn
from tilewright.kernel import kernel
from tilewright.lang.annotations import Const, Mapped, Ref
from tilewright.lang.dimensions import Cut
from tilewright.lang.functions import mma, zeros
from tilewright.runtime.devices.device import current_device
from tilewright.runtime.devices.stream import Stream
from tilewright.runtime.memory.creation import empty
from tilewright.runtime.ops.copies import copy

__all__ = ["Ceilings", "Work", "measure_ceilings"]

_COPIED = {"cuda": 1 << 30, "cpu": 1 << 25}  # bytes
_SIZES = {"cuda": (8192, f16), "cpu": (256, f32)}


@dataclass(frozen=True)
class Work:
    """Minimum of the work: bytes moved and operations computed."""

    nbytes: float
    flops: float = 0.0

    @property
    def intensity(self) -> float:
        """Operations for each byte; infinite if no byte is moved."""
        return self.flops / self.nbytes if self.nbytes else math.inf


@dataclass(frozen=True)
class Ceilings:
    """Highest rates measured on a device."""

    bandwidth: float  # bytes per second, read and written
    matrix_rate: float  # operations per second of a matrix product
    matrix_dtype: str

    def seconds(self, work: Work) -> float:
        """Return the least time for some work: the longer of moving and computing."""
        return max(work.nbytes / self.bandwidth, work.flops / self.matrix_rate)

    def fraction(self, work: Work, seconds: float) -> float:
        """Return the least time as a fraction of a measured time."""
        return self.seconds(work) / seconds

    def is_memory_bound(self, work: Work) -> bool:
        """Whether moving takes longer than computing."""
        return work.nbytes / self.bandwidth >= work.flops / self.matrix_rate

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)


@kernel(deny_checks=True)
def _multiply(
    z: Mapped[T, Cut[M, BM], Cut[N, BN]], x: Ref[T, M, K], y: Ref[T, K, N], *, BK: Const[int] = 64
) -> None:
    xs, ys = x.partition(BM, BK), y.partition(BK, BN)
    for at in z.indices():
        i, j = at
        acc = zeros((BM, BN), f32)
        for k in range(xs.num_tiles(1)):
            acc = mma(xs[i, k], ys[k, j], acc)
        z.store(acc.astype(z.dtype), at)


def measure_ceilings(stream: Stream | None = None, effort: Effort | None = None) -> Ceilings:
    """Measure the ceilings, in a second or two on a GPU."""
    stream = stream or current_device().stream
    kind = stream.device.kind
    size, dtype = _SIZES[kind]
    return Ceilings(
        _bandwidth(stream, _COPIED[kind], effort),
        _matrix_rate(stream, size, dtype, effort),
        dtype.label,
    )


def _bandwidth(stream: Stream, nbytes: int, effort: Effort | None) -> float:
    source, target = (empty((nbytes,), u8, device=stream.device) for _ in range(2))
    timing = do_bench(lambda: copy(target, source), stream=stream, effort=effort)
    return 2 * nbytes / timing.median


def _matrix_rate(stream: Stream, size: int, dtype: type[DType], effort: Effort | None) -> float:
    # Random numbers, since a GPU multiplies zeros or ones with less power, and faster.
    x, y = (randn((size, size), dtype, seed=seed, device=stream.device) for seed in (1, 2))
    z = empty((size, size), dtype, device=stream.device)
    wide = _multiply.with_hints(num_ctas=2, num_worker_warps=8)  # two neighbours share their loads
    candidates = [
        Candidate("square", lambda: _multiply(z.partition(128, 128).persistent(), x, y)),
        Candidate("wide", lambda: wide(z.partition(256, 256).persistent(), x, y)),
    ]
    theirs = _torch_product(stream, size, dtype)
    candidates += [Candidate("torch", theirs)] if theirs else []
    found = compare(candidates, stream=stream, effort=effort)
    if found.fastest is None:
        reasons = "".join(f"\n  {name}: {why}" for name, why in found.failures.items())
        raise TilewrightError(f"no matrix product could be timed on {stream.device.name}:{reasons}")
    return 2 * size**3 / found.seconds(found.fastest)


def _torch_product(stream: Stream, size: int, dtype: type[DType]) -> Callable[[], object] | None:
    torch: Any = sys.modules.get("torch")
    if torch is None or not stream.queue.number or not torch.cuda.is_available():
        return None
    with on_stream(stream):
        kind = getattr(torch, dtype.__name__.replace("f", "float"))
        x, y = (torch.randn(size, size, device="cuda").to(kind) for _ in "xy")
        z = torch.empty_like(x)
    return lambda: torch.matmul(x, y, out=z)
