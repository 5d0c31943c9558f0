"""Tuples, named tuples and dataclasses of operands: their members, however deep.

An aggregate exists only while a kernel is lowered. What branches choose and loops hand on are its
leaves, the members that are no aggregates themselves. A function that has left its frame is one as
well: its members are the values that it took along (`closures`).
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

# Has members that an author can reach.
Aggregate = TupleOperand | RecordOperand

# Has members at all.
Compound = Aggregate | LambdaOperand


def is_named_tuple(kind: object) -> bool:
    """Whether a class is a named tuple."""
    return isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")


def member_names(aggregate: Compound) -> tuple[str, ...]:
    """The names of the members; those of a plain tuple have none."""
    if isinstance(aggregate, LambdaOperand):
        return aggregate.names
    if isinstance(aggregate, RecordOperand):
        return tuple(field.name for field in dataclasses.fields(aggregate.kind))
    return tuple(getattr(aggregate.kind, "_fields", ()))


def are_alike(one: Operand, other: Operand) -> bool:
    """Whether two operands have the same members, whatever the leaves are."""
    if not isinstance(one, Compound) or not isinstance(other, Compound):
        return isinstance(one, Compound) == isinstance(other, Compound)
    is_one_kind = type(one) is type(other) and _kind(one) == _kind(other)
    same_count = len(one.items) == len(other.items)
    return is_one_kind and same_count and all(map(are_alike, one.items, other.items))


def _kind(operand: Compound) -> tuple[object, ...]:
    """All that two operands have in common when only their members differ."""
    if isinstance(operand, LambdaOperand):
        return operand.node, operand.names, operand.frame.source.function
    return (operand.kind,)


def leaves(operand: Operand, path: str = "") -> Iterator[tuple[str, Operand]]:
    """The members that are no aggregates, each with how an author would write it."""
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
