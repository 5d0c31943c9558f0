"""Alias analysis: the tensor arguments that a memory op may touch.

Every view and pointer of a safe kernel leads back to the base address of one argument, and
arguments do not overlap where one of them is written (the host checks it), so two accesses can only
alias if they have a root in common. The pointers of an unsafe kernel may alias each other, and so
have one common root, distinct from that of every tensor: accesses to a tensor by a pointer into
another are not ordered. A pointer of unknown origin may have any root.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.ir.launch_terms import BaseAddress, PointerArgument, RecordAddress
from tilewright.ir.op import Effect, Op, Value
from tilewright.ir.ops.control import Print
from tilewright.ir.ops.internal import LaunchValue
from tilewright.ir.rewrite import Definition
from tilewright.ir.types import PtrType, TensorViewType, TileType, Type, ViewType

__all__ = ["ANYWHERE", "OUTPUT_FOR_PEOPLE", "POINTED_TO", "MemoryRoots"]

OUTPUT_FOR_PEOPLE = ">"  # printed text, in program order
ANYWHERE = "?"  # no name of a parameter
POINTED_TO = "*"  # memory behind any pointer argument
_UNKNOWN = frozenset({ANYWHERE})
_MEMORY = (Effect.READ, Effect.WRITE)


class MemoryRoots:
    """The roots of the memory ops of one function."""

    def __init__(self, definitions: Mapping[Value, Definition]) -> None:
        self._definitions = definitions
        self._known: dict[Value, frozenset[str]] = {}

    def of(self, op: Op) -> frozenset[str]:
        """The arguments that a memory op may touch; contains `ANYWHERE` if that is not known."""
        if isinstance(op, Print):
            return frozenset({OUTPUT_FOR_PEOPLE})
        if op.effect not in _MEMORY:
            return frozenset()
        return self._behind(op)

    def _behind(self, op: Op) -> frozenset[str]:
        addresses = [value for value in op.operands if _is_address(value.type)]
        return frozenset().union(*map(self._root, addresses)) if addresses else _UNKNOWN

    def _root(self, value: Value) -> frozenset[str]:
        if value not in self._known:
            self._known[value] = self._look(value)
        return self._known[value]

    def _look(self, value: Value) -> frozenset[str]:
        definition = self._definitions.get(value)
        if definition is None or definition.is_argument or definition.op.regions:
            return _UNKNOWN
        if not isinstance(definition.op, LaunchValue):
            return self._behind(definition.op)
        term = definition.op.term
        if isinstance(term, BaseAddress):
            return frozenset({term.param})
        if isinstance(term, PointerArgument):
            return frozenset({POINTED_TO})
        # The failure record holds nothing but reports, which need no order.
        return frozenset() if isinstance(term, RecordAddress) else _UNKNOWN


def _is_address(type_: Type) -> bool:
    if isinstance(type_, TileType):
        return isinstance(type_.element, PtrType)
    return isinstance(type_, TensorViewType | ViewType)
