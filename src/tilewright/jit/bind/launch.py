"""Binding of a call: its arguments are matched to the kernel's signature and checked.

All refusals that need no compiler are here, cheapest first: kinds, ranks, dtypes, devices, dims,
partitions, the grid, overlaps. Binding allocates and borrows nothing. The signature is valid;
launch checks, which the compiler derives, are evaluated later by `launch`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from tilewright.frontend.signature.signature import (
    AccumParam,
    ConstParam,
    GroupParam,
    MappedParam,
    MutParam,
    PointerParam,
    RefParam,
    ScalarParam,
    Signature,
)
from tilewright.jit.bind.binding import Binding
from tilewright.jit.bind.dims import bind_static_dims, check_devices, check_extents
from tilewright.jit.bind.grid import choose_grid
from tilewright.jit.bind.inferred import INFERRED, infer_constants
from tilewright.jit.bind.scalars import bind_const, bind_group, bind_scalar
from tilewright.jit.bind.tensors import bind_accum, bind_mapped, bind_mut, bind_pointer, bind_ref
from tilewright.lang.hints import KernelHints
from tilewright.runtime.order.access import Access, Mode, check_accesses

__all__ = ["bind_arguments", "bind_launch"]


def bind_launch(
    signature: Signature,
    call: inspect.BoundArguments,
    grid: tuple[int, ...] | None = None,
    hints: KernelHints | None = None,
) -> Binding:
    """Bind a call's arguments; raises `LaunchError` with the argument's name and the way out."""
    binding = Binding(signature, hints or KernelHints())
    params: tuple[Any, ...] = (
        *signature.tensors, *signature.pointers, *signature.numbers, *signature.constants
    )  # fmt: skip
    bind_arguments(binding, params, call)
    check_devices(binding)
    bind_static_dims(binding)
    infer_constants(binding, call.signature)
    check_extents(binding)
    choose_grid(binding, grid)
    _check_overlap(binding)
    return binding


def _check_overlap(binding: Binding) -> None:
    """Refuse outputs that share memory with other arguments, before the compiler runs."""
    written = binding.written
    accesses = (
        Access(tensor, Mode.UPDATE if name in written else Mode.READ, name)
        for name, tensor in binding.tensors.items()
    )
    check_accesses(tuple(accesses), binding.signature.kernel, binding.device)


def bind_arguments(binding: Binding, params: Iterable[Any], call: inspect.BoundArguments) -> None:
    """Bind arguments one by one, tensors first, because they resolve dtype placeholders."""
    for param in params:
        value = call.arguments[param.name]
        if value is not INFERRED:
            _BINDERS[type(param)](binding, param, value)


_BINDERS: dict[type, Callable[[Binding, Any, Any], None]] = {
    AccumParam: bind_accum,
    RefParam: bind_ref,
    MutParam: bind_mut,
    MappedParam: bind_mapped,
    PointerParam: bind_pointer,
    ScalarParam: bind_scalar,
    GroupParam: bind_group,
    ConstParam: bind_const,
}
