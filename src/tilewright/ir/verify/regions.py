"""Rules of ops with regions and of terminators: one row for each op class.

The legality of a terminator depends on its context, so its rules receive the chain of enclosing
ops, innermost first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tilewright.dtypes import Element
from tilewright.ir.attributes import FloatIdentity, IntIdentity
from tilewright.ir.op import Block, Effect, Op
from tilewright.ir.ops.control import (
    Break,
    Continue,
    For,
    GetNumTileBlocks,
    GetTileBlockId,
    If,
    Loop,
    Return,
    Yield,
)
from tilewright.ir.ops.reduction import Reduce, Scan
from tilewright.ir.types import TensorViewType, TileType, Type, ViewType, scalar
from tilewright.ir.verify.rules import (
    ANY_ELEMENT,
    FLOATS,
    SCALAR_INTEGER,
    Rule,
    TileClass,
    alike,
    same_shape,
    tiles,
)

__all__ = ["ENDINGS", "REGION_RULES", "TERMINATOR_RULES"]

_TRUTH = TileClass(frozenset({Element.I1}), rank=0)
Around = tuple[Op, ...]  # the enclosing ops, innermost first

# Legal terminators of an op's regions; None stands for the function.
ENDINGS: dict[type[Op] | None, tuple[type[Op], ...]] = {
    None: (Return,),
    For: (Continue,),
    Loop: (Continue, Break, Return),
    If: (Yield, Continue, Break, Return),
    Reduce: (Yield,),
    Scan: (Yield,),
}


def _types(values: tuple[Any, ...]) -> tuple[Type, ...]:
    return tuple(value.type for value in values)


def _carried(arguments: Callable[[Any], Any]) -> Rule:
    """A loop's initial values match the arguments of its body, and none is a view."""

    def check(op: For | Loop) -> Iterator[str]:
        entering = arguments(op)
        if _types(entering) != _types(op.init_values):
            yield (
                f"the body takes {_listed(_types(entering))}, "
                f"but the loop starts with {_listed(_types(op.init_values))}"
            )
        for type_ in (*_types(op.init_values), *_types(op.results)):
            if isinstance(type_, TensorViewType | ViewType):
                yield f"a loop cannot carry a view ({type_})"

    return check


def _counter(op: For) -> Iterator[str]:
    if not op.body.args or op.body.args[0].type != op.lower_bound.type:
        yield f"the body's first argument must be the counter, {op.lower_bound.type}"


def _branches(op: If) -> Iterator[str]:
    for name, body in (("then", op.then_body), ("else", op.else_body)):
        last = body.ops[-1] if body.ops else None
        if isinstance(last, Yield) and _types(last.values) != op.types:
            given = _listed(_types(last.values))
            yield f"the {name} branch gives {given}, but the results are {_listed(op.types)}"
        if body.args:
            yield f"the {name} branch takes arguments"
    for type_ in op.types:
        if isinstance(type_, TensorViewType | ViewType):
            yield f"a branch cannot give a view ({type_})"


def _axis(op: Reduce | Scan) -> Iterator[str]:
    if not op.sources:
        yield "there is nothing to combine"
        return
    first = op.sources[0].type
    assert isinstance(first, TileType)
    if not 0 <= op.dim < first.rank:
        yield f"{first} has no axis {op.dim}"


def _identities(op: Reduce | Scan) -> Iterator[str]:
    if len(op.identities) != len(op.sources):
        yield f"{len(op.sources)} identities are needed, but there are {len(op.identities)}"
        return
    for identity, source in zip(op.identities, op.sources, strict=True):
        assert isinstance(source.type, TileType)
        kind = FloatIdentity if source.type.element in FLOATS else IntIdentity
        if identity.element != source.type.element or not isinstance(identity, kind):
            yield f"the identity of {source.type} is one of {identity.element}"


def _combination(op: Reduce | Scan) -> Iterator[str]:
    """Two scalar arguments for each operand, one result, and only pure ops between."""
    elements = [source.type.element for source in op.sources]  # type: ignore[union-attr]
    wanted = tuple(scalar(element) for element in elements for _ in range(2))
    if _types(op.body.args) != wanted:
        yield f"the body must take {_listed(wanted)}, but takes {_listed(_types(op.body.args))}"
    given = _types(op.body.ops[-1].operands) if op.body.ops else ()
    if given != wanted[::2]:
        yield f"the body must give {_listed(wanted[::2])}, but gives {_listed(given)}"
    for nested in _inside(op.body):
        if nested.effect not in (Effect.NONE, Effect.CONTROL) or nested.mnemonic in _NOT_PURE:
            yield f"`{nested.mnemonic}` is not pure, which a combination must be"


def _inside(body: Block) -> Iterator[Op]:
    for op in body.ops:
        yield from op.walk()


_NOT_PURE = frozenset({"assume"})
_COMBINING: tuple[Rule, ...] = (
    tiles(ANY_ELEMENT, "sources"),
    same_shape("sources"),
    _axis,
    _identities,
    _combination,
)

# By op class.
REGION_RULES: dict[type[Op], tuple[Rule, ...]] = {
    For: (
        tiles(SCALAR_INTEGER, "lower_bound", "upper_bound", "step"),
        alike("lower_bound", "upper_bound", "step"),
        _counter,
        _carried(lambda op: op.body.args[1:]),
    ),
    Loop: (_carried(lambda op: op.body.args),),
    If: (tiles(_TRUTH, "condition"), _branches),
    Reduce: _COMBINING,
    Scan: _COMBINING,
    GetTileBlockId: (),
    GetNumTileBlocks: (),
}


def _beyond_ifs(around: Around) -> Op | None:
    """Return the innermost enclosing op that is not an `if`; None is the function."""
    return next((op for op in around if not isinstance(op, If)), None)


def _check_break(op: Break, around: Around) -> Iterator[str]:
    loop = _beyond_ifs(around)
    if not isinstance(loop, Loop):
        yield "it can only leave a `loop`"
    elif _types(op.values) != loop.types:
        yield f"it gives {_listed(_types(op.values))}, but the loop {_listed(loop.types)}"


def _check_continue(op: Continue, around: Around) -> Iterator[str]:
    loop = _beyond_ifs(around)
    if not isinstance(loop, For | Loop):
        yield "it can only stand in a `for` or a `loop`"
    elif _types(op.values) != _types(loop.init_values):
        carried = _listed(_types(loop.init_values))
        yield f"it hands on {_listed(_types(op.values))}, but the loop carries {carried}"


def _check_return(op: Return, around: Around) -> Iterator[str]:
    if not all(isinstance(outer, If | Loop) for outer in around):
        yield "it can only stand in the function itself, under `if` or in a `loop`"
    elif op.values:
        yield "an entry gives no values"


def _check_yield(_op: Yield, around: Around) -> Iterator[str]:
    if not around or not isinstance(around[0], If | Reduce | Scan):
        yield "it can only end a branch or a combination"


# By op class; the rule receives the enclosing ops, innermost first.
TERMINATOR_RULES: dict[type[Op], Callable[[Any, Around], Iterator[str]]] = {
    Break: _check_break,
    Continue: _check_continue,
    Return: _check_return,
    Yield: _check_yield,
}


def _listed(types: tuple[Type, ...]) -> str:
    return f"({', '.join(map(str, types))})"
