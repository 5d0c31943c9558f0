"""A binding: the arguments of one call as data, by the parameters of the signature.

Each argument is checked by itself here: its kind, rank, dtype and tiling, or its type and range.
`bind_launch` checks that arguments agree, and fills in the grid.

A call may omit a constant that is also a dim of a tensor: a keyword `N: Const[int]` without a
default is by default the extent of an axis with the dim `N`. The specialisation is that of a call
with the same constant given.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tilewright.dtypes import AnyDType, DType
from tilewright.errors import LaunchError
from tilewright.frontend.signature.constants import constant_of
from tilewright.frontend.signature.signature import (
    AccumParam,
    ConstParam,
    GroupParam,
    MappedParam,
    MutParam,
    PointerParam,
    RefParam,
    ScalarParam,
    Signature,
    TensorParam,
)
from tilewright.frontend.signature.specialization import offsets_name
from tilewright.given import shown
from tilewright.ir.function import EntryHints
from tilewright.ir.launch_terms import (
    Blocks,
    Extent,
    GridExtent,
    LaunchTerm,
    ScalarArgument,
    Stride,
    TileCount,
)
from tilewright.jit.bind.scalars import Unfit, described, number_of
from tilewright.lang.hints import KernelHints
from tilewright.runtime.devices.device import Device, current_device
from tilewright.runtime.interop.imports import as_tensor, is_array
from tilewright.runtime.memory.partition import HostPartition, PersistentPartition
from tilewright.runtime.memory.tensor import Tensor

__all__ = [
    "Binding",
    "Inferred",
    "LaunchEnvironment",
    "bind_arguments",
    "inferable",
    "with_inferred",
]

# --- inferred constants ---------------------------------------------------------------------------


class Inferred:
    """The type of the placeholder for an omitted constant."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "the extent of a tensor"


# The only instance.
INFERRED = Inferred()


def inferable(signature: Signature, call: inspect.Signature) -> Mapping[str, tuple[str, int]]:
    """The constants that can be inferred, each with the parameter and axis of its extent."""
    keywords = (call.parameters[param.name] for param in signature.constants if param.type is int)
    left_out = {
        one.name
        for one in keywords
        if one.kind is one.KEYWORD_ONLY and one.default in (one.empty, INFERRED)
    }
    found: dict[str, tuple[str, int]] = {}
    for param, axis, dim in signature.named_axes():
        if isinstance(dim, str) and dim in left_out:
            found.setdefault(dim, (param.name, axis))
    return found


def with_inferred(signature: Signature, call: inspect.Signature) -> inspect.Signature:
    """The Python signature in which inferable constants have a default."""
    known = inferable(signature, call)
    return call.replace(
        parameters=[
            parameter.replace(default=INFERRED) if parameter.name in known else parameter
            for parameter in call.parameters.values()
        ]
    )


# --- launch terms ---------------------------------------------------------------------------------


class LaunchEnvironment(Mapping[LaunchTerm, int]):
    """A lazy mapping from launch terms, addresses excepted, to their values in one launch."""

    def __init__(
        self,
        tensors: Mapping[str, Tensor],
        scalars: Mapping[str, int | float],
        grid: tuple[int, ...],
        blocks: int,
    ) -> None:
        self.tensors = tensors
        self.scalars = scalars
        self.grid = grid
        self.blocks = blocks

    def __getitem__(self, term: LaunchTerm) -> int:
        return int(_VALUES[type(term)](self, term))

    def __iter__(self) -> Iterator[LaunchTerm]:
        for name, tensor in self.tensors.items():
            for axis in range(len(tensor.shape)):
                yield Extent(name, axis)
                yield Stride(name, axis)
        yield from map(ScalarArgument, self.scalars)
        yield Blocks()
        yield from map(GridExtent, range(len(self.grid)))

    def __len__(self) -> int:
        return sum(1 for _ in self)


