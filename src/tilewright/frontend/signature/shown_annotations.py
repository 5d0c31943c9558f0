"""Annotations in source form: `Ref[f32, N]`, without the modules of the names."""

from __future__ import annotations

from types import UnionType
from typing import Any, Union, get_args, get_origin

__all__ = ["shown_annotation"]


def shown_annotation(annotation: Any) -> str:
    """An annotation, for messages."""
    origin, inside = get_origin(annotation), [*map(shown_annotation, get_args(annotation))]
    if origin in (Union, UnionType):
        return " | ".join(inside)
    if origin is not None:
        return f"{_name(origin)}[{', '.join(inside)}]"
    if isinstance(annotation, list):  # the parameters of a Callable
        return f"[{', '.join(map(shown_annotation, annotation))}]"
    if annotation is None or annotation is type(None):
        return "None"
    return "..." if annotation is Ellipsis else _name(annotation)


def _name(annotation: Any) -> str:
    """The name of a class, a type variable or a special form; a value is itself."""
    name = getattr(annotation, "__name__", None) or getattr(annotation, "_name", None)
    return name if isinstance(name, str) else repr(annotation)
