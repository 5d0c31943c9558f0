"""Every step of the tour by itself: right results, the right refusals, the real messages."""

import re

import pytest

import tilewright as tw
from tilewright.cli.tour import TOUR, ComparedResult, Refusal, Refused, Runs

STEPS = [step for chapter in TOUR for step in chapter.steps]
RUNS = [step for step in STEPS if isinstance(step, Runs)]
REFUSED = [step for step in STEPS if isinstance(step, Refused)]

WORDS = {
    "_alias": r"z is written by this launch and also read by it as x: ",
    "_read_too_early": r"add, built at \S*cli/tour.py:\d+, holds z for writing and has not been r",
    "_race": r"error\[ownership\]: a store to `z` takes no index(.|\n)*= help: turn it round",
    "_leave_the_axis": (
        r"tour_kernels.py:\d+:\d+: index 9 is outside axis 0 of `x`, which has 8 tiles of 1; "
        r"the kernel read the nearest one instead, in block \(2, 0\) of kernel `pick_rows`"
    ),
}


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    with tw.device(request.param) as chosen:
        yield chosen


@pytest.mark.parametrize("step", RUNS, ids=lambda step: step.what)
def test_a_kernel_agrees_with_numpy(device, step):
    outcome = step.take()
    assert isinstance(outcome, ComparedResult)
    assert outcome.is_right, outcome
    assert outcome.to_json()["ok"]


@pytest.mark.parametrize("step", REFUSED, ids=lambda step: step.run.__name__)
def test_a_mistake_is_refused(device, step):
    outcome = step.take()
    assert isinstance(outcome, Refusal)
    assert outcome.is_right, outcome
    assert re.search(WORDS[step.run.__name__], str(outcome.raised))
    assert '"""' not in outcome.code
    compile(outcome.code, "step", "exec")


def test_every_refusal_has_its_words():
    assert {step.run.__name__ for step in REFUSED} == WORDS.keys()


def test_the_launch_after_a_failure_works(device):
    failing = next(step for step in REFUSED if step.expected is tw.OutOfBoundsError)
    working = next(step for step in RUNS if step.what == "pick_rows")
    for _ in range(2):
        assert failing.take().is_right
        assert working.take().is_right


def test_a_comparison_can_fail():
    assert ComparedResult("k", "", 1e-3, 1e-3).is_right
    assert not ComparedResult("k", "", 1.1e-3, 1e-3).is_right
    assert not ComparedResult("k", "", float("nan"), 1e-3).is_right
