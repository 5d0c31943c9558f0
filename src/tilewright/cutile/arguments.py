"""Arguments of a cuTile kernel: the compiler's assumptions about them, and their layout.

With a driver, cuTile inspects arguments itself; here its public constraints state the same facts,
and only those that the given arguments satisfy. An array is passed as its address, its extents and
its strides in elements; a list of arrays as the address of a table of those, in 64-bit words, and
its length; a tuple as its items; a constant not at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import cuda.tile as ct
import numpy as np
from cuda.tile.compilation import (
    ArrayConstraint,
    ConstantConstraint,
    ListConstraint,
    ScalarConstraint,
    TupleConstraint,
)

from tilewright.backends.cpu.memory import KernelMemory
from tilewright.errors import LaunchError
from tilewright.frontend.signature.constants import exact_number
from tilewright.given import plain_number, shown
from tilewright.runtime.interop.numpy_arrays import check_memory
from tilewright.runtime.interop.torch_tensors import why_too_small

__all__ = ["PassedArguments", "annotated_function", "pass_arguments"]

_VECTOR = 16  # bytes: the widest alignment that code is specialised for
_NAMES = {"bool": "bool_"}  # dtypes whose name differs between libraries and cuTile
_INTEGERS = {
    getattr(ct, f"{sign}int{bits}"): range(low, low + 2**bits)
    for bits in (8, 16, 32, 64)
    for sign, low in (("", -(2 ** (bits - 1))), ("u", 0))
}
_DTYPES = {bool: ct.bool_, int: ct.int32, float: ct.float32}


@dataclass
class PassedArguments:
    """Arguments as they are passed to a kernel."""

    constraints: tuple[Any, ...] = ()
    numbers: list[float] = field(default_factory=list)
    memories: list[KernelMemory] = field(default_factory=list)
    arrays: list[_Array] = field(default_factory=list)  # kept alive, with their memory


@dataclass(frozen=True)
class _Array:
    """An array of another library as numbers: strides count elements."""

    dtype: Any
    itemsize: int
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    read_only: bool
    given: Any = field(compare=False)  # the array itself, or NumPy's view of it

    @property
    def nbytes(self) -> int:
        """Bytes from the first one of the first element to the last one of the last."""
        if 0 in self.shape:
            return 0
        reach = sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True))
        return (reach + 1) * self.itemsize

    def overlaps(self, other: _Array) -> bool:
        """Whether the memory ranges of both overlap."""
        return (
            self.address < other.address + other.nbytes
            and other.address < self.address + self.nbytes
        )


def annotated_function(kernel: Any) -> Any:
    """Return a kernel's function with its parameters, for which cuTile has no public API."""
    return kernel._annotated_function  # noqa: SLF001


def pass_arguments(kernel: Any, arguments: Sequence[Any]) -> PassedArguments:
    """Describe arguments to cuTile's compiler, and lay them out for its kernels."""
    annotated = annotated_function(kernel)
    names = list(annotated.pysig.parameters)
    if len(arguments) != len(names):
        raise LaunchError(
            f"kernel `{annotated.pyfunc.__name__}` takes {len(names)} arguments "
            f"({', '.join(names)}), and {len(arguments)} are given"
        )
    passed = PassedArguments()
    reader = _ArgumentReader(passed, [unit for item in arguments for unit in _units(item)])
    passed.constraints = tuple(
        reader.read(name, item, node)
        for name, item, node in zip(names, arguments, annotated.parameter_annotations, strict=True)
    )
    passed.memories += _merged(passed.arrays)
    return passed


