"""Declarations that the host check understands: imports of this package, and kernels.

Nothing of the checked program is imported. A module of this package is, and another one that lies
beside the program is read as text, so that its kernels are known.
"""

from __future__ import annotations

import ast
import importlib
import inspect
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import tilewright
from tilewright import kernels
from tilewright.kernel import Kernel
from tilewright.lint.library import library_function
from tilewright.lint.scopes import Declaration, FunctionNode, NameScope
from tilewright.lint.values import (
    FOREIGN,
    UNKNOWN,
    CalleeValue,
    KnownValue,
    ModuleValue,
    Parameter,
    TensorAccess,
    Value,
)

__all__ = ["Declarations", "attribute_of"]

_PACKAGE = "tilewright"
# Libraries whose functions give no operations.
_FOREIGN = frozenset(
    {"asyncio", "cupy", "jax", "math", "ml_dtypes", "numpy", "random", "time", "torch"}
)
_ACCESSES = {
    tilewright.Ref: TensorAccess.READ,
    tilewright.Mut: TensorAccess.WRITE,
    tilewright.Mapped: TensorAccess.WRITE,
    tilewright.Accum: TensorAccess.WRITE,
    tilewright.Ptr: TensorAccess.WRITE,
}
_BY_KIND = {
    "Ref": TensorAccess.READ,
    "Mut": TensorAccess.WRITE,
    "Mapped": TensorAccess.WRITE,
    "Accum": TensorAccess.WRITE,
}
_LARGEST = 1 << 20  # bytes of a module that is read for its kernels


class Declarations:
    """The values of names that imports and `def` statements bind."""

    def __init__(self, folder: Path | None, *, may_follow: bool = True) -> None:
        self._folder = folder
        self._may_follow = may_follow
        self._beside: dict[str, NameScope | None] = {}

    def lookup(self, scope: NameScope | None, name: str) -> Value:
        """The value of a name that an enclosing scope declares once."""
        while scope is not None:
            if name in scope.values:
                return scope.values[name]
            if name in scope.declared:
                return self.value_of(*scope.declared[name], scope)
            if name in scope.bound or scope.has_star:
                return UNKNOWN
            scope = scope.outer
        return UNKNOWN

    def value_of(self, statement: ast.stmt, found: Declaration, scope: NameScope) -> Value:
        """The value that a declaration binds."""
        if isinstance(found, ast.FunctionDef | ast.AsyncFunctionDef):
            return self._function(found, scope)
        if isinstance(statement, ast.ImportFrom):
            return self._from_import(statement, found.name)
        whole = found.name if found.asname else found.name.partition(".")[0]
        if found.name.partition(".")[0] == _PACKAGE:
            _load(found.name)
        return _module_value(whole)

    def _from_import(self, statement: ast.ImportFrom, name: str) -> Value:
        module = statement.module or ""
        if not statement.level and module.partition(".")[0] == _PACKAGE:
            owner = _load(module)
            if owner is None:
                return UNKNOWN
            return attribute_of(owner, name)
        if module.partition(".")[0] in _FOREIGN and not statement.level:
            return FOREIGN
        scope = self._read_beside(module, statement.level)
        if scope is None:
            return UNKNOWN
        return Declarations(None, may_follow=False).lookup(scope, name)

    def _read_beside(self, module: str, level: int) -> NameScope | None:
        """The scope of a module below the program's folder, or above it for relative imports."""
        if self._folder is None or not self._may_follow or not module:
            return None
        above = (self._folder, *self._folder.parents)
        path = above[max(level - 1, 0) % len(above)].joinpath(*module.split(".")).with_suffix(".py")
        if str(path) not in self._beside:
            self._beside[str(path)] = _parsed(path)
        return self._beside[str(path)]

    # --- functions ---

    def _function(self, node: FunctionNode, scope: NameScope) -> Value:
        """A kernel or a function of tensors, by its decorators; UNKNOWN otherwise."""
        if isinstance(node, ast.AsyncFunctionDef) or not node.decorator_list:
            return UNKNOWN
        *above, lowest = (self._decorator(one, scope) for one in node.decorator_list)
        if lowest is tilewright.function and not above:
            return CalleeValue(node.name, None)
        if lowest is not tilewright.kernel or any(one is not tilewright.autotune for one in above):
            return UNKNOWN
        given = node.args
        if given.vararg or given.kwarg:
            return CalleeValue(node.name, None)
        plain = [(one, False) for one in (*given.posonlyargs, *given.args)]
        named = [(one, True) for one in given.kwonlyargs]
        return CalleeValue(
            node.name,
            tuple(
                Parameter(one.arg, self._access(one.annotation, scope), is_keyword)
                for one, is_keyword in (*plain, *named)
            ),
        )

    def _decorator(self, node: ast.expr, scope: NameScope) -> Any:
        """The object of this package that decorates a function, without its arguments."""
        found = self.static(node.func if isinstance(node, ast.Call) else node, scope)
        return found.thing if isinstance(found, KnownValue) else None

    def _access(self, annotation: ast.expr | None, scope: NameScope) -> TensorAccess | None:
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            try:
                annotation = ast.parse(annotation.value, mode="eval").body
            except SyntaxError:
                return None
        if not isinstance(annotation, ast.Subscript):
            return None
        found = self.static(annotation.value, scope)
        if not isinstance(found, KnownValue) or not isinstance(found.thing, type):
            return None
        return _ACCESSES.get(found.thing)

    def static(self, node: ast.expr | None, scope: NameScope) -> Value:
        """The value of a dotted name that imports declare."""
        if isinstance(node, ast.Name):
            return self.lookup(scope, node.id)
        if isinstance(node, ast.Attribute):
            owner = self.static(node.value, scope)
            return (
                attribute_of(owner.module, node.attr) if isinstance(owner, ModuleValue) else UNKNOWN
            )
        return UNKNOWN


def attribute_of(module: ModuleType, name: str) -> Value:
    """The value of a public name of a module of this package."""
    thing: Any
    try:
        thing = getattr(module, name)
    except AttributeError:
        thing = _load(f"{module.__name__}.{name}")
    if isinstance(thing, ModuleType):
        is_ours = thing.__name__.partition(".")[0] == _PACKAGE
        return ModuleValue(thing) if is_ours else UNKNOWN
    if thing is None:
        return UNKNOWN
    if isinstance(thing, Kernel):
        return _compiled_kernel(thing)
    if isinstance(thing, FunctionType) and getattr(kernels, name, None) is thing:
        return library_function(name, thing) or KnownValue(thing)
    return KnownValue(thing)


def _compiled_kernel(kernel: Kernel) -> CalleeValue:
    """A kernel of this package, which has been imported."""
    signature = kernel.signature
    kinds = {one.name: _BY_KIND.get(getattr(one, "kind", "")) for one in signature.params}
    parameters = inspect.signature(kernel.__wrapped__).parameters.values()  # type: ignore[attr-defined]
    return CalleeValue(
        kernel.__name__,
        tuple(
            Parameter(one.name, kinds.get(one.name), one.kind is one.KEYWORD_ONLY)
            for one in parameters
        ),
    )


def _module_value(name: str) -> Value:
    top = name.partition(".")[0]
    if top in _FOREIGN:
        return FOREIGN
    module = _load(name) if top == _PACKAGE else None
    return UNKNOWN if module is None else ModuleValue(module)


def _load(name: str) -> ModuleType | None:
    """A module of this package, imported if it exists."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _parsed(path: Path) -> NameScope | None:
    try:
        if path.stat().st_size > _LARGEST:
            return None
        return NameScope.of(ast.parse(path.read_bytes()))
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return None
