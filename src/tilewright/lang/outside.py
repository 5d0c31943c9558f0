"""What the names of the kernel language answer when they are used outside a kernel.

The body of a kernel is read, never run, so tiles, partitions and dims have no values in Python.
"""

from __future__ import annotations

from types import GenericAlias
from typing import TYPE_CHECKING, Any, Never

from tilewright.errors import TilewrightError

__all__ = ["InKernel", "OutsideKernelError"]


class OutsideKernelError(TilewrightError, TypeError):
    """Something that has a meaning inside a kernel only was used outside one."""


class InKernel:
    """Base of what exists inside a kernel only: it can be annotated with, and never made."""

    if TYPE_CHECKING:

        def __init__(self, never: Never, /) -> None: ...
    else:

        def __new__(cls, *_: Any, **__: Any) -> Never:
            """Refuse: a kernel gets its values from its parameters and its functions."""
            name = cls.__name__
            raise OutsideKernelError(
                f"`{name}` stands for a value inside a kernel: use it in annotations, "
                f"as in `def helper(x: tw.{name}[f32])`, and do not call it"
            )

        def __class_getitem__(cls, arguments: Any) -> GenericAlias:
            """`Ref[f32, M, 128]`, with any arguments: `typing.Generic` would refuse numbers."""
            return GenericAlias(cls, arguments)
