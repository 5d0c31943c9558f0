"""Kernels are ordinary typed Python: the checkers accept what is right and see what is wrong.

Each checker runs once, over all files; `kernels_accepted.py` is strict for pyright, too.
"""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
ACCEPTED, MISUSED = HERE / "kernels_accepted.py", HERE / "kernels_misused.py"
PROGRAMS = (
    HERE / "host_accepted.py",
    HERE / "extents_accepted.py",
    *(ROOT / "src" / "tilewright" / "cli" / name for name in ("tour.py", "tour_kernels.py")),
    *sorted((ROOT / "examples").glob("*.py")),
)
FILES = (ACCEPTED, MISUSED, *PROGRAMS)

Reports = dict[str, dict[int, list[str]]]  # file name, line, messages


def run(*command: object) -> str:
    done = subprocess.run(
        [str(part) for part in command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def mypy() -> Reports:
    pytest.importorskip("mypy")
    reports: Reports = {}
    for line in run(sys.executable, "-m", "mypy", "--strict", *FILES).splitlines():
        if found := re.match(r"(.+?):(\d+): error: (.*)", line):
            path, number, message = found.groups()
            reports.setdefault(Path(path).name, {}).setdefault(int(number), []).append(message)
    return reports


@pytest.fixture(scope="session")
def pyright() -> Reports:
    command = shutil.which("pyright", path=Path(sys.executable).parent) or shutil.which("pyright")
    if command is None:
        pytest.skip("pyright is not installed")
    text = run(command, "--pythonpath", sys.executable, "--outputjson", *FILES)
    reports: Reports = {}
    for found in json.loads(text)["generalDiagnostics"]:
        if found["severity"] == "error":
            line = found["range"]["start"]["line"] + 1
            file = reports.setdefault(Path(found["file"]).name, {})
            file.setdefault(line, []).append(found["message"])
    return reports


@pytest.fixture(params=["mypy", "pyright"])
def checker(request) -> tuple[str, Reports]:
    return request.param, request.getfixturevalue(request.param)


def test_kernels_are_accepted(checker):
    _, reports = checker
    assert reports.get(ACCEPTED.name, {}) == {}


def test_whole_programs_are_accepted(checker):
    """The tour and the examples, their host side included, and more of the host."""
    _, reports = checker
    assert {path.name: reports.get(path.name) for path in PROGRAMS} == dict.fromkeys(
        path.name for path in PROGRAMS
    )


def test_each_misuse_is_reported_and_nothing_else(checker):
    name, reports = checker
    lines = MISUSED.read_text().splitlines()
    marks = ("# flagged: ", f"# flagged by {name}: ")
    marked = {n for n, line in enumerate(lines, start=1) if any(mark in line for mark in marks)}
    found = reports.get(MISUSED.name, {})
    assert len(marked) > 40
    assert {lines[n - 1].strip() for n in marked - found.keys()} == set()
    assert {lines[n - 1].strip(): found[n] for n in found.keys() - marked} == {}
