"""Element types: those of Tile IR (`Element`) and the dtypes of the language (`f32`, `i32`).

`Element` has one row for each element type of Tile IR, where integers have no signedness. A dtype
is a class derived from `DType`, so that `Ref[f32, N]` is an ordinary generic annotation; an
*instance* of a dtype is a scalar inside a kernel, which exists for type checkers only. A class
derived from `AnyDType` is a placeholder bound at launch.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, TypeVar

import ml_dtypes
import numpy as np

__all__ = [
    "DTYPES",
    "INTEGERS_OF_WIDTH",
    "IN_TILES_ONLY",
    "AnyDType",
    "Bitwise",
    "DType",
    "Element",
    "Integer",
    "T",
    "bf16",
    "bool_",
    "dtype_of_numpy",
    "f4e2m1fn",
    "f8e4m3fn",
    "f8e5m2",
    "f8e8m0fnu",
    "f16",
    "f32",
    "f64",
    "i4",
    "i8",
    "i16",
    "i32",
    "i64",
    "limits",
    "numpy_dtype",
    "tf32",
    "u8",
    "u16",
    "u32",
    "u64",
]


class ElementRow(NamedTuple):
    """One element type of Tile IR."""

    spelling: str
    bits: int
    tag: int  # of the bytecode's type section
    since: tuple[int, int]  # first bytecode version with it
    numpy: np.dtype[Any]  # its representation on the CPU backend
    first_target: int = 80  # oldest sm_ with it
    last_target: int = 999  # newest sm_ with it


# fmt: off
class Element(Enum):
    """An element type of a tile, by its Tile IR name."""

    I1        = ElementRow("i1",        1,  0,  (13, 1), np.dtype(np.bool_))
    I4        = ElementRow("i4",        4,  22, (13, 3), np.dtype(ml_dtypes.int4))
    I8        = ElementRow("i8",        8,  1,  (13, 1), np.dtype(np.int8))
    I16       = ElementRow("i16",       16, 2,  (13, 1), np.dtype(np.int16))
    I32       = ElementRow("i32",       32, 3,  (13, 1), np.dtype(np.int32))
    I64       = ElementRow("i64",       64, 4,  (13, 1), np.dtype(np.int64))
    F16       = ElementRow("f16",       16, 5,  (13, 1), np.dtype(np.float16))
    BF16      = ElementRow("bf16",      16, 6,  (13, 1), np.dtype(ml_dtypes.bfloat16))
    F32       = ElementRow("f32",       32, 7,  (13, 1), np.dtype(np.float32))
    TF32      = ElementRow("tf32",      32, 8,  (13, 1), np.dtype(np.float32))
    F64       = ElementRow("f64",       64, 9,  (13, 1), np.dtype(np.float64))
    F8E4M3FN  = ElementRow("f8E4M3FN",  8,  10, (13, 1), np.dtype(ml_dtypes.float8_e4m3fn), 90)
    F8E5M2    = ElementRow("f8E5M2",    8,  11, (13, 1), np.dtype(ml_dtypes.float8_e5m2), 90)
    F8E8M0FNU = ElementRow("f8E8M0FNU", 8,  18, (13, 2), np.dtype(ml_dtypes.float8_e8m0fnu), 100)
    F4E2M1FN  = ElementRow("f4E2M1FN",  4,  19, (13, 3), np.dtype(ml_dtypes.float4_e2m1fn), 100)
    FNV8E5M3FNU = ElementRow("fnv8E5M3FNU", 8, 130, (13, 4), np.dtype(np.uint8), 107, 107)
# fmt: on

    # Identity hashing is exact for enum members and much cheaper than hashing the row.
    __hash__ = object.__hash__

    def __init__(self, *_row: object) -> None:
        # Kept as attributes: reading an enum's `value` is a call, and these are read on hot paths.
        self.spelling: str = self.value.spelling  # the name in Tile IR text
        self.bits: int = self.value.bits  # bits of one element
        self.is_integer = self.spelling.startswith("i")  # i1 included

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy type of the CPU backend: stores it and, unless `is_held_as_bits`, computes."""
        return self.value.numpy

    @property
    def is_held_as_bits(self) -> bool:
        """Whether NumPy has no such type, so that `numpy` holds bits and not numbers."""
        return self is Element.FNV8E5M3FNU

    @property
    def is_float(self) -> bool:
        """Whether it holds floating-point numbers."""
        return not self.is_integer

    def __repr__(self) -> str:
        return self.spelling

    __str__ = __repr__


_To = TypeVar("_To", bound="DType")


class DType:
    """Base of the dtypes. A class is a dtype; an instance stands for a scalar in a kernel."""

    element: ClassVar[Element]
    signed: ClassVar[bool] = True
    label: ClassVar[str] = "?"

    def __init_subclass__(cls, *, element: Element | None = None, signed: bool = True) -> None:
        if element is not None:
            cls.element, cls.signed, cls.label = element, signed, cls.__name__.rstrip("_")

    def __init__(self, value: Any = 0, /) -> None:
        raise TypeError(f"{type(self).__name__} is a dtype; it has no instances outside a kernel")

    if TYPE_CHECKING:
        # Operators of a scalar, which exists in kernels alone. Tiles and dims are not accepted, so
        # that their own reflected operators decide.
        def __add__(self, other: Self | float) -> Self: ...

        __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __add__
        __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __add__

        def __neg__(self) -> Self: ...

        __pos__ = __abs__ = __neg__

        def __lt__(self, other: Self | float) -> bool: ...

        __le__ = __gt__ = __ge__ = __lt__

        def __eq__(self, other: object) -> bool: ...

        def astype(self, dtype: type[_To]) -> _To: ...

        def item(self) -> Self: ...

        def __int__(self) -> int: ...

        def __float__(self) -> float: ...


