"""`tilewright explain` gives counter-examples: golden, since people read them."""

import json
from pathlib import Path

import pytest

from tilewright.cli import witness as witnessing

HERE = Path(__file__).parent
UNSAFE = HERE / "unsafe_samples.py"


def shown(result):
    """The counter-example alone, without the folder of its files."""
    text = (result.stdout + result.stderr).replace(f"{HERE}/", "")
    return text[text.index("counter-example") :]


@pytest.mark.parametrize(
    ("kernel", "exit_code"),
    [
        ("unsafe_samples.py::permute_heads", 0),
        ("unsafe_samples.py::through_a_helper", 0),
        ("unsafe_samples.py::residual", 0),
        ("cli_samples.py::denied", 1),
    ],
)
def test_a_counter_example_is_shown(run, golden, kernel, exit_code):
    result = run("explain", HERE / kernel, columns=200)
    assert result.exit_code == exit_code
    golden(HERE / f"witness_{kernel.rpartition('::')[2]}.txt", shown(result))


def test_machines_get_the_numbers_for_their_settings(run):
    answer = run("explain", f"{UNSAFE}::residual", "--json", "--set", "B=4").stdout
    found = json.loads(answer)["witness"]
    assert "cut into (4,)" in found["arguments"][0]
    assert (found["axis"], found["block"]) == (0, [0])
    assert not 0 <= found["index"] < found["extent"]


def test_a_safe_kernel_is_not_searched(run, monkeypatch):
    monkeypatch.delattr(witnessing.subprocess, "run")
    assert "counter-example" not in run("explain", f"{UNSAFE}::safe").stdout
    assert "counter-example" not in run("explain", f"{UNSAFE}::residual", "--no-witness").stdout


def test_a_sound_unsafe_kernel_has_none(run):
    result = run("explain", HERE.parents[1] / "examples" / "pointers.py")
    assert result.exit_code == 0
    assert "no small launch was found that fails" in result.stdout


def test_a_kernel_that_does_not_end_is_given_up(run, monkeypatch):
    monkeypatch.setattr(witnessing, "_PATIENCE", 3.0)
    result = run("explain", f"{UNSAFE}::waits_for_ever")
    assert result.exit_code == 0
    assert "no small launch was found that fails" in result.stdout
