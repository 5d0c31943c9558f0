"""Arguments of a call, matched to parameters by the callee's own Python signature.

The signatures are those of the typed declarations in `lang`, so type checkers and the front end
share one declaration.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tilewright.check.errors.syntax import BadCall
from tilewright.check.errors.types import WrongOperand
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.operands.operands import (
    BuiltinOperand,
    FunctionOperand,
    LambdaOperand,
    Operand,
    Static,
    TupleOperand,
)
from tilewright.frontend.operands.shown_values import shown_value

__all__ = [
    "Arguments",
    "Lowers",
    "PartialArguments",
    "Place",
    "bind",
    "bind_operands",
    "given_by",
    "method_signature",
    "spread",
]

Place = tuple[ast.AST, Operand]  # an operand with its node, for a caret


@dataclass(frozen=True)
class Arguments:
    """The operands of one call by parameter name, with their nodes."""

    node: ast.Call
    bound: dict[str, Any]  # (node, operand) for each parameter that was given; variadics in tuples
    signature: inspect.Signature

    def given(self, name: str) -> bool:
        """Whether the caller passed this parameter."""
        return name in self.bound

    def operand(self, name: str) -> Operand:
        """The operand of a parameter, or its default, which is a constant."""
        if name in self.bound:
            operand: Operand = self.bound[name][1]
            return operand
        return Static(self.signature.parameters[name].default)

    def where(self, name: str) -> ast.AST:
        """The node of a parameter, for a caret; the whole call if it was not given."""
        return self.bound[name][0] if name in self.bound else self.node

    def places(self, name: str) -> tuple[Place, ...]:
        """The operands of a variadic parameter, each with its node."""
        return tuple(self.bound.get(name, ()))

    def operands(self, name: str) -> tuple[Operand, ...]:
        """The operands of a variadic parameter."""
        return tuple(operand for _, operand in self.places(name))


Lowers = Callable[[Lowering, Arguments], Operand]  # the lowering of a call to its result


@dataclass(frozen=True)
class PartialArguments:
    """Arguments bound by a partial function, before those of a call."""

    positional: tuple[Place, ...] = ()
    keywords: tuple[tuple[str, Place], ...] = ()


_NOTHING = PartialArguments()


def given_by(
    node: ast.Call, callee: FunctionOperand | BuiltinOperand | LambdaOperand
) -> PartialArguments:
    """The arguments already bound to a callee; `node` is their location in messages."""
    if isinstance(callee, LambdaOperand):
        return _NOTHING
    named = tuple((name, (node, operand)) for name, operand in callee.keywords)
    return PartialArguments(tuple((node, operand) for operand in callee.args), named)


def bind(
    lo: Lowering,
    node: ast.Call,
    callee: str,
    signature: inspect.Signature,
    given: PartialArguments = _NOTHING,
) -> Arguments:
    """Lower the arguments of a call and match them to a signature."""
    positional = [*given.positional, *spread(lo, node.args)]
    keywords: dict[str, Any] = dict(given.keywords)
    for keyword in node.keywords:
        if keyword.arg is None:
            lo.reject(BadCall, keyword, callee, "`**` unpacking is not part of the kernel language")
        keywords[keyword.arg] = (keyword.value, lo.expression(keyword.value))
    return _matched(lo, node, callee, signature, positional, keywords)


def spread(lo: Lowering, nodes: Sequence[ast.expr]) -> list[Place]:
    """Expressions in order, with `*t` expanded to the items of a tuple."""
    found: list[Place] = []
    for node in nodes:
        if not isinstance(node, ast.Starred):
            found.append((node, lo.expression(node)))
            continue
        operand = lo.expression(node.value)
        if not isinstance(operand, TupleOperand):
            lo.reject(WrongOperand, node, "`*` takes a tuple apart", f"this is {operand}")
        found.extend((node, item) for item in operand.items)
    return found


def bind_operands(
    lo: Lowering,
    node: ast.Call,
    callee: str,
    signature: inspect.Signature,
    operands: Sequence[Operand],
    given: PartialArguments = _NOTHING,
) -> Arguments:
    """Match existing operands to a signature; `node` is their location in messages."""
    positional = [*given.positional, *((node, operand) for operand in operands)]
    return _matched(lo, node, callee, signature, positional, dict(given.keywords))


def _matched(
    lo: Lowering,
    node: ast.Call,
    callee: str,
    signature: inspect.Signature,
    positional: Sequence[Place],
    keywords: dict[str, Any],
) -> Arguments:
    try:
        bound = signature.bind(*positional, **keywords)
    except TypeError as error:
        way_out = f"it is called as `{callee}{_shown(signature)}`"
        lo.reject(BadCall, node, callee, str(error), way_out)
    return Arguments(node, dict(bound.arguments), signature)


def _shown(signature: inspect.Signature) -> str:
    """The signature as a caller writes it: names and defaults, without types."""
    shown = []
    for parameter in signature.parameters.values():
        star = "*" if parameter.kind is inspect.Parameter.VAR_POSITIONAL else ""
        has_default = parameter.default is not inspect.Parameter.empty
        default = f"={shown_value(parameter.default)}" if has_default else ""
        shown.append(f"{star}{parameter.name}{default}")
    return f"({', '.join(shown)})"


@lru_cache(maxsize=256)
def method_signature(declaration: type, name: str) -> inspect.Signature:
    """The signature of a method of `lang`, without `self`."""
    signature = inspect.signature(getattr(declaration, name))
    return signature.replace(parameters=list(signature.parameters.values())[1:])
