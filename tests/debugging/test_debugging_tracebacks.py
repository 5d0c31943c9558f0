"""Tracebacks of refusals: the user's frames, and at most the call behind them."""

import traceback
from pathlib import Path

import pytest
from debugged_kernels import nameless, stops_with_arguments

import tilewright as tw
from tilewright import f32, kernels
from tilewright.errors import InternalError
from tilewright.jit.compile import compiler

HERE = Path(__file__).parent
PACKAGE = Path(tw.__file__).parent
MOST_OF_OURS = 4  # the call, and how it is read


@tw.function
def mine(x: tw.Tensor, *, out: tw.Tensor) -> tw.DeviceOp[tw.Tensor]:
    return nameless(out.partition(3), x).giving(out)


def _tensors():
    return tw.ones((8,), f32), tw.zeros((8,), f32)


def _refused_kernel():
    x, z = _tensors()
    stops_with_arguments(z.partition(4), x)


def _refused_launch():
    _, z = _tensors()
    nameless(z.partition(4), z)


def _refused_function():
    x, _ = _tensors()
    kernels.add(x, tw.ones((9,), f32))


def _refused_in_a_function_of_the_user():
    x, z = _tensors()
    mine(x, out=z)


def _raised(call):
    with tw.device("cpu"):
        try:
            call()
        except tw.TilewrightError as error:
            return traceback.extract_tb(error.__traceback__)
    pytest.fail("nothing was refused")


@pytest.mark.parametrize(
    "call",
    [_refused_kernel, _refused_launch, _refused_function, _refused_in_a_function_of_the_user],
    ids=lambda call: call.__name__,
)
def test_frames_of_the_user_are_shown(call):
    frames = _raised(call)
    own = [frame for frame in frames if Path(frame.filename).parent == HERE]
    assert own[1].name == call.__name__
    ours = [frame for frame in frames if PACKAGE in Path(frame.filename).parents]
    assert len(ours) <= MOST_OF_OURS


def test_frames_of_a_users_function_stay():
    names = [frame.name for frame in _raised(_refused_in_a_function_of_the_user)]
    assert "mine" in names


def test_an_internal_error_keeps_all_frames(monkeypatch):
    def fails(*_):
        raise InternalError("a bug")

    monkeypatch.setattr(compiler, "settle_checks", fails)
    with tw.device("cpu"):
        x, z = _tensors()
        with pytest.raises(InternalError) as raised:
            nameless.observed(None)(z.partition(4), x)
    names = [frame.name for frame in traceback.extract_tb(raised.value.__traceback__)]
    assert "_compiled" in names
    assert names[-1] == "fails"
