"""Signatures: the parameters of a kernel, the dims they share, and which dims are static.

A dim name that is a tile in a `Mut` or `Mapped` annotation, or is a `Const`, is static: known when
the kernel is compiled. Any other is dynamic and has one value in all its places, in the axes of
inputs and as the first argument of an output's `Cut`; the first axis with it, of an input if there
is one, is its *home*, and every other is checked against it at launch.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from types import FunctionType
from typing import Any, get_args, get_origin

from tilewright.dtypes import IN_TILES_ONLY, AnyDType, DType
from tilewright.errors import CompileError
from tilewright.frontend.signature.axis_annotations import (
    DimSpec,
    ExtentSpec,
    read_cuts,
    read_dim,
    refuse_cut,
)
from tilewright.frontend.signature.scalars import GroupParam, ScalarParam, read_scalars
from tilewright.frontend.signature.shown_annotations import shown_annotation
from tilewright.frontend.signature.type_parameters import TypeParameters
from tilewright.ir.launch_terms import Extent, LaunchTerm, TileCount
from tilewright.lang.accumulator import Accum
from tilewright.lang.annotations import Const, Mapped, Mut, Ref
from tilewright.lang.pointers import Ptr

__all__ = [
    "AccumParam",
    "ConstParam",
    "DimSpec",
    "ExtentSpec",
    "GroupParam",
    "MappedParam",
    "MutParam",
    "Param",
    "PointerParam",
    "RefParam",
    "ScalarParam",
    "Signature",
    "TensorParam",
    "WholeParam",
    "read_signature",
]


@dataclass(frozen=True)
class TensorParam:
    """A parameter that is a tensor: its dtype (or placeholder) and a spec for each axis.

    `dims` are the extents that a block sees, `cuts` those of the whole tensor where it is cut.
    """

    name: str
    dtype: type[DType]
    dims: tuple[DimSpec, ...]
    cuts: tuple[ExtentSpec, ...] = ()

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.dims)

    @property
    def extents(self) -> tuple[ExtentSpec, ...]:
        """Extents of the whole tensor, by the names in the signature."""
        return self.cuts or (None,) * self.rank


class WholeParam(TensorParam):
    """A tensor that every block sees whole; `dims` are its extents."""

    @property
    def extents(self) -> tuple[ExtentSpec, ...]:
        """Extents of the whole tensor, by the names in the signature."""
        return self.dims


class RefParam(WholeParam):
    """Shared read-only tensor."""

    kind = "Ref"


class MutParam(TensorParam):
    """An output of which each block owns one piece; `dims` are the piece."""

    kind = "Mut"


class MappedParam(TensorParam):
    """An output walked by a persistent schedule; `dims` are the tile."""

    kind = "Mapped"


class AccumParam(WholeParam):
    """A tensor that every block accumulates into."""

    kind = "Accum"


@dataclass(frozen=True)
class PointerParam:
    """A raw pointer, for unsafe kernels only."""

    name: str
    dtype: type[DType]


@dataclass(frozen=True)
class ConstParam:
    """A value known when the kernel is compiled."""

    name: str
    type: type
    default: Any = field(repr=False)  # inspect.Parameter.empty if there is none; part of no key


# Any parameter of a kernel.
Param = (
    RefParam | MutParam | MappedParam | AccumParam | ScalarParam | GroupParam | PointerParam
    | ConstParam
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Signature:
    """All parameters of a kernel, in order."""

    kernel: str
    params: tuple[Param, ...]
    placeholders: Mapping[str, type[AnyDType]] = field(default_factory=dict)  # type parameters

    @cached_property
    def tensors(self) -> tuple[TensorParam, ...]:
        """The tensor parameters, in order."""
        return tuple(param for param in self.params if isinstance(param, TensorParam))

    @cached_property
    def outputs(self) -> tuple[TensorParam, ...]:
        """The parameters that the kernel may write."""
        return tuple(param for param in self.tensors if not isinstance(param, RefParam))

    @cached_property
    def cut_outputs(self) -> tuple[TensorParam, ...]:
        """The outputs of which the blocks own parts; their dims are extents of a tile."""
        return tuple(param for param in self.tensors if not isinstance(param, WholeParam))

    @cached_property
    def mut_outputs(self) -> tuple[MutParam, ...]:
        """The outputs of which each block owns one piece."""
        return tuple(param for param in self.tensors if isinstance(param, MutParam))

    @cached_property
    def constants(self) -> tuple[ConstParam, ...]:
        """The compile-time parameters."""
        return tuple(param for param in self.params if isinstance(param, ConstParam))

    @cached_property
    def scalars(self) -> tuple[ScalarParam, ...]:
        """The numbers that a launch passes, those in groups included."""
        return tuple(leaf for param in self.numbers for leaf in param.leaves())

    @cached_property
    def numbers(self) -> tuple[ScalarParam | GroupParam, ...]:
        """The scalars, and the tuples and dataclasses of them, as a call passes them."""
        return tuple(param for param in self.params if isinstance(param, ScalarParam | GroupParam))

    @cached_property
    def pointers(self) -> tuple[PointerParam, ...]:
        """The pointer parameters."""
        return tuple(param for param in self.params if isinstance(param, PointerParam))

    @cached_property
    def static_dims(self) -> frozenset[str]:
        """Dims known when the kernel is compiled."""
        tiles = (dim for param in self.cut_outputs for dim in param.dims if isinstance(dim, str))
        return frozenset((*tiles, *(param.name for param in self.constants)))

    @cached_property
    def homes(self) -> Mapping[str, tuple[str, int]]:
        """The home of each dynamic dim: a parameter and its axis."""
        found: dict[str, tuple[str, int]] = {}
        for param, axis, dim in self.named_axes():
            if isinstance(dim, str) and dim not in self.static_dims:
                found.setdefault(dim, (param.name, axis))
        return found

    def named_axes(self) -> Iterator[tuple[TensorParam, int, int | str]]:
        """Every axis with an extent in the signature, those of tensors that are cut last."""
        whole = (param for param in self.tensors if isinstance(param, WholeParam))
        for param in (*whole, *self.cut_outputs):
            for axis, dim in enumerate(param.extents):
                if dim is not None:
                    yield param, axis, dim

    def home_of(self, term: LaunchTerm) -> LaunchTerm | None:
        """The same launch term at the home of its dim; None if it has none, or is there."""
        if not isinstance(term, Extent | TileCount):
            return None
        param = self.by_name.get(term.param)
        dim = param.extents[term.axis] if isinstance(param, TensorParam) else None
        home = self.homes.get(dim) if isinstance(dim, str) else None
        if home is None or home == (term.param, term.axis):
            return None
        return replace(term, param=home[0], axis=home[1])

    @cached_property
    def by_name(self) -> Mapping[str, Param]:
        """The parameters by their names."""
        return {param.name: param for param in self.params}


def read_signature(function: FunctionType, local_names: Mapping[str, Any]) -> Signature:
    """Read the annotations of a kernel; `local_names` are those of the enclosing function."""
    type_parameters = TypeParameters(function)
    names = {**local_names, **type_parameters.names}
    hints = _evaluated_annotations(function, names)
    if hints.pop("return", None) is not None:
        raise CompileError(f"kernel `{function.__name__}` returns nothing: annotate it `-> None`")
    params = []
    for parameter in inspect.signature(function, follow_wrapped=False).parameters.values():
        if parameter.kind in _VARIADIC:
            raise CompileError(
                f"kernel `{function.__name__}`: `{parameter.name}` stands for any number of "
                f"parameters, but every parameter of a kernel needs a name of its own"
            )
        if parameter.name not in hints:
            raise CompileError(
                f"parameter `{parameter.name}` of kernel `{function.__name__}` has no annotation: "
                f"say what it is, `{parameter.name}: Ref[f32, N]` or `{parameter.name}: f32`"
            )
        given = (hints[parameter.name], type_parameters)
        params.append(_read_any(function.__name__, parameter, given, names))
    _check_names(function.__name__, params)
    return Signature(function.__name__, tuple(params), type_parameters.placeholders)


_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _check_names(kernel: str, params: list[Param]) -> None:
    """Refuse a parameter with the name of a dim, except a constant, which is the same value."""
    tensors = [param for param in params if isinstance(param, TensorParam)]
    dims = {dim for tensor in tensors for dim in (*tensor.dims, *tensor.extents)}
    pointers = [param for param in params if isinstance(param, PointerParam)]
    dtypes = {param.dtype for param in (*tensors, *pointers)}
    for param in params:
        if param.name in dims and not isinstance(param, ConstParam):
            raise CompileError(
                f"kernel `{kernel}`: `{param.name}` is a parameter and a dim at the same time; "
                f"rename one of them"
            )
        if isinstance(param, ScalarParam | GroupParam):
            _check_dtypes(kernel, param, dtypes)


def _check_dtypes(kernel: str, param: ScalarParam | GroupParam, known: set[type[DType]]) -> None:
    """Refuse a placeholder that no tensor binds."""
    for scalar in param.leaves():
        if issubclass(scalar.dtype, AnyDType) and scalar.dtype not in known:
            raise CompileError(
                f"`{scalar.name}` of kernel `{kernel}` is a {scalar.dtype.__name__}, but no tensor "
                f"of the kernel says which dtype that is"
            )


def _evaluated_annotations(
    function: FunctionType, local_names: Mapping[str, Any]
) -> dict[str, Any]:
    evaluated: dict[str, Any] = {}
    for name, annotation in function.__annotations__.items():
        if isinstance(annotation, str):
            try:
                annotation = eval(annotation, function.__globals__, dict(local_names))
            except Exception as error:  # noqa: BLE001 (raised by the annotation's own code)
                raise CompileError(
                    f"the annotation `{str.__str__(annotation)}` of `{name}` in kernel "
                    f"`{function.__name__}` cannot be evaluated: {error}"
                ) from None
        evaluated[name] = annotation
    return evaluated


_TENSOR_KINDS: dict[Any, type[TensorParam]] = {
    Accum: AccumParam, Mapped: MappedParam, Mut: MutParam, Ref: RefParam,
}  # fmt: skip
_CONST_TYPES = (int, bool, float, str, DType, Callable)


def _read_any(
    kernel: str, parameter: inspect.Parameter, given: tuple[Any, TypeParameters], names: Any
) -> Param:
    """A parameter, whose annotation may be any object, with code of its own."""
    try:
        return _read_param(kernel, parameter, given[1].replaced(given[0]), names)
    except CompileError:
        raise
    except Exception as error:  # noqa: BLE001 (raised by the annotation's own code)
        raise CompileError(
            f"the annotation of `{parameter.name}` in kernel `{kernel}`, an object of type "
            f"{type(given[0]).__name__}, cannot be read: {type(error).__name__}"
        ) from None


def _read_param(
    kernel: str, parameter: inspect.Parameter, annotation: Any, local_names: Mapping[str, Any]
) -> Param:
    origin = get_origin(annotation)
    if origin in _TENSOR_KINDS:
        return _read_tensor(kernel, parameter.name, origin, get_args(annotation))
    if origin is Ptr:
        dtype = _pointed_dtype(kernel, parameter.name, get_args(annotation))
        return PointerParam(parameter.name, dtype)
    if origin is Const:
        return _read_const(kernel, parameter, get_args(annotation)[0])
    numbers = read_scalars(kernel, parameter.name, annotation, local_names)
    if numbers is not None:
        for scalar in numbers.leaves():
            _check_in_memory(kernel, scalar.name, scalar.dtype)
        return numbers
    raise CompileError(
        f"`{parameter.name}` of kernel `{kernel}` is annotated {shown_annotation(annotation)}; a "
        "parameter is a Ref, Mut, Mapped or Accum tensor, a Const, a dtype for a scalar, or a "
        "tuple or dataclass of scalars"
    )


def _read_tensor(kernel: str, name: str, origin: Any, args: tuple[Any, ...]) -> Param:
    dtype = args[0] if args else None
    if not (isinstance(dtype, type) and issubclass(dtype, DType)):
        raise CompileError(
            f"`{name}` of kernel `{kernel}`: the first thing in the brackets is a dtype, "
            f"like `{origin.__name__}[f32, …]`; got {shown_annotation(dtype)}"
        )
    _check_in_memory(kernel, name, dtype)
    is_whole = issubclass(_TENSOR_KINDS[origin], WholeParam)
    if is_whole:
        refuse_cut(kernel, name, origin, args[1:])
    cuts, tile = read_cuts(kernel, name, args[1:])
    dims = tuple(read_dim(kernel, name, dim) for dim in tile)
    if not dims and not is_whole:
        raise CompileError(
            f"`{name}` of kernel `{kernel}` has no dims: an output that is cut has at least one "
            f"axis, `{origin.__name__}[{dtype.__name__}, N]`"
        )
    if is_whole and None in dims:
        raise CompileError(
            f"`{name}` of kernel `{kernel}` is a {origin.__name__}, every axis of which is "
            f"whole already: name its extent with a dim, or fix it; tw.All is for Mut and Mapped"
        )
    if not is_whole and any(isinstance(dim, int) and dim < 1 for dim in dims):
        raise CompileError(f"`{name}` of kernel `{kernel}`: a tile has at least one element")
    return _TENSOR_KINDS[origin](name, dtype, dims, cuts)  # type: ignore[return-value]


def _pointed_dtype(kernel: str, name: str, args: tuple[Any, ...]) -> type[DType]:
    if len(args) != 1 or not (isinstance(args[0], type) and issubclass(args[0], DType)):
        raise CompileError(
            f"`{name}` of kernel `{kernel}`: a pointer says what it points to and has no dims, "
            f"like `Ptr[f32]`; got {', '.join(map(shown_annotation, args))}"
        )
    _check_in_memory(kernel, name, args[0])
    return args[0]


def _check_in_memory(kernel: str, name: str, dtype: type[DType]) -> None:
    if not issubclass(dtype, AnyDType) and not hasattr(dtype, "element"):
        raise CompileError(
            f"`{name}` of kernel `{kernel}`: {dtype.__name__} is a family of dtypes: name one, "
            f"like `f32`, or a placeholder, `class T(tw.AnyDType): ...`"
        )
    if dtype in IN_TILES_ONLY:
        raise CompileError(
            f"`{name}` of kernel `{kernel}`: {dtype.label} lives in tiles only; in memory, "
            f"{IN_TILES_ONLY[dtype]}, which the kernel converts"
        )


def _read_const(kernel: str, parameter: inspect.Parameter, of: Any) -> ConstParam:
    if get_origin(of) is type:
        of = get_args(of)[0]
    elif get_origin(of) is Callable:
        of = Callable
    is_enum = isinstance(of, type) and issubclass(of, Enum)
    if of not in _CONST_TYPES and not is_enum:
        raise CompileError(
            f"`{parameter.name}` of kernel `{kernel}`: Const takes int, bool, float, str, an enum, "
            "Callable or type[DType]"
        )
    return ConstParam(parameter.name, of, parameter.default)
