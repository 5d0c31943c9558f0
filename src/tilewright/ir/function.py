"""Functions, globals and modules: what is verified, printed, encoded and executed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tilewright.ir.attributes import Hints, Visibility
from tilewright.ir.op import Block, Op, Value
from tilewright.ir.types import FunctionType, TileType
from tilewright.source import Location

__all__ = ["EntryHints", "Function", "Global", "Module"]


@dataclass(frozen=True)
class EntryHints:
    """Advice on one kernel for every target; None leaves the choice to the compiler."""

    num_ctas: int | None = None
    occupancy: int | None = None
    num_worker_warps: int | None = None

    def hints(self) -> Hints | None:
        """The advice as an entry holds it, or None if there is none."""
        if self == EntryHints():
            return None
        return Hints.of(
            num_cta_in_cga=self.num_ctas,
            occupancy=self.occupancy,
            num_worker_warps_per_cta=self.num_worker_warps,
        )


@dataclass
class Function:
    """One entry. `body.args` are its parameters; the body ends in `Return`."""

    name: str
    body: Block
    hints: Hints | None = None
    loc: Location | None = None

    @property
    def params(self) -> tuple[Value, ...]:
        """The values that a launch passes."""
        return self.body.args

    @property
    def type(self) -> FunctionType:
        """The types of its parameters; an entry gives nothing."""
        return FunctionType(tuple(param.type for param in self.params))

    def walk(self) -> Iterator[Op]:
        """Every op, nested ones too, in program order."""
        for op in self.body.ops:
            yield from op.walk()


@dataclass(frozen=True, eq=False)
class Global:
    """Elements in global memory that live as long as the module; `GetGlobal` gives the address.

    `alignment` is in bytes, 0 for that of the element. Nothing may write a `constant` one.
    """

    name: str
    type: TileType
    value: Any  # as of `Constant`: a number for all elements, or a NumPy array
    alignment: int = 0
    visibility: Visibility = Visibility.PUBLIC
    constant: bool = False


@dataclass
class Module:
    """Entries and globals that are assembled together."""

    functions: tuple[Function, ...]
    name: str = "kernels"
    globals: tuple[Global, ...] = ()
    producer: str | None = None  # who wrote it, if it was read from bytecode