_VALUES: dict[type, Callable[[LaunchEnvironment, Any], int | float]] = {
    Extent: lambda launch, term: launch.tensors[term.param].shape[term.axis],
    Stride: lambda launch, term: launch.tensors[term.param].strides[term.axis],
    TileCount: lambda launch, term: -(-launch.tensors[term.param].shape[term.axis] // term.tile),
    ScalarArgument: lambda launch, term: launch.scalars[term.param],
    Blocks: lambda launch, _: launch.blocks,
    GridExtent: lambda launch, term: launch.grid[term.axis],
}


# --- bindings -------------------------------------------------------------------------------------


@dataclass
class Binding:
    """Tensors, tiles, constants and scalars of a call, and the grid that follows from them."""

    signature: Signature
    hints: KernelHints = field(default_factory=KernelHints)
    compiled_hints: EntryHints | None = None  # those of the compiled kernel, once it is known
    tensors: dict[str, Tensor] = field(default_factory=dict)
    partitions: dict[str, HostPartition] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict)
    scalars: dict[str, int | float] = field(default_factory=dict)
    dtypes: dict[type[DType], type[DType]] = field(default_factory=dict)
    walked: dict[str, PersistentPartition] = field(default_factory=dict)
    grid: tuple[int, ...] = ()
    descending: tuple[int, ...] = ()  # grid axes that are traversed from their end
    is_grid_given: bool = False  # by the call, because no output defines the grid
    blocks: int = 0

    @property
    def written(self) -> frozenset[str]:
        """Names of the tensors that the kernel may write."""
        outputs = {param.name for param in self.signature.outputs}
        return frozenset(outputs | {param.name for param in self.signature.pointers})

    @property
    def device(self) -> Device:
        """The device of the launch: that of its tensors; without tensors the current one."""
        tensor = next(iter(self.tensors.values()), None)
        return current_device() if tensor is None else tensor.device

    @property
    def environment(self) -> LaunchEnvironment:
        """The launch terms of the call, once it has a grid."""
        return LaunchEnvironment(self.tensors, self.scalars, self.grid, self.blocks)

    def dtype(self, declared: type[DType]) -> type[DType]:
        """Resolve a declared dtype, which may be a placeholder."""
        return self.dtypes.get(declared, declared)

    def results(self, arguments: Mapping[str, Any]) -> tuple[Any, ...]:
        """The results of the operation: its arguments, with inferred constants as numbers."""
        return tuple(
            self.constants[name] if value is INFERRED else value
            for name, value in arguments.items()
        )

    def refused(self, name: str, text: str) -> LaunchError:
        """Make the exception that refuses an argument."""
        return LaunchError(f"`{name}` of kernel `{self.signature.kernel}` {text}")


def bind_arguments(binding: Binding, params: Iterable[Any], call: inspect.BoundArguments) -> None:
    """Bind arguments one by one, tensors first, because they resolve dtype placeholders."""
    for param in params:
        value = call.arguments[param.name]
        if value is not INFERRED:
            _BINDERS[type(param)](binding, param, value)


# --- tensors --------------------------------------------------------------------------------------

_CUT = (HostPartition, PersistentPartition)
# Reasons why a parameter takes no partition.
_UNCUT: dict[type, str] = {
    RefParam: "is read-only (Ref) and is cut into tiles inside the kernel: pass the tensor itself",
    AccumParam: "is an Accum, into which every block accumulates: pass the tensor itself, not cut",
    PointerParam: "is a pointer (Ptr): pass the tensor, not a partition",
}


def _bind_whole(binding: Binding, param: TensorParam | PointerParam, value: Any) -> None:
    """Bind a tensor that is not cut: read-only, accumulated into, or behind a pointer."""
    if isinstance(value, _CUT):
        raise binding.refused(param.name, _UNCUT[type(param)])
    _bind_tensor(binding, param, value)


def _bind_mut(binding: Binding, param: MutParam, value: Any) -> None:
    """Bind an output with one piece for each block, which is a plain partition."""
    if isinstance(value, PersistentPartition):
        text = "is a Mut, of which each block owns one piece: pass it without .persistent()"
        raise binding.refused(param.name, text)
    if not isinstance(value, HostPartition):
        raise _unpartitioned(binding, param, value, "")
    _bind_partition(binding, param, value)


def _bind_mapped(binding: Binding, param: MappedParam, value: Any) -> None:
    """Bind a walked output, which is a persistent partition."""
    if not isinstance(value, PersistentPartition):
        raise _unpartitioned(binding, param, value, ".persistent()")
    _bind_partition(binding, param, value.partition)
    *others, _, columns = (1, *(value.group or (1,)))
    if any(extent != 1 for extent in others) or (param.rank == 1 and columns != 1):
        raise binding.refused(
            param.name,
            f"is walked in groups of {value.group}: only the last two axes can be grouped, "
            "for example group=(8, 1)",
        )
    binding.walked[param.name] = value


