"""Fast checks of large results: a few rows by the reference, all rows by sums with random signs.

The result of the default configuration is compared with the NumPy reference at a few sampled rows.
Every candidate is compared with the default as a whole: the rows of a result, each with a random
sign, are summed on the device, sixteen times with different signs. Results that differ anywhere
differ in these sums too, by about as much. Unwritten elements are poisoned with NaN, and so are
their sums. Each column is compared by itself as well, because a few elements do not show in the
norm of millions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import cycle
from math import gcd, prod
from typing import Any

import numpy as np
import numpy.typing as npt

import tilewright as tw
from tilewright import bf16, f16, f32
from tilewright.kernels.gemm.matmuls import matmul
from tilewright.tune import Trial, poison, relative_error

__all__ = ["Array", "checked_trial", "copied", "in_turns", "spread"]

SUMS = 16
WIDEST = 4096  # columns of a matrix that is summed
LARGER_THAN_CACHES = 128 << 20  # bytes
MOST_COPIES = 8
ONE_COLUMN = 0.25  # weight of a single column's error, where roundings may add up
LIMITS = {f32: 1e-4, f16: 2e-3, bf16: 1e-2}  # tolerance of different roundings

# Contents of tensors on the host.
Array = npt.NDArray[Any]
Sample = Callable[[], tuple[Array, Array]]  # a part of the result, and the reference of that part


def copied(tensor: tw.Tensor) -> Array:
    """A view as float64, on the host."""
    return tensor.clone().numpy().astype(np.float64)


def spread(extent: int, count: int, width: int) -> list[slice]:
    """Ranges of an axis: at its start, at its end, and evenly between."""
    last = max(extent - width, 0)
    places = sorted({round(place) for place in np.linspace(0, last, count)})
    return [slice(place, min(place + width, extent)) for place in places]


def in_turns(*tensors: tw.Tensor) -> Iterator[tuple[tw.Tensor, ...]]:
    """The tensors and copies of them in rotation, so many that no cache holds all of them."""
    nbytes = sum(one.nbytes for one in tensors)
    count = min(-(-LARGER_THAN_CACHES // max(nbytes, 1)), MOST_COPIES)
    copies = [tuple(one.clone() for one in tensors) for _ in range(count - 1)]
    return cycle((tensors, *copies))


def checked_trial(
    build: Callable[[], tw.DeviceOp[Any]],
    out: tw.Tensor,
    sample: Sample,
    *,
    limit: float | None = None,
) -> Trial:
    """A trial whose candidates write `out` and must agree with the sampled default.

    `limit` is the tolerance, where it exceeds the rounding of the result.
    """
    limit = LIMITS[out.dtype] if limit is None else limit
    checks = _Checks(build, out, sample, limit)
    return Trial(build, checks.error, limit, lambda: poison(out))


def _as_matrix(out: tw.Tensor) -> tw.Tensor:
    """All elements as rows of at most a few thousand, which bounds the number of sums."""
    columns = gcd(out.shape[-1], WIDEST) if out.shape[-1] > WIDEST else out.shape[-1]
    return out.reshape(prod(out.shape) // columns, columns)


class _Checks:
    def __init__(
        self, build: Callable[[], tw.DeviceOp[Any]], out: tw.Tensor, sample: Sample, limit: float
    ) -> None:
        self._limit = limit
        self._build = build
        self._out = out
        self._sample = sample
        self._rows = _as_matrix(out)
        signs = np.random.default_rng(1).choice([-1.0, 1.0], (SUMS, self._rows.shape[0]))
        self._signs = tw.from_numpy(signs.astype(np.float32), device=out.device).astype(out.dtype)
        # Building the default starts its assembly; behind all candidates it would have to wait.
        self._summed().close()

    def error(self, _: Any) -> float:
        found = self._sums()  # before the default runs, on the first call
        whole = relative_error(found, self._expected)
        return float(np.max([whole, ONE_COLUMN * _worst_column(found, self._expected)]))

    @cached_property
    def _expected(self) -> Array:
        poison(self._out)
        self._build().sync()
        off = relative_error(*self._sample())
        if not off <= self._limit:
            raise tw.TuneError(f"the untuned choice is wrong: relative error {off:.3g}")
        return self._sums()

    def _sums(self) -> Array:
        return self._summed().sync().numpy()

    def _summed(self) -> tw.DeviceOp[tw.Tensor]:
        return matmul(self._signs, self._rows, out_dtype=f32)


def _worst_column(found: Array, expected: Array) -> float:
    """The norm of the difference in one column over that of the expected values in most."""
    usual = np.sqrt(np.mean(np.sum(np.square(expected), axis=0)))
    worst = np.sqrt(np.max(np.sum(np.square(found - expected), axis=0)))
    return float(worst / usual) if usual else float(worst)
