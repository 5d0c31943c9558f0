"""Sums: of rows, of columns, of all elements, and running sums."""

from __future__ import annotations

from typing import Any

import numpy as np

import tilewright as tw
from tilewright import f16, f32
from tilewright.kernels.cutting import column_config, scan_config, span_config
from tilewright.kernels.elements.pointwise import add
from tilewright.kernels.reference import memory_bound as reference
from tilewright.kernels.rows import reductions
from tilewright.kernels.rows.scans import cumsum, scan_rows
from tilewright.kernels.tunables.beginnings import TARGET, dtype_of, rule_by
from tilewright.kernels.tunables.elements import HINTS
from tilewright.kernels.tunables.signed_sums import Array, checked_trial, copied, spread
from tilewright.tune import Config, Key, Space, Trial, Tunable, key_of

__all__ = ["CUMSUM", "SUM"]

ROWS, COLUMNS = 16384, 8192
EVERYTHING = 1 << 28
IN_COLUMNS = 3  # axes of a key whose reduced axis is the middle one
RUNNING_LIMIT = 5e-3  # tolerance of a long running sum


_OF_COLUMNS, _OF_ROWS = (rule_by("sum", choose) for choose in (column_config, span_config))
_RUNNING = rule_by("cumsum", scan_config)


def _sum_rule(key: Key, target: str) -> Config:
    rule = _OF_COLUMNS if len(key.shape) == IN_COLUMNS else _OF_ROWS
    return rule(key, target)


def _sum_space(key: Key) -> Space:
    """Rows in tiles of several, or columns side by side, and the tiles of a block."""
    if len(key.shape) == IN_COLUMNS:
        axes = {"BK": (64, 256), "PART": (16, 64), "SPAN": (32, 128), **HINTS}
        return Space.around(_sum_rule(key, TARGET), **axes)
    axes = {"PART": (512, 1024, 2048, 4096), **HINTS}
    more = {"SPAN": (64, 256)} if key.shape[0] == 1 else {"BM": (1, 2, 4)}
    return Space.around(_sum_rule(key, TARGET), **axes, **more)


def _sum_trial(key: Key, device: tw.Device) -> Trial:
    """Numbers around one, whose sum does not vanish."""
    *_, first, second = key.shape
    drawn = tw.randn((first, second), dtype_of(key), seed=1, device=device)
    ones = tw.fill(tw.empty(drawn.shape, drawn.dtype, device=device), 1)
    x = add(drawn, ones.sync()).sync()
    axis = 0 if len(key.shape) == IN_COLUMNS else 1
    out = tw.empty((second,) if axis == 0 else (first,), x.dtype, device=device)

    def build() -> tw.DeviceOp[Any]:
        return reductions.sum(x, axis, out=out)

    def sample() -> tuple[Array, Array]:
        parts = spread(out.shape[0], 5, 4)
        some = [x[:, part] if axis == 0 else x[part] for part in parts]
        expected = [one.clone().numpy().sum(axis=axis, dtype=np.float64) for one in some]
        return np.stack([copied(out[part]) for part in parts]), np.stack(expected)

    return checked_trial(build, out, sample)


def _cumsum_space(key: Key) -> Space:
    axes = {"PART": (1024, 2048, 4096, 8192), "SPAN": (1,), **HINTS}
    return Space.around(_RUNNING(key, TARGET), **axes)


def _cumsum_trial(key: Key, device: tw.Device) -> Trial:
    x = tw.randn(key.shape, dtype_of(key), seed=1, device=device)
    out = tw.empty(key.shape, x.dtype, device=device)

    def sample() -> tuple[Array, Array]:
        parts = spread(key.shape[0], 4, 2)
        found = [copied(out[part]) for part in parts]
        return np.stack(found), np.stack([reference.cumsum(copied(x[part])) for part in parts])

    return checked_trial(lambda: cumsum(x, out=out), out, sample, limit=RUNNING_LIMIT)


# Of rows, of columns, and of all elements.
SUM = Tunable(
    name="sum",
    kernels=(reductions.reduce_rows, reductions.reduce_whole_rows, reductions.reduce_columns),
    rule=_sum_rule,
    space=_sum_space,
    keys=(
        key_of(f16, (ROWS, COLUMNS)),
        key_of(f16, (1, ROWS, COLUMNS)),
        key_of(f32, (1, EVERYTHING)),
    ),
    trial=_sum_trial,
    flush=True,
)
# Along rows.
CUMSUM = Tunable(
    name="cumsum",
    kernels=(scan_rows, reductions.reduce_rows),
    rule=_RUNNING,
    space=_cumsum_space,
    keys=(key_of(f16, (ROWS, COLUMNS)),),
    trial=_cumsum_trial,
    flush=True,
)
