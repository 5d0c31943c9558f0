"""The state of the host check between two statements: names, operations, moved handles.

Only facts that hold on every path are kept: a join of two states is their intersection. An
operation that is not in the state may have been run anywhere.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from tilewright.lint.values import UNKNOWN, ItemsValue, OperationValue, TensorValue, Value, overlap

__all__ = ["HeldUse", "HostState", "OperationState"]

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True)
class HeldUse:
    """A tensor of an operation."""

    tensor: TensorValue
    writes: bool
    text: str  # of the argument
    role: str  # name of the parameter
    node: ast.expr = field(compare=False)


@dataclass(frozen=True)
class OperationState:
    """An operation: built, or run or taken by another if `is_held` is false."""

    label: str
    node: ast.expr = field(compare=False)
    uses: tuple[HeldUse, ...]
    result: Value = UNKNOWN
    is_held: bool = True


@dataclass
class HostState:
    """Facts that hold at one point of the program."""

    names: dict[str, Value] = field(default_factory=dict)
    operations: dict[int, OperationState] = field(default_factory=dict)
    moved: dict[int, ast.expr] = field(default_factory=dict)  # handles, and where

    def copy(self) -> HostState:
        """A state that changes by itself."""
        return HostState(dict(self.names), dict(self.operations), dict(self.moved))

    def joined(self, other: HostState) -> HostState:
        """The facts that both states have."""
        return HostState(
            _common(self.names, other.names),
            _common(self.operations, other.operations),
            _common(self.moved, other.moved),
        )

    def escape(self, value: Value) -> None:
        """Forget an object that other code can reach from now on."""
        if isinstance(value, OperationValue):
            self.operations.pop(value.number, None)
        elif isinstance(value, ItemsValue):
            for item in value.values:
                self.escape(item)

    def forget(self, names: set[str]) -> None:
        """Forget some names and the objects that they may change."""
        for name in names:
            self.escape(self.names.pop(name, UNKNOWN))

    def held(self) -> Iterator[OperationState]:
        """Operations that are built for certain, in the order of their calls."""
        return (one for one in self.operations.values() if one.is_held)

    def conflict(
        self, tensor: TensorValue, *, writes: bool
    ) -> tuple[OperationState, HeldUse] | None:
        """A built operation that a new use of a tensor conflicts with."""
        for operation in self.held():
            for use in operation.uses:
                if (writes or use.writes) and overlap(use.tensor, tensor):
                    return operation, use
        return None

    def end(self, operation: OperationValue) -> Value:
        """Mark an operation as run; gives its result."""
        found = self.operations.get(operation.number)
        if found is None:
            return UNKNOWN
        done = OperationState(found.label, found.node, (), found.result, is_held=False)
        self.operations[operation.number] = done
        return found.result

    def is_unnamed(self, operation: OperationValue) -> bool:
        """Whether no name refers to an operation."""
        return operation not in self.names.values()


def _common(one: dict[K, V], other: dict[K, V]) -> dict[K, V]:
    return {key: value for key, value in one.items() if key in other and other[key] == value}
