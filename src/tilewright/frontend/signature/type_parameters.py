"""Type parameters of a kernel, `def add[B: tw.Dim, T: tw.AnyDType](…)`, as dims and placeholders.

A type variable in an annotation becomes a dim or placeholder class by its bound, under its own
name; the rest of the front end sees only that class.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import FunctionType, GenericAlias
from typing import Any, TypeVar, get_args, get_origin

from tilewright.dtypes import AnyDType
from tilewright.errors import CompileError
from tilewright.lang.dimensions import Dim

__all__ = ["TypeParameters"]

_BOUNDS: tuple[type, ...] = (Dim, AnyDType)


class TypeParameters:
    """The type parameters of one kernel, each converted to a class once."""

    def __init__(self, function: FunctionType) -> None:
        self._kernel = function.__name__
        declared: tuple[Any, ...] = getattr(function, "__type_params__", ())
        self.names: Mapping[str, Any] = {variable.__name__: variable for variable in declared}
        self._classes: dict[TypeVar, type] = {}

    @property
    def placeholders(self) -> dict[str, type[AnyDType]]:
        """The type parameters that stand for a dtype, by name."""
        classes = self._classes.values()
        return {made.__name__: made for made in classes if issubclass(made, AnyDType)}

    def replaced(self, annotation: Any) -> Any:
        """An annotation with classes in place of type variables."""
        if isinstance(annotation, TypeVar):
            return self._class(annotation)
        arguments = get_args(annotation)
        replaced = tuple(map(self.replaced, arguments))
        if all(new is old for new, old in zip(replaced, arguments, strict=True)):
            return annotation
        return GenericAlias(get_origin(annotation), replaced)

    def _class(self, variable: TypeVar) -> type:
        if variable not in self._classes:
            bound = variable.__bound__
            base = next(
                (b for b in _BOUNDS if isinstance(bound, type) and issubclass(bound, b)), None
            )
            if base is None:
                raise CompileError(
                    f"`{variable.__name__}` in the signature of kernel `{self._kernel}` is a type "
                    f"parameter without a meaning: `{variable.__name__}: tw.Dim` makes it an "
                    f"extent, `{variable.__name__}: tw.AnyDType` a dtype"
                )
            self._classes[variable] = type(base)(variable.__name__, (base,), {})
        return self._classes[variable]
