"""Inferred constants: a call may omit a constant that is also a dim of a tensor.

A keyword `N: Const[int]` without a default, which is also a dim of an axis, is by default the
extent of that axis. The specialisation is that of a call with the same constant given.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping

from tilewright.frontend.signature.signature import Signature

__all__ = ["INFERRED", "Inferred", "inferable", "with_inferred"]


class Inferred:
    """The type of the placeholder for an omitted constant."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "the extent of a tensor"


# The only instance.
INFERRED = Inferred()


def inferable(signature: Signature, call: inspect.Signature) -> Mapping[str, tuple[str, int]]:
    """The constants that can be inferred, each with the parameter and axis of its extent."""
    keywords = (call.parameters[param.name] for param in signature.constants if param.type is int)
    left_out = {
        one.name
        for one in keywords
        if one.kind is one.KEYWORD_ONLY and one.default in (one.empty, INFERRED)
    }
    found: dict[str, tuple[str, int]] = {}
    for param, axis, dim in signature.named_axes():
        if isinstance(dim, str) and dim in left_out:
            found.setdefault(dim, (param.name, axis))
    return found


def with_inferred(signature: Signature, call: inspect.Signature) -> inspect.Signature:
    """The Python signature in which inferable constants have a default."""
    known = inferable(signature, call)
    return call.replace(
        parameters=[
            parameter.replace(default=INFERRED) if parameter.name in known else parameter
            for parameter in call.parameters.values()
        ]
    )
