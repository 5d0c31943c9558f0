"""What a handle does not do, although an array would: it says so and names what does.

A tensor is memory in flight: arithmetic on it belongs into a kernel, where it is fused and checked,
and its contents belong to whoever waits for them.
"""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["NotAnArray"]


class NotAnArray:
    """Base of handles: the operators of arrays, refused by name."""

    __slots__ = ()

    # NumPy then leaves `array + tensor` to the methods below.
    __array_ufunc__ = None

    def _no_arithmetic(self, *_: Any) -> NoReturn:
        raise TypeError(
            "tensors have no arithmetic on the host, where every operator would be a launch of its"
            " own: write it in a kernel, `z.store(x.load_like(z) + 1)`, or compute with `.numpy()`"
        )

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _no_arithmetic
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = _no_arithmetic
    __mod__ = __rmod__ = __divmod__ = __rdivmod__ = __pow__ = __rpow__ = _no_arithmetic
    __matmul__ = __rmatmul__ = __and__ = __rand__ = __or__ = __ror__ = _no_arithmetic
    __xor__ = __rxor__ = __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = _no_arithmetic
    __neg__ = __pos__ = __abs__ = __invert__ = _no_arithmetic
    __lt__ = __le__ = __gt__ = __ge__ = _no_arithmetic

    def __setitem__(self, index: Any, value: Any) -> NoReturn:
        raise TypeError(
            "a tensor is not assigned to: `tw.copy(z[…], x)` copies a tensor into a part,"
            " `tw.fill(z[…], 0)` repeats a number there"
        )

    def __contains__(self, value: Any) -> bool:
        raise TypeError("a tensor is not searched on the host: `value in x.numpy()`")

    def __bool__(self) -> NoReturn:
        raise TypeError("a tensor has no truth value: look at its contents with `.numpy()`")

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("a tensor does not turn into an array by itself: say `.numpy()`")

    def _no_number(self) -> NoReturn:
        raise TypeError("a tensor is no number: `.item()` waits for a single element")

    __int__ = __float__ = __complex__ = __index__ = _no_number

    def __copy__(self) -> NoReturn:
        raise TypeError("a handle is not copied: slice it for a view, `.clone()` for new memory")

    def __deepcopy__(self, _: object) -> NoReturn:
        self.__copy__()
