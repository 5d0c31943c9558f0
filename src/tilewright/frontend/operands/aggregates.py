"""Aggregates: nested tuples, named tuples and dataclasses of operands.

An aggregate exists only while a kernel is lowered. Branches select and loops carry its leaves, the
members that are no aggregates themselves. A closure is one as well: its members are the captured
values (`closures`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from tilewright.frontend.operands.operands import (
    LambdaOperand,
    Operand,
    RecordOperand,
    TupleOperand,
)

__all__ = [
    "Aggregate",
    "Compound",
    "are_alike",
    "is_named_tuple",
    "leaves",
    "member_names",
    "refilled",
]

# Operands with members that an author can name.
Aggregate = TupleOperand | RecordOperand

# Operands with members.
Compound = Aggregate | LambdaOperand


def is_named_tuple(kind: object) -> bool:
    """Whether a class is a named tuple."""
    return isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")


def member_names(aggregate: Compound) -> tuple[str, ...]:
    """The names of the members; empty for a plain tuple."""
    if isinstance(aggregate, LambdaOperand):
        return aggregate.names
    if isinstance(aggregate, RecordOperand):
        return tuple(field.name for field in dataclasses.fields(aggregate.kind))
    return tuple(getattr(aggregate.kind, "_fields", ()))


def are_alike(one: Operand, other: Operand) -> bool:
    """Whether two operands have the same structure, apart from their leaves."""
    if not isinstance(one, Compound) or not isinstance(other, Compound):
        return isinstance(one, Compound) == isinstance(other, Compound)
    is_one_kind = type(one) is type(other) and _kind(one) == _kind(other)
    same_count = len(one.items) == len(other.items)
    return is_one_kind and same_count and all(map(are_alike, one.items, other.items))


def _kind(operand: Compound) -> tuple[object, ...]:
    """The structure of an operand without its members."""
    if isinstance(operand, LambdaOperand):
        return operand.node, operand.names, operand.frame.source.function
    return (operand.kind,)


def leaves(operand: Operand, path: str = "") -> Iterator[tuple[str, Operand]]:
    """The leaves of an operand, each with its path in source form."""
    if not isinstance(operand, Compound):
        yield path, operand
        return
    names = member_names(operand)
    for place, item in enumerate(operand.items):
        yield from leaves(item, f"{path}.{names[place]}" if names else f"{path}[{place}]")


def refilled(operand: Operand, members: Iterator[Operand]) -> Operand:
    """The same aggregate with other leaves, taken in order."""
    if not isinstance(operand, Compound):
        return next(members)
    items = tuple(refilled(item, members) for item in operand.items)
    return dataclasses.replace(operand, items=items)