class _ArgumentReader:
    """Reads the arguments in order; `units` are the arrays and lists among them."""

    def __init__(self, passed: PassedArguments, units: list[list[_Array]]) -> None:
        self._passed = passed
        self._groups = iter([_group(unit, units) for unit in units])

    def read(self, name: str, item: Any, node: Any) -> Any:
        """Return the constraint for an argument, and append its numbers."""
        if getattr(node, "constant", False):
            return _constant(item)
        if isinstance(item, tuple):
            parts = _nodes(node, len(item))
            return TupleConstraint(
                [self.read(name, part, inner) for part, inner in zip(item, parts, strict=True)]
            )
        if isinstance(item, list):
            return self._list(name, item, node)
        array = _as_array(item)
        if array is not None:
            constraint = self._array(name, array, node.array, next(self._groups))
            self._passed.numbers += [array.address, *array.shape, *array.strides]
            return constraint
        return self._scalar(name, item, node)

    def _scalar(self, name: str, item: Any, node: Any) -> ScalarConstraint:
        number = exact_number(item)
        if number is None:
            raise LaunchError(
                f"argument `{name}` is a {type(item).__name__}: cuTile's kernels take arrays of "
                "NumPy, torch tensors on the CPU, lists and tuples of them, and numbers"
            )
        if node.scalar is not None:
            dtype = node.scalar.dtype
        elif isinstance(item, np.generic):
            dtype = _dtype(name, item.dtype.name)
        else:
            dtype = _DTYPES[type(number)]
            if dtype is ct.int32 and number not in _INTEGERS[dtype]:
                dtype = ct.int64
        if type(number) is int and number not in _INTEGERS.get(dtype, _INTEGERS[ct.int64]):
            raise LaunchError(f"argument `{name}` is {shown(number)}, which does not fit {dtype}")
        self._passed.numbers.append(number)
        return ScalarConstraint(dtype)

    def _array(
        self, name: str, array: _Array, annotation: Any, groups: tuple[str, ...]
    ) -> ArrayConstraint:
        if any(stride < 0 for stride in array.strides):
            raise LaunchError(f"argument `{name}` has a negative stride, which cuTile refuses")
        _check_memory(name, array)
        self._passed.arrays.append(array)
        given = annotation or ct.ArrayAnnotation()
        rank = len(array.shape)
        ones = tuple(1 if stride == 1 else None for stride in array.strides)
        static = _chosen(array.strides, given.static_stride_dims)
        return ArrayConstraint(
            array.dtype,
            rank,
            index_dtype=given.index_dtype,
            stride_lower_bound_incl=0,
            alias_groups=groups,
            may_alias_internally=_meets_itself(array),
            stride_constant=static if given.static_stride_dims else ones,
            shape_constant=_chosen(array.shape, given.static_shape_dims),
            # The stride of an axis of one element is never used, so it constrains nothing.
            stride_divisible_by=tuple(
                _divisor(stride, array.itemsize) if extent > 1 and stride != 1 else 1
                for extent, stride in zip(array.shape, array.strides, strict=True)
            ),
            shape_divisible_by=tuple(_divisor(n, array.itemsize) for n in array.shape),
            base_addr_divisible_by=_VECTOR if array.address % _VECTOR == 0 else array.itemsize,
        )

    def _list(self, name: str, items: list[Any], node: Any) -> ListConstraint:
        arrays = [_as_array(item) for item in items]
        if not items or any(array is None for array in arrays):
            raise LaunchError(f"argument `{name}` must be a list of one array or more")
        annotation = node.list.element if node.list is not None else None
        found = [array for array in arrays if array is not None]
        groups = next(self._groups)
        read = [self._array(name, array, annotation, groups) for array in found]
        common = _common(name, read)
        table = np.array([[a.address, *a.shape, *a.strides] for a in found], np.int64)
        self._passed.memories.append(KernelMemory.of(table))
        self._passed.numbers += [table.ctypes.data, len(items)]
        meet = any(a.overlaps(b) for at, a in enumerate(found) for b in found[:at])
        return ListConstraint(common, alias_groups=(), elements_may_alias=meet)


def _constant(item: Any) -> Any:
    if isinstance(item, tuple):
        return TupleConstraint([_constant(part) for part in item])
    return ConstantConstraint(item.item() if isinstance(item, np.generic) else plain_number(item))


def _nodes(node: Any, length: int) -> list[Any]:
    """Return the annotations of a tuple's items; that of a whole tuple applies to each."""
    if hasattr(node, "items"):
        return list(node.items)
    return [getattr(node, "each", node)] * length


def _common(name: str, constraints: Sequence[ArrayConstraint]) -> ArrayConstraint:
    """Return the constraint that all arrays of a list satisfy."""
    first = constraints[0]
    if any((c.dtype, c.ndim) != (first.dtype, first.ndim) for c in constraints):
        raise LaunchError(f"the arrays of the list `{name}` must have one dtype and one rank")
    ones = zip(*(c.stride_constant for c in constraints), strict=True)
    return ArrayConstraint(
        first.dtype,
        first.ndim,
        index_dtype=first.index_dtype,
        stride_lower_bound_incl=0,
        alias_groups=first.alias_groups,
        may_alias_internally=any(c.may_alias_internally for c in constraints),
        stride_constant=tuple(axis[0] if len(set(axis)) == 1 else None for axis in ones),
        base_addr_divisible_by=min(c.base_addr_divisible_by for c in constraints),
    )


