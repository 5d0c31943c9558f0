"""Ways to launch of which one breaks, or takes too long: it is named, and the others are timed."""

import argparse
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("cuda.bindings")

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
if str(BENCHMARKS) not in sys.path:
    sys.path.append(str(BENCHMARKS))

import lab  # noqa: E402
import timed_ways  # noqa: E402

from tilewright.bench import Report, each  # noqa: E402


@pytest.fixture
def cpu_lab():
    options = argparse.Namespace(device="cpu", quick=True, peers=Path("none"), ways="", without=[])
    return lab.open_lab(options)


def test_one_that_raises_costs_only_itself(cpu_lab):
    def absent():
        raise ImportError("no such library")

    report = Report("launch", "launch")
    ways = {"good": each(lambda: None), "bad": timed_ways.later(absent)}
    found = timed_ways.timed_ways(cpu_lab, report, "rates", ways, count=100)
    assert list(found) == ["good"]
    (entry,) = report.data["figures"]["rates"]
    assert "ImportError: no such library" in entry["failures"]["bad"]


def test_one_that_takes_too_long_is_left_out(cpu_lab, monkeypatch):
    monkeypatch.setattr(timed_ways, "LONGEST", 1e-3)
    report = Report("launch", "launch")
    ways = {"good": each(lambda: None), "slow": each(lambda: time.sleep(1e-3))}
    found = timed_ways.timed_ways(cpu_lab, report, "rates", ways, count=100)
    assert list(found) == ["good"]
    assert "too long to be timed" in report.data["figures"]["rates"][0]["failures"]["slow"]


def test_what_is_made_later_is_made_once(cpu_lab):
    made = []

    def make():
        made.append(True)
        return lambda: None

    way = timed_ways.later(make)
    timed_ways.timed_ways(cpu_lab, Report("launch", "launch"), "rates", {"one": way}, count=100)
    assert made == [True]


def test_ways_that_are_not_wanted_are_not_tried(cpu_lab):
    chosen = argparse.Namespace(
        device="cpu", quick=True, peers=Path("none"), ways="", without=["bad"]
    )
    ways = {"good": each(lambda: None), "bad": each(lambda: pytest.fail("it was left out"))}
    found = timed_ways.timed_ways(
        lab.open_lab(chosen), Report("launch", "launch"), "rates", ways, count=100
    )
    assert list(found) == ["good"]
