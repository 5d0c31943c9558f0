"""Errors are sent between processes: what they say and know arrives."""

import pickle

import pytest

import tilewright as tw
from tilewright import errors

ERRORS = [
    tw.LaunchError("refused"),
    tw.CompileError("refused", ("one", "two")),
    tw.OutOfBoundsError("outside", line=3, axis=1, index=9, extent=8, block=(2, 0)),
    tw.KernelAssertionError("false", message="why", line=3, block=(2,)),
    errors.MalformedBytecodeError("cut short", 17),
    errors.MalformedTextError("no op", 3, 9),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_arrives_as_it_was(error):
    arrived = pickle.loads(pickle.dumps(error))
    assert type(arrived) is type(error)
    assert (str(arrived), vars(arrived)) == (str(error), vars(error))


def test_several_arrive_together():
    arrived = pickle.loads(pickle.dumps(tw.CompileErrors("2 of 3", ERRORS[:2])))
    assert [str(one) for one in arrived.exceptions] == ["refused", "refused"]
