"""The page of all results, docs/benchmarks.md, its plots, and the figures that README.md quotes.

    python benchmarks/report.py [--check]

Everything comes from the reports under `results`: nothing on the page is written by hand but the
reasons in `reasons.toml`, for figures that miss their target. `--check` writes nothing and ends
with 1 where the page is not what the reports say. Plots need `tilewright[bench]`.
"""

from __future__ import annotations

import argparse
import json
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tilewright.bench import Plot, Table, draw

__all__ = ["main", "page", "read_reports", "readme_with", "written"]

HERE = Path(__file__).parent
ROOT = HERE.parent
RESULTS = HERE / "results"
REASONS = HERE / "reasons.toml"
PAGE = ROOT / "docs" / "benchmarks.md"
README = ROOT / "README.md"
BEGIN, END = "<!-- figures: benchmarks/report.py -->", "<!-- end of figures -->"
# In this order; whatever else there is comes behind them by name.
ORDER = (
    "elementwise", "products", "launch", "modes", "overlap", "distribution", "jit", "race",
    "checks",
)  # fmt: skip
HEAD = """\
# Benchmarks

Made by `benchmarks/report.py` from the reports under `benchmarks/results`: do not edit it.
Candidates take turns in one process, on random data and after their results have been checked; the
figure of each is the best of several medians, and the noise is how far two figures of the same
thing lie apart. How to repeat it: [benchmarks](../benchmarks/README.md).
"""
VERSIONS = ("tilewright", "tileiras", "python", "torch", "triton", "cuda-tile", "cuda-bindings")

Reports = Mapping[str, Mapping[str, Any]]


def read_reports(folder: Path = RESULTS) -> dict[str, dict[str, Any]]:
    """Every report under a folder, by name; other files of figures are passed over."""
    found = {}
    for path in sorted(folder.rglob("*.json")):
        data = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(data, dict) and {"tables", "targets", "machine"} <= data.keys():
            found[data["name"]] = {**data, "folder": path.parent}
    known = [name for name in ORDER if name in found]
    return {name: found[name] for name in (*known, *sorted(found.keys() - set(known)))}


def page(reports: Reports, reasons: Mapping[str, str]) -> str:
    """The whole page."""
    parts = [HEAD, *_machines(reports), *_targets(reports, reasons)]
    for report in reports.values():
        parts += _section(report)
    return "\n".join(parts).rstrip() + "\n"


def _machines(reports: Reports) -> Iterator[str]:
    """One row for each report: they need not come from one day."""
    table = Table("", ("experiment", "date", "GPU", "driver", *VERSIONS))
    for report in reports.values():
        facts = report["machine"]
        gpus = facts["gpus"] or [{"name": facts["processor"], "driver": ""}]
        versions = (str(facts.get(name) or "") for name in VERSIONS)
        date = facts["date"].partition("T")[0]
        table.add(report["title"], date, gpus[0]["name"], gpus[0]["driver"], *versions)
    yield "## Machine and versions\n"
    yield table.to_markdown() + "\n"


def _targets(reports: Reports, reasons: Mapping[str, str]) -> Iterator[str]:
    targets = [target for report in reports.values() for target in report["targets"]]
    if not targets:
        return
    table = Table("", ("figure", "target", "measured", "met"))
    for target in targets:
        wanted = f"{target['bound']} {_number(target['wanted'])} {target['unit']}".strip()
        measured = f"{_number(target['measured'])} {target['unit']}".strip()
        table.add(target["what"], wanted, measured, "yes" if target["is_met"] else "**no**")
    yield "## Targets\n"
    yield table.to_markdown() + "\n"
    missed = [target["what"] for target in targets if not target["is_met"]]
    if missed:
        yield "What misses its target, and why:\n"
        for what in missed:
            yield f"- {what}: {reasons.get(what, 'not yet explained')}"
        yield ""


def _number(number: float | None) -> str:
    return "not measured" if number is None else f"{number:.4g}"


def _section(report: Mapping[str, Any]) -> Iterator[str]:
    yield f"## {report['title']}\n"
    for note in report["notes"]:
        yield f"{note}\n"
    for table in report["tables"]:
        yield f"**{table['title']}**\n"
        yield Table(**table).to_markdown() + "\n"
    for plot in report["plots"]:
        folder = report["folder"].relative_to(ROOT)
        yield f"![{plot['title']}](../{folder}/{plot['name']}.svg)\n"


# --- what README.md quotes ------------------------------------------------------------------------


def readme_with(text: str, reports: Reports) -> str:
    """README.md with its figures as the reports have them; as it is while products are missing."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end or "products" not in reports:
        return text
    quoted = "\n".join(_quoted(reports))
    return f"{before}{BEGIN}\n{quoted}\n{END}{after}"


def _quoted(reports: Reports) -> Iterator[str]:
    columns: tuple[str, ...]
    columns = ("M = N = K", "cuBLAS", "library", "unchecked", "cuTile Python", "Triton")
    yield "f16 matrix products with sums in f32, TFLOP/s:\n"
    yield _chosen(reports["products"]["tables"][0], (*columns, "library / cuBLAS")) + "\n"
    if "elementwise" in reports:
        columns = ("elements", "torch", "safe", "unchecked", "cuTile Python", "Triton")
        yield "`z = x + y` in f16, GB/s:\n"
        yield _chosen(reports["elementwise"]["tables"][0], columns) + "\n"
    if "launch" in reports:
        yield "A launch from Python, microseconds:\n"
        columns = ("way", "until queued", "until done")
        yield _chosen(reports["launch"]["tables"][0], columns) + "\n"


def _chosen(table: Mapping[str, Any], columns: Sequence[str]) -> str:
    places = [table["columns"].index(column) for column in columns]
    rows = [[row[place] for place in places] for row in table["rows"]]
    return Table("", columns, rows).to_markdown()


def written() -> Iterator[tuple[Path, str]]:
    """What is written where."""
    reports = read_reports()
    reasons = tomllib.loads(REASONS.read_text(encoding="utf-8"))
    yield PAGE, page(reports, reasons)
    yield README, readme_with(README.read_text(encoding="utf-8"), reports)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only say whether all is up to date")
    options = parser.parse_args()
    stale = []
    if not options.check:
        for report in read_reports().values():
            for plot in report["plots"]:
                draw(Plot.from_json(plot), report["folder"])
    for path, text in written():
        is_new = not path.exists() or path.read_text(encoding="utf-8") != text
        stale += [str(path)] if is_new else []
        if is_new and not options.check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path}")
    if stale and options.check:
        sys.exit(f"not what the reports say: {', '.join(stale)}; run benchmarks/report.py")


if __name__ == "__main__":
    main()
