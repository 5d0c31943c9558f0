"""`tilewright demo`: the whole tour, and that a wrong result or a missed refusal ends in 1."""

import json
from types import SimpleNamespace

import pytest

import tilewright as tw
from tilewright.cli import demo
from tilewright.cli.tour import Chapter, ComparedResult, Refused, Runs


@pytest.fixture
def tour(monkeypatch):
    """Replace the tour."""

    def replace(*steps) -> None:
        chapters = (Chapter("A chapter", "About something.", steps),)
        monkeypatch.setattr(demo, "TOUR", chapters)

    return replace


def test_the_tour_for_people(run):
    result = run("demo", "--device", "cpu")
    assert (result.exit_code, result.stderr) == (0, "")
    text = " ".join(result.stdout.split())  # however the lines were broken
    for kernel in ("add", "saxpy", "softmax", "gemm", "gemm_persistent", "permute_heads"):
        assert f"✓ {kernel} " in text
    assert "BorrowError: z is written by this launch and also read by it as x" in text
    assert "cli/tour.py:" in text
    assert "holds z for writing and has not been run" in text
    assert "error[ownership]: a store to `z` takes no index" in text
    assert "turn it round" in text
    assert "index 9 is outside axis 0" in text
    assert "block (2, 0)" in text
    assert "`k` counts the tiles of x along axis 1" in text
    assert "none left in the kernel" in text
    assert "✗" not in text
    assert "\x1b" not in text
    assert "7 kernels were right and 4 mistakes were refused" in text


def test_the_tour_for_machines(run):
    result = run("demo", "--device", "cpu", "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    found = json.loads(result.stdout)
    assert found["ok"] is True
    assert found["device"] == "cpu"
    assert len(found["computed"]) == 7
    assert all(one["ok"] and one["error"] <= one["allowed"] for one in found["computed"])
    assert [one["exception"] for one in found["refused"]] == [
        "BorrowError", "BorrowError", "CompileError", "OutOfBoundsError",
    ]  # fmt: skip
    assert [entry["outcome"] for entry in found["ledger"]].count("proved") >= 2
    assert found["seconds"] < 20


def test_a_wrong_result_ends_in_1(run, tour):
    tour(Runs("off", lambda: ComparedResult("off", "far off", 0.5, 1e-3)))
    result = run("demo", "--device", "cpu")
    assert result.exit_code == 1
    assert "✗ off" in result.stdout
    assert "off by 5.0e-01, 1e-03 is allowed" in result.stdout
    assert "1 of 1 steps went wrong" in result.stdout


def test_a_missed_refusal_ends_in_1(run, tour):
    tour(Refused("nothing", _nothing, tw.BorrowError), Refused("other", _other, tw.BorrowError))
    result = run("demo", "--device", "cpu")
    assert result.exit_code == 1
    assert "nothing was raised" in result.stdout
    assert "LaunchError: not what was meant" in result.stdout
    found = json.loads(run("demo", "--device", "cpu", "--json").stdout)
    assert [one["ok"] for one in found["refused"]] == [False, False]


def _nothing() -> None:
    """Raise nothing."""
    return


def _other() -> None:
    """Raise something else."""
    raise tw.LaunchError("not what was meant")


@pytest.mark.parametrize(
    ("name", "said"), [("gpu", "no device of kind"), ("cpu:x", "is no device")]
)
def test_a_device_that_does_not_exist(run, name, said):
    result = run("demo", "--device", name)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr


def test_where_it_runs_and_why(monkeypatch, tmp_path):
    choose = demo._choose_device
    reason = [None]
    backend = SimpleNamespace(missing=lambda: reason[0])
    monkeypatch.setattr(demo, "load_backend", lambda _: backend)
    assert choose({}).device == "cuda:0"
    without = choose({"TILEWRIGHT_TOOLKIT": str(tmp_path)})
    assert without.device == "cpu"
    assert "tilewright doctor" in without.why
    reason[0] = "there is no CUDA driver here"
    assert choose({}).why == "there is no CUDA driver here"
