"""The page of all results, docs/benchmarks.md, its plots, and the figures that README.md quotes.

    python benchmarks/report.py [--check]

Everything comes from the reports under `results`, except the reasons for missed targets, in
`reasons.toml`. `--check` writes nothing and ends with 1 if the page differs from the reports. Plots
need `tilewright[bench]`.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import launch_graphs
import launch_rates
from report_readme import readme_with

from tilewright.bench import Plot, Table, draw

__all__ = ["main", "page", "read_reports", "reason_for", "written"]

HERE = Path(__file__).parent
ROOT = HERE.parent
RESULTS = HERE / "results"
REASONS = HERE / "reasons.toml"
PAGE = ROOT / "docs" / "benchmarks.md"
README = ROOT / "README.md"
PROFILES = "profiles"
# In this order; other reports follow by name, and profiles come last.
ORDER = (
    "products", "matmul", "attention", "elementwise", "memory_bound", "launch", "calls",
    "host_path", "modes", "overlap", "distribution", "jit", "race", "checks",
)  # fmt: skip
HEAD = """\
# Benchmarks

Made by `benchmarks/report.py` from the reports under `benchmarks/results`: do not edit this page.
Candidates take turns in one process, on random data and after a check of their results; the figure
of each is the best of several medians, and the noise is the distance of two figures of the same
candidate. Figures of the paper ("Fearless Concurrency on the GPU", arXiv 2606.15991) are from other
GPUs. The scripts and their requirements: [benchmarks](../benchmarks/README.md).
"""
VERSIONS = ("tilewright", "tileiras", "python", "torch", "triton", "cuda-tile", "cuda-bindings")

# The path of `host_path.py` for a target of `launch.py`.
HOST_PATHS = {
    launch_rates.target_name(launch_rates.OURS): "prepared",
    launch_rates.target_name(launch_rates.NEW_HANDLES): "planned",
    launch_rates.target_name(launch_rates.CHAIN): "zipped",
    launch_rates.target_name(launch_rates.TORCH_ARGUMENTS): "torch_tensors",
    launch_rates.BESIDE_CUTILE: "prepared",
    launch_graphs.target_name(3): "graph_few",
    launch_graphs.target_name(3 * launch_graphs.NODES): "graph_many",
}

PLACES = {"null": "with a driver that does nothing", "cuda": "on the GPU"}

Reports = Mapping[str, Mapping[str, Any]]


def read_reports(folder: Path = RESULTS) -> dict[str, dict[str, Any]]:
    """Every report under a folder, by name; other files are skipped."""
    found = {}
    for path in sorted(folder.rglob("*.json")):
        data = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(data, dict) and {"tables", "targets", "machine"} <= data.keys():
            found[data["name"]] = {**data, "folder": path.parent}
    known = [name for name in ORDER if name in found]
    others = sorted(found.keys() - {*known, PROFILES})
    last = [PROFILES] if PROFILES in found else []
    return {name: found[name] for name in (*known, *others, *last)}


def page(reports: Reports, reasons: Mapping[str, str]) -> str:
    """The whole page."""
    parts = [HEAD, *_targets(reports), *_missed(reports, reasons), *_machines(reports)]
    for report in reports.values():
        parts += _section(report)
    return "\n".join(parts).rstrip() + "\n"


def _machines(reports: Reports) -> Iterator[str]:
    """One row for each report; dates may differ."""
    table = Table("", ("experiment", "date", "GPU", "driver", *VERSIONS))
    for report in reports.values():
        facts = report["machine"]
        gpus = facts["gpus"] or [{"name": facts["processor"], "driver": ""}]
        versions = (str(facts.get(name) or "") for name in VERSIONS)
        date = facts["date"].partition("T")[0]
        table.add(report["title"], date, gpus[0]["name"], gpus[0]["driver"], *versions)
    yield "## Machine and versions\n"
    yield table.to_markdown() + "\n"


# --- targets --------------------------------------------------------------------------------------


def _targets(reports: Reports) -> Iterator[str]:
    targets = [target for report in reports.values() for target in report["targets"]]
    if not targets:
        return
    met = sum(target["is_met"] for target in targets)
    yield f"## Targets: {met} of {len(targets)} met\n"
    table = Table("", ("figure", "target", "measured", "met"))
    for target in targets:
        wanted = f"{target['bound']} {_number(target['wanted'])} {target['unit']}".strip()
        measured = f"{_number(target['measured'])} {target['unit']}".strip()
        table.add(target["what"], wanted, measured, "yes" if target["is_met"] else "**no**")
    yield table.to_markdown() + "\n"


def _missed(reports: Reports, reasons: Mapping[str, str]) -> Iterator[str]:
    """Missed targets by reason, with the profiles of their kernels."""
    missed = [
        target
        for report in reports.values()
        for target in report["targets"]
        if not target["is_met"]
    ]
    if not missed:
        return
    grouped: dict[str, list[Mapping[str, Any]]] = {}
    for target in missed:
        grouped.setdefault(reason_for(target["what"], reasons), []).append(target)
    yield "### Missed targets, and the reasons\n"
    for reason, targets in grouped.items():
        yield f"- {reason}"
        for target in targets:
            what = target["what"]
            yield f"    - **{what}**: {_number(target['measured'])} {target['unit']}".rstrip()
            lines = (*_profile(reports, what), *_host_path(reports, what))
            yield from (f"        - {line}" for line in lines)
    yield ""


def reason_for(what: str, reasons: Mapping[str, str]) -> str:
    """The reason of a target, by its name or by a matching pattern."""
    found = (reason for words, reason in reasons.items() if fnmatch.fnmatchcase(what, words))
    return " ".join(reasons.get(what, next(found, "not yet explained")).split())


def _profile(reports: Reports, what: str) -> Iterator[str]:
    """The kernels of a target; those that differ only in their problem share a line."""
    entries = reports.get(PROFILES, {}).get("figures", {}).get(PROFILES, ())
    lines: dict[str, list[str]] = {}
    for entry in entries:
        if entry["target"] == what:
            facts = (
                f"{entry['registers']} registers, {entry['stack_bytes']} bytes of stack,"
                f" {entry['shared_memory']} bytes of shared memory; {entry['summary']}"
            )
            lines.setdefault(f"`{entry['kernel']}`: {facts}", []).append(entry["problem"])
    for line, problems in lines.items():
        yield f"{line} ({', '.join(problems)})"


def _host_path(reports: Reports, what: str) -> Iterator[str]:
    """The share of the host in a launch, from the driver that does nothing."""
    report = reports.get("host_path", {})
    for entry in report.get("figures", {}).get("host_path", ()):
        if entry["name"] == HOST_PATHS.get(what) and entry["device"] in PLACES:
            place, processor = PLACES[entry["device"]], report["machine"]["processor"]
            yield f"host time {place}: {entry['microseconds']:.2f} us ({processor})"


def _number(number: float | None) -> str:
    return "not measured" if number is None else f"{number:.4g}"


# --- experiments ----------------------------------------------------------------------------------


def _section(report: Mapping[str, Any]) -> Iterator[str]:
    yield f"## {report['title']}\n"
    for note in report["notes"]:
        yield f"{note}\n"
    for table in report["tables"]:
        yield f"**{table['title']}**\n"
        yield Table(**table).to_markdown() + "\n"
    if failures := dict(_failures(report)):
        yield "Not timed:\n"
        yield from (f"- {name}: {reason}" for name, reason in failures.items())
        yield ""
    for plot in report["plots"]:
        folder = report["folder"].relative_to(ROOT)
        yield f"![{plot['title']}](../{folder}/{plot['name']}.svg)\n"


def _failures(report: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Failed candidates, each with the first line of its reason."""
    for entries in report["figures"].values():
        for entry in entries:
            for name, reason in entry.get("failures", {}).items():
                yield name, reason.strip().partition("\n")[0]


# --- files ----------------------------------------------------------------------------------------


def written() -> Iterator[tuple[Path, str]]:
    """The files to write, with their texts."""
    reports = read_reports()
    reasons = tomllib.loads(REASONS.read_text(encoding="utf-8"))
    yield PAGE, page(reports, reasons)
    yield README, readme_with(README.read_text(encoding="utf-8"), reports)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only compare the files")
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
        sys.exit(f"differs from the reports: {', '.join(stale)}; run benchmarks/report.py")


if __name__ == "__main__":
    main()
