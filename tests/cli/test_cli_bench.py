"""`tilewright bench`: kernels of the library beside a peer, as a table and as JSON."""

import dataclasses
import json

import pytest

from tilewright.cli import bench as benching
from tilewright.cli import bench_cases

SMALL = {"cpu": (8, 16)}


@pytest.fixture(autouse=True)
def small(monkeypatch):
    cases = tuple(dataclasses.replace(case, sizes=SMALL) for case in bench_cases.CASES)
    monkeypatch.setattr(benching, "CASES", cases)
    monkeypatch.setattr(bench_cases, "_RAGGED", (5, 3))


def test_every_case_is_right_and_has_a_peer(run):
    done = run("bench", "--quick", "--device", "cpu", "--json")
    assert done.exit_code == 0
    answer = json.loads(done.stdout)
    assert [row["kernel"] for row in answer["kernels"]] == [
        "add", "silu_mul", "softmax", "rms_norm", "layer_norm", "cumsum", "transpose", "matmul",
        "attention",
    ]  # fmt: skip
    for row in answer["kernels"]:
        assert row["error"] < (2e-3 if row["dtype"] == "f16" else 1e-5)
        assert row["seconds"] > 0
        assert row["peer"] == "NumPy"
        assert not row["failures"]
    assert answer["ceilings"]["bandwidth"] > 0
    assert answer["machine"]["numpy"]


def test_some_as_a_table(run):
    done = run("bench", "--quick", "--device", "cpu", "add")
    assert done.exit_code == 0
    assert "ceilings: " in done.stdout
    assert "add" in done.stdout
    assert "softmax" not in done.stdout


def test_what_is_wrong_is_told_and_ends_with_1(run, monkeypatch):
    wrong = dataclasses.replace(benching.CASES[0], numpy=lambda x, y: x - y)
    monkeypatch.setattr(benching, "CASES", (wrong,))
    done = run("bench", "--quick", "--device", "cpu")
    assert done.exit_code == 1
    assert "add: wrong: relative error" in done.stderr
    assert "wrong" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["soft"], "there is no benchmark of soft; did you mean softmax?"),
        (["nothing"], "there is no benchmark of nothing; there are add, "),
        (["--device", "tpu"], "--device tpu: there is no device of kind 'tpu'"),
        (["--device", "meta"], "--device meta: nothing runs there"),
    ],
)
def test_bad_input(run, arguments, message):
    done = run("bench", *arguments)
    assert done.exit_code == 2
    assert message in done.stderr