# --- arrays ---------------------------------------------------------------------------------------


def _units(item: Any) -> Iterator[list[_Array]]:
    """Iterate over the arrays of an argument, in order; a list of arrays is one unit."""
    if isinstance(item, tuple):
        for part in item:
            yield from _units(part)
    elif isinstance(item, list):
        yield [array for part in item if (array := _as_array(part)) is not None]
    elif (array := _as_array(item)) is not None:
        yield [array]


def _as_array(item: Any) -> _Array | None:
    """Convert an array of NumPy or of a library that supports DLPack."""
    if isinstance(item, np.generic):
        return None
    if hasattr(item, "data_ptr"):  # torch: DLPack refuses tensors that require grad
        _require_host(item.device.type)
        size = item.element_size()
        dtype = _dtype("", str(item.dtype).rpartition(".")[2])
        return _Array(dtype, size, item.data_ptr(), tuple(item.shape), item.stride(), False, item)
    if not isinstance(item, np.ndarray):
        if not hasattr(item, "__dlpack__"):
            return None
        item = np.from_dlpack(item)
    size = item.itemsize
    if not item.dtype.isnative:
        raise LaunchError(
            f"an array of {item.dtype.str} has its bytes in the order of another machine: convert "
            "it with a.astype(a.dtype.newbyteorder('='))"
        )
    if any(stride % size for stride in item.strides):
        raise LaunchError("an array whose strides are no multiple of its elements cannot be passed")
    return _Array(
        _dtype("", item.dtype.name),
        size,
        item.ctypes.data,
        item.shape,
        tuple(stride // size for stride in item.strides),
        not item.flags.writeable,
        item,
    )


def _check_memory(name: str, array: _Array) -> None:
    """Refuse an array with less memory than its shape and strides span."""
    first, end = array.address, array.address + array.nbytes
    if isinstance(array.given, np.ndarray):
        check_memory(array.given, first, end)
        return
    reason = why_too_small(array.given, first, end)
    if reason is not None:
        raise LaunchError(f"argument `{name}` {reason}")


def _require_host(kind: str) -> None:
    if kind != "cpu":
        raise LaunchError(f"a tensor on {kind} cannot be read by the CPU: pass `tensor.cpu()`")


def _dtype(name: str, spelled: str) -> Any:
    dtype = getattr(ct, _NAMES.get(spelled, spelled), None)
    if dtype is None:
        raise LaunchError(f"{name and f'argument `{name}`: '}cuTile has no dtype {spelled}")
    return dtype


def _group(unit: list[_Array], units: list[list[_Array]]) -> tuple[str, ...]:
    """Return the alias group of an array or a list: one for all that overlap another."""
    others = (array for other in units if other is not unit for array in other)
    return ("shared",) if any(a.overlaps(b) for b in others for a in unit) else ()


def _meets_itself(array: _Array) -> bool:
    """Whether two indices may be one element."""
    reach = 1
    axes = zip(array.strides, array.shape, strict=True)
    for stride, extent in sorted(axis for axis in axes if axis[1] > 1):
        if stride < reach:
            return True
        reach += stride * (extent - 1)
    return False


def _chosen(numbers: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int | None, ...]:
    wanted = {axis % len(numbers) for axis in axes} if numbers else set()
    return tuple(number if axis in wanted else None for axis, number in enumerate(numbers))


def _divisor(number: int, itemsize: int) -> int:
    """Return the largest divisor of a number of elements, up to a vector."""
    widest = max(_VECTOR // itemsize, 1)
    return widest if number % widest == 0 else 1


def _merged(arrays: list[_Array]) -> list[KernelMemory]:
    """Return the memories of arrays; overlapping ones are merged."""
    stretches: list[list[Any]] = []
    for array in sorted((a for a in arrays if a.nbytes), key=lambda a: a.address):
        end = array.address + array.nbytes
        if stretches and array.address < stretches[-1][1]:
            stretches[-1][1] = max(stretches[-1][1], end)
            stretches[-1][2] &= array.read_only
        else:
            stretches.append([array.address, end, array.read_only])
    return [
        KernelMemory.at(first, end - first, read_only=read_only)
        for first, end, read_only in stretches
    ]
