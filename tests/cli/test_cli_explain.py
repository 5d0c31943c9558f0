"""`tilewright explain`: ledgers for people and for machines, and kernels that are refused."""

import json
from pathlib import Path

import pytest

HERE = Path(__file__).parent
EVERYWHERE = HERE / "ledger_samples.py"


def explained(run, address, *options):
    result = run("explain", address, "--json", *options)
    assert (result.exit_code, result.stderr) == (0, "")
    return json.loads(result.stdout)


def test_checks_stand_below_their_lines(run, sample):
    result = run("explain", sample("copy"))
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[0].startswith("copy  z: f16[128, 128], x: f16[M, N] on sm_")
    at = next(n for n, line in enumerate(lines) if "z.store(x.load_like(z))" in line)
    assert "↳" in lines[at + 1]
    assert "x, axis 0:" in lines[at + 1]
    assert "2 checks:" in lines[-1]
    assert lines[-1].endswith("none left in the kernel")


def test_a_kernel_with_checks_in_every_place(run, golden):
    """Proved, left to the launch, made before the loop, made in the loop: each with its reason."""
    result = run("explain", EVERYWHERE, "--target", "sm_90", columns=110)
    assert (result.exit_code, result.stderr) == (0, "")
    lines = [line.rstrip() for line in result.stdout.replace(f"{HERE}/", "").splitlines()]
    golden(HERE / "explain_everywhere.txt", "\n".join((*lines, "")))
    outcomes = [entry["outcome"] for entry in explained(run, EVERYWHERE)["ledger"]]
    assert set(outcomes) == {"proved", "launch", "hoisted", "in place"}


def test_checks_of_inlined_functions_stand_in_their_own_place(run, sample):
    text = run("explain", sample("picked")).stdout
    assert "in cli_samples.py, called from here" in text
    assert "return x.partition(16)[i]" in text
    assert "the index is read from memory" in text
    assert "left in the kernel" in text


def test_every_kind_of_launch_check_is_told(run, sample):
    found = explained(run, sample("picked"))
    conditions = [check["condition"] for check in found["launch_checks"]]
    assert "required by the kernel: N % 16 == 0" in conditions
    assert "step is not zero" in conditions
    assert any(condition.startswith("x, axis 0: not empty (") for condition in conditions)
    assert any(condition.startswith("rows, axis 0: 0 <= ") for condition in conditions)
    (condition,) = explained(run, sample("stepped"))["launch_checks"]
    assert condition["condition"] == "step is above zero"


def test_json_has_the_whole_ledger(run, sample):
    found = explained(run, sample("picked"), "--target", "sm_100")
    assert found["kernel"] == "picked"
    assert found["target"] == "sm_100"
    assert found["deny_checks"] is False
    assert sum(found["counts"].values()) == len(found["ledger"])
    assert {"proved", "launch", "hoisted", "in place"} == set(found["counts"])
    entry = next(entry for entry in found["ledger"] if entry["outcome"] == "hoisted")
    assert entry["subject"] == "x"
    assert "cli_samples.py:" in entry["location"]


def test_dims_that_the_signature_ties_are_listed(run, sample):
    shared = explained(run, sample("widened"), "--set", "TWICE=true")["shared_dims"]
    assert shared == []
    gemm = explained(run, "src/tilewright/cli/tour_kernels.py::gemm")
    assert gemm["shared_dims"] == [
        "y.shape[0] == x.shape[1]  (K)",
        "z.shape[0] == x.shape[0]  (M)",
        "z.shape[1] == y.shape[1]  (N)",
    ]
    rows = explained(run, "src/tilewright/cli/tour_kernels.py::pick_rows")
    assert rows["shared_dims"] == [
        "x.shape[1] == D",
        "z.shape[0] == rows.shape[0]  (K)",
        "z.shape[1] == D",
    ]


def test_a_kernel_without_checks_says_so(run, sample):
    text = run("explain", sample("constant")).stdout
    assert "nothing but kinds, ranks, dtypes and devices" in text
    assert "no index and no divisor needs a check" in text


@pytest.mark.parametrize(
    ("kernel", "settings", "shown"),
    [
        ("copy", ["BM=64", "T=bf16"], "z: bf16[64, 128], x: bf16[M, N]"),
        ("widened", ["TWICE=0"], "z: f32[1024], x: f16[N], TO = f32, TWICE = False"),
        ("widened", ["TWICE=True", "B=32", "TO=f32"], "z: f32[32], x: f16[N], TO = f32, TWICE = T"),
        ("scaled", ["BY=0.5"], "z: f32[1024], x: f32[N], BY = 0.5"),
        ("scaled", [], "BY = 2.0"),
        ("chosen", ["KIND=PLAIN"], "BY = 1, KIND = __tilewright_cli_samples__.Kind.PLAIN"),
        ("chosen", ["KIND=0", "BY=0"], "BY = 0, KIND = __tilewright_cli_samples__.Kind.PLAIN"),
        ("chosen", ["KIND=as given", "BY=-3"], "cli_samples__.Kind.FREE"),
        ("widths", ["N=0"], "N = 0"),
    ],
)
def test_settings_choose_the_specialisation(run, sample, kernel, settings, shown):
    options = [word for setting in settings for word in ("--set", setting)]
    assert shown in explained(run, sample(kernel), *options)["specialization"]


def test_a_refused_kernel_is_shown_with_its_source(run, sample):
    result = run("explain", sample("denied"))
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("error[bounds]: ")
    assert "cli_samples.py:" in result.stderr
    assert "= help: " in result.stderr


def test_a_refused_kernel_is_an_answer_for_a_machine(run, sample):
    result = run("explain", sample("denied"), "--json")
    assert result.exit_code == 1
    (problem,) = json.loads(result.stdout)["problems"]
    assert problem["code"] == "bounds"
    assert "cli_samples.py:" in problem["location"]
    assert problem["helps"]
