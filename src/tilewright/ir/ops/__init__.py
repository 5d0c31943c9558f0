"""Every op, and the tables over them."""

from __future__ import annotations

from tilewright.ir.op import Op
from tilewright.ir.ops import (
    addresses,
    control,
    dependencies,
    elementwise,
    internal,
    memory,
    reduction,
    shape,
    views,
)

__all__ = ["INTERNAL_OPS", "TILE_IR_OPS"]


def _ops_of(module: object) -> tuple[type[Op], ...]:
    found = (getattr(module, name) for name in getattr(module, "__all__", ()))
    return tuple(op for op in found if isinstance(op, type) and issubclass(op, Op))


_ENCODED = (
    elementwise, shape, memory, views, addresses, dependencies, reduction, control,
)  # fmt: skip

# Every op that has an encoding.
TILE_IR_OPS: tuple[type[Op], ...] = tuple(op for module in _ENCODED for op in _ops_of(module))

# Every op that `passes` must have removed before encoding.
INTERNAL_OPS: tuple[type[Op], ...] = _ops_of(internal)
