"""Names of values in the text: the rules of MLIR's printer, which the vendor's tools follow.

A value takes the name that its op suggests, an argument of a region `arg0`, `arg1` …, any other
value a number. A name that is taken gets the next number of a counter as its suffix. All values of
a block are named before those of its nested regions; each region continues from the block's
counters, and its names are released when it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from tilewright.dtypes import Element
from tilewright.ir.op import Block, FieldKind, Op, Value
from tilewright.ir.ops.control import Assume, For, If, Loop
from tilewright.ir.ops.reduction import Reduce
from tilewright.ir.ops.shape import Constant
from tilewright.ir.text.assembly import parse_assembly
from tilewright.ir.text.numbers import constant_name

__all__ = ["Names", "name_values"]


@dataclass
class Names:
    """Names of a function's values, with their `%`."""

    values: dict[Value, str] = field(default_factory=dict)
    results: dict[Op, str] = field(default_factory=dict)  # the text before the `=` of an op

    def of(self, value: Value) -> str:
        """Return the name of a value; an undefined value is shown as such."""
        return self.values.get(value, "%<undefined>")


@dataclass
class _Scope:
    """Counters and names in use at one point of naming."""

    used: set[str] = field(default_factory=set)  # here and in enclosing blocks
    own: list[str] = field(default_factory=list)  # the names in `used` that this block added
    number: int = 0
    argument: int = 0
    conflict: int = 0

    def unique(self, name: str) -> str:
        """Return the name itself, or the name with a numeric suffix."""
        found = name
        while found in self.used:
            found = f"{name}_{self.conflict}"
            self.conflict += 1
        self.used.add(found)
        self.own.append(found)
        return found

    @contextmanager
    def nested(self) -> Iterator[_Scope]:
        """Enter the scope of a region, whose names are released at its end."""
        inner = replace(self, own=[])
        yield inner
        self.used.difference_update(inner.own)


def name_values(body: Block) -> Names:
    """Name every value of a function's body."""
    names = Names()
    _Namer(names).name_block(body, None, _Scope())
    return names


class _Namer:
    def __init__(self, names: Names) -> None:
        self._names = names
        self._producers: dict[Value, Op] = {}

    def name_block(self, block: Block, parent: Op | None, scope: _Scope) -> None:
        """Name the arguments, then the results of every op, then the values in their regions."""
        given = _ARGUMENT_NAMES.get(type(parent), _no_names)(parent)
        for value, name in zip(block.args, given, strict=False):
            self._name(value, name, scope)
        for value in block.args[len(given) :]:
            self._name(value, f"arg{scope.argument}", scope)
            scope.argument += 1
        for op in block.ops:
            self._name_results(op, scope)
        for op in block.ops:
            for region in op.regions:
                with scope.nested() as inner:
                    self.name_block(region, op, inner)

    def _name(self, value: Value, name: str, scope: _Scope) -> None:
        self._names.values[value] = f"%{scope.unique(name)}"

    def _name_results(self, op: Op, scope: _Scope) -> None:
        self._producers.update(dict.fromkeys(op.results, op))
        given = self._result_names(op)
        for value, name in zip(op.results, given, strict=False):
            self._name(value, name, scope)
        if not op.results:
            return
        if not given:
            self._names.values[op.results[0]] = f"%{scope.number}"
            scope.number += 1
        self._name_group(op, max(len(given), 1))

    def _name_group(self, op: Op, named: int) -> None:
        """Name results without a name of their own as numbered parts of the first."""
        called = [self._names.values[value] for value in op.results[:named]]
        if len(op.results) > named:
            for position, value in enumerate(op.results):
                self._names.values[value] = f"{called[0]}#{position}"
            called = [f"{called[0]}:{len(op.results)}"]
        self._names.results[op] = ", ".join(called)

    def _result_names(self, op: Op) -> tuple[str, ...]:
        if isinstance(op, Constant):
            assert isinstance(op.to.element, Element)
            return (constant_name(op.value, op.to.element),)
        if isinstance(op, Assume):
            return (self._assume_name(op),)
        declared = parse_assembly(op.assembly).names
        fixed = [f.name for f in op.fields if f.kind is FieldKind.RESULT]
        names = declared or (tuple(fixed) if len(fixed) > 1 else ())
        return names[: len(op.results)]

    def _assume_name(self, op: Assume) -> str:
        """Return the name of the assumed value, if its producer suggests names at all."""
        producer = self._producers.get(op.value)
        if producer is None:
            return "assume"
        names = self._result_names(producer)
        if not names and not isinstance(producer, If | Loop):
            return "assume"
        position = producer.results.index(op.value)
        return f"assume_{names[position]}" if position < len(names) else "assume_"


def _no_names(_op: Op | None) -> tuple[str, ...]:
    return ()


def _loop_names(op: For) -> tuple[str, ...]:
    return ("loopIdx", *(f"iterArg{i}" for i in range(len(op.body.args) - 1)))


def _combination_names(op: Reduce) -> tuple[str, ...]:
    return tuple(_pairs(len(op.body.args)))


def _pairs(count: int) -> Iterator[str]:
    for position in range(count):
        side = "rhs" if position % 2 else "lhs"
        yield f"reduce_{side}{position // 2 if count > 2 else ''}"


_ARGUMENT_NAMES: dict[type | None, Callable[[Any], tuple[str, ...]]] = {
    For: _loop_names,
    Reduce: _combination_names,
}
