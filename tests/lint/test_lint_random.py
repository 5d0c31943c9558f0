"""Random programs: the check says without running what the runtime says when they run."""

import pytest
from random_programs import Program
from running_programs import PATH, PRELUDE, run, run_tracing

from tilewright.lint.host_code import check_host_code

SHARES = range(2)
PROGRAMS = 40  # of each share
REFUSED = ("borrow", "moved")


def found_in(text):
    """What the check finds, in the order of lines: refusals, and operations never run."""
    found = [(one.code, one.span.line) for one in check_host_code(text, PATH)]
    refused = [one for one in found if one[0] in REFUSED]
    return refused, set(found) - set(refused)


@pytest.mark.parametrize("share", SHARES)
def test_straight_programs_are_judged_alike(share):
    kinds = set()
    for seed in range(share * PROGRAMS, (share + 1) * PROGRAMS):
        text = PRELUDE + Program(seed).text(9)
        refused, dropped = found_in(text)
        told = run(text)
        kinds |= {kind for kind, _ in told}
        if told and told[0][0] in REFUSED:
            assert refused[:1] == told, text
        elif told and told[0][0] == "other":  # an operation that runs twice, say
            assert all(line > told[0][1] for _, line in refused), text
        else:
            assert (refused, dropped) == ([], set(told)), text
    assert kinds >= {"borrow", "never-run"}


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("flag", [True, False])
def test_branches_have_no_false_alarm(share, flag):
    """A finding on a line that is reached comes true there."""
    confirmed = 0
    for seed in range(share * PROGRAMS, (share + 1) * PROGRAMS):
        text = PRELUDE + Program(seed).text(8, branches=True)
        findings = check_host_code(text, PATH)
        told, reached = run_tracing(text, flag=flag)
        is_refused = bool(told) and told[0][0] != "never-run"
        for one in findings:
            if one.code in REFUSED and one.span.line in reached:
                assert (is_refused, told[0][1]) == (True, one.span.line), text
                confirmed += 1
            elif one.code not in REFUSED and not is_refused and one.other.line in reached:
                assert (one.code, one.span.line) in told, text
                confirmed += 1
    assert confirmed > PROGRAMS // 4
