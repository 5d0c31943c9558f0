"""Calls of the driver in a thread that has another context or none, by codes that it gives."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tilewright.errors import DriverError

cu = pytest.importorskip("cuda.bindings.driver", reason="needs the `cuda` extra")
bindings = pytest.importorskip("tilewright.backends.cuda.launch_bindings")

CODES = cu.CUresult


class Driver(bindings.LaunchCalls):
    """Binds and checks; launches succeed in its context alone."""

    def __init__(self, code):
        self.code = code
        self.is_bound = False
        self.launched = 0

    def bind(self):
        self.is_bound = True

    def check(self, call, code):
        if code is not CODES.CUDA_SUCCESS:
            raise DriverError(f"{call}: {code.name}")

    def call(self, *_):
        if not self.is_bound:
            return (self.code,)
        self.launched += 1
        return (CODES.CUDA_SUCCESS,)


@pytest.fixture(params=["launch", "prepared"])
def launch(request, monkeypatch):
    """Makes one launch of a driver, on a stream that has a context or has not."""

    def make(driver, *, has_context):
        handle = SimpleNamespace(handle=cu.CUstream(1), has_context=has_context)
        kernel, parameters = SimpleNamespace(handle=0), SimpleNamespace(address=0)
        monkeypatch.setattr(cu, "cuLaunchKernel", driver.call)
        monkeypatch.setattr(cu, "cuLaunchKernelEx", driver.call)
        if request.param == "launch":
            driver.launch(kernel, 1, 0, handle)
        else:
            stream = SimpleNamespace(queue=SimpleNamespace(handle=handle))
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
