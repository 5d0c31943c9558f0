"""Comparisons: turns, the base again, what is wrong is not timed."""

import math
from importlib.metadata import PackageNotFoundError

import pytest

from tilewright.bench import Candidate, Comparison, Effort, Timing, compare, machine_facts
from tilewright.bench import machine as machine_module

QUICK = Effort(repetitions=1, warmup=0.0, shortest=0.0, rounds=2)


def test_candidates_take_turns_and_the_base_runs_again():
    ran: list[str] = []
    found = compare({"a": lambda: ran.append("a"), "b": lambda: ran.append("b")}, effort=QUICK)
    assert ran[-6:] == ["a", "b", "a"] * 2
    assert found.base == "a"
    assert {name: len(rounds) for name, rounds in found.timings.items()} == {"a": 2, "b": 2}
    assert len(found.again) == 2


def test_the_figure_is_the_best_of_the_medians():
    found = Comparison(
        "a",
        {"a": (Timing((2.0,)), Timing((1.0,))), "b": (Timing((0.5, 0.5, 9.0)), Timing((0.7,)))},
        (Timing((1.1,)), Timing((1.3,))),
        {"b": 1e-4},
        {"c": "wrong"},
    )
    assert (found.seconds("a"), found.seconds("b")) == (1.0, 0.5)
    assert found.speed("b") == 2.0
    assert found.speed("a", against="b") == 0.5
    assert found.noise == pytest.approx(0.1)
    assert found.fastest == "b"
    assert "b" in found
    assert "c" not in found
    assert math.isnan(found.speed("c"))
    with pytest.raises(ValueError, match="there was no candidate `d`; there were: a, b, c"):
        found.speed("a", against="d")
    data = found.to_json()
    assert data["candidates"]["b"] == {
        "seconds": 0.5, "speed": 2.0, "medians": [0.5, 0.7], "error": 1e-4,
    }  # fmt: skip
    assert data["failures"] == {"c": "wrong"}


def test_what_is_wrong_or_breaks_is_named_and_not_timed():
    ran = []

    def broken() -> None:
        raise RuntimeError("no such kernel")

    found = compare(
        [
            Candidate("right", lambda: None, lambda: 1e-4, 1e-3),
            Candidate("wrong", lambda: ran.append(1), lambda: 0.5, 1e-3),
            Candidate("nan", lambda: ran.append(1), lambda: math.nan, 1e-3),
            Candidate("broken", broken),
        ],
        effort=QUICK,
    )
    assert list(found.timings) == ["right"]
    assert not ran
    assert found.failures["wrong"] == "wrong: relative error 0.5, and 0.001 is allowed"
    assert found.failures["nan"].startswith("wrong: relative error nan")
    assert found.failures["broken"] == "RuntimeError: no such kernel"
    assert found.errors["right"] == 1e-4


@pytest.mark.parametrize("which", ["a", "b"])
def test_what_breaks_in_the_middle_leaves_the_others(which):
    ran = []

    def tires() -> None:
        ran.append(1)
        if len(ran) > 4:
            raise RuntimeError("out of memory")

    runs = {name: tires if name == which else lambda: None for name in "ab"}
    found = compare(runs, effort=QUICK)
    assert which not in found
    assert found.failures == {which: "RuntimeError: out of memory"}
    assert found.fastest == ("b" if which == "a" else "a")


def test_a_base_that_is_wrong_leaves_the_others():
    found = compare([Candidate("a", lambda: None, lambda: 1.0), Candidate("b", lambda: None)],
                    effort=QUICK)  # fmt: skip
    assert "b" in found
    assert math.isnan(found.noise)
    assert compare([Candidate("a", lambda: None, lambda: 1.0)], effort=QUICK).fastest is None


def test_nothing_to_compare_is_refused():
    with pytest.raises(ValueError, match="no candidate was given"):
        compare([])
    with pytest.raises(ValueError, match="told apart by their names"):
        compare([Candidate("a", lambda: None)] * 2)


def test_the_facts_of_a_machine(monkeypatch):
    facts = machine_facts()
    assert facts["tilewright"]
    assert facts["numpy"]
    assert facts["processor"]
    assert isinstance(facts["gpus"], list)

    def missing(package: str) -> str:
        raise PackageNotFoundError(package)

    monkeypatch.setattr(machine_module, "version", missing)
    assert machine_facts()["torch"] is None


def test_a_comparison_of_many_can_be_one_of_each():
    found = compare({"one": lambda: None, "other": lambda: None}, effort=QUICK)
    each = found.per(4)
    assert each.seconds("other") == pytest.approx(found.seconds("other") / 4)
    assert each.noise == pytest.approx(found.noise)
    assert each.timings["one"][0].batch == 4 * found.timings["one"][0].batch
