"""Plots as PNG and SVG, drawn by matplotlib from the extra `bench`.

A GPU host does not need matplotlib: plots are data in a report, and can be drawn elsewhere.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from tilewright.bench.tables import Plot
from tilewright.errors import TilewrightError

__all__ = ["draw"]

_FORMATS = ("png", "svg")
_SIZE, _WIDE = (7.2, 4.2), (9.4, 4.2)  # inches
_MARKERS = "osD^vPX*"
_FEW = 4  # lines whose names have room beside them
# A palette distinguishable for all kinds of colour vision (Okabe and Ito).
_COLOURS = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999",
)  # fmt: skip
# Without a date and with fixed ids, so that equal plots give equal files.
_STYLE = {
    "svg.hashsalt": "tilewright",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "legend.frameon": False,
}


def draw(plot: Plot, folder: Path) -> tuple[Path, ...]:
    """Draw a plot into a folder, in each format, under its own name."""
    matplotlib = _matplotlib("matplotlib")
    figures = _matplotlib("matplotlib.figure")
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    with matplotlib.rc_context(_STYLE):
        size = _SIZE if len(plot.series) <= _FEW else _WIDE
        figure = figures.Figure(figsize=size, layout="constrained")
        _fill(figure.add_subplot(), plot)
        for form in _FORMATS:
            path = folder / f"{plot.name}.{form}"
            figure.savefig(path, dpi=112, metadata={"Date": None} if form == "svg" else None)
            written.append(path)
    return tuple(written)


def _fill(axes: Any, plot: Plot) -> None:
    for number, series in enumerate(plot.series):
        columns: Any = tuple(zip(*series.points, strict=True)) or ((), ())
        axes.plot(
            *columns,
            label=series.name,
            color=_COLOURS[number % len(_COLOURS)],
            marker=None if series.is_dashed else _MARKERS[number % len(_MARKERS)],
            linestyle="--" if series.is_dashed else "-",
            markersize=5,
        )
    axes.set(title=plot.title, xlabel=plot.x, ylabel=plot.y)
    if plot.log_x:
        axes.set_xscale("log", base=2)
        ticks = sorted({x for series in plot.series for x, _ in series.points})
        axes.set_xticks(ticks, [_short(tick) for tick in ticks], minor=False)
        axes.set_xticks([], minor=True)
    if plot.log_y:
        ticker = _matplotlib("matplotlib.ticker")
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(ticker.StrMethodFormatter("{x:g}"))
        axes.yaxis.set_minor_formatter(ticker.NullFormatter())
    else:
        axes.set_ylim(bottom=0)
    if len(plot.series) > _FEW:
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1), fontsize="small")
    else:
        axes.legend()


def _short(number: float) -> str:
    """Format powers of two from a million on as powers, other numbers as they are."""
    whole = int(number)
    if whole >= 1 << 20 and whole & (whole - 1) == 0:
        return f"$2^{{{whole.bit_length() - 1}}}$"
    return f"{number:g}"


def _matplotlib(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise TilewrightError(
            f"plots are drawn by matplotlib, which is not installed ({error}):"
            " pip install 'tilewright[bench]'"
        ) from error
