"""Captured values: Python values from outside a kernel, and the refusal of unsupported ones.

A captured value is compiled into the kernel, so it must be immutable: numbers (NumPy's too, which
lose their dtype), strings, members of enums, dtypes, functions, also partial ones
(`functools.partial`), modules, classes that are dataclasses, named tuples or enums, and tuples and
frozen dataclasses of those.
"""

from __future__ import annotations

import ast
import builtins
import functools
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from tilewright.check.errors.names import NotCapturable
from tilewright.dtypes import AnyDType, DType, Element
from tilewright.frontend.calling.constant_functions import MATHEMATICS
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.operands.aggregates import is_named_tuple
from tilewright.frontend.operands.operands import (
    BuiltinOperand,
    ClassOperand,
    DTypeOperand,
    EnumOperand,
    FunctionOperand,
    Identity,
    ModuleOperand,
    Operand,
    PythonFunction,
    RecordOperand,
    Static,
    TupleOperand,
)
from tilewright.frontend.source.capture import SourceFunction
from tilewright.given import narrowed
from tilewright.lang import functions
from tilewright.lang.builtin import Builtin
from tilewright.lang.dimensions import Dim

__all__ = ["captured"]

_NARROW_FLOATS = frozenset(each.numpy.name for each in Element if each.is_float)

_BUILTINS = (range, len, min, max, abs, int, float, bool, print, breakpoint, divmod, pow, round)
_PYTHON_FUNCTIONS = (*_BUILTINS, *MATHEMATICS)


def captured(lo: Lowering, node: ast.AST, name: str, value: Any) -> Operand:
    """A Python value from outside the kernel as an operand, if kernels support it."""
    try:
        operand = _as_operand(lo, value)
        refusal = _refusal(name, value, is_kernel=not lo.frame.calls) if operand is None else None
    except Exception as error:  # noqa: BLE001 (raised by the value's own code)
        operand, refusal = None, _odd(value, error)
    if operand is None:
        lo.reject(NotCapturable, node, name, *(refusal or ()))
    return operand


def _odd(value: Any, error: Exception) -> tuple[str, str, str]:
    what = f"of type {type(value).__name__}"
    return what, f"looking at it raised {type(error).__name__}", "pass plain numbers instead"


def _as_operand(lo: Lowering, value: Any) -> Operand | None:
    make = _class if isinstance(value, type) else _of_kind(value)
    if make is None or make not in (_tuple, _instance):
        return None if make is None else make(lo, value)
    found = lo.held.get(id(value))
    if found is None:  # members that several tuples share are read once
        found = lo.held[id(value)] = value, make(lo, value)
    return found[1]


def _of_kind(value: Any) -> _Make | None:
    if any(value is function for function in _PYTHON_FUNCTIONS):
        return lambda _, function: PythonFunction(function)
    if _belongs_to_the_host(value):
        return None
    # By its real type: `__class__` may be overridden.
    kind = type(value)
    return next((make for kinds, make in _CAPTURES if issubclass(kind, kinds)), _instance)


def _class(lo: Lowering, value: type) -> Operand | None:
    if issubclass(value, DType):
        bound = lo.placeholders.get(value, value)
        is_dtype = isinstance(getattr(bound, "element", None), Element)  # no base, no placeholder
        return DTypeOperand(bound) if is_dtype else None
    if issubclass(value, Enum):
        return EnumOperand(value)
    if value in _PYTHON_FUNCTIONS:
        return PythonFunction(value)
    return ClassOperand(value) if is_named_tuple(value) or is_dataclass(value) else None


def _tuple(lo: Lowering, value: tuple[Any, ...]) -> Operand | None:
    kind = type(value) if is_named_tuple(type(value)) else None
    items = _as_operands(lo, tuple.__iter__(value))
    return None if items is None else TupleOperand(items, kind)


def _instance(lo: Lowering, value: Any) -> Operand | None:
    """A frozen dataclass."""
    if not is_dataclass(value) or not _is_frozen(type(value)):
        return None
    items = _as_operands(lo, [getattr(value, field.name, _MISSING) for field in fields(value)])
    return None if items is None else RecordOperand(items, type(value))


def _member(member: Enum) -> Static:
    """A member of an enum: its number or string, or its identity if it has none."""
    kinds = (bool, int, float, str)
    is_plain = any(issubclass(type(member), kind) for kind in kinds)
    return Static(_plain(member) if is_plain else Identity(member), member)


