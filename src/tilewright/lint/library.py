"""The library's functions, as the host check sees them.

A function that consists of several launches holds the tensors of its first one, and some functions
begin with a copy where a view has strides that do not merge. The tensors that an operation of the
functions below holds are certain; tests compare the table with built operations.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints

from tilewright import DeviceOp, Tensor
from tilewright.lint.values import CalleeValue, Parameter, TensorAccess

__all__ = ["HELD", "library_function"]

# Functions that hold all of their tensors, if these are dense.
HELD = frozenset(
    {
        "add",
        "add_rms_norm",
        "cross_entropy",
        "cross_entropy_gradient",
        "dropout",
        "embedding",
        "gelu",
        "layer_norm",
        "rms_norm",
        "rope",
        "silu_mul",
        "softmax",
        "transpose",
    }
)


@cache
def library_function(name: str, function: Callable[..., Any]) -> CalleeValue | None:
    """A function of `tilewright.kernels` that gives an operation; None for another one."""
    hints = get_type_hints(function)
    given = hints.get("return")
    if get_origin(given) is not DeviceOp:
        return None
    gives_tensor = get_args(given) == (Tensor,)
    if name not in HELD:
        return CalleeValue(name, None, gives_tensor)
    parameters = tuple(
        Parameter(
            one.name,
            _access(one.name, str(hints.get(one.name))),
            one.kind is one.KEYWORD_ONLY,
        )
        for one in inspect.signature(function).parameters.values()
    )
    return CalleeValue(name, parameters, gives_tensor, needs_dense=True)


def _access(name: str, hint: str) -> TensorAccess | None:
    if "Tensor" not in hint:
        return None
    return TensorAccess.WRITE if name == "out" else TensorAccess.READ
