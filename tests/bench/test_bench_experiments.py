"""The scripts under benchmarks: every experiment runs on the CPU and leaves a whole report."""

import argparse
import functools
import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("cuda.bindings")

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
if str(BENCHMARKS) not in sys.path:
    sys.path.append(str(BENCHMARKS))

import attention  # noqa: E402
import calls  # noqa: E402
import lab  # noqa: E402
import launch_graphs  # noqa: E402
import launch_rates  # noqa: E402
import report as report_page  # noqa: E402
from paper import checks, distribution, elementwise, modes, overlap, products, race  # noqa: E402

from tilewright.bench import Report  # noqa: E402


@pytest.fixture(scope="module")
def cpu_lab():
    options = argparse.Namespace(device="cpu", quick=True, peers=Path("none"), ways="", without=[])
    return lab.open_lab(options)


# Outputs that torch takes and makes, two of them, numbers that differ by nature, an own kernel.
CALLED = ("add", "rms_norm", "top_k", "dropout", calls.LAUNCH)
RUNS = {
    "rates": (launch_rates.measure_rates, {"rates"}),
    "calls": (functools.partial(calls.measure_calls, only=CALLED), {"calls"}),
    "graphs": (launch_graphs.measure_graphs, {"graphs"}),
    "modes": (modes.run, {"modes"}),
    "overlap": (overlap.run, {"overlap"}),
    "distribution": (distribution.run, {"distribution", "thinking"}),
    "elementwise": (elementwise.run, {"add"}),
    "products": (products.run, {"products", "launched"}),
    "checks": (checks.run, {"checks"}),
    "race": (race.run, set()),
    "decode": (attention.decode, {"decode"}),
}


@pytest.mark.parametrize("name", RUNS)
def test_an_experiment_runs_on_the_cpu(name, cpu_lab, tmp_path, monkeypatch):
    run, parts = RUNS[name]
    monkeypatch.setattr(launch_graphs, "NODES", 10)
    monkeypatch.setattr(launch_graphs, "PAIRS", 2)
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
