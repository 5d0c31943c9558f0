"""Constants that a call need not give, because the extent of a tensor is the same number.

A keyword `N: Const[int]` without a default, which is also a dim of an axis, takes its extent
where the call leaves it out. The kernel is then specialised on it, like on one that was given.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from tilewright.frontend.signature.signature import Signature
from tilewright.jit.bind.binding import Binding

__all__ = ["INFERRED", "Inferred", "infer_constants", "inferable", "results_of", "with_inferred"]


class Inferred:
    """Stands for a constant that a call leaves out; all of them are the same."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "the extent of a tensor"


# The one there is.
INFERRED = Inferred()


def inferable(signature: Signature, call: inspect.Signature) -> Mapping[str, tuple[str, int]]:
    """The constants that an extent gives, each with the parameter and axis that it is read off."""
    left_out = {
        param.name
        for param in signature.constants
        if param.type is int and _is_open(call.parameters[param.name])
    }
    found: dict[str, tuple[str, int]] = {}
    for param, axis, dim in signature.named_axes():
        if isinstance(dim, str) and dim in left_out:
            found.setdefault(dim, (param.name, axis))
    return found


def _is_open(parameter: inspect.Parameter) -> bool:
    is_left = parameter.default in (parameter.empty, INFERRED)
    return parameter.kind is parameter.KEYWORD_ONLY and is_left


def with_inferred(signature: Signature, call: inspect.Signature) -> inspect.Signature:
    """The signature of a call in which constants that an extent gives may be left out."""
    known = inferable(signature, call)
    return call.replace(
        parameters=[
            parameter.replace(default=INFERRED) if parameter.name in known else parameter
            for parameter in call.parameters.values()
        ]
    )


def infer_constants(binding: Binding, call: inspect.Signature) -> None:
    """Give the constants that were left out their values; all tensors are bound."""
    for name, (param, axis) in inferable(binding.signature, call).items():
        if name not in binding.constants:
            binding.constants[name] = binding.tensors[param].shape[axis]


def results_of(binding: Binding, arguments: Mapping[str, Any]) -> tuple[Any, ...]:
    """The arguments of a call as its operation gives them back: constants are numbers."""
    return tuple(
        binding.constants[name] if value is INFERRED else value for name, value in arguments.items()
    )
