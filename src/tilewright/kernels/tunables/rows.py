"""Kernels that read rows and write rows: softmax and the norms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tilewright as tw
from tilewright import f16
from tilewright.kernels.cutting import power_of_two, row_config
from tilewright.kernels.reference import memory_bound as reference
from tilewright.kernels.rows.norms import layer_norm, layer_norm_rows, rms_norm, rms_norm_rows
from tilewright.kernels.rows.softmaxes import softmax, softmax_rows
from tilewright.kernels.tunables.beginnings import TARGET, Rule, rule_by
from tilewright.kernels.tunables.elements import HINTS
from tilewright.kernels.tunables.signed_sums import Array, checked_trial, spread
from tilewright.tune import Key, Space, Trial, Tunable, key_of

__all__ = ["LAYER_NORM", "RMS_NORM", "ROWS", "SOFTMAX", "row_space", "rows_of_trial"]

ROWS = 4096  # in keys; the number of rows matters little
FEWEST_ROWS = 8192  # least rows of a timed problem
ENOUGH = 1 << 26  # least elements of a timed problem, so that launch overhead does not count
WIDTHS = (1024, 2560, 4096, 5120, 8192, 16384, 32768)
MOST = 16384  # elements of a part
LONG = 4096  # elements of a part of a row that exceeds the registers
SHARED = 8192  # elements of rows that share a tile
REGISTERS = 65536  # of a multiprocessor; each element in flight takes one

# The input, a weight and a bias of the length of its rows, and the output.
Launch = Callable[[tw.Tensor, tw.Tensor, tw.Tensor, tw.Tensor], tw.DeviceOp[Any]]
Reference = Callable[[Array, Array, Array], Array]


def row_space(rule: Rule) -> Callable[[Key], Space]:
    """A whole row at once, if it fits, or parts of it; several rows where rows are short.

    Occupancy is the number of blocks whose rows fit the registers.
    """

    def space(key: Key) -> Space:
        whole = power_of_two(key.shape[1])
        held = min(whole, MOST)
        parts = {held >> by for by in range(3)} | {min(whole, LONG)}
        axes: dict[str, tuple[object, ...]] = {
            **HINTS,
            "PART": tuple(sorted(parts)),
            "BM": tuple(rows for rows in (1, 2, 4) if rows == 1 or rows * whole <= SHARED),
            "occupancy": (None, *(many for many in (2, 4, 8, 16) if many * held <= REGISTERS)),
        }
        return Space.around(rule(key, TARGET), **axes)

    return space


def rows_of_trial(key: Key) -> int:
    """The number of rows to time for a key's width; the key's own number matters little."""
    rows, columns = key.shape
    return max(ENOUGH // power_of_two(columns), FEWEST_ROWS) if rows == ROWS else rows


def _trial(launch: Launch, exact: Reference) -> Callable[[Key, tw.Device], Trial]:
    def trial(key: Key, device: tw.Device) -> Trial:
        rows, columns = rows_of_trial(key), key.shape[1]
        x = tw.randn((rows, columns), f16, seed=1, device=device)
        weight, bias = (tw.randn((columns,), f16, seed=s, device=device) for s in (2, 3))
        out = tw.empty((rows, columns), f16, device=device)

        def sample() -> tuple[Array, Array]:
            found, expected = [], []
            for some in spread(rows, 4, 4):
                given = (x[some].numpy(), weight.numpy(), bias.numpy())
                found.append(out[some].numpy())
                expected.append(exact(*(one.astype(np.float64) for one in given)))
            return np.stack(found), np.stack(expected)

        return checked_trial(lambda: launch(x, weight, bias, out), out, sample)

    return trial


_KEYS = tuple(key_of(f16, (ROWS, width)) for width in WIDTHS)
_SOFTMAX, _RMS_NORM, _LAYER_NORM = (
    rule_by(name, row_config) for name in ("softmax", "rms_norm", "layer_norm")
)

# Along the last axis.
SOFTMAX = Tunable(
    name="softmax",
    kernels=(softmax_rows,),
    rule=_SOFTMAX,
    space=row_space(_SOFTMAX),
    keys=_KEYS,
    trial=_trial(lambda x, _, __, out: softmax(x, out=out), lambda x, _, __: reference.softmax(x)),
    flush=True,
)
# With a weight.
RMS_NORM = Tunable(
    name="rms_norm",
    kernels=(rms_norm_rows,),
    rule=_RMS_NORM,
    space=row_space(_RMS_NORM),
    keys=_KEYS,
    trial=_trial(
        lambda x, weight, _, out: rms_norm(x, weight, out=out),
        lambda x, weight, _: reference.rms_norm(x, weight),
    ),
    flush=True,
)
# With a weight and a bias.
LAYER_NORM = Tunable(
    name="layer_norm",
    kernels=(layer_norm_rows,),
    rule=_LAYER_NORM,
    space=row_space(_LAYER_NORM),
    keys=_KEYS,
    trial=_trial(
        lambda x, weight, bias, out: layer_norm(x, weight, bias, out=out), reference.layer_norm
    ),
    flush=True,
)
