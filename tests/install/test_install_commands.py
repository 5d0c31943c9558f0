"""The README's commands are all that the suite needs: what they install, what they run."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from development_install import installed_with
from lowest_versions import lowest_versions

ROOT = Path(__file__).parents[2]


def collect(*arguments):
    """The end of what pytest prints when it collects the whole suite in a process of its own."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "tests"), str(ROOT / "src")]),
    }
    command = [sys.executable, "-m", "pytest", "--collect-only", "-qq", "-p", "no:cacheprovider"]
    run = subprocess.run(
        [*command, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    return run.returncode, "\n".join(run.stdout.splitlines()[-20:])


def test_the_suite_is_collected_with_the_development_install_alone():
    """Modules that need more than the extras `cuda` and `dev` skip themselves, with the reason."""
    status, told = collect("-p", "development_install", "-rs", "tests")
    assert status == 0, told
    assert "needs torch" in told


def test_continuous_integration_runs_the_commands_of_users_and_nothing_else():
    lines = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    commands = [line for line in lines if line and not line.startswith(("#", "set ", "cd "))]
    assert commands == ["exec make test"]


def test_the_suite_needs_no_more_than_make_test_installs():
    """Every library that a test asks for by `importorskip` comes with an extra."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    brought = installed_with("tilewright", tuple(extras["project"]["optional-dependencies"]))
    asked = {
        name.partition(".")[0]
        for path in (ROOT / "tests").rglob("*.py")
        for name in re.findall(r'importorskip\(\s*"([\w.]+)"', path.read_text(encoding="utf-8"))
    }
    provided = {"cuda": "cuda-bindings", "tilewright": "tilewright"}
    assert {provided.get(name, name) for name in asked} <= brought


def test_every_dependency_has_a_lower_bound_that_is_tried():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = [re.match(r"[\w.-]+", text)[0] for text in declared["dependencies"]]
    tried = dict(line.split("==") for line in lowest_versions(ROOT / "pyproject.toml"))
    assert set(names) <= tried.keys()
