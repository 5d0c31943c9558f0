"""`tilewright check` on host code: both lines are shown, and `--host` runs no file."""

import json

import pytest

WRONG = """\
import tilewright as tw
from tilewright import f32, kernels

print("loaded")


def main() -> None:
    x, z = tw.ones((64,), f32), tw.zeros((64,), f32)
    operation = kernels.add(x, x, out=z)
    print(z.numpy())
    operation.sync()
"""
SHOWN = """\
error[borrow]: `z` would be read by numpy() while `add` holds it for writing
  --> {path}:10:11
   |
 9 |     operation = kernels.add(x, x, out=z)
   |                 ------------------------ `add` is built here and has not been run
10 |     print(z.numpy())
   |           ^
   |
   = note: the order of the two is not stated before the first is submitted
   = help: submit, sync or await that operation first, or close it
"""


@pytest.fixture
def program(tmp_path):
    def write(text):
        path = tmp_path / "program.py"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_a_finding_is_shown_with_both_lines(run, program):
    path = program(WRONG)
    result = run("check", "--host", path)
    assert result.exit_code == 1
    assert result.stdout == SHOWN.format(path=path) + "\n"
    fault = f"{path}:10: `z` would be read by numpy() while `add` holds it for writing\n"
    assert result.stderr == fault  # and not "loaded": the file has not been run


def test_the_neighbour_has_no_finding(run, program):
    path = program(WRONG.replace("out=z)", "out=z).submit()"))
    result = run("check", "--host", path)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")


def test_kernels_and_host_code_are_checked_together(run, program):
    result = run("check", program(WRONG))
    assert result.exit_code == 1
    assert "error[borrow]" in result.stdout
    assert "no kernels: 0 safe, 0 unsafe" in result.stdout
    assert "loaded" in result.stderr


def test_findings_as_json(run, program):
    path = program(WRONG)
    answer = json.loads(run("check", "--host", "--json", path).stdout)
    (found,) = answer["host"]
    assert (found["file"], found["line"], found["other_line"]) == (str(path), 10, 9)
    assert found["kind"] == "borrow"
    assert len(answer["faults"]) == 1


MOVED = """\
import tilewright as tw

x = tw.zeros((4,), tw.f32)
owner = tw.move(x)
x.numpy()
"""


def test_findings_come_before_the_failure_that_they_explain(run, program):
    result = run("check", program(MOVED))
    assert result.exit_code == 1
    assert result.stderr.index("error[moved]") < result.stderr.index("this tensor was moved away")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("def f(:\n", "program.py:1: "),
        ("# coding: nonsense\n", "unknown encoding"),
        ("x = 1\n\0", "null bytes"),
    ],
)
def test_a_file_that_is_no_python_is_refused(run, program, text, words):
    result = run("check", "--host", program(text))
    assert result.exit_code == 2
    assert words in result.stderr


@pytest.mark.parametrize("depth", [40, 2000])
def test_deep_and_long_programs_are_followed(run, program, depth):
    """A long sum nests as deep as it is long."""
    lines = ["import tilewright as tw", "x = " + " + ".join(["1"] * depth)]
    lines.append("def f():\n    tw.fill(tw.zeros((4,), tw.f32), 0)")
    result = run("check", "--host", program("\n".join(lines)))
    assert result.exit_code == 1
    assert "error[never-run]: operation `fill` is built and never run" in result.stdout


@pytest.mark.parametrize("text", ["-" * 50_000 + "1", " + ".join(["1"] * 50_000)])
def test_programs_that_python_cannot_parse_are_refused(run, program, text):
    """The depth that Python can parse differs among its versions; none of them parses these."""
    result = run("check", "--host", program(f"x = {text}"))
    assert result.exit_code == 2
    assert "program.py: an expression or a block nests deeper than" in result.stderr
