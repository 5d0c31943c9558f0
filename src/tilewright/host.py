"""Creation functions on the host: `zeros` and the like make tensors there.

Shape and dtype are checked at the call, which also starts to compile the kernel that writes the
contents; bytes and contents come with the first use, on its stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from math import isfinite
from typing import Any, Protocol, SupportsFloat, SupportsIndex, cast

from tilewright.dtypes import DType, f32, i32, limits
from tilewright.errors import LaunchError
from tilewright.given import as_int, shown
from tilewright.lang import functions, integers
from tilewright.lang.philox import PRECISIONS
from tilewright.runtime.devices.device import Device
from tilewright.runtime.devices.stream import Stream
from tilewright.runtime.loading import load_module
from tilewright.runtime.memory import creation
from tilewright.runtime.memory.creation import empty, from_numpy, meta
from tilewright.runtime.memory.dtypes import check_roundable, memory_dtype
from tilewright.runtime.memory.layout import Layout, check_shape
from tilewright.runtime.memory.tensor import Tensor
from tilewright.runtime.ops.chain import zip_operations
from tilewright.runtime.ops.operation import DeviceOp

__all__ = ["empty", "eye", "from_numpy", "linspace", "meta", "randn"]

Place = Device | str | None
Fill = Callable[[Tensor], DeviceOp[Any]]
FillLine = Callable[[Tensor, int], DeviceOp[Any]]

_LONGEST = 1 << 30  # elements of one launch: rounded up to a tile, the count fits i32
_MASK = (1 << 64) - 1
_PLACES = ("seed", "offset")  # scalars of random numbers


class _Creation(Protocol):
    """The interface of `tilewright.kernels.elements.creation`: operations that write a tensor.

    A line is a contiguous part of a tensor; `first` is the number of its first element in there.
    """

    def count_up(self, line: Tensor, first: int) -> DeviceOp[Any]:
        """Store its number in each element."""

    def even_steps(
        self, line: Tensor, first: int, start: float, stop: float, number: int
    ) -> DeviceOp[Any]:
        """Store `number` numbers from `start` to `stop`, both included."""

    def unit_matrix(self, matrix: Tensor) -> DeviceOp[Any]:
        """Store ones on the diagonal, zeros elsewhere."""

    def uniform_numbers(self, line: Tensor, first: int, seed: int) -> DeviceOp[Any]:
        """Uniform in [0, 1); `first` and `seed` have 64 bits without a sign."""

    def normal_numbers(self, line: Tensor, first: int, seed: int) -> DeviceOp[Any]:
        """Normal with mean 0 and variance 1; `first` and `seed` have 64 bits without a sign."""


def _kernels() -> _Creation:
    """The kernels that make contents, a layer above this one."""
    return cast("_Creation", load_module("tilewright.kernels.elements.creation"))


def eye(
    rows: int, columns: int | None = None, dtype: type[DType] = f32, *, device: Place = None
) -> Tensor:
    """A matrix with ones on the diagonal and zeros elsewhere; square without `columns`."""
    shape = (rows, rows if columns is None else columns)
    return _made(shape, dtype, device, _kernels().unit_matrix)


def linspace(
    start: SupportsFloat,
    stop: SupportsFloat,
    num: int,
    dtype: type[DType] = f32,
    *,
    device: Place = None,
) -> Tensor:
    """`num` numbers in even steps from `start` to `stop`, both included."""
    kind = memory_dtype(dtype)
    try:
        ends = float(start), float(stop)
    except Exception:  # noqa: BLE001 (raised by the object itself)
        given = f"{shown(start)} to {shown(stop)}"
        raise LaunchError(f"tw.linspace goes from one number to another, not {given}") from None
    if not kind.element.is_float:
        raise LaunchError(f"tw.linspace makes floats, not {kind.label}: convert, `.astype(…)`")
    if not all(map(isfinite, ends)):
        raise LaunchError(f"tw.linspace goes from one finite number to another, not {ends}")
    number = _count(num)
    fill = partial(_kernels().even_steps, start=ends[0], stop=ends[1], number=number)
    return _made_by_lines(number, kind, device, fill)


def randn(
    shape: int | tuple[int, ...],
    dtype: type[DType] = f32,
    *,
    seed: SupportsIndex = 0,
    offset: SupportsIndex = 0,
    device: Place = None,
) -> Tensor:
    """Normally distributed floats, of mean 0 and variance 1.

    Element `n` in row-major order is a function of `seed` and `offset + n` alone: of the numbers
    that `tw.rand` gives there and half a sequence later, by the method of Box and Muller.
    """
    return _random("tw.randn", _kernels().normal_numbers, shape, dtype, (seed, offset), device)


def _rand(
    shape: int | tuple[int, ...],
    dtype: type[DType] = f32,
    *,
    seed: SupportsIndex = 0,
    offset: SupportsIndex = 0,
    device: Place = None,
) -> Tensor:
    """Floats spread evenly over [0, 1), the same on every device."""
    return _random("tw.rand", _kernels().uniform_numbers, shape, dtype, (seed, offset), device)


def _arange(
    n: SupportsIndex, dtype: type[DType] = i32, *more: object, device: Place = None
) -> Tensor:
    """0, 1, … n - 1 along one axis."""
    if more or isinstance(dtype, int):
        given = ", ".join(map(str, (n, dtype, *more)))
        raise LaunchError(
            f"tw.arange({given}): it counts from 0 to n - 1, in steps of 1; a part of"
            f" `tw.arange({dtype})`, sliced, begins elsewhere or goes in other steps"
        )
    kind, number = memory_dtype(dtype), _count(n)
    if kind.element.is_integer and number - 1 > limits(kind)[1]:
        raise LaunchError(f"tw.arange({number}) counts further than {kind.label} can")
    return _made_by_lines(number, kind, device, _kernels().count_up)


def _count(number: SupportsIndex) -> int:
    if not hasattr(number, "__index__"):
        raise LaunchError(f"the number of elements is an integer, not {shown(number)}")
    (checked,) = check_shape((number,))
    return checked


def _random(
    name: str,
    fill: Callable[[Tensor, int, int], DeviceOp[Any]],
    shape: int | tuple[int, ...],
    dtype: type[DType],
    place: tuple[SupportsIndex, SupportsIndex],
    device: Place,
) -> Tensor:
    """Random numbers, a function of the seed and the element's position; both modulo 2**64."""
    if dtype not in PRECISIONS:
        known = ", ".join(dtype.label for dtype in PRECISIONS)
        raise LaunchError(f"{name} makes {known}, not {memory_dtype(dtype).label}")
    seed, offset = (
        _place(name, which, number) for which, number in zip(_PLACES, place, strict=True)
    )

    def fill_line(line: Tensor, first: int) -> DeviceOp[Any]:
        return fill(line, first + offset & _MASK, seed)

    return _made_by_lines(shape, dtype, device, fill_line)


