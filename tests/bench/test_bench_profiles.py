"""Profiles of kernels that have targets: what the assembler says, counted and without folders."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("cuda.bindings")
pytest.importorskip("torch")

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
if str(BENCHMARKS) not in sys.path:
    sys.path.append(str(BENCHMARKS))

import profiles  # noqa: E402

from tilewright.backends.cuda.toolchain import find_toolchain  # noqa: E402
from tilewright.errors import ToolchainError  # noqa: E402


def test_remarks_are_counted_and_failures_come_first():
    remarks = [
        {"passed": True, "message": "Load instruction selected: TMA Load instruction"},
        {"passed": True, "message": "Load instruction selected: TMA Load instruction"},
        {"passed": False, "message": "Failed to select TMA load: only zero padding"},
    ]
    shown = "1 x Failed to select TMA load: only zero padding; 2 x TMA Load instruction"
    assert profiles.summary(remarks) == shown


def test_every_problem_has_a_target_and_a_name_of_its_own():
    listed = [(target, problem) for target, problem, _ in profiles.profiled()]
    assert len(set(listed)) == len(listed)
    assert {profiles.products.ALL, profiles.DECODED} <= {target for target, _ in listed}


def test_a_kernel_is_looked_at(tmp_path):
    try:
        find_toolchain()
    except ToolchainError as error:
        pytest.skip(str(error))
    # A process of its own: there are no remarks on what another test has had assembled.
    written = tmp_path / "profiles.json"
    script = [sys.executable, BENCHMARKS / "profiles.py", "--only", "add, *", "--json", written]
    subprocess.run(script, check=True, capture_output=True, timeout=120)
    (found,) = json.loads(written.read_text())["figures"]["profiles"]
    assert found["kernel"] == "add_elements"
    assert found["registers"] > 0
    assert found["stack_bytes"] == 0
    assert all("/" not in remark["file"] for remark in found["remarks"])
    assert "load" in found["summary"].lower()
