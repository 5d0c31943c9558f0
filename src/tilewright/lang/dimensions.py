"""Dims: names for extents in a signature, which are numbers in the body of the kernel.

`Cut` joins two of them: the extent of an axis, and the tile that it is cut into.

A dim is a class, so that it can stand in an annotation; its metaclass lets type checkers accept it
as a number as well. Run as Python, those operators raise, since a dim has no value there. Equality
and hash are by identity, because `typing` keeps annotations in caches that compare their arguments.
"""

from __future__ import annotations

from types import GenericAlias
from typing import TYPE_CHECKING, Any, Generic, Never, TypeVar, overload

from tilewright.dtypes import DType
from tilewright.lang.outside import OutsideKernelError

__all__ = ["All", "Cut", "Dim", "DimType"]

_Scalar = TypeVar("_Scalar", bound=DType)
_Extent = TypeVar("_Extent")
_Tile = TypeVar("_Tile")


class DimType(type):
    """The type of dims: an integer to type checkers, without arithmetic at run time."""

    def _has_no_value(cls) -> Never:
        raise OutsideKernelError(
            f"`{cls.__name__}` is a dim: it has a value only inside a kernel whose signature "
            "names it"
        )

    @overload
    def __add__(cls, other: _Scalar) -> _Scalar: ...
    @overload
    def __add__(cls, other: int | DimType) -> int: ...
    @overload
    def __add__(cls, other: float) -> float: ...
    def __add__(cls, other: Any) -> Any:
        cls._has_no_value()

    __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __add__
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __add__

    @overload
    def __truediv__(cls, other: _Scalar) -> _Scalar: ...
    @overload
    def __truediv__(cls, other: float | DimType) -> float: ...
    def __truediv__(cls, other: Any) -> Any:
        cls._has_no_value()

    __rtruediv__ = __truediv__

    # No `|`: between classes it makes a union type.
    def __and__(cls, other: int | DimType) -> int:
        cls._has_no_value()

    __rand__ = __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = __and__

    def __neg__(cls) -> int:
        cls._has_no_value()

    __pos__ = __abs__ = __int__ = __index__ = __neg__

    def __float__(cls) -> float:
        cls._has_no_value()

    def __lt__(cls, other: float | DType | DimType) -> bool:
        cls._has_no_value()

    __le__ = __gt__ = __ge__ = __lt__

    if TYPE_CHECKING:
        # Strict checkers refuse `BM == 64` between a class and a number without this declaration.
        def __eq__(cls, other: object) -> bool: ...
        def __hash__(cls) -> int: ...


class Dim(metaclass=DimType):
    """Base of dims: `class HEADS(tw.Dim): ...` names an extent in the signature of a kernel."""

    def __init__(self) -> None:
        raise OutsideKernelError(
            f"`{type(self).__name__}` is a dim: write its name alone, in annotations and in the "
            "body of a kernel"
        )


class All(Dim):
    """In the annotation of an output: the whole axis, of any extent.

    `z: Mut[f32, BM, tw.All]` owns entire rows; the call passes `z.partition(BM, None)`.
    """


class Cut(Generic[_Extent, _Tile]):
    """In the annotation of an output: an axis of one extent, cut into tiles of another.

    In `z: Mut[f32, Cut[M, BM]]` the axis has the extent of every other axis named `M`, which each
    launch checks, and a block owns `BM` of them. Fixed numbers are `Cut[Literal[128], B]`, and
    `Cut[N, tw.All]` is a whole axis of extent `N`.
    """

    if not TYPE_CHECKING:
        # Plain numbers are arguments as well, which `typing` would refuse.
        __class_getitem__ = classmethod(GenericAlias)

    def __init__(self) -> None:
        raise OutsideKernelError(
            "`Cut` stands in the annotation of an output: `z: Mut[f32, Cut[N, B]]`"
        )
