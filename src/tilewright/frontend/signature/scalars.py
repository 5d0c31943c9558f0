"""Scalar parameters: single numbers, and tuples and dataclasses of them.

A group is flattened when its annotation is read: each number in it is passed separately, under its
path in the source, `window[0]` or `config.scale`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args, get_origin, get_type_hints

from tilewright.dtypes import DType, bool_, f32, i32
from tilewright.errors import CompileError
from tilewright.frontend.signature.shown_annotations import shown_annotation

__all__ = ["GroupParam", "ScalarParam", "read_scalars"]

_PLAIN: Mapping[Any, type[DType]] = {bool: bool_, float: f32, int: i32}  # in groups only


@dataclasses.dataclass(frozen=True)
class ScalarParam:
    """A number passed at launch."""

    name: str
    dtype: type[DType]

    def leaves(self) -> Iterator[ScalarParam]:
        """The numbers that it consists of: itself."""
        yield self


@dataclasses.dataclass(frozen=True)
class GroupParam:
    """Several numbers passed as one: a tuple, a named tuple or a dataclass (`kind`) of them."""

    name: str
    kind: type
    members: tuple[ScalarParam | GroupParam, ...]

    @property
    def field_names(self) -> tuple[str, ...]:
        """The names of the members; empty for a plain tuple."""
        return _field_names(self.kind)

    def filled(self, values: Sequence[Any]) -> Any:
        """The argument with these members."""
        names, kind = self.field_names, self.kind
        return kind(**dict(zip(names, values, strict=True))) if names else tuple(values)

    def leaves(self) -> Iterator[ScalarParam]:
        """The numbers that it consists of, in order."""
        for member in self.members:
            yield from member.leaves()


def read_scalars(
    kernel: str, name: str, annotation: Any, local_names: Mapping[str, Any]
) -> ScalarParam | GroupParam | None:
    """The scalar or group of an annotation, or None for other annotations."""
    if isinstance(annotation, type) and issubclass(annotation, DType):
        return ScalarParam(name, annotation)
    return _read_group(kernel, name, annotation, local_names)


def _read_group(
    kernel: str, name: str, annotation: Any, local_names: Mapping[str, Any]
) -> GroupParam | None:
    if get_origin(annotation) is tuple:
        parts = {f"[{place}]": part for place, part in enumerate(get_args(annotation))}
        kind: type = tuple
    elif _field_names(annotation):
        parts = _annotated_fields(kernel, annotation, local_names)
        kind = annotation
    else:
        return None
    members = tuple(
        _read_member(kernel, f"{name}{path}", part, local_names) for path, part in parts.items()
    )
    return GroupParam(name, kind, members)


def _field_names(kind: Any) -> tuple[str, ...]:
    if not isinstance(kind, type):
        return ()
    if dataclasses.is_dataclass(kind):
        return tuple(field.name for field in dataclasses.fields(kind))
    return tuple(getattr(kind, "_fields", ())) if issubclass(kind, tuple) else ()


def _annotated_fields(kernel: str, kind: type, local_names: Mapping[str, Any]) -> dict[str, Any]:
    try:
        hints = get_type_hints(kind, localns=dict(local_names))
    except Exception as error:  # noqa: BLE001 (raised by the annotations' own code)
        raise CompileError(
            f"the fields of {kind.__name__}, which kernel `{kernel}` takes, cannot be read: {error}"
        ) from None
    return {f".{name}": hints.get(name) for name in _field_names(kind)}


def _read_member(
    kernel: str, name: str, annotation: Any, local_names: Mapping[str, Any]
) -> ScalarParam | GroupParam:
    if annotation in _PLAIN:
        return ScalarParam(name, _PLAIN[annotation])
    found = read_scalars(kernel, name, annotation, local_names)
    if found is None:
        shown = shown_annotation(annotation)
        raise CompileError(
            f"`{name}` of kernel `{kernel}` is annotated {shown}; a tuple or dataclass of a launch "
            "holds scalars, a fixed number of them: dtypes, bool, int, float, and "
            "tuples and dataclasses of those. Give anything else a parameter of its own"
        )
    return found
