"""Launches that are found again and dropped while another thread looks for borrows."""

from __future__ import annotations

import gc
import threading
import warnings

import pytest

import tilewright as tw
from tilewright import BorrowError, Mut, Ref, f32
from tilewright.backends.cuda import program as assembler
from tilewright.dims import B, N
from tilewright.runtime.ops.ready import ReadyOp


@pytest.fixture
def double(driver, cuda, monkeypatch):
    """A kernel on a GPU on paper, whose streams can be the home of tensors."""
    monkeypatch.setattr(assembler, "assemble", lambda *_: b"cubin")
    driver.kernels["double"] = ((8, 4, 8, 4), lambda *_: None)

    @tw.kernel
    def double(z: Mut[f32, B], x: Ref[f32, N]) -> None:
        z.store(x.load_like(z) + x.load_like(z))

    return double


def prepared(double, z, x):
    """A launch that was made before, so that nobody is told of its borrows until somebody asks."""
    for _ in range(3):
        double(z.partition(16), x).sync()
    made = double(z.partition(16), x)
    assert isinstance(made, ReadyOp)
    assert not z.storage.borrows
    return made


@pytest.mark.parametrize("is_told", [False, True])
def test_a_borrow_is_given_back_whoever_knows_of_it_when_the_finaliser_runs(cuda, double, is_told):
    z, x = tw.zeros(64), tw.ones(64)
    operation = prepared(double, z, x)
    with pytest.warns(RuntimeWarning, match="was never run"):
        del operation  # which leaves a note
    if is_told:
        with cuda.lock:
            cuda.tell_latest()  # before anybody has read it
    double(z.partition(16), x).sync()
    assert not cuda.told


def test_a_borrow_that_is_told_of_before_stays_until_the_end(cuda, double):
    z, x = tw.zeros(64), tw.ones(64)
    operation = prepared(double, z, x)
    with cuda.lock:
        cuda.tell_latest()
    with pytest.raises(BorrowError, match="holds z for writing"):
        double(z.partition(16), x)
    operation.close()
    double(z.partition(16), x).sync()


def test_dropping_while_others_look_holds_nothing(cuda, double):
    """Threads drop built launches; others build theirs meanwhile, which looks at the last built."""
    failures = []

    def drop():
        with tw.device(cuda):
            z, x = tw.zeros(64), tw.ones(64)
            for _ in range(300):
                try:
                    double(z.partition(16), x)
                except BorrowError as error:
                    failures.append(error)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        threads = [threading.Thread(target=drop) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        gc.collect()
    assert failures == []