class Bitwise(DType):
    """Dtypes of the bit operators: truth values and integers."""

    if TYPE_CHECKING:
        def __and__(self, other: Self | int) -> Self: ...

        __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __and__

        def __invert__(self) -> Self: ...


class Integer(Bitwise):
    """Dtypes of indices; floats and truth values are none."""

    if TYPE_CHECKING:
        def __lshift__(self, other: Self | int) -> Self: ...

        __rlshift__ = __rshift__ = __rrshift__ = __lshift__

        def __index__(self) -> int: ...


class AnyDType(Integer):
    """Base of dtype placeholders: `class T(tw.AnyDType): ...` is bound at each launch.

    Its dtype is unknown before, so type checkers allow it every operator.
    """


class T(AnyDType):
    """A ready-made placeholder: one dtype wherever it occurs in a signature."""


class bool_(Bitwise, element=Element.I1, signed=False):
    """Truth values."""


class i4(Integer, element=Element.I4):
    """4-bit signed integers, in tiles only."""


class i8(Integer, element=Element.I8):
    """8-bit signed integers."""


class i16(Integer, element=Element.I16):
    """16-bit signed integers."""


class i32(Integer, element=Element.I32):
    """32-bit signed integers; the type of indices."""


class i64(Integer, element=Element.I64):
    """64-bit signed integers."""


class u8(Integer, element=Element.I8, signed=False):
    """8-bit unsigned integers."""


class u16(Integer, element=Element.I16, signed=False):
    """16-bit unsigned integers."""


class u32(Integer, element=Element.I32, signed=False):
    """32-bit unsigned integers."""


class u64(Integer, element=Element.I64, signed=False):
    """64-bit unsigned integers."""


class f16(DType, element=Element.F16):
    """IEEE half precision."""


class bf16(DType, element=Element.BF16):
    """Half precision with the exponent of f32."""


class f32(DType, element=Element.F32):
    """IEEE single precision."""


class tf32(DType, element=Element.TF32):
    """f32 with 10 bits of mantissa, for `mma`."""


class f64(DType, element=Element.F64):
    """IEEE double precision."""


class f8e4m3fn(DType, element=Element.F8E4M3FN):
    """8-bit float, 4 bits of exponent."""


class f8e5m2(DType, element=Element.F8E5M2):
    """8-bit float, 5 bits of exponent."""


class f8e8m0fnu(DType, element=Element.F8E8M0FNU):
    """A power of two, for scales."""


class f4e2m1fn(DType, element=Element.F4E2M1FN):
    """4-bit float, in tiles only."""


DTYPES: tuple[type[DType], ...] = (
    bool_, i4, i8, i16, i32, i64, u8, u16, u32, u64,
    f16, bf16, f32, tf32, f64, f8e4m3fn, f8e5m2, f8e8m0fnu, f4e2m1fn,
)  # fmt: skip

# Dtypes of tiles alone, and the form in which memory holds their numbers.
IN_TILES_ONLY: dict[type[DType], str] = {
    i4: "pairs of it are kept in u8",
    f4e2m1fn: "pairs of it are kept in u8",
    tf32: "it is kept as f32",
}

# The signed integers by their bits, the narrowest first; one holds the bits of an element so wide.
INTEGERS_OF_WIDTH: dict[int, type[DType]] = {8: i8, 16: i16, 32: i32, 64: i64}


def numpy_dtype(dtype: type[DType]) -> np.dtype[Any]:
    """The NumPy dtype of host copies, with the signedness that `Element.numpy` lacks."""
    found = _NUMPY.get(dtype)
    return _numpy_of(dtype) if found is None else found


def _numpy_of(dtype: type[DType]) -> np.dtype[Any]:
    if dtype.element.is_integer and not dtype.signed and dtype.element is not Element.I1:
        return np.dtype(f"u{dtype.element.numpy.name}")
    return dtype.element.numpy


# A table, since every new handle looks its dtype up.
_NUMPY: dict[type[DType], np.dtype[Any]] = {dtype: _numpy_of(dtype) for dtype in DTYPES}


def dtype_of_numpy(dtype: np.dtype[Any]) -> type[DType] | None:
    """The dtype of a NumPy array of this type, or None if there is none."""
    return _BY_NUMPY.get(np.dtype(dtype))


_BY_NUMPY = {numpy_dtype(dtype): dtype for dtype in DTYPES if dtype is not tf32}


def limits(dtype: type[DType]) -> tuple[float, float]:
    """The lowest and the highest finite number of a dtype."""
    bits = dtype.element.bits
    if dtype.element.is_float:
        highest = float(ml_dtypes.finfo(dtype.element.numpy).max)  # type: ignore[no-untyped-call]
        return -highest, highest
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if dtype.signed else (0, (1 << bits) - 1)
