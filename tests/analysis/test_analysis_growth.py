"""What compiling costs as a kernel grows: steps are counted, and they are at most quadratic.

A step is a call of a Python function, so the count covers every analysis, pass and back end and
does not depend on the machine. The families are those of the benchmark of compile time.
"""

import sys
from pathlib import Path

import pytest

import tilewright as tw

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
if str(BENCHMARKS) not in sys.path:
    sys.path.append(str(BENCHMARKS))

import compile_time  # noqa: E402
import growing_kernels  # noqa: E402

SMALLEST = 4
NESTED = 3  # of loops inside each other: Python has 20
SLACK = 1.15  # over the growth of a square


def steps(family: str, k: int, folder: Path) -> int:
    """How many calls of Python functions it takes to compile the kernel of size k."""
    kernel = growing_kernels.define(family, k, folder)
    count = 0

    def called(frame, event, argument):
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(called)
    try:
        growing_kernels.compiled(family, k, kernel)
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("family", growing_kernels.FAMILIES)
def test_steps_grow_at_most_with_the_square(family, tmp_path):
    smallest = NESTED if growing_kernels.MOST.get(family, 20) < 20 else SMALLEST
    with tw.device("cpu"):
        growing_kernels.compiled(family, 2, growing_kernels.define(family, 2, tmp_path))
        found = [steps(family, smallest << shift, tmp_path) for shift in range(3)]
    first, second = found[1] - found[0], found[2] - found[1]
    assert second <= 4 * SLACK * max(first, 1000), f"steps for doubling sizes: {found}"


def test_steps_grow_with_the_number_of_arms(tmp_path):
    """The arms of one `if` nest in each other, and each is looked at a number of times."""
    with tw.device("cpu"):
        growing_kernels.compiled("elif", 2, growing_kernels.define("elif", 2, tmp_path))
        found = [steps("elif", 16 << shift, tmp_path) for shift in range(3)]
    first, second = found[1] - found[0], found[2] - found[1]
    assert second <= 2 * SLACK * first, f"steps for doubling sizes: {found}"


def test_the_benchmark_of_compile_time_says_by_which_power_it_grows(tmp_path, monkeypatch, capsys):
    assert compile_time.sizes("nested while", 128) == [2, 4, 9, 18]
    assert compile_time.exponent({2: 0.1, 4: 0.2, 8: 0.5, 16: 1.7}) == pytest.approx(2.0)
    assert compile_time.exponent({2: 0.1, 4: 0.101, 8: 0.102}) is None, "hardly grows"
    report = tmp_path / "report.json"
    wanted = ["compile_time.py", "--largest", "4", "--only", "branches", "--json", str(report)]
    monkeypatch.setattr(sys, "argv", wanted)
    compile_time.main()
    assert "branches" in capsys.readouterr().out
    assert "branches" in report.read_text()