def _place(name: str, which: str, number: Any) -> int:
    try:
        return as_int(number) & _MASK
    except TypeError:
        raise LaunchError(f"{name}({which}={shown(number)}): it is an integer") from None


# --- by a kernel, on the stream of the first use --------------------------------------------------


def _made_by_lines(
    shape: int | tuple[int, ...], dtype: type[DType], device: Place, fill: FillLine
) -> Tensor:
    """A tensor filled in row-major order, some lines at a time."""

    def fill_all(tensor: Tensor) -> DeviceOp[Any]:
        parts = [fill(line, first) for first, line in _lines(tensor)]
        return parts[0] if len(parts) == 1 else zip_operations(*parts)

    return _made(shape, dtype, device, fill_all)


def _lines(tensor: Tensor) -> Iterator[tuple[int, Tensor]]:
    """Parts of a contiguous tensor along one axis, each with the number of its first element."""
    for first in range(0, tensor.size, _LONGEST):
        length = min(_LONGEST, tensor.size - first)
        yield first, tensor.handle(Layout.packed((length,), first), tensor.dtype)


def _made(shape: int | tuple[int, ...], dtype: type[DType], device: Place, fill: Fill) -> Tensor:
    """A tensor whose contents a kernel computes."""
    check_roundable(dtype)
    if 0 in check_shape(shape):
        return empty(shape, dtype, device=device)

    def initialise(tensor: Tensor, stream: Stream) -> None:
        fill(tensor).submit(stream)

    tensor = creation.fill_by(shape, dtype, initialise, device=device)
    # Built once and dropped: errors are raised here, and the assembler starts now.
    fill(tensor).close()
    return tensor


functions.zeros.on_host = creation.zeros
functions.ones.on_host = creation.ones
functions.full.on_host = creation.full
functions.arange.on_host = _arange
functions.rand.on_host = _rand
functions.cdiv.on_host = integers.cdiv
functions.next_power_of_2.on_host = integers.next_power_of_2
