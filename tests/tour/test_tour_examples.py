"""The scripts under `examples/` run as a reader would run them, and without a warning."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SAID = {
    "add.py": "counted to 1000 on ",
    "gemm.py": "gemm of (300, 200) and (200, 500): off by ",
    "pointers.py": "scaled 1000 elements on ",
    "softmax.py": "softmax of (100, 1000): off by at most ",
}


def test_every_example_is_run():
    assert {path.name for path in (ROOT / "examples").glob("*.py")} == SAID.keys()


@pytest.mark.parametrize("name", sorted(SAID))
def test_an_example_runs(name):
    command = [sys.executable, "-W", "error", f"examples/{name}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, SAID[name] in done.stdout) == (0, True), done.stdout + done.stderr


def test_an_example_can_be_explained():
    command = [sys.executable, "-m", "tilewright", "explain", "examples/gemm.py"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "none left in the kernel" in done.stdout
