"""Tunable kernels of the library: search spaces, shapes, and checks of the results.

`tilewright tune` reads these; the library itself reads only the records.
"""

from __future__ import annotations

from tilewright.kernels.tunables.elements import ADD, GELU, SILU_MUL, TRANSPOSE
from tilewright.kernels.tunables.heads import ATTENTION, DECODE
from tilewright.kernels.tunables.matrices import GEMV, MATMUL
from tilewright.kernels.tunables.rows import LAYER_NORM, RMS_NORM, SOFTMAX
from tilewright.kernels.tunables.several import (
    ADD_RMS_NORM,
    CROSS_ENTROPY,
    CROSS_ENTROPY_GRADIENT,
    DROPOUT,
    EMBEDDING,
)
from tilewright.kernels.tunables.sums import CUMSUM, SUM
from tilewright.tune import Tunable

__all__ = ["TUNABLES"]

# By the name under which a kernel looks up its configuration.
TUNABLES: dict[str, Tunable] = {
    one.name: one
    for one in (
        *(MATMUL, GEMV, ATTENTION, DECODE),
        *(SOFTMAX, RMS_NORM, LAYER_NORM),
        *(ADD, SILU_MUL, GELU, TRANSPOSE, SUM, CUMSUM),
        *(ADD_RMS_NORM, CROSS_ENTROPY, CROSS_ENTROPY_GRADIENT, DROPOUT, EMBEDDING),
    )
}
