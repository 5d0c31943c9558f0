"""Verifies that a module is Tile IR that tileiras accepts, before any of it is encoded.

A violation is a bug of tilewright's own (the front end and `check` report users' errors), so the
error lists every violating op with its source line. The verifier checks visibility of values, the
rules of ops (one table for each group), types, globals, terminators, and the limits of the target
and of the bytecode version.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache, partial

from tilewright.deep_calls import with_room
from tilewright.errors import InternalError
from tilewright.ir.function import ENTRY_HINTS, Function, Module
from tilewright.ir.op import Block, Effect, Op, Value, Version
from tilewright.ir.ops.internal import BlockInspection
from tilewright.ir.types import TileType, Type
from tilewright.ir.verify.access import hints
from tilewright.ir.verify.addresses import (
    ADDRESS_RULES,
    MODULE_RULES,
    global_problems,
    name_problems,
)
from tilewright.ir.verify.conversions import CONVERSION_RULES
from tilewright.ir.verify.matrices import MATRIX_RULES
from tilewright.ir.verify.memory import MEMORY_RULES
from tilewright.ir.verify.ops import ELEMENTWISE_RULES, SHAPE_RULES
from tilewright.ir.verify.regions import ENDINGS, REGION_RULES, TERMINATOR_RULES
from tilewright.ir.verify.rules import Rule
from tilewright.ir.verify.types import target_problems, type_problems
from tilewright.ir.verify.views import TARGET_RULES, VIEW_RULES
from tilewright.ir.versions import needs

__all__ = ["RULES", "VerificationError", "Violation", "rule_problems", "verify", "violations"]

# Rules by op class and by family.
RULES: dict[type[Op], tuple[Rule, ...]] = {
    **ELEMENTWISE_RULES,
    **CONVERSION_RULES,
    **SHAPE_RULES,
    **MEMORY_RULES,
    **VIEW_RULES,
    **ADDRESS_RULES,
    **MATRIX_RULES,
    **REGION_RULES,
    **dict.fromkeys(TERMINATOR_RULES, ()),
}
_RULES_OF: dict[type[Op], tuple[Rule, ...]] = {}  # including those of families; filled on demand
_SHOWN = 20


@dataclass(frozen=True)
class Violation:
    """One violated rule; `op` is None if it concerns the function itself."""

    function: str
    op: Op | None
    message: str

    def __str__(self) -> str:
        subject = f"`{self.op.mnemonic}` in {self.function}" if self.op else self.function
        place = f"{self.op.loc}: " if self.op is not None and self.op.loc is not None else ""
        return f"{place}{subject}: {self.message}"


class VerificationError(InternalError):
    """A module breaks the rules of Tile IR."""

    def __init__(self, found: tuple[Violation, ...]) -> None:
        lines = [f"  {violation}" for violation in found[:_SHOWN]]
        rest = [f"  and {len(found) - _SHOWN} more"] if len(found) > _SHOWN else []
        super().__init__("\n".join(["the compiler made invalid Tile IR", *lines, *rest]))
        self.violations = found


def verify(module: Module, target: str = "sm_90", version: Version | None = None) -> None:
    """Raise a `VerificationError` with all violations of a module.

    Without a `version` the module may use all features of the newest bytecode.
    """
    found = tuple(violations(module, target, version))
    if found:
        raise VerificationError(found)


def violations(
    module: Module,
    target: str = "sm_90",
    version: Version | None = None,
    *,
    advice: bool = True,
) -> Iterator[Violation]:
    """Iterate over the violations of a module, one for each op that breaks a rule.

    Hints that tileiras would silently drop are violations in tilewright's own modules; without
    `advice` they are ignored, as tileiras ignores hints of any producer.
    """
    for name, problem in name_problems(module):
        yield Violation(name, None, problem)
    for held in module.globals:
        for problem in global_problems(held):
            yield Violation(f"the global {held.name}", None, problem)
    for function in module.functions:
        yield from with_room(partial(_function_violations, function, module, target))
        yield from _advice_problems(function) if advice else ()
    for need in needs(module) if version is not None else ():
        if version is not None and need.version > version:
            text = f"{need.what} needs bytecode {'.'.join(map(str, need.version))}"
            yield Violation(need.function, need.op, text)


def _function_violations(function: Function, module: Module, target: str) -> list[Violation]:
    return list(_Verifier(function, module, target).run())


class _Verifier:
    """One walk over a function: visibility of values, and the rules of each op."""

    def __init__(self, function: Function, module: Module, target: str) -> None:
        self._function = function
        self._module = module
        self._target = int(target.removeprefix("sm_"))
        self._defined: set[Value] = set()  # anywhere so far, to detect a second definition
        self._visible: dict[Value, None] = {}  # in order of definition

    def run(self) -> Iterator[Violation]:
        yield from map(self._of_function, _function_problems(self._function))
        yield from self._check_block(self._function.body, ())

    def _of_function(self, message: str) -> Violation:
        return Violation(self._function.name, None, message)

    def _check_block(self, block: Block, around: tuple[Op, ...]) -> Iterator[Violation]:
        before = len(self._visible)
        parent = around[0] if around else None
        for problem in [*self._define(block.args), *_ending_problems(block, parent)]:
            yield Violation(self._function.name, parent, problem)
        for op in block.ops:
            first = self._first_problem(op, around)
            if first is not None:
                yield Violation(self._function.name, op, first)
            for region in op.regions:
                yield from self._check_block(region, (op, *around))
            for problem in self._define(op.results):
                yield Violation(self._function.name, op, problem)
        while len(self._visible) > before:
            self._visible.popitem()

    def _define(self, values: tuple[Value, ...]) -> Iterator[str]:
        for value in values:
            if value in self._defined:
                yield f"{value!r} is defined twice"
            self._defined.add(value)
            self._visible[value] = None
            yield from _type_problems(value.type, self._target)

    def _first_problem(self, op: Op, around: tuple[Op, ...]) -> str | None:
        """Return the first problem of an op; later ones may follow from it.

        Rules rely on invariants of constructors and of earlier rules. An op read from a file may
        have a combination of parts that no constructor would produce.
        """
        try:
            return next(self._op_problems(op, around), None)
        except (AssertionError, AttributeError, IndexError):
            return "its operands and results are not of the kinds that it can have"

    def _op_problems(self, op: Op, around: tuple[Op, ...]) -> Iterator[str]:
        if op.opcode is None and not isinstance(op, BlockInspection):
            yield "it is internal and should have been lowered"
            return
        for value in op.operands:
            if value not in self._visible:
                yield f"{value!r} is used where it is not visible"
        yield from rule_problems(op)
        if type(op) in TARGET_RULES:
            yield from TARGET_RULES[type(op)](op, self._target)
        if type(op) in MODULE_RULES:
            yield from MODULE_RULES[type(op)](op, self._module)
        ending = TERMINATOR_RULES.get(type(op))
        if ending is not None:
            yield from ending(op, around)
        if tuple(value.type for value in op.results) != op.result_types():
            yield "the types of its results do not follow from its operands"


def rule_problems(op: Op) -> Iterator[str]:
    """Problems of one op under the rules of its class, independent of its context."""
    for rule in _rules_of(type(op)):
        yield from rule(op)


def _rules_of(kind: type[Op]) -> tuple[Rule, ...]:
    """Return the rules of an op class, those of its families first."""
    if kind not in _RULES_OF:
        bases = (base for base in reversed(kind.__mro__) if issubclass(base, Op))
        _RULES_OF[kind] = tuple(rule for base in bases for rule in RULES.get(base, ()))
    return _RULES_OF[kind]


@lru_cache(maxsize=1024)
def _type_problems(type_: Type, target: int) -> tuple[str, ...]:
    """Return the problems of a type, cached: a module uses few types many times."""
    return *type_problems(type_), *target_problems(type_, target)


def _ending_problems(block: Block, parent: Op | None) -> Iterator[str]:
    if parent is not None and type(parent) not in ENDINGS:
        return
    endings = ENDINGS[None if parent is None else type(parent)]
    if not block.ops or not isinstance(block.ops[-1], endings):
        names = " or ".join(f"`{ending.mnemonic}`" for ending in endings)
        yield f"a block must end in {names}"
    if any(op.effect is Effect.CONTROL for op in block.ops[:-1]):
        yield "an op stands behind the end of its block"


def _function_problems(function: Function) -> Iterator[str]:
    for param in function.params:
        if not isinstance(param.type, TileType) or param.type.rank != 0:
            yield f"a parameter must be a scalar, but one is {param.type}"


def _advice_problems(function: Function) -> Iterator[Violation]:
    """Hints that tileiras would silently drop."""
    for row in ENTRY_HINTS.values() if function.hints is not None else ():
        for value in function.hints.named(row.name) if function.hints is not None else ():
            if value not in row.allowed:
                problem = f"`{row.name}` must be {row.wanted}, but is {value}"
                yield Violation(function.name, None, problem)
    for op in function.walk():
        if getattr(op, "hints", None) is not None:
            for problem in hints(op):
                yield Violation(function.name, op, problem)
