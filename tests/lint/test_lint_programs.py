"""Wrong programs and their accepted neighbours: found without running, and run to confirm it.

A section of `programs.txt` is a wrong program and, below `---`, one that is accepted. `#!` marks
the line at fault, `#?` the line of the borrow, of the move or of the drop, `#=` the first line of a
call.
"""

import re
from pathlib import Path
from typing import NamedTuple

import pytest
from running_programs import PATH, PRELUDE, run

from tilewright.lint.host_code import check_host_code

HERE = Path(__file__).parent


class Pair(NamedTuple):
    title: str
    wrong: str
    accepted: str


def _pairs():
    sections = (HERE / "programs.txt").read_text(encoding="utf-8").split("=== ")[1:]
    for section in sections:
        title, _, rest = section.partition("\n")
        wrong, accepted = re.split(r"^---.*\n", rest, flags=re.MULTILINE)
        yield Pair(title, PRELUDE + wrong, PRELUDE + accepted)


PAIRS = list(_pairs())
by_title = pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.title.replace(" ", "-"))


def _marked(text, sign, default=None):
    """The line with a mark; `#!?` is both."""
    lines = enumerate(text.splitlines(), 1)
    return next((number for number, one in lines if sign in one.partition("#")[2]), default)


def test_there_are_enough_programs():
    assert len(PAIRS) >= 40
    assert len({pair.title for pair in PAIRS}) == len(PAIRS)


@by_title
def test_a_wrong_program_is_found_with_both_lines(pair):
    (found,) = check_host_code(pair.wrong, PATH)
    assert (found.span.line, found.other.line) == (
        _marked(pair.wrong, "!"),
        _marked(pair.wrong, "?"),
    )


@by_title
def test_the_runtime_refuses_the_same_line(pair):
    """A call on several lines is refused at its first one; line 0 is one of another file."""
    (found,) = check_host_code(pair.wrong, PATH)
    lines = {0, _marked(pair.wrong, "=", found.span.line)}
    events = run(pair.wrong)
    assert events
    assert all(kind == found.code and line in lines for kind, line in events)


@by_title
def test_the_neighbour_is_accepted_and_runs(pair):
    assert check_host_code(pair.accepted, PATH) == ()
    assert run(pair.accepted) == []
