"""A call with operations among its arguments: a chain that runs them, and then launches.

The other arguments are bound at the call, so a wrong kind, rank, dtype or device is refused there.
Dims, the grid and overlaps need all arguments and are checked when the operations have run.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from tilewright.dtypes import AnyDType
from tilewright.frontend.signature.signature import GroupParam, ScalarParam, Signature
from tilewright.jit.bind.binding import Binding, bind_arguments
from tilewright.jit.bind.launch import check_devices
from tilewright.runtime.ops.deferring import defer
from tilewright.runtime.ops.operation import DeviceOp

__all__ = ["launch_later"]

# Builds the launch when all arguments are values.
Launch = Callable[[inspect.BoundArguments], DeviceOp[tuple[Any, ...]]]


def launch_later(
    signature: Signature, call: inspect.BoundArguments, launch: Launch
) -> DeviceOp[tuple[Any, ...]]:
    """Build the chain of the operations among the arguments and of the kernel on their results."""
    waiting = {name: v for name, v in call.arguments.items() if isinstance(v, DeviceOp)}

    def build(values: tuple[Any, ...]) -> DeviceOp[tuple[Any, ...]]:
        call.arguments = dict(zip(call.arguments, values, strict=True))
        return launch(call)

    _check_known(signature, call, waiting)
    groups = [param.name for param in signature.params if isinstance(param, GroupParam)]
    count = len(call.arguments)
    return defer(signature.kernel, call.arguments, build, count=count, tuples=groups)


def _check_known(
    signature: Signature, call: inspect.BoundArguments, waiting: dict[str, DeviceOp[Any]]
) -> None:
    """Refuse arguments that are wrong for every result of the operations."""
    binding = Binding(signature)
    values: tuple[Any, ...] = (*signature.tensors, *signature.pointers, *signature.constants)
    bind_arguments(binding, (param for param in values if param.name not in waiting), call)
    known = (param for param in signature.numbers if _is_typed(binding, param))
    bind_arguments(binding, (param for param in known if param.name not in waiting), call)
    check_devices(binding)
    for name, operation in waiting.items():
        if binding.tensors and operation.device is not binding.device:
            first = next(iter(binding.tensors))
            raise binding.refused(
                name,
                f"comes from an operation on {operation.device.name}, but `{first}` lives on "
                f"{binding.device.name}: all tensors of a launch must be on one device",
            )


def _is_typed(binding: Binding, number: ScalarParam | GroupParam) -> bool:
    """Whether the dtype is known without the results of the operations."""
    dtypes = (binding.dtype(leaf.dtype) for leaf in number.leaves())
    return not any(issubclass(dtype, AnyDType) for dtype in dtypes)
