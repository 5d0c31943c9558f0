"""The report of one experiment: tables, plots, raw figures, targets, and the machine.

The file is written after each part, so that an interrupted run keeps its results so far; a table
added before its rows is written with the rows it has. Pages and plots are made from the file,
anywhere and at any time.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from tilewright.bench.machine import machine_facts
from tilewright.bench.tables import Plot, Table

__all__ = ["Bound", "Report", "Target"]


class Bound(Enum):
    """Required side of a figure relative to its target."""

    AT_LEAST = "at least"
    AT_MOST = "at most"


@dataclass(frozen=True)
class Target:
    """A required figure, and the measured one."""

    what: str
    bound: Bound
    wanted: float
    measured: float
    unit: str = ""

    @property
    def is_met(self) -> bool:
        """Whether the figure meets its target; a missing one does not."""
        if self.bound is Bound.AT_LEAST:
            return self.measured >= self.wanted
        return self.measured <= self.wanted

    def to_json(self) -> dict[str, Any]:
        """Return plain data, including the verdict."""
        return {**asdict(self), "bound": self.bound.value, "is_met": self.is_met}


class Report:
    """Results of an experiment, in a file if one is named."""

    def __init__(self, name: str, title: str, path: Path | None = None) -> None:
        self._path = path
        self._tables: list[Table] = []
        self._head = {"name": name, "title": title, "machine": machine_facts()}
        self._lists: dict[str, list[Any]] = {"notes": [], "plots": [], "targets": []}
        self._figures: dict[str, list[dict[str, Any]]] = {}

    @property
    def data(self) -> dict[str, Any]:
        """Return the whole report as plain data."""
        tables = [table.to_json() for table in self._tables]
        return {**self._head, "tables": tables, **self._lists, "figures": self._figures}

    def note(self, text: str) -> None:
        """Add a sentence about the measurement or its interpretation."""
        self._append("notes", text)

    def table(self, table: Table) -> None:
        """Add a table; rows may follow."""
        self._tables.append(table)
        self._write()

    def plot(self, plot: Plot) -> None:
        """Add a plot."""
        self._append("plots", plot.to_json())

    def target(self, target: Target) -> None:
        """Add a figure with its target."""
        self._append("targets", target.to_json())

    def figure(self, part: str, **entry: Any) -> None:
        """Add raw figures to a part."""
        self._figures.setdefault(part, []).append(entry)
        self._write()

    def _append(self, key: str, entry: Any) -> None:
        self._lists[key].append(entry)
        self._write()

    def _write(self) -> None:
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            text = json.dumps(_without_nan(self.data), indent=1, ensure_ascii=False)
            scratch = self._path.with_suffix(".part")  # replaces the file atomically
            scratch.write_text(text + "\n", encoding="utf-8")
            scratch.replace(self._path)


def _without_nan(data: Any) -> Any:
    """Replace NaN, which JSON lacks, by null."""
    if isinstance(data, dict):
        return {key: _without_nan(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_without_nan(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data
