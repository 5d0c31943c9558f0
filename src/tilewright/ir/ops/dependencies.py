"""Order between grids of a stream, and between accesses through aliased addresses."""

from __future__ import annotations

from tilewright.ir.op import Effect, Op, Value, defined, operand, optional_operand
from tilewright.ir.types import TOKEN, Type

__all__ = ["GdcLaunchDependents", "GdcWait", "MemoryFenceAlias"]


class Dependency(
    Op,
    effect=Effect.WRITE,
    assembly="{?token}token = {token} {/}-> {result_token:type}",
):
    """A point in a block's program by which other grids, or other accesses, are ordered."""

    token: Value | None = optional_operand(default=None)
    result_token: Value = defined()

    def result_types(self) -> tuple[Type, ...]:
        return (TOKEN,)


class GdcLaunchDependents(
    Dependency, mnemonic="gdc_launch_dependents_tko", opcode=0x77, since=(13, 4)
):
    """Allow the grids that depend on this one to start."""


class GdcWait(Dependency, mnemonic="gdc_wait_tko", opcode=0x78, since=(13, 4)):
    """Wait until the grids that this one depends on have completed."""


class MemoryFenceAlias(
    Op,
    mnemonic="memory_fence_alias_tko",
    opcode=0x7A,
    since=(13, 4),
    effect=Effect.WRITE,
    assembly="{token}",
):
    """Order accesses before the fence and after it that reach one place through aliases."""

    token: Value = operand()
    result_token: Value = defined()

    def result_types(self) -> tuple[Type, ...]:
        return (TOKEN,)
