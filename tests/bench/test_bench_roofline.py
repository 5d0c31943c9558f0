"""Ceilings of a device, and plots."""

import math
import sys
from types import SimpleNamespace

import pytest

from tilewright import LaunchError, TilewrightError
from tilewright.bench import Ceilings, Effort, Plot, Series, Work, draw, measure_ceilings
from tilewright.bench import roofline as module


def test_the_longer_of_moving_and_computing_bounds():
    ceilings = Ceilings(bandwidth=100.0, matrix_rate=1000.0, matrix_dtype="f16")
    moving, computing = Work(200.0), Work(100.0, 5000.0)
    assert ceilings.seconds(moving) == 2.0
    assert ceilings.seconds(computing) == 5.0
    assert ceilings.is_memory_bound(moving)
    assert not ceilings.is_memory_bound(computing)
    assert ceilings.fraction(computing, 10.0) == 0.5
    assert computing.intensity == 50.0
    assert Work(0.0, 1.0).intensity == math.inf


def test_ceilings_are_measured_here():
    found = measure_ceilings(effort=Effort(repetitions=1, warmup=0.0, shortest=0.0, rounds=1))
    assert found.bandwidth > 0
    assert found.matrix_rate > 0
    assert found.to_json()["matrix_dtype"] == "f32"


def test_where_no_product_can_be_timed_the_reasons_are_told(monkeypatch):
    def refuse(*_, **__):
        raise LaunchError("no such device")

    monkeypatch.setattr(module, "_multiply", SimpleNamespace(with_hints=lambda **_: refuse))
    with pytest.raises(TilewrightError) as refusal:
        measure_ceilings(effort=Effort(repetitions=1, warmup=0.0, shortest=0.0, rounds=1))
    assert str(refusal.value).splitlines() == [
        "no matrix product could be timed on cpu:",
        "  square: TypeError: 'types.SimpleNamespace' object is not callable",
        "  wide: tilewright.errors.LaunchError: no such device",
    ]


def test_plots_are_drawn_and_the_same_twice(tmp_path):
    pytest.importorskip("matplotlib")
    plot = Plot("speed", "Speed", "elements", "TB/s", [
        Series("ours", [(1 << 20, 1.0), (1 << 24, 4.0)]),
        Series("copy", [(1 << 20, 4.1), (1 << 24, 4.1)], is_dashed=True),
    ])  # fmt: skip
    first = draw(plot, tmp_path / "a")
    second = draw(plot, tmp_path / "b")
    assert [path.name for path in first] == ["speed.png", "speed.svg"]
    assert first[1].read_bytes() == second[1].read_bytes()
    assert first[0].stat().st_size > 1000
    linear = Plot("modes", "Modes", "N", "us", [Series("none", [])], log_x=False, log_y=True)
    assert len(draw(linear, tmp_path)) == 2


def test_a_missing_matplotlib_is_asked_for(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(TilewrightError, match=r"pip install 'tilewright\[bench\]'"):
        draw(Plot("p", "t", "x", "y", []), tmp_path)
