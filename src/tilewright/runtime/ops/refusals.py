"""Refusals: methods that handles and operations do not have, with the way to go instead.

A tensor is memory in flight: arithmetic on it belongs into a kernel, where it is fused and checked,
and its contents are read by an explicit wait. An object that stands for work or memory of this
process is unique: a copy would run, hold or free the same thing twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

__all__ = ["NotAnArray", "NotItsResult", "OnlyOne"]


_BY_KERNELS = "a kernel computes it, and `tilewright.kernels` has some"
_BY_HOST = "go through the host, `tw.from_numpy(x.numpy(), device=…)`"
# Attributes of other libraries' arrays, and the replacement here.
_WAYS = {
    **dict.fromkeys(
        ("argmax", "argmin", "cumsum", "max", "mean", "min", "prod", "sum"), _BY_KERNELS
    ),
    **dict.fromkeys(("cpu", "cuda", "to"), _BY_HOST),
    **dict.fromkeys(("flatten", "ravel"), "`.reshape(-1)` is a view, and never a copy"),
    **dict.fromkeys(("mT", "movedim", "swapaxes", "transpose"), "`.permute(…)` or `.T`"),
    **dict.fromkeys(("chunk", "narrow", "slice", "split"), "`x[a:b]` is a view of a part"),
    **dict.fromkeys(("broadcast_to", "expand", "repeat"), "kernels repeat tiles that they load"),
    **dict.fromkeys(("contiguous", "copy"), "`.clone()` has memory of its own, without gaps"),
    **dict.fromkeys(("float", "half", "int", "long", "type"), "`.astype(…)`"),
    "copy_": "`tw.copy(z, x)` is the operation",
    "data_ptr": "`.address`",
    "dim": "`.ndim`",
    "element_size": "`.itemsize`",
    "fill_": "`tw.fill(z, 0)` is the operation",
    "numel": "`.size`",
    "stride": "`.strides`",
    "tolist": "`.numpy().tolist()`",
    "zero_": "`tw.fill(z, 0)` is the operation",
}
# Attributes of tensors that operations with a tensor as result lack.
_OF_RESULTS = (
    "T", "address", "astype", "clone", "dtype", "export", "item", "nbytes", "ndim", "numpy",
    "permute", "reinterpret", "reshape", "shape", "size", "squeeze", "strides", "tensor", "tolist",
    "unsqueeze", "view",
)  # fmt: skip


class OnlyOne:
    """Base of objects that are neither copied nor pickled; a subclass gives the messages."""

    __slots__ = ()

    not_copied: str
    not_pickled: str

    def __copy__(self) -> NoReturn:
        raise TypeError(self.not_copied)

    def __deepcopy__(self, _: object) -> NoReturn:
        raise TypeError(self.not_copied)

    def __reduce_ex__(self, _: object) -> NoReturn:
        raise TypeError(self.not_pickled)


class NotItsResult(OnlyOne):
    """Base of operations, which lack the attributes of their results."""

    __slots__ = ()

    not_copied = "an operation runs once and is not copied: build another, or `.shared()` it"
    not_pickled = "an operation belongs to this process and is not pickled: build it where it runs"

    if not TYPE_CHECKING:  # type checkers report it themselves

        def _has_not_run(self, *_: Any) -> NoReturn:
            raise TypeError(
                "an operation has no items, its result has: `.sync()` and `await` give it, and"
                " `.unzip()` makes an operation of each item"
            )

        __iter__ = __getitem__ = _has_not_run


class _Elsewhere:
    """A missing attribute. A `__getattr__` would slow down all existing ones."""

    __slots__ = ("_kind", "_name", "_way")

    def __init__(self, kind: str, name: str, way: str) -> None:
        self._kind = kind
        self._name = name
        self._way = way

    def __get__(self, instance: object, owner: type) -> NoReturn:
        text = f"{self._kind} has no `{self._name}`: {self._way}"
        raise AttributeError(text, name=self._name, obj=owner if instance is None else instance)


class NotAnArray(OnlyOne):
    """Base of handles: the operators of arrays, each refused by a message of its own."""

    __slots__ = ()

    not_copied = "a handle is not copied: slice it for a view, `.clone()` for new memory"
    not_pickled = (
        "a tensor is memory of this process and is not pickled: send `x.numpy()`, and make a tensor"
        " of it there, `tw.from_numpy(…)`"
    )

    def _no_arithmetic(self, *_: Any, **__: Any) -> NoReturn:
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
    __array_ufunc__ = _no_arithmetic  # called by NumPy for `array + tensor` and `np.sum(tensor)`

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


for _name, _way in _WAYS.items():
    setattr(NotAnArray, _name, _Elsewhere("a tensor", _name, _way))
for _name in _OF_RESULTS:
    _way = (
        f"if its result has, `.sync().{_name}` waits for it, and `.map(lambda result:"
        f" result.{_name})` is for a chain"
    )
    setattr(NotItsResult, _name, _Elsewhere("an operation", _name, _way))
