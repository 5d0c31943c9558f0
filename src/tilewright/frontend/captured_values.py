"""Python values from outside a kernel: which ones it can use, and why not the others.

What a kernel captures is compiled into it, so it must not be able to change: numbers, strings,
dtypes, functions, modules, classes that are dataclasses or named tuples, and tuples and frozen
dataclasses of those.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from types import FunctionType, ModuleType
from typing import Any

from tilewright.check.errors.names import NotCapturable
from tilewright.dtypes import AnyDType, DType
from tilewright.frontend.aggregates import is_named_tuple
from tilewright.frontend.capture import SourceFunction
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.operands import (
    BuiltinOperand,
    ClassOperand,
    DTypeOperand,
    FunctionOperand,
    ModuleOperand,
    Operand,
    PythonFunction,
    RecordOperand,
    Static,
    TupleOperand,
)
from tilewright.lang import functions
from tilewright.lang.builtin import Builtin
from tilewright.lang.dimensions import Dim

__all__ = ["captured"]

_PYTHON_FUNCTIONS = (range, len, min, max, abs, int, float, bool, print)


def captured(lo: Lowering, node: ast.AST, name: str, value: Any) -> Operand:
    """A Python value from outside the kernel as an operand, if kernels can use it."""
    operand = _as_operand(lo, value)
    if operand is None:
        is_kernel = not lo.frame.calls
        lo.reject(NotCapturable, node, name, *_refusal(name, value, is_kernel=is_kernel))
    return operand


def _as_operand(lo: Lowering, value: Any) -> Operand | None:
    if isinstance(value, type) and issubclass(value, DType):
        bound = lo.placeholders.get(value, value)
        return None if issubclass(bound, AnyDType) else DTypeOperand(bound)
    if isinstance(value, tuple):
        kind = type(value) if is_named_tuple(type(value)) else None
        items = _as_operands(lo, value)
        return None if items is None else TupleOperand(items, kind)
    if is_named_tuple(value) or (isinstance(value, type) and is_dataclass(value)):
        return ClassOperand(value)
    if is_dataclass(value) and _is_frozen(type(value)):
        items = _as_operands(lo, [getattr(value, field.name) for field in fields(value)])
        return None if items is None else RecordOperand(items, type(value))
    if any(value is function for function in _PYTHON_FUNCTIONS):
        return PythonFunction(value)
    if _belongs_to_the_host(value):
        return None
    make = next((make for kinds, make in _CAPTURES if isinstance(value, kinds)), None)
    made: Operand | None = None if make is None else make(value)
    return made


def _as_operands(lo: Lowering, values: Iterable[Any]) -> tuple[Operand, ...] | None:
    """Members of something, if kernels can use them all."""
    found = [_as_operand(lo, value) for value in values]
    known = tuple(operand for operand in found if operand is not None)
    return known if len(known) == len(found) else None


def _belongs_to_the_host(value: Any) -> bool:
    """Whether it is a function of ours that works on tensors: there is nothing to inline."""
    return isinstance(value, FunctionType) and value.__module__.startswith(_HOST)


def _is_frozen(kind: Any) -> bool:
    return bool(kind.__dataclass_params__.frozen)


_CAPTURES: tuple[tuple[Any, Any], ...] = (
    ((bool, int, float, str, type(None)), Static),
    (Builtin, BuiltinOperand),
    (ModuleType, ModuleOperand),
    (FunctionType, FunctionOperand),
)


def _refusal(name: str, value: Any, *, is_kernel: bool) -> tuple[str, str, str]:
    """What the value is, why a kernel cannot use it, and the way out."""
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
        return "not a plain Python function", "functions are inlined", _instead_of(name)
    return f"of type {type(value).__name__}", _CAPTURABLE, "pass it as a parameter"


_HOST = ("tilewright.host", "tilewright.runtime")  # modules, by name: they stand above this one
_TUPLE = "use a tuple"
_FREEZE = "freeze it: `@dataclass(frozen=True)`"
_CAPTURABLE = "a kernel can use numbers, strings, tuples of them, dtypes, modules and functions"
_KNOWN_BUILTINS = f"kernels have {', '.join(function.__name__ for function in _PYTHON_FUNCTIONS)}"
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
    "put what they share into a plain function, which both call",
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
    "pow": "use `**`",
    "divmod": "use `//` and `%`",
    "round": "use `tw.floor(x + 0.5)`",
}


def _instead_of(name: str) -> str:
    """A function of ours with the same name, or the general way out."""
    last = name.rpartition(".")[2]
    if last in functions.__all__:
        return f"on tiles and scalars use `tw.{last}`; a constant can be computed outside"
    return "compute the value outside the kernel and use the result, or write a plain function"
