"""Operations in the host check: built with their borrows, run, dropped, and made of others.

The rules are those of the runtime: any number of built operations read a tensor, or one writes it;
one launch writes no tensor that it uses twice; a handle that was moved away is refused.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tilewright.lint.findings import (
    AliasedLaunch,
    HeldTensor,
    HostFinding,
    MovedWhileHeld,
    NeverRun,
    UsedAfterMove,
)
from tilewright.lint.reporting import Reporter
from tilewright.lint.state import HeldUse, HostState, OperationState
from tilewright.lint.values import (
    UNKNOWN,
    CalleeValue,
    ConstantValue,
    CutValue,
    ItemsValue,
    OperationValue,
    Special,
    TensorAccess,
    TensorValue,
    Value,
    overlap,
)

__all__ = ["BuiltOperations", "GivenArgument"]

_numbers = itertools.count(1)


class GivenArgument(NamedTuple):
    """An argument of a call; `name` of one that is given by name."""

    name: str | None
    node: ast.expr
    value: Value


class BuiltOperations:
    """Builds, runs and drops operations, and reports what the runtime would refuse."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self.has_refused = False  # something in the current statement, which then ends there

    def _refuse(self, finding: HostFinding) -> None:
        """Report an exception of the runtime."""
        self.has_refused = True
        self._reporter.report(finding)

    def new_tensor(self, rows: int | None = None, *, is_dense: bool = True) -> TensorValue:
        """A tensor with memory of its own."""
        number = next(_numbers)
        return TensorValue(number, number, rows=rows, is_dense=is_dense)

    def build(
        self,
        state: HostState,
        label: str,
        node: ast.expr,
        uses: Sequence[HeldUse] = (),
        result: Value = UNKNOWN,
    ) -> OperationValue:
        """A built operation that holds some tensors."""
        made = OperationValue(next(_numbers))
        state.operations[made.number] = OperationState(label, node, tuple(uses), result)
        return made

    def call(
        self,
        state: HostState,
        callee: CalleeValue,
        node: ast.Call,
        given: Sequence[GivenArgument] | None,
    ) -> Value:
        """The operation of a call; `given` is None for a call with `*` or `**`."""
        if given is None or callee.parameters is None:
            return self._call_unknown(state, callee, node, given or ())
        bound = dict(_bound(callee, given))
        taken = [one for one in given if isinstance(one.value, OperationValue)]
        result = self._result(callee, bound)
        if taken:
            held = self.take(state, taken)
            return UNKNOWN if held is None else self.build(state, callee.name, node, held, result)
        uses: list[HeldUse] = []
        is_certain = True
        for name, access, argument in _tensors(callee, bound):
            found = _tensors_of(argument.value)
            if found is None or (callee.needs_dense and not _are_dense(argument.value)):
                is_certain = False
            text = _text(argument.node)
            for tensor in found or ():
                if self.is_moved(state, tensor, argument.node):
                    return UNKNOWN
                uses.append(
                    HeldUse(tensor, access is TensorAccess.WRITE, text, name, argument.node)
                )
        return self.launch(state, callee.name, node, uses if is_certain else (), result)

    def _call_unknown(
        self, state: HostState, callee: CalleeValue, node: ast.Call, given: Sequence[GivenArgument]
    ) -> OperationValue:
        """The operation of a call whose borrows are not known; it may take operations in."""
        for one in given:
            state.escape(one.value)
        result: Value = UNKNOWN
        if callee.gives_tensor:
            out = next((one.value for one in given if one.name == "out"), ConstantValue(None))
            result = self.new_tensor() if out == ConstantValue(None) else out
        return self.build(state, callee.name, node, (), result)

    def launch(
        self,
        state: HostState,
        label: str,
        node: ast.expr,
        uses: Sequence[HeldUse],
        result: Value = UNKNOWN,
    ) -> Value:
        """A built operation on some tensors, unless the runtime would refuse it."""
        for written in (use for use in uses if use.writes):
            for other in uses:
                if other is not written and overlap(written.tensor, other.tensor):
                    self._refuse_alias(label, written, other)
                    return UNKNOWN
        for use in uses:
            if self.conflicts(state, use, f"`{label}`"):
                return UNKNOWN
        return self.build(state, label, node, uses, result)

    def _refuse_alias(self, label: str, written: HeldUse, other: HeldUse) -> None:
        span = self._reporter.span
        verb = "written" if other.writes else "read"
        self._refuse(
            AliasedLaunch(
                span(other.node), span(written.node), written.text, label, verb, other.role
            )
        )

    def conflicts(self, state: HostState, use: HeldUse, by: str) -> bool:
        """Whether a built operation refuses a use; reports it."""
        found = state.conflict(use.tensor, writes=use.writes)
        if found is None:
            return False
        holder, held = found
        span = self._reporter.span
        self._refuse(
            HeldTensor(
                span(use.node),
                span(holder.node),
                use.text,
                "written" if use.writes else "read",
                by,
                holder.label,
                "writing" if held.writes else "reading",
            )
        )
        return True

    def is_moved(self, state: HostState, tensor: TensorValue, node: ast.expr) -> bool:
        """Whether a handle was moved away; reports its use."""
        at = state.moved.get(tensor.handle)
        if at is not None:
            span = self._reporter.span
            self._refuse(UsedAfterMove(span(node), span(at), _text(node)))
        return at is not None

    def read(self, state: HostState, tensor: TensorValue, node: ast.expr, by: str) -> bool:
        """Read a tensor at once, as `numpy()` does; whether it is allowed."""
        return not self.conflicts(state, HeldUse(tensor, False, _text(node), "", node), by)

    def move(self, state: HostState, tensor: TensorValue, node: ast.expr, call: ast.expr) -> Value:
        """Move a tensor; gives the new handle."""
        if self.is_moved(state, tensor, node):
            return UNKNOWN
        found = state.conflict(tensor, writes=True)
        if found is not None:
            span = self._reporter.span
            holder = found[0]
            self._refuse(MovedWhileHeld(span(node), span(holder.node), _text(node), holder.label))
            return UNKNOWN
        state.moved[tensor.handle] = call
        return TensorValue(
            next(_numbers), tensor.memory, tensor.region, tensor.rows, tensor.is_dense
        )

    def take(self, state: HostState, given: Sequence[GivenArgument]) -> tuple[HeldUse, ...] | None:
        """Make operations part of another one; gives what they hold, None if that is unknown."""
        uses: tuple[HeldUse, ...] = ()
        is_known = True
        for one in given:
            assert isinstance(one.value, OperationValue), "only operations are taken"
            found = state.operations.get(one.value.number)
            if found is None or not found.is_held:
                is_known = False
                continue
            uses += found.uses
            state.end(one.value)
        return uses if is_known else None

    def drop(self, state: HostState, operation: OperationValue, at: ast.AST) -> None:
        """An operation without references, which warns if it was not run."""
        found = state.operations.pop(operation.number, None)
        if found is not None and found.is_held and not self.has_refused:
            span = self._reporter.span
            self._reporter.report(NeverRun(span(found.node), span(at), found.label))

    def _result(self, callee: CalleeValue, bound: dict[str, GivenArgument]) -> Value:
        if not callee.gives_tensor:
            return UNKNOWN
        out = bound.get("out")
        if out is None or out.value == ConstantValue(None):
            return self.new_tensor()
        return out.value if isinstance(out.value, TensorValue) else UNKNOWN


