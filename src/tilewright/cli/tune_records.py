"""`tilewright tune --list` and `--check`: tunable kernels, and the records of searches."""

from __future__ import annotations

from collections import Counter
from typing import Any

from rich.table import Table
from rich.text import Text

from tilewright.backends.cuda.toolchain import release_here
from tilewright.cli.screen import Screen
from tilewright.kernels.tunables import TUNABLES
from tilewright.tune import Record
from tilewright.tune.engine import stale_reasons
from tilewright.tune.records import records_for, shipped_file

__all__ = ["show_records", "show_tunables"]


def show_tunables(screen: Screen, as_json: bool) -> None:
    """Every tunable kernel of the library, with its shapes and candidates."""
    rows = [
        {
            "kernel": name,
            "keys": len(one.keys),
            "candidates": sum(len(one.space(k)) for k in one.keys),
        }
        for name, one in TUNABLES.items()
    ]
    if as_json:
        screen.answer(rows)
        return
    table = _table("kernel", "keys", "candidates")
    for row in rows:
        table.add_row(*map(str, row.values()))
    screen.out.print(table)


def show_records(screen: Screen, target: str | None, as_json: bool) -> None:
    """Every record, and why it may no longer be the best choice."""
    folder = shipped_file("any").parent
    targets = [target] if target else sorted(file.stem for file in folder.glob("*.json"))
    rows = [row for one in targets for row in _rows(one)]
    if as_json:
        screen.answer(rows)
        return
    if not rows:
        screen.out.print("nothing is tuned yet: `tilewright tune matmul` on a machine with a GPU")
        return
    table = _table("target", "kernel", "key", "time", "configuration", "stale")
    for row in rows:
        reasons = Text("; ".join(row["stale"]) or "no", "hoisted" if row["stale"] else "good")
        time = f"{row['seconds'] * 1e6:,.1f} us"
        table.add_row(row["target"], row["kernel"], row["key"], time, row["config"], reasons)
    screen.out.print(table)
    stale = sum(1 for row in rows if row["stale"])
    told = f"{stale} of them stale: used all the same, and perhaps slow" if stale else "none stale"
    screen.out.print(f"{len(rows)} records, {told}")
    for origin, count in Counter(row["origin"] for row in rows).items():
        screen.out.print(f"{count} by {origin}")


def _rows(target: str) -> list[dict[str, Any]]:
    tileiras = release_here()
    return [_row(target, one, tileiras) for one in records_for(target)]


def _row(target: str, record: Record, tileiras: str | None) -> dict[str, Any]:
    origin = record.provenance
    source: str | None = origin.source  # names the module, which may not exist here
    if "." not in record.kernel:
        tunable = TUNABLES.get(record.kernel)
        source = None if tunable is None else tunable.source(record.key, target)
    return {
        "target": target,
        "kernel": record.kernel,
        "key": str(record.key),
        "seconds": record.seconds,
        "config": record.choice,
        "origin": f"{origin.tool} on {origin.gpu}, {origin.date}",
        "stale": list(stale_reasons(record, source, tileiras)),
    }


def _table(*headings: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in headings:
        table.add_column(heading, header_style="soft", overflow="fold")
    return table
