"""Reduction: the smallest module found that still fails, for a report to the makers of a tool.

An op is removed together with all ops that depend on it, or replaced by one of its operands. The
result is verified before it is tried, so a reduced module is valid Tile IR.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tilewright.bytecode import decode, encode_in_oldest
from tilewright.errors import InternalError
from tilewright.ir.function import Module
from tilewright.ir.op import Block, Effect, Op, Value
from tilewright.ir.verify.verifier import verify

__all__ = ["ReducedModule", "reduce_bytecode"]


@dataclass(frozen=True)
class ReducedModule:
    """A reduced module: its bytecode, its ops, those that it had, and the modules tried."""

    bytecode: bytes
    ops: int
    ops_before: int
    tries: int


def reduce_bytecode(
    data: bytes, target: str, still_fails: Callable[[bytes], bool], most: int = 200
) -> ReducedModule:
    """Remove ops while the module still fails, trying at most `most` modules."""
    tries, before = 0, _count(data)
    is_smaller = True
    while is_smaller and tries < most:
        is_smaller = False
        number = _count(data) - 1
        while number >= 0 and tries < most:
            for smaller in _smaller(data, number, target):
                tries += 1
                if still_fails(smaller):
                    data, is_smaller = smaller, True
                    break
            number = min(number, _count(data)) - 1
    return ReducedModule(data, _count(data), before, tries)


def _count(data: bytes) -> int:
    return sum(1 for function in decode(data).module.functions for _ in function.walk())


def _smaller(data: bytes, number: int, target: str) -> Iterator[bytes]:
    """Valid modules without an op: an operand stands for its result, or its users go, too."""
    for change in (_bypass, _remove):
        module = decode(data).module
        ops = [op for function in module.functions for op in function.walk()]
        if ops[number].effect is Effect.CONTROL or not change(module, ops, ops[number]):
            continue
        try:
            verify(module, target)
            yield encode_in_oldest(module).data
        except (InternalError, AssertionError, ValueError, KeyError):
            continue


def _bypass(module: Module, ops: list[Op], op: Op) -> bool:
    """Put operands in place of all results of an op; whether there are such of the same types."""
    stands_for: dict[Value, Value] = {}
    for result in op.results:
        alike = [one for one in op.operands if one.type == result.type]
        if not alike:
            return False
        stands_for[result] = alike[0]
    if not stands_for:
        return False
    for user in ops:
        _replace_operands(user, stands_for)
    _delete(module, {op, *op.walk()})
    return True


def _replace_operands(op: Op, stands_for: dict[Value, Value]) -> None:
    for field in op.operand_fields:
        held = getattr(op, field.name)
        if isinstance(held, tuple):
            setattr(op, field.name, tuple([stands_for.get(one, one) for one in held]))
        elif held is not None:
            setattr(op, field.name, stands_for.get(held, held))
    op.hold_parts()


def _remove(module: Module, ops: list[Op], op: Op) -> bool:
    """Remove an op with all that depends on it; whether that leaves every block its end."""
    removed = _dependants(ops, op)
    if any(one.effect is Effect.CONTROL for one in removed - _nested(removed)):
        return False
    _delete(module, removed)
    return True


def _delete(module: Module, removed: set[Op]) -> None:
    for block in _blocks(module):
        block.ops[:] = [op for op in block.ops if op not in removed]


def _dependants(ops: list[Op], first: Op) -> set[Op]:
    """An op, the ops inside it, and all ops that use their results."""
    removed = {first, *first.walk()}
    gone = {value for op in removed for value in op.results}
    for op in ops:  # in program order, so every user comes behind
        if op not in removed and any(value in gone for value in op.operands):
            inside = {op, *op.walk()}
            removed |= inside
            gone |= {value for one in inside for value in one.results}
    return removed


def _nested(removed: set[Op]) -> set[Op]:
    """Ops inside others that are removed."""
    return {inner for op in removed for inner in op.walk() if inner is not op}


def _blocks(module: Module) -> list[Block]:
    found = [function.body for function in module.functions]
    for block in found:  # grows while it is walked
        found += [inner for op in block.ops for inner in op.regions]
    return found
