"""A search in a child: one that hangs or crashes is started again behind the culprit."""

import sys
import textwrap

import pytest

from tilewright import TuneError
from tilewright.tune.supervision import supervise

CHILD = """
    import os, sys, time
    from pathlib import Path
    journal, culprit, how = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    tried = journal.read_text().split() if journal.exists() else []
    for candidate in "abc":
        if candidate in tried:
            continue
        with journal.open("a") as file:
            file.write(candidate + "\\n")
        if candidate == culprit:
            ends = {"hangs": lambda: time.sleep(60), "crashes": os.abort, "fails": sys.exit}
            ends[how](*([3] if how == "fails" else []))
"""


@pytest.fixture
def child(tmp_path):
    script = tmp_path / "child.py"
    script.write_text(textwrap.dedent(CHILD))
    journal = tmp_path / "journal"

    def command(culprit, how):
        return [sys.executable, "-I", "-S", str(script), str(journal), culprit, how]

    return command, journal


@pytest.mark.parametrize("how", ["hangs", "crashes", "fails"])
def test_the_culprit_costs_its_own_place(child, how):
    command, journal = child
    looks = []
    restarts = supervise(command("b", how), journal, patience=0.6, look=lambda: looks.append(1))
    assert restarts == 1
    assert journal.read_text().split() == ["a", "b", "c"]
    assert looks


def test_an_interrupted_search_leaves_no_child_behind(child):
    command, journal = child
    started = []

    def interrupt():
        started.append(journal.exists())
        if journal.exists() and "a" in journal.read_text():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        supervise(command("a", "hangs"), journal, patience=30, look=interrupt)
    assert journal.read_text().split() == ["a"], "the child was ended while it hung"
    assert supervise(command("none", "hangs"), journal, patience=30) == 0
    assert journal.read_text().split() == ["a", "b", "c"]


def test_nothing_goes_wrong(child):
    command, journal = child
    assert supervise(command("none", "hangs"), journal, patience=5) == 0


def test_a_child_that_does_nothing_is_told_with_its_last_words(tmp_path):
    program = "import sys; print('no such kernel', file=sys.stderr); sys.exit(2)"
    with pytest.raises(TuneError) as refusal:
        supervise([sys.executable, "-I", "-S", "-c", program], tmp_path / "journal", 5)
    assert str(refusal.value) == (
        "the search ended with status 2 before it had tried anything:\nno such kernel"
    )
    sleeper = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(60)"]
    with pytest.raises(TuneError) as refusal:
        supervise(sleeper, tmp_path / "journal", 0.2)
    assert str(refusal.value) == (
        "the search was ended before it had tried anything:\nnothing happened for 0.2 s"
    )
