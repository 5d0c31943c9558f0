"""Which version of the bytecode a module needs, read off the declarations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tilewright.errors import CompileError
from tilewright.ir.attributes import LoadHints
from tilewright.ir.function import EntryHints, Module
from tilewright.ir.op import FieldKind, Op, Version
from tilewright.ir.types import Type, elements_of

__all__ = ["VERSIONS", "Need", "check_version", "required_version"]

VERSIONS: tuple[Version, ...] = ((13, 1), (13, 2), (13, 3), (13, 4))
_LEAST_USED: Version = (13, 3)  # what tileiras needs to compile for sm_90
_HINTS_FOR_ANY_TARGET: Version = (13, 3)


@dataclass(frozen=True)
class Need:
    """Something a module uses that not every version has."""

    version: Version
    what: str
    op: Op | None


def required_version(module: Module) -> Version:
    """The least version that holds the module, of those that are in use (13.3 and 13.4)."""
    return max([_LEAST_USED, *(need.version for need in _needs(module))])


def check_version(module: Module, version: Version) -> None:
    """Refuse a version that is unknown or that lacks something the module uses."""
    if version not in VERSIONS:
        known = ", ".join(map(_dotted, VERSIONS))
        raise CompileError(f"bytecode {_dotted(version)} is not known; there are {known}")
    missing = tuple(need for need in _needs(module) if need.version > version)
    if missing:
        lines = [f"bytecode {_dotted(version)} cannot hold this module:"]
        lines += sorted({f"  {need.what} needs {_dotted(need.version)}" for need in missing})
        raise CompileError("\n".join(lines), missing)


def _needs(module: Module) -> Iterator[Need]:
    for function in module.functions:
        if function.hints != EntryHints():
            yield Need(_HINTS_FOR_ANY_TARGET, "a hint for every target", None)
        for param in function.params:
            yield from _type_needs(param.type, None)
        for op in function.walk():
            yield from _op_needs(op)


def _op_needs(op: Op) -> Iterator[Need]:
    yield Need(op.since, f"`{op.mnemonic}`", op)
    for field in op.fields:
        used = field.since > op.since and getattr(op, field.name) != field.default
        if used and field.kind is not FieldKind.RESULT:
            yield Need(field.since, f"`{field.name}` of `{op.mnemonic}`", op)
        if isinstance(getattr(op, field.name), LoadHints):
            yield Need(_HINTS_FOR_ANY_TARGET, "a hint for every target", op)
    arguments = (value for block in op.regions for value in block.args)
    for value in (*op.results, *arguments):
        yield from _type_needs(value.type, op)


def _type_needs(type_: Type, op: Op | None) -> Iterator[Need]:
    for element in elements_of(type_):
        yield Need(element.value.since, f"the element {element.spelling}", op)


def _dotted(version: Version) -> str:
    return ".".join(map(str, version))
