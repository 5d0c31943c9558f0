"""Launches by the real bindings: in a thread of another context or none, and of early starters."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tilewright.errors import DriverError

cu = pytest.importorskip("cuda.bindings.driver", reason="needs the `cuda` extra")
bindings = pytest.importorskip("tilewright.backends.cuda.ready_bindings")

CODES = cu.CUresult
PARAMETERS = SimpleNamespace(address=0, may_change=False)


class Queue:
    """A stream of ours or of another library."""

    def __init__(self, *, has_context=True, is_adopted=False):
        self.handle = SimpleNamespace(handle=cu.CUstream(1), has_context=has_context)
        self.is_adopted = is_adopted


class Driver(bindings.ReadyCalls):
    """Binds and checks; launches succeed in its context alone."""

    context = None

    def __init__(self, code):
        self.code = code
        self.is_bound = False
        self.launched = 0

    def bind(self):
        self.is_bound = True

    def check(self, call, code):
        if code is not CODES.CUDA_SUCCESS:
            raise DriverError(f"{call}: {code.name}")

    def load(self, *_):
        raise AssertionError("nothing is loaded")

    def make_room(self, places):
        raise AssertionError("nothing is made")

    def call(self, *_):
        if not self.is_bound:
            return (self.code,)
        self.launched += 1
        return (CODES.CUDA_SUCCESS,)


@pytest.fixture(params=["launch", "bound"])
def launch(request, monkeypatch):
    """Makes one launch of a driver, on a stream that has a context or has not."""

    def make(driver, *, has_context):
        stream = SimpleNamespace(queue=Queue(has_context=has_context))
        kernel, parameters = SimpleNamespace(handle=0, waits=False), PARAMETERS
        monkeypatch.setattr(cu, "cuLaunchKernel", driver.call)
        monkeypatch.setattr(cu, "cuLaunchKernelEx", driver.call)
        if request.param == "launch":
            driver.launch(kernel, 1, 0, stream.queue.handle)
        else:
            driver.prepare_launch(kernel, 1, parameters)(stream, ())

    return make


@pytest.mark.parametrize("name", ["CUDA_ERROR_INVALID_CONTEXT", "CUDA_ERROR_INVALID_HANDLE"])
def test_the_default_stream_is_that_of_the_context(launch, name):
    driver = Driver(getattr(CODES, name))
    launch(driver, has_context=False)
    assert driver.launched == 1


def test_what_is_wrong_otherwise_is_told(launch):
    for driver, has_context in (
        (Driver(CODES.CUDA_ERROR_INVALID_CONTEXT), True),
        (Driver(CODES.CUDA_ERROR_ILLEGAL_ADDRESS), False),
    ):
        with pytest.raises(DriverError, match=driver.code.name):
            launch(driver, has_context=has_context)
        assert not driver.is_bound


@pytest.mark.parametrize("waits", [False, True])
def test_only_what_waits_itself_starts_early_and_only_on_streams_of_ours(monkeypatch, waits):
    asked = []
    only = cu.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION

    def call(shape, *_):
        attributes = shape.attrs[: shape.numAttrs]
        assert all(one.id == only for one in attributes)
        asked.append([one.value.programmaticStreamSerializationAllowed for one in attributes])
        return (CODES.CUDA_SUCCESS,)

    monkeypatch.setattr(cu, "cuLaunchKernelEx", call)
    ours, theirs = (SimpleNamespace(queue=Queue(is_adopted=adopted)) for adopted in (False, True))
    kernel, parameters = SimpleNamespace(handle=0, waits=waits), PARAMETERS
    launch = Driver(CODES.CUDA_SUCCESS).prepare_launch(kernel, 1, parameters)
    for stream in (ours, theirs, ours):
        launch(stream, ())
    assert asked == ([[1], [], [1]] if waits else [[], [], []])


def test_a_launch_that_is_made_again_goes_where_it_was_going(monkeypatch):
    # A finaliser that runs in between makes the same launch on another stream.
    asked = []
    refused = [CODES.CUDA_ERROR_INVALID_CONTEXT]
    driver = Driver(None)

    def call(shape, *_):
        asked.append(int(shape.hStream))
        return (refused.pop() if refused and len(asked) > 2 else CODES.CUDA_SUCCESS,)

    monkeypatch.setattr(cu, "cuLaunchKernelEx", call)
    ours, theirs = (SimpleNamespace(queue=Queue(has_context=False)) for _ in range(2))
    theirs.queue.handle.handle = cu.CUstream(2)
    launch = driver.prepare_launch(SimpleNamespace(handle=0, waits=False), 1, PARAMETERS)
    for stream in (theirs, ours):
        launch(stream, ())
    monkeypatch.setattr(driver, "bind", lambda: launch(theirs, ()))
    launch(ours, ())
    launch(ours, ())
    assert asked == [2, 1, 1, 2, 1, 1]
