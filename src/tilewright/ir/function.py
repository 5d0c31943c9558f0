"""Functions, globals and modules: what is verified, printed, encoded and executed."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tilewright.ir.attributes import Hints, Visibility
from tilewright.ir.op import Block, Op, Value
from tilewright.ir.types import FunctionType, TileType
from tilewright.source import Location

__all__ = ["ENTRY_HINTS", "EntryHints", "Function", "Global", "HintRow", "Module"]


@dataclass(frozen=True)
class HintRow:
    """One kind of advice on an entry: its name in Tile IR, and what it may be."""

    name: str
    wanted: str
    allowed: Container[object]


# By field of `EntryHints`. Anything else tileiras would drop, or round, without a word.
ENTRY_HINTS: Mapping[str, HintRow] = {
    "num_ctas": HintRow("num_cta_in_cga", "a power of two up to 16", (1, 2, 4, 8, 16)),
    "occupancy": HintRow("occupancy", "1 to 32", range(1, 33)),
    "num_worker_warps": HintRow("num_worker_warps_per_cta", "4 or 8", (4, 8)),
}


@dataclass(frozen=True)
class EntryHints:
    """Advice on one kernel; None leaves the choice to the compiler."""

    num_ctas: int | None = None
    occupancy: int | None = None
    num_worker_warps: int | None = None

    def hints(self) -> Hints | None:
        """The advice as an entry holds it, or None if there is none."""
        given = {row.name: getattr(self, field) for field, row in ENTRY_HINTS.items()}
        return Hints.of(**given) if any(value is not None for value in given.values()) else None


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
        return self.body.walk()


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