def _bound(
    callee: CalleeValue, given: Sequence[GivenArgument]
) -> Iterator[tuple[str, GivenArgument]]:
    """The arguments by the names of their parameters."""
    plain = [one.name for one in callee.parameters or () if not one.is_keyword]
    by_place = iter(plain)
    for argument in given:
        name = argument.name if argument.name is not None else next(by_place, None)
        if name is not None:
            yield name, argument


def _tensors(
    callee: CalleeValue, bound: dict[str, GivenArgument]
) -> Iterator[tuple[str, TensorAccess, GivenArgument]]:
    """The arguments that are tensors, with their access."""
    for one in callee.parameters or ():
        argument = bound.get(one.name)
        if one.access is not None and argument is not None:
            yield one.name, one.access, argument


def _tensors_of(value: Value) -> tuple[TensorValue, ...] | None:
    """The tensors of an argument; None if there may be others, or an operation."""
    match value:
        case TensorValue():
            return (value,)
        case CutValue(tensor=tensor):
            return (tensor,)
        case ConstantValue() | Special.FOREIGN:
            return ()
        case ItemsValue(values=values):
            found = [_tensors_of(one) for one in values]
            return None if None in found else tuple(t for one in found if one for t in one)
    return None


def _are_dense(value: Value) -> bool:
    """Whether the elements of all tensors lie without gaps."""
    if isinstance(value, ItemsValue):
        return all(map(_are_dense, value.values))
    return isinstance(value, ConstantValue) or (isinstance(value, TensorValue) and value.is_dense)


def _text(node: ast.expr) -> str:
    """The tensor of an argument as the program spells it: `z` of `z.partition(64)`."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr not in ("partition", "persistent"):
            break
        node = node.func.value
    text = ast.unparse(node)
    return text if len(text) <= 40 else f"{text[:39]}…"
