"""The bytecode version that a module needs, derived from the declarations.

A part that a version lacks is omitted if it carries no information: an attribute at its default, an
unused result.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from tilewright.errors import CompileError
from tilewright.ir.attributes import EVERY_TARGET, Rounding, TargetHints, Visibility
from tilewright.ir.function import Function, Module
from tilewright.ir.op import Field, FieldKind, Op, Value, Version
from tilewright.ir.types import (
    GatherScatterViewType,
    PtrType,
    StridedViewType,
    TensorViewType,
    TileType,
    Type,
    ViewType,
    elements_of,
)

__all__ = ["VERSIONS", "Need", "check_version", "needs", "required_version"]

# Bytecode versions that can be written.
VERSIONS: tuple[Version, ...] = ((13, 1), (13, 2), (13, 3), (13, 4))
_FIRST = VERSIONS[0]  # its features need no check
_LEAST_USED: Version = (13, 3)  # the version that tileiras needs to compile for sm_90
_HINT: tuple[Version, str] = ((13, 3), "a hint for every target")
_FLAGGED_GLOBAL: tuple[Version, str] = ((13, 3), "a private or constant global")
_MARKED_POINTER: tuple[Version, str] = ((13, 4), "a pointer with an attribute")
_VIEWS: dict[type, tuple[Version, str]] = {
    StridedViewType: ((13, 3), "a strided view"),
    GatherScatterViewType: ((13, 3), "a gather-scatter view"),
}
_TELLING: dict[type[Op], tuple[Field, ...]] = {}  # a cache, since every op of a module is checked
_MEMBERS: dict[Enum, Version] = {Rounding.NEAREST_AWAY: (13, 4)}  # members added after their enum


@dataclass(frozen=True)
class Need:
    """A feature of a module that not every version has."""

    version: Version
    what: str
    op: Op | None
    function: str


def required_version(module: Module) -> Version:
    """Return the least version that holds the module, of those in use (13.3 and 13.4)."""
    return max([_LEAST_USED, *(need.version for need in needs(module))])


def check_version(module: Module, version: Version) -> None:
    """Refuse a version that is unknown or that lacks a feature of the module."""
    if version not in VERSIONS:
        known = ", ".join(map(_dotted, VERSIONS))
        raise CompileError(f"bytecode {_dotted(version)} is not known; there are {known}")
    missing = tuple(need for need in needs(module) if need.version > version)
    if missing:
        lines = [f"bytecode {_dotted(version)} cannot hold this module:"]
        lines += sorted({f"  {need.what} needs {_dotted(need.version)}" for need in missing})
        raise CompileError("\n".join(lines), missing)


def needs(module: Module) -> Iterator[Need]:
    """Iterate over the versions that parts of a module need beyond the first."""
    for held in module.globals:
        said = (held.constant, held.visibility) != (False, Visibility.PUBLIC)
        for version, what in [*([_FLAGGED_GLOBAL] if said else []), *_type_needs(held.type)]:
            yield Need(version, what, None, f"the global {held.name}")
    for function in module.functions:
        yield from _function_needs(function)


def _function_needs(function: Function) -> Iterator[Need]:
    if _is_general(function.hints):
        yield Need(*_HINT, None, function.name)
    for param in function.params:
        for version, what in _type_needs(param.type):
            yield Need(version, what, None, function.name)
    ops = tuple(function.walk())
    used = {value for op in ops for value in op.operands}
    for op in ops:
        for version, what in _op_needs(op, used):
            yield Need(version, what, op, function.name)


def _op_needs(op: Op, used: set[Value]) -> Iterator[tuple[Version, str]]:
    if op.since > _FIRST:
        yield op.since, f"`{op.mnemonic}`"
    for field in _telling_fields(type(op)):
        held = getattr(op, field.name)
        if isinstance(held, TargetHints) and _is_general(held):
            yield _HINT
        elif isinstance(held, Enum) and held in _MEMBERS:
            yield _MEMBERS[held], f"`{held.name.lower()}`"
        elif field.since > op.since and _says_something(field, held, used):
            yield field.since, f"`{field.name}` of `{op.mnemonic}`"
    for value in op.results:
        yield from _type_needs(value.type)
    for block in op.regions:
        for value in block.args:
            yield from _type_needs(value.type)


def _telling_fields(kind: type[Op]) -> tuple[Field, ...]:
    """Return the fields of an op that may need a later version than the op; most have none."""
    if kind not in _TELLING:
        telling = (f for f in kind.fields if f.kind is FieldKind.ATTR or f.since > kind.since)
        _TELLING[kind] = tuple(telling)
    return _TELLING[kind]


def _says_something(field: Field, held: object, used: set[Value]) -> bool:
    if field.kind is FieldKind.RESULT:
        return held in used
    return bool(held != field.default)


def _is_general(hints: TargetHints | None) -> bool:
    return hints is not None and EVERY_TARGET in dict(hints.targets)


@lru_cache(maxsize=1024)
def _type_needs(type_: Type) -> tuple[tuple[Version, str], ...]:
    found = [
        (element.value.since, f"the element {element.spelling}") for element in elements_of(type_)
    ]
    if type(type_) in _VIEWS:
        found.append(_VIEWS[type(type_)])
    held = type_.view if isinstance(type_, ViewType) else type_
    marked = held.element if isinstance(held, TileType) else held
    if isinstance(marked, PtrType | TensorViewType) and marked.attribute is not None:
        found.append(_MARKED_POINTER)
    return tuple(need for need in found if need[0] > _FIRST)


def _dotted(version: Version) -> str:
    return ".".join(map(str, version))
