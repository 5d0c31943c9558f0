"""The host's own cost, graphs of repetitions, reports, tables."""

import gc
import json
import math

import numpy as np
import pytest

import tilewright as tw
from tilewright.bench import (
    Bound,
    BrokenWay,
    Plot,
    Report,
    Series,
    Table,
    Target,
    Timing,
    do_bench,
    each,
    graph_of,
    host_costs,
)


def test_ways_take_turns_and_prepare_before_the_timer():
    log: list[str] = []

    def prepared(count: int):
        log.append(f"prepare {count}")
        return lambda: log.append("run")

    found = host_costs({"each": each(lambda: log.append("step")), "once": prepared},
                       count=2, turns=1)  # fmt: skip
    assert log == ["step", "step", "prepare 2", "run"] * 2, "the first turn is not counted"
    assert len(found["each"].queued.seconds) == len(found["once"].done.seconds) == 1
    assert found["each"].done.least >= found["each"].queued.least
    assert found["each"].to_json()["queued"]["batch"] == 2
    with pytest.raises(ValueError, match="at least one step"):
        host_costs({}, count=0)


def test_what_a_way_has_dropped_goes_back_before_the_next_timer():
    device = tw.Device("cpu")
    left: list[int] = []

    def dropping(count: int):
        empty = (tw.empty((4,), tw.f32, device=device) for _ in range(count))
        made = [tw.fill(tensor, 0).sync() for tensor in empty]
        return made.clear

    def counted(count: int):
        return lambda: left.append(len(device.deferred))

    host_costs({"dropping": dropping, "next": counted}, count=3, turns=1, stream=device.stream)
    assert left == [0, 0]


def test_what_is_kept_from_collections_is_as_before():
    """Timing keeps what there is out of collections, and gives back only what it has taken."""
    gc.freeze()
    host_costs({"nothing": each(lambda: None)}, count=1, turns=1)
    assert gc.get_freeze_count() > 0
    gc.unfreeze()
    host_costs({"nothing": each(lambda: None)}, count=1, turns=1)
    assert gc.get_freeze_count() == 0
    gc.freeze()  # what the run of all tests had set aside


def test_a_way_that_breaks_is_named():
    def broken() -> None:
        raise RuntimeError("no such launch")

    with pytest.raises(BrokenWay, match="b could not be timed: RuntimeError: no such") as caught:
        host_costs({"a": each(lambda: None), "b": each(broken)}, count=1, turns=1)
    assert caught.value.name == "b"


def test_a_graph_of_repetitions():
    x = tw.from_numpy(np.arange(4.0))
    first, second = tw.zeros((4,), tw.f64), tw.zeros((4,), tw.f64)
    graph = graph_of([lambda: tw.copy(first, x), lambda: tw.copy(second, first)], 3)
    graph.launch().sync()
    assert second.numpy().tolist() == [0.0, 1.0, 2.0, 3.0]
    timing = do_bench(graph.launch)
    assert timing.per(3).median == pytest.approx(timing.median / 3)
    with pytest.raises(ValueError, match="at least one repetition"):
        graph_of(lambda: tw.copy(first, x), 0)


def test_tables_are_text_and_markdown():
    table = Table("Speed", ("kernel", "TB/s"))
    table.add("add", "4.26")
    table.add("a longer name", "10.5")
    assert table.to_text().splitlines() == [
        "Speed",
        "kernel         TB/s",
        "add            4.26",
        "a longer name  10.5",
    ]
    assert table.to_markdown().splitlines()[1:3] == ["| --- | ---: |", "| add | 4.26 |"]
    words = Table("t", ("a", "b", "c"), [("x", "a race", "**4**"), ("y", "", "(5)")])
    assert words.to_markdown().splitlines()[1] == "| --- | --- | ---: |"
    with pytest.raises(ValueError, match="3 cells for 2 columns"):
        table.add("add", "1", "2")


@pytest.mark.parametrize(
    ("bound", "measured", "is_met"),
    [
        (Bound.AT_LEAST, 1.0, True),
        (Bound.AT_LEAST, 0.99, False),
        (Bound.AT_MOST, 1.0, True),
        (Bound.AT_MOST, 1.01, False),
        (Bound.AT_MOST, math.nan, False),
    ],
)
def test_targets(bound, measured, is_met):
    assert Target("speed", bound, 1.0, measured).is_met is is_met


def test_a_report_is_written_after_each_part(tmp_path):
    path = tmp_path / "deep" / "report.json"
    report = Report("add", "Additions", path)
    report.figure("add", seconds=1.0, missing=math.nan)
    assert json.loads(path.read_text())["figures"]["add"] == [{"seconds": 1.0, "missing": None}]
    report.note("measured")
    table = Table("t", ("a", "b"))
    report.table(table)
    table.add("1", "2")
    plot = Plot("p", "Plot", "x", "y", [Series("s", [(1, 2.0)])])
    report.plot(plot)
    report.target(Target("speed", Bound.AT_LEAST, 1.0, 2.0, "x"))
    data = json.loads(path.read_text())
    assert data["machine"]["numpy"]
    assert data["tables"][0]["rows"] == [["1", "2"]], "rows that came later are there, too"
    assert data["targets"][0]["is_met"] is True
    again = Plot.from_json(data["plots"][0])
    assert [tuple(point) for point in again.series[0].points] == [(1, 2.0)]
    assert again.title == "Plot"
    assert Report("x", "no file").data["tables"] == []
    assert Timing((2.0,)).per(2).seconds == (1.0,)
