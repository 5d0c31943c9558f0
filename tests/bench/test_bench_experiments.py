"""The scripts under benchmarks: every experiment runs on the CPU, and the page shows its report."""

import argparse
import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("cuda.bindings")

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
if str(BENCHMARKS) not in sys.path:
    sys.path.append(str(BENCHMARKS))

import attention  # noqa: E402
import lab  # noqa: E402
import launch_graphs  # noqa: E402
import launch_rates  # noqa: E402
import report as report_page  # noqa: E402
from paper import checks, distribution, elementwise, modes, overlap, products, race  # noqa: E402

from tilewright.bench import Bound, Plot, Report, Series, Table, Target  # noqa: E402


@pytest.fixture(scope="module")
def cpu_lab():
    options = argparse.Namespace(device="cpu", quick=True, peers=Path("none"), ways="", without=[])
    return lab.open_lab(options)


RUNS = {
    "rates": (launch_rates.measure_rates, {"rates"}),
    "graphs": (launch_graphs.measure_graphs, {"graphs"}),
    "modes": (modes.run, {"modes"}),
    "overlap": (overlap.run, {"overlap"}),
    "distribution": (distribution.run, {"distribution", "thinking"}),
    "elementwise": (elementwise.run, {"add"}),
    "products": (products.run, {"products"}),
    "checks": (checks.run, {"checks"}),
    "race": (race.run, set()),
    "decode": (attention.decode, {"decode"}),
}


@pytest.mark.parametrize("name", RUNS)
def test_an_experiment_runs_on_the_cpu(name, cpu_lab, tmp_path):
    run, parts = RUNS[name]
    report = Report(name, name, tmp_path / "report.json")
    run(cpu_lab, report)
    data = json.loads((tmp_path / "report.json").read_text())
    assert data["tables"]
    assert set(data["figures"]) == parts
    assert not any(entry.get("failures") for entries in data["figures"].values()
                   for entry in entries)  # fmt: skip
    assert report_page.read_reports(tmp_path)[name]["title"] == name


def test_both_faults_of_the_race_are_named(cpu_lab):
    report = Report("race", "race")
    race.run(cpu_lab, report)
    answers = [row[1] for row in report.data["tables"][0]["rows"]]
    assert "two blocks could write the same elements: a race" in answers[0]
    assert "the index `dst.index[1]` goes from 0 to 7, but the axis has 4 tiles" in answers[1]
    assert "block (0, 0, 0) writes one element" in answers[2]
    assert "block (8, 0, 0) writes it too" in answers[2]


def _report(folder: Path) -> dict:
    made = Report("products", "Products", folder / "products.json")
    made.note("How it was measured.")
    columns = ("M = N = K", "cuBLAS", "library", "unchecked", "cuTile Python", "Triton",
               "library / cuBLAS")  # fmt: skip
    made.table(Table("TFLOP/s", columns, [("8192", "750", "765", "764", "761", "640", "1.02")]))
    made.plot(Plot("products", "Products", "size", "TFLOP/s", [Series("safe", [(8192, 765.0)])]))
    made.target(Target("of cuBLAS", Bound.AT_LEAST, 1.02, 1.02))
    made.target(Target("of the twin", Bound.AT_LEAST, 0.997, 0.9))
    return report_page.read_reports(folder)


def test_the_page_shows_targets_tables_and_reasons(tmp_path, monkeypatch):
    monkeypatch.setattr(report_page, "ROOT", tmp_path)
    page = report_page.page(_report(tmp_path), {"of the twin": "it spills"})
    assert "| of cuBLAS | at least 1.02 | 1.02 | yes |" in page
    assert "| of the twin | at least 0.997 | 0.9 | **no** |" in page
    assert "- of the twin: it spills" in page
    assert "How it was measured." in page
    assert "![Products](../" in page
    assert "not yet explained" in report_page.page(_report(tmp_path), {})


def test_the_readme_quotes_the_reports(tmp_path):
    text = f"before\n{report_page.BEGIN}\nold\n{report_page.END}\nafter\n"
    new = report_page.readme_with(text, _report(tmp_path))
    assert "| 8192 | 750 | 765 | 764 | 761 | 640 | 1.02 |" in new
    assert "old" not in new
    assert new.startswith("before\n")
    assert new.endswith("\nafter\n")
    assert report_page.readme_with(text, {}) == text
    assert report_page.readme_with("no marks", _report(tmp_path)) == "no marks"


def test_the_committed_page_is_what_the_reports_say():
    """Whoever changes a report or the script runs `python benchmarks/report.py`."""
    for path, text in report_page.written():
        assert path.read_text(encoding="utf-8") == text, f"{path} is out of date"


def test_reasons_stand_under_the_words_of_their_targets():
    """A target that is put in other words would lose its reason."""
    reasons = report_page.tomllib.loads(report_page.REASONS.read_text(encoding="utf-8"))
    launches = {f"a launch, {name}: above the driver's own call" for name in launch_rates.ALLOWED}
    replays = {launch_graphs.target_name(count) for count in (3, 3 * launch_graphs.NODES)}
    assert launches | replays <= reasons.keys()
