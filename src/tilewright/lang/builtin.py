"""Builtins: the functions of the kernel language, as objects that the front end recognises.

A builtin is declared by a typed function without a body. The front end looks up the object found in
a kernel's globals, so there is no table of names. On the host a call is refused, unless the builtin
has a host implementation (`zeros` makes a tensor).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cached_property, update_wrapper
from typing import Any, Generic, ParamSpec, TypeVar

from tilewright.errors import InternalError
from tilewright.lang.outside import OutsideKernelError

__all__ = ["Builtin", "builtin"]

P = ParamSpec("P")
R = TypeVar("R", covariant=True)


class Builtin(Generic[P, R]):
    """One public function of the kernel language."""

    name: str

    def __init__(self, stub: Callable[P, R]) -> None:
        update_wrapper(self, stub)
        self.name = stub.__name__
        self._stub = stub
        self._on_host: Callable[..., Any] | None = None

    @cached_property
    def signature(self) -> inspect.Signature:
        """The signature of a call; annotations are text."""
        return inspect.signature(self._stub)

    @property
    def on_host(self) -> Callable[..., Any] | None:
        """The implementation outside a kernel, if there is one. Set once."""
        return self._on_host

    @on_host.setter
    def on_host(self, meaning: Callable[..., Any]) -> None:
        if self._on_host is not None:
            raise InternalError(f"`tw.{self.name}` has a meaning on the host already")
        self._on_host = meaning

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the host implementation, or refuse the call if there is none."""
        if self._on_host is None:
            raise OutsideKernelError(
                f"`tw.{self.name}` works inside a kernel only: call it in a function that is "
                "decorated with `@tw.kernel`, or in one that such a function calls"
            )
        result: R = self._on_host(*args, **kwargs)
        return result

    def __reduce__(self) -> str:
        """Pickle and copy by name, like a function."""
        return self.name

    def __repr__(self) -> str:
        return f"<tw.{self.name}>"


def builtin(stub: Callable[P, R]) -> Builtin[P, R]:
    """Declare a function of the kernel language; the body of `stub` is never run."""
    return Builtin(stub)
