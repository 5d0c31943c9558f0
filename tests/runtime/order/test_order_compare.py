"""`make compare`: traces of random programs, which two source trees have in common."""

from __future__ import annotations

import re
from pathlib import Path

from compare_trees import first_difference, run

TREE = str(Path(__file__).parents[3])


def test_a_program_has_one_trace():
    lines, again = (run(TREE, "Keeper", range(3, 4), "--whole") for _ in range(2))
    assert lines == again
    assert any(re.fullmatch(r"launch \d writes \w+ of \d+ after \[\d.*\]", line) for line in lines)
    assert any("holds z for writing and has not been run" in line for line in lines)


def test_a_difference_is_shown_with_its_program():
    text = first_difference(["launch 0", "--", "launch 1"], ["launch 0", "--", "launch 2"])
    assert text.splitlines()[-2:] == ["-launch 1", "+launch 2"]
