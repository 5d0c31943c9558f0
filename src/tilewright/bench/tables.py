"""Tables and plots as data, and tables as text: for a terminal and for a page in Markdown.

Cells are formatted text: only the measurement knows its significant digits. `plots` draws plots;
the command line renders these tables with rich.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["Plot", "Series", "Table"]


@dataclass
class Table:
    """Rows under a title; the first column names them, the others hold figures."""

    title: str
    columns: Sequence[str]
    rows: list[Sequence[str]] = field(default_factory=list)

    def add(self, *cells: str) -> None:
        """Add a row."""
        if len(cells) != len(self.columns):
            raise ValueError(f"{self.title}: {len(cells)} cells for {len(self.columns)} columns")
        self.rows.append(cells)

    def to_text(self) -> str:
        """Return text with aligned columns, for a terminal."""
        lines = [self.columns, *self.rows]
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.columns))]
        shown = [self.title]
        for line in lines:
            cells = [line[0].ljust(widths[0])]
            cells += [cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)]
            shown.append("  ".join(cells).rstrip())
        return "\n".join(shown)

    def to_markdown(self) -> str:
        """Return a Markdown table, without the title."""
        marks = ["---", *map(self._mark, range(1, len(self.columns)))]
        lines = [self.columns, marks, *self.rows]
        return "\n".join("| " + " | ".join(line) + " |" for line in lines)

    def _mark(self, column: int) -> str:
        """Return the alignment of a column: figures to the right, words to the left."""
        cells = (row[column].lstrip("+-*(") for row in self.rows)
        return "---:" if all(not cell or cell[0].isdigit() for cell in cells) else "---"

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)


@dataclass(frozen=True)
class Series:
    """One line of a plot: (x, y) pairs."""

    name: str
    points: Sequence[tuple[float, float]]
    is_dashed: bool = False


@dataclass(frozen=True)
class Plot:
    """Lines over numbers."""

    name: str  # base name of its files
    title: str
    x: str
    y: str
    series: Sequence[Series]
    log_x: bool = True
    log_y: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Plot:
        """Return the plot that `to_json` wrote."""
        series = [Series(**one) for one in data["series"]]
        return Plot(**{**data, "series": series})
