"""Calls in host code: of kernels, of public functions, and of methods of tensors and operations.

A call of any other function may keep its arguments: operations among them are not followed further.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

import tilewright as tw
from tilewright.lint.built_operations import BuiltOperations, GivenArgument
from tilewright.lint.state import HeldUse, HostState
from tilewright.lint.values import (
    FOREIGN,
    GRAPH,
    SCOPE,
    UNKNOWN,
    UNSURE,
    CalleeValue,
    CutValue,
    ItemsValue,
    KnownValue,
    MethodValue,
    OperationValue,
    TensorValue,
    Value,
)
from tilewright.lint.views import rows_of, viewed

__all__ = ["Calls"]

_VIEWS = frozenset({"permute", "reinterpret", "reshape", "squeeze", "unsqueeze", "view"})
_READS = frozenset({"astype", "clone", "item", "numpy"})
_COPIES = frozenset({"astype", "clone"})
_CHAINS = frozenset(
    {"first", "giving", "inspect", "last", "map", "partition", "persistent", "then", "unpartition"}
)
_SAME = frozenset({"grid", "with_hints", "with_report"})  # of a kernel
_MAKERS = (
    tw.arange, tw.empty, tw.eye, tw.full, tw.linspace, tw.ones, tw.rand, tw.randn, tw.zeros,
)  # fmt: skip
_BY_SHAPE = (tw.empty, tw.full, tw.ones, tw.rand, tw.randn, tw.zeros)
_SCOPES = (tw.device, tw.pool, tw.race_check, tw.stream, tw.unsafe)


class Calls:
    """Follows calls."""

    def __init__(self, launches: BuiltOperations) -> None:
        self._launches = launches
        self._functions: dict[
            int, Callable[[HostState, ast.Call, Sequence[GivenArgument]], Value]
        ] = {
            id(tw.copy): self._copy,
            id(tw.fill): self._fill,
            id(tw.from_dlpack): self._import,
            id(tw.from_numpy): self._import,
            id(tw.graph): self._graph,
            id(tw.move): self._move,
            id(tw.partition): self._partition,
            id(tw.zip): self._zip,
        }
        self._methods: dict[type[Any], Callable[[HostState, Any, ast.Call, Any], Value]] = {
            TensorValue: self._of_tensor,
            CutValue: self._of_cut,
            OperationValue: self._of_operation,
            type(GRAPH): self._of_graph,
            CalleeValue: self._of_callee,
        }

    def call(
        self, state: HostState, function: Value, node: ast.Call, given: list[GivenArgument] | None
    ) -> Value:
        """The value of a call; `given` is None for a call with `*` or `**`."""
        match function:
            case CalleeValue():
                return self._launches.call(state, function, node, given)
            case MethodValue(owner=owner):
                return self._methods[type(owner)](state, function, node, given)
            case KnownValue(thing=thing):
                return self._public(state, thing, node, given)
        self._release(state, given)
        return FOREIGN if function is FOREIGN else UNKNOWN

    def _public(
        self, state: HostState, thing: Any, node: ast.Call, given: list[GivenArgument] | None
    ) -> Value:
        rule = self._functions.get(id(thing))
        if rule is not None and given is not None:
            return rule(state, node, given)
        self._release(state, given)
        if thing in _SCOPES:
            return SCOPE
        if any(thing is one for one in _MAKERS):
            return self._made(thing, given or ())
        return UNKNOWN

    def _made(self, thing: Any, given: Sequence[GivenArgument]) -> TensorValue:
        rows = None
        if given and any(thing is one for one in _BY_SHAPE):
            rows = rows_of(given[0].value)
        made = self._launches.new_tensor(rows)
        if rows == 0:
            return TensorValue(made.handle, made.memory, UNSURE)
        return made

    def _release(self, state: HostState, given: Sequence[GivenArgument] | None) -> None:
        for one in given or ():
            state.escape(one.value)

    # --- public functions ---

    def _copy(self, state: HostState, node: ast.Call, given: Sequence[GivenArgument]) -> Value:
        return self._pair(state, node, given, ("dst", "src"))

    def _fill(self, state: HostState, node: ast.Call, given: Sequence[GivenArgument]) -> Value:
        return self._pair(state, node, given, ("dst",))

    def _pair(
        self,
        state: HostState,
        node: ast.Call,
        given: Sequence[GivenArgument],
        names: tuple[str, ...],
    ) -> Value:
        """`tw.copy` and `tw.fill`, which write their first argument."""
        label = ast.unparse(node.func).rpartition(".")[2]
        if any(isinstance(one.value, OperationValue) for one in given):
            taken = [one for one in given if isinstance(one.value, OperationValue)]
            held = self._launches.take(state, taken)
            return UNKNOWN if held is None else self._launches.build(state, label, node, held)
        uses: list[HeldUse] = []
        for place, name in enumerate(names):
            found = _find(given, place, name)
            if found is None or not isinstance(found.value, TensorValue):
                return self._launches.build(state, label, node)
            if self._launches.is_moved(state, found.value, found.node):
                return UNKNOWN
            text = ast.unparse(found.node)
            uses.append(HeldUse(found.value, name == "dst", text, name, found.node))
        return self._launches.launch(state, label, node, uses, uses[0].tensor)

    def _import(self, state: HostState, node: ast.Call, given: Sequence[GivenArgument]) -> Value:
        del node
        self._release(state, given)
        return self._launches.new_tensor(is_dense=False)

    def _graph(self, state: HostState, node: ast.Call, given: Sequence[GivenArgument]) -> Value:
        del state, node, given
        return GRAPH

    def _move(self, state: HostState, node: ast.Call, given: Sequence[GivenArgument]) -> Value:
        if len(given) != 1 or not isinstance(given[0].value, TensorValue):
            self._release(state, given)
            return UNKNOWN
        return self._launches.move(state, given[0].value, given[0].node, node)

    def _partition(self, state: HostState, node: ast.Call, given: Sequence[GivenArgument]) -> Value:
        del node
        first = given[0] if given and given[0].name is None else None
        if first is None or not isinstance(first.value, TensorValue):
            self._release(state, given)
            return FOREIGN if first is not None and first.value is FOREIGN else UNKNOWN
        moved = self._launches.is_moved(state, first.value, first.node)
        return UNKNOWN if moved else CutValue(first.value)

    def _zip(self, state: HostState, node: ast.Call, given: Sequence[GivenArgument]) -> Value:
        operations = [one for one in given if isinstance(one.value, OperationValue)]
        if len(operations) != len(given):
            self._release(state, given)
            return UNKNOWN
        found = [state.operations.get(one.value.number) for one in operations]  # type: ignore[union-attr]
        held = self._launches.take(state, operations)
        if held is None:
            return UNKNOWN
        result = ItemsValue(tuple([UNKNOWN if one is None else one.result for one in found]))
        return self._launches.build(state, "zip", node, held, result)

    # --- methods ---

    def _of_tensor(
        self,
        state: HostState,
        method: MethodValue,
        node: ast.Call,
        given: list[GivenArgument] | None,
    ) -> Value:
        tensor, name = method.owner, method.name
        assert isinstance(tensor, TensorValue), "chosen by its type"
        assert isinstance(node.func, ast.Attribute), "a method is an attribute"
        self._release(state, given)
        if name == "partition":
            return CutValue(tensor)
        if name in _VIEWS:
            return viewed(tensor)
        if name in _READS:
            is_read = self._launches.read(state, tensor, node.func.value, f"{name}()")
            return self._launches.new_tensor() if is_read and name in _COPIES else UNKNOWN
        return tensor if name == "wait" else UNKNOWN

    def _of_cut(
        self,
        state: HostState,
        method: MethodValue,
        node: ast.Call,
        given: list[GivenArgument] | None,
    ) -> Value:
        del node
        self._release(state, given)
        is_cut = isinstance(method.owner, CutValue) and method.name == "persistent"
        return method.owner if is_cut else UNKNOWN

    def _of_operation(
        self,
        state: HostState,
        method: MethodValue,
        node: ast.Call,
        given: list[GivenArgument] | None,
    ) -> Value:
        operation, name = method.owner, method.name
        assert isinstance(operation, OperationValue), "chosen by its type"
        self._release(state, given)
        if name in ("sync", "sync_on"):
            return state.end(operation)
        if name in ("submit", "close"):
            state.end(operation)
            return operation if name == "submit" else UNKNOWN
        if name == "schedule":
            return operation
        found = state.operations.get(operation.number)
        if name in _CHAINS and found is not None:
            held = self._launches.take(state, [GivenArgument(None, node, operation)])
            if held is not None:
                result = found.result if name == "inspect" else UNKNOWN
                return self._launches.build(state, found.label, node, held, result)
        state.escape(operation)
        return UNKNOWN

    def _of_graph(
        self,
        state: HostState,
        method: MethodValue,
        node: ast.Call,
        given: list[GivenArgument] | None,
    ) -> Value:
        if method.name == "launch":
            return self._launches.build(state, "graph", node)
        if method.name == "record" and given and isinstance(given[0].value, OperationValue):
            return state.end(given[0].value)
        self._release(state, given)
        return UNKNOWN

    def _of_callee(
        self,
        state: HostState,
        method: MethodValue,
        node: ast.Call,
        given: list[GivenArgument] | None,
    ) -> Value:
        callee = method.owner
        assert isinstance(callee, CalleeValue), "chosen by its type"
        if method.name in _SAME:
            self._release(state, given)
            return callee
        if method.name in ("kernel", "unsafe"):
            return self._launches.call(state, callee, node, given)
        self._release(state, given)
        return UNKNOWN


def _find(given: Sequence[GivenArgument], place: int, name: str) -> GivenArgument | None:
    """An argument by its place or its name."""
    for number, one in enumerate(given):
        if one.name == name or (one.name is None and number == place):
            return one
    return None
