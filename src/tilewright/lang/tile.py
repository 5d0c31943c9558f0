"""`Tile`: the value that kernels compute with, as type checkers and readers see it.

Methods have a docstring and no body: kernels are compiled, never run as Python, and a tile has no
instance there. The front end checks shapes; type checkers check dtypes as far as Python's types
express them.
"""

# mypy: disable-error-code="empty-body"
# pyright: reportReturnType=false

from __future__ import annotations

from types import EllipsisType
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    NoReturn,
    SupportsIndex,
    TypeAlias,
    TypeVar,
    overload,
)

from tilewright.dtypes import (
    AnyDType,
    DType,
    bf16,
    bool_,
    f8e4m3fn,
    f8e5m2,
    f16,
    f32,
    f64,
    i8,
    i32,
    tf32,
    u8,
)
from tilewright.lang.dimensions import DimType
from tilewright.lang.outside import InKernel
from tilewright.lang.rounding import Direction

__all__ = ["AxisSelection", "Extents", "Mask", "Operand", "Tile"]

D = TypeVar("D", bound=DType)
To = TypeVar("To", bound=DType)
Narrow = TypeVar("Narrow", f16, bf16, f32, tf32, f8e4m3fn, f8e5m2)
Byte = TypeVar("Byte", i8, u8)
Placeholder = TypeVar("Placeholder", bound=AnyDType)

Extents = SupportsIndex | tuple[SupportsIndex, ...]  # of a shape, as arguments or as a tuple
AxisSelection = slice | EllipsisType | None  # an index of a tile


class Tile(InKernel, Generic[D]):
    """An immutable block of elements with a static shape; every extent is a power of two.

    Operators work element by element and broadcast as in NumPy. A number without a dtype takes the
    tile's; two different dtypes never mix: convert one with `astype`.
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents, known when the kernel is compiled."""

    @property
    def dtype(self) -> type[D]:
        """The type of the elements."""

    @property
    def T(self) -> Tile[D]:  # noqa: N802 - as in NumPy
        """A matrix with its two axes exchanged."""

    def astype(self, dtype: type[To], *, rounding: Direction = "nearest") -> Tile[To]:
        """Every element converted.

        Float to integer truncates and saturates, NaN gives 0; integers keep their low bits; floats
        of 8 and 4 bits saturate at their largest number, infinities too. `rounding` is for float to
        float; the modes depend on the two dtypes. f8e8m0fnu, whose numbers are powers of two, needs
        one: `"zero"` or `"up"`.
        """

    def reshape(self, *shape: Extents) -> Tile[D]:
        """The same elements in row-major order, in another shape."""

    def permute(self, *axes: int | tuple[int, ...]) -> Tile[D]:
        """Axis `n` of the result is axis `axes[n]` of this tile."""

    def broadcast_to(self, *shape: Extents) -> Tile[D]:
        """Axes of extent one repeated, and leading axes added, to get this shape."""

    def item(self) -> D:
        """The only element, as a scalar."""

    def __getitem__(self, index: AxisSelection | tuple[AxisSelection, ...], /) -> Tile[D]:
        """`t[:, None]`: the same elements with axes of extent one added."""

    def __add__(self, other: Operand[D], /) -> Tile[D]: ...

    __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __add__
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __add__
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __add__
    __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = __add__

    @overload
    def __matmul__(self: Tile[f64], other: Tile[f64], /) -> Tile[f64]: ...
    @overload
    def __matmul__(self: Tile[Byte], other: Tile[Byte], /) -> Tile[i32]: ...
    @overload
    def __matmul__(self: Tile[Narrow], other: Tile[Narrow], /) -> Tile[f32]: ...
    @overload
    def __matmul__(self: Tile[Placeholder], other: Tile[Placeholder], /) -> Tile[Any]: ...
    def __matmul__(self, other: Any, /) -> Any:
        """Matrix product, summed in f32 (8-bit integers in i32, f64 in f64)."""

    def __neg__(self) -> Tile[D]: ...

    __pos__ = __invert__ = __abs__ = __neg__

    def __lt__(self, other: Operand[D], /) -> Tile[bool_]: ...

    __le__ = __gt__ = __ge__ = __lt__

    def __eq__(self, other: Operand[D], /) -> Tile[bool_]: ...  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]

    def __ne__(self, other: Operand[D], /) -> Tile[bool_]: ...  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]

    if TYPE_CHECKING:

        def __bool__(self) -> NoReturn:
            """Refused: a branch needs one truth value, a tile has many."""


Operand: TypeAlias = Tile[D] | D | float | DimType
"""An operand of a tile: a tile or scalar of its dtype, a number, a dim."""

Mask: TypeAlias = Tile[bool_] | bool_ | bool | None
"""The elements to read or write, each or all of them; None: all."""
