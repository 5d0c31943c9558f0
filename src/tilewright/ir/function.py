"""Functions, globals and modules: the units that are verified, printed, encoded and executed."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tilewright.ir.attributes import EVERY_TARGET, Dictionary, TargetHints, Visibility
from tilewright.ir.op import Block, Op, Value
from tilewright.ir.types import FunctionType, TileType
from tilewright.source import Location

__all__ = ["ENTRY_HINTS", "EntryHints", "Function", "Global", "HintRow", "Module"]


@dataclass(frozen=True)
class HintRow:
    """One hint on an entry: its name in Tile IR, and its legal values."""

    name: str
    wanted: str
    allowed: Container[object]


# By field of `EntryHints`. tileiras silently drops or rounds any other value.
ENTRY_HINTS: Mapping[str, HintRow] = {
    "num_ctas": HintRow("num_cta_in_cga", "a power of two up to 16", (1, 2, 4, 8, 16)),
    "occupancy": HintRow("occupancy", "1 to 32", range(1, 33)),
    "num_worker_warps": HintRow("num_worker_warps_per_cta", "4 or 8", (4, 8)),
}


@dataclass(frozen=True)
class EntryHints:
    """Hints on one kernel; None leaves the choice to the compiler."""

    num_ctas: int | None = None
    occupancy: int | None = None
    num_worker_warps: int | None = None

    def hints(self) -> TargetHints | None:
        """Return the hints as an entry holds them, or None if there are none."""
        given = {row.name: getattr(self, field) for field, row in ENTRY_HINTS.items()}
        return (
            TargetHints.of(**given) if any(value is not None for value in given.values()) else None
        )

    @staticmethod
    def held_by(hints: TargetHints | None) -> EntryHints:
        """Return the hints that an entry holds for every target."""
        known = Dictionary() if hints is None else dict(hints.targets).get(EVERY_TARGET)
        if known is None:
            return EntryHints()
        found = {field: known.get(row.name) for field, row in ENTRY_HINTS.items()}
        return EntryHints(**{name: n for name, n in found.items() if isinstance(n, int)})


@dataclass
class Function:
    """One entry. `body.args` are its parameters; the body ends in `Return`."""

    name: str
    body: Block
    hints: TargetHints | None = None
    loc: Location | None = None

    @property
    def params(self) -> tuple[Value, ...]:
        """Values that a launch passes."""
        return self.body.args

    @property
    def type(self) -> FunctionType:
        """Types of the parameters; an entry has no results."""
        return FunctionType(tuple(param.type for param in self.params))

    def walk(self) -> Iterator[Op]:
        """Iterate over all ops, nested ones included, in program order."""
        return self.body.walk()


@dataclass(frozen=True, eq=False)
class Global:
    """Elements in global memory that live as long as the module; `GetGlobal` returns the address.

    `alignment` is in bytes, 0 for that of the element. A `constant` global is never written.
    """

    name: str
    type: TileType
    value: Any  # as in `Constant`: one number for all elements, or a NumPy array
    alignment: int = 0
    visibility: Visibility = Visibility.PUBLIC
    constant: bool = False


@dataclass
class Module:
    """Entries and globals that are assembled together."""

    functions: tuple[Function, ...]
    name: str = "kernels"
    globals: tuple[Global, ...] = ()
    producer: str | None = None  # program that wrote the module, if it was read from bytecode