def _unpartitioned(binding: Binding, param: TensorParam, value: Any, ending: str) -> LaunchError:
    tile = ", ".join(map(str, param.dims))  # None for a whole axis, as `partition` takes it
    kind = "Mapped" if ending else "Mut"
    cut = f"{param.name}.partition({tile})"
    if not isinstance(value, (HostPartition, Tensor)) and is_array(value):
        cut = f"tw.partition({', '.join((param.name, tile))})"
    return binding.refused(
        param.name,
        f"is an output ({kind}) and has to be cut before the launch: pass "
        f"{cut}{ending}, not {described(value)}",
    )


def _bind_partition(binding: Binding, param: TensorParam, partition: HostPartition) -> None:
    _bind_tensor(binding, param, partition.tensor)
    binding.partitions[param.name] = partition
    segments = partition.segments
    if segments is not None:
        if not isinstance(segments, Tensor):
            text = f"is cut by segments= of {described(segments)}: they are a tensor"
            raise binding.refused(param.name, text)
        binding.tensors[offsets_name(param.name)] = segments


def _bind_tensor(binding: Binding, param: TensorParam | PointerParam, value: Any) -> None:
    try:
        tensor = value if type(value) is Tensor else as_tensor(value)
    except LaunchError as error:
        raise binding.refused(param.name, f"cannot be passed: {error}") from None
    if isinstance(param, PointerParam):
        if tensor is None:
            text = "is a pointer (Ptr) to a tensor's first element: pass the tensor, not {}"
            raise binding.refused(param.name, text.format(described(value)))
    elif tensor is None:
        raise binding.refused(param.name, f"must be a tensor, not {described(value)}")
    elif tensor.ndim != param.rank:
        raise binding.refused(
            param.name,
            f"has rank {param.rank}; the tensor has rank {tensor.ndim}, shape {tensor.shape}",
        )
    _bind_dtype(binding, param, tensor.dtype)
    binding.tensors[param.name] = tensor


def _bind_dtype(binding: Binding, param: TensorParam | PointerParam, got: type[DType]) -> None:
    declared = param.dtype
    if issubclass(declared, AnyDType):
        bound = binding.dtypes.setdefault(declared, got)
        if bound is not got:
            raise binding.refused(
                param.name,
                f"is {got.label}, but {declared.__name__} is {bound.label} in this call: one "
                "placeholder is one dtype",
            )
    elif declared is not got:
        text = f"holds {declared.label}; the tensor holds {got.label}"
        raise binding.refused(param.name, text)


# --- scalars and constants ------------------------------------------------------------------------


def _bind_scalar(binding: Binding, param: ScalarParam, value: Any) -> None:
    try:
        binding.scalars[param.name] = number_of(value, binding.dtype(param.dtype))
    except Unfit as error:
        raise binding.refused(param.name, str(error)) from None


def _bind_group(binding: Binding, param: GroupParam, value: Any) -> None:
    """Bind a tuple or a dataclass of scalars, each by itself."""
    names = param.field_names
    kind: Any = param.kind
    if not isinstance(value, kind):
        wanted = f"a tuple of {len(param.members)}" if kind is tuple else kind.__name__
        raise binding.refused(param.name, f"is {wanted}, not {described(value)}")
    items = [getattr(value, name) for name in names] if names else [*value]
    if len(items) != len(param.members):
        text = f"is a tuple of {len(param.members)}, but {len(items)} are given"
        raise binding.refused(param.name, text)
    for member, item in zip(param.members, items, strict=True):
        _BINDERS[type(member)](binding, member, item)


def _bind_const(binding: Binding, param: ConstParam, value: Any) -> None:
    """Bind a constant, which is part of the specialisation."""
    try:
        binding.constants[param.name] = constant_of(param.type, value)
    except (TypeError, OverflowError):
        name = param.type.__name__
        wanted = {"Callable": "function"}.get(name, name)
        text = f"is a constant of type {wanted}, not {shown(value)}"
        raise binding.refused(param.name, text) from None


_BINDERS: dict[type, Callable[[Binding, Any, Any], None]] = {
    AccumParam: _bind_whole,
    RefParam: _bind_whole,
    PointerParam: _bind_whole,
    MutParam: _bind_mut,
    MappedParam: _bind_mapped,
    ScalarParam: _bind_scalar,
    GroupParam: _bind_group,
    ConstParam: _bind_const,
}
