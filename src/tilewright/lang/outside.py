"""Names of the kernel language outside a kernel, where they raise.

The body of a kernel is compiled, never run as Python, so tiles, partitions and dims have no values
there.
"""

from __future__ import annotations

from types import GenericAlias
from typing import TYPE_CHECKING, Any, Never

from tilewright.errors import TilewrightError

__all__ = ["InKernel", "OutsideKernelError"]


class OutsideKernelError(TilewrightError, TypeError):
    """A name of the kernel language was used outside a kernel."""


class InKernel:
    """Base of types that exist inside a kernel only: for annotations, without instances."""

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