def _plain(value: Any) -> bool | float | str | None:
    """A number or a string of Python's own type: subclasses may override operators."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int.__index__(value)
    return float.__float__(value) if isinstance(value, float) else str.__str__(value)


def _number(value: np.generic) -> Static | None:
    """A scalar of NumPy or ml_dtypes as a Python number, without its dtype."""
    if value.dtype.kind == "b":
        return Static(bool(value))
    if value.dtype.kind in "iu":
        return Static(int(value))
    is_float = value.dtype.kind == "f" or value.dtype.name in _NARROW_FLOATS
    return Static(narrowed(value)) if is_float else None


def _partial(lo: Lowering, value: functools.partial[Any]) -> Operand | None:
    """`functools.partial(f, …)` of a function that kernels can call."""
    lo.captures.partial(value)
    function = _as_operand(lo, value.func)
    args = _as_operands(lo, value.args)
    given = _as_operands(lo, value.keywords.values())
    if not isinstance(function, (FunctionOperand, BuiltinOperand)) or args is None or given is None:
        return None
    return replace(function, args=args, keywords=tuple(zip(value.keywords, given, strict=True)))


def _as_operands(lo: Lowering, values: Iterable[Any]) -> tuple[Operand, ...] | None:
    """The operands of some values, if kernels support them all."""
    found = [_as_operand(lo, value) for value in values]
    known = tuple(operand for operand in found if operand is not None)
    return known if len(known) == len(found) else None


def _belongs_to_the_host(value: Any) -> bool:
    """Whether a value is a function of tilewright's host, which is never inlined."""
    module = value.__module__ if isinstance(value, FunctionType) else None
    return isinstance(module, str) and module.startswith(_HOST)  # `exec` may leave none


def _is_frozen(kind: Any) -> bool:
    return bool(kind.__dataclass_params__.frozen)


_Make = Callable[[Lowering, Any], Operand | None]

_MISSING = object()  # a field that was never set, which no kernel can use

_CAPTURES: tuple[tuple[Any, _Make], ...] = (
    (Enum, lambda _, member: _member(member)),
    (tuple, _tuple),
    ((bool, int, float, str, type(None)), lambda _, value: Static(_plain(value))),
    (np.generic, lambda _, value: _number(value)),
    (Builtin, lambda _, builtin: BuiltinOperand(builtin)),
    (ModuleType, lambda _, module: ModuleOperand(module)),
    (FunctionType, lambda _, function: FunctionOperand(function)),
    (functools.partial, _partial),
)


def _refusal(name: str, value: Any, *, is_kernel: bool) -> tuple[str, str, str]:
    """The kind of a value, why a kernel cannot use it, and the way out."""
    if isinstance(value, type) and issubclass(value, (AnyDType, Dim)):
        return _KERNEL_NAME if is_kernel else _HELPER_NAME
    if isinstance(getattr(value, "source", None), SourceFunction):
        return _KERNEL
    if _belongs_to_the_host(value):
        return _HOST_FUNCTION
    if isinstance(value, (list, dict, set, bytearray)):
        return f"a {type(value).__name__}", "it could change after the kernel is compiled", _TUPLE
    if is_dataclass(value) and not isinstance(value, type) and not _is_frozen(type(value)):
        what = f"a {type(value).__name__}, a dataclass that is not frozen"
        return what, "it could change after the kernel is compiled", _FREEZE
    if getattr(builtins, name, None) is value:
        return "a Python built-in", _KNOWN_BUILTINS, _INSTEAD.get(name) or _instead_of(name)
    if callable(value):
        is_partial = isinstance(value, functools.partial)
        what, why = _PARTIAL if is_partial else _NO_FUNCTION
        return what, why, _instead_of(name)
    return f"of type {type(value).__name__}", _CAPTURABLE, "pass it as a parameter"


_HOST = ("tilewright.host", "tilewright.runtime")  # by name, since these modules import this one
_TUPLE = "use a tuple"
_NO_FUNCTION = ("not a plain Python function", "functions are inlined")
_PARTIAL = (
    "a partial function of something else",
    "its function and its arguments must be such as a kernel can use by themselves",
)
_FREEZE = "freeze it: `@dataclass(frozen=True)`"
_CAPTURABLE = "a kernel can use numbers, strings, tuples of them, dtypes, modules and functions"
_KNOWN_BUILTINS = f"kernels have {', '.join(function.__name__ for function in _BUILTINS)}"
_KERNEL_NAME = (
    "a name that its signature does not have",
    "dims and dtype placeholders get their values from the tensors of the signature",
    "give a tensor of the signature this name, or add a `Const` parameter",
)
_HELPER_NAME = (
    "a name of a signature",
    "dims and dtype placeholders have a value in the body of a kernel only",
    "pass it to the function as an argument",
)
_KERNEL = (
    "a kernel",
    "a kernel is launched from the host and cannot be called by another",
    "put their shared code into a plain function, which both call",
)
_HOST_FUNCTION = (
    "a function of the host",
    "it works on tensors and streams, and in a kernel there are only tiles",
    "call it outside and pass the tensor; tiles are made by `tw.zeros`, `tw.arange`, `tw.rand`",
)
_LOOP = "loop over `range(…)`"
_INSTEAD = {
    "enumerate": _LOOP,
    "zip": _LOOP,
    "map": _LOOP,
    "reversed": "`range(n - 1, -1, -1)` counts down",
}


def _instead_of(name: str) -> str:
    """A function of the language with the same name, or the general way out."""
    last = name.rpartition(".")[2]
    if last in functions.__all__:
        return f"on tiles and scalars use `tw.{last}`; a constant can be computed outside"
    return "compute the value outside the kernel and use the result, or write a plain function"
