"""Calls beside captures of other libraries: the thread's mode is changed for them and put back."""

from __future__ import annotations

import pytest

from tilewright.errors import DriverError

cu = pytest.importorskip("cuda.bindings.driver", reason="needs the `cuda` extra")
bindings = pytest.importorskip("tilewright.backends.cuda.capture_bindings")

MODES = cu.CUstreamCaptureMode
GLOBAL, RELAXED = MODES.CU_STREAM_CAPTURE_MODE_GLOBAL, MODES.CU_STREAM_CAPTURE_MODE_RELAXED


class Thread:
    """A thread as the driver knows it."""

    def __init__(self):
        self.mode = GLOBAL
        self.code = cu.CUresult.CUDA_SUCCESS

    def exchange(self, mode):
        assert mode is not None, "the bindings take no mode for none"
        if self.code is not cu.CUresult.CUDA_SUCCESS:
            return self.code, None
        before, self.mode = self.mode, mode
        return self.code, before


@pytest.fixture
def thread(monkeypatch):
    made = Thread()
    monkeypatch.setattr(cu, "cuThreadExchangeStreamCaptureMode", made.exchange)
    return made


def test_only_the_call_itself_is_beside_captures(thread):
    @bindings.beside_captures
    def call(*given, **named):
        return thread.mode, given, named

    assert call(1, x=2) == (RELAXED, (1,), {"x": 2})
    assert thread.mode is GLOBAL


def test_so_it_is_inside_another(thread):
    inner = bindings.beside_captures(lambda: thread.mode)
    outer = bindings.beside_captures(lambda: (inner(), thread.mode))
    assert outer() == (RELAXED, RELAXED)
    assert thread.mode is GLOBAL


def test_what_raises_puts_the_mode_back(thread):
    @bindings.beside_captures
    def call():
        raise DriverError("no room")

    with pytest.raises(DriverError, match="no room"):
        call()
    assert thread.mode is GLOBAL


def test_what_is_wrong_with_a_gpu_is_told_by_the_call(thread):
    # Behind a kernel that has failed the driver refuses everything, the mode as well.
    thread.code = cu.CUresult.CUDA_ERROR_ILLEGAL_ADDRESS

    @bindings.beside_captures
    def call():
        raise DriverError("CUDA_ERROR_ILLEGAL_ADDRESS")

    with pytest.raises(DriverError, match="ILLEGAL_ADDRESS"):
        call()


def test_a_thread_of_ours_disregards_captures_for_good(thread):
    bindings.disregard_captures()
    assert thread.mode is RELAXED
    assert bindings.beside_captures(lambda: thread.mode)() is RELAXED
    assert thread.mode is RELAXED
