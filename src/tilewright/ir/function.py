"""Functions and modules: what is verified, printed, encoded and executed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tilewright.ir.op import Block, Op, Value
from tilewright.source import Location

__all__ = ["EntryHints", "Function", "Module"]


@dataclass(frozen=True)
class EntryHints:
    """Advice on one kernel; None leaves the choice to the compiler."""

    num_ctas: int | None = None
    occupancy: int | None = None
    num_worker_warps: int | None = None


@dataclass
class Function:
    """One entry. `body.args` are its parameters; the body ends in `Return`."""

    name: str
    body: Block
    hints: EntryHints = field(default_factory=EntryHints)
    loc: Location | None = None

    @property
    def params(self) -> tuple[Value, ...]:
        """The values that a launch passes."""
        return self.body.args

    def walk(self) -> Iterator[Op]:
        """Every op, nested ones too, in program order."""
        for op in self.body.ops:
            yield from op.walk()


@dataclass
class Module:
    """Entries that are assembled together."""

    functions: tuple[Function, ...]
    name: str = "kernels"
