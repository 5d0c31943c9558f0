"""Finalisers of users may launch, wherever the collector runs them."""

from __future__ import annotations

import gc
import threading
from contextvars import ContextVar

import numpy as np

import tilewright as tw
from tilewright import Mut, f32
from tilewright.dims import B

STEPS = 2000


@tw.kernel
def count(z: Mut[f32, B]) -> None:
    z.store(z.load() + 1.0)


class Launching:
    """Counts when it ends, which the collector alone can see to, in whichever thread it runs."""

    def __init__(self, z, launched):
        self.z, self.launched, self.itself = z, launched, self

    def __del__(self):
        if _busy.get():  # one at a time in each
            return
        _busy.set(True)
        try:
            count(self.z.partition(64)).submit()
        except tw.BorrowError:  # another thread is at it
            pass
        else:
            self.launched.append(None)
        finally:
            _busy.set(False)


_busy = ContextVar("busy", default=False)


def test_a_finaliser_may_launch_in_the_middle_of_a_launch(device_name):
    with tw.device(device_name):
        z, counted = tw.zeros(64), tw.zeros(64)
    count(z.partition(64)).sync()
    launched = []

    def launch():
        for step in range(STEPS):
            Launching(counted, launched)
            gc.set_threshold(1 + step % 40, 1, 1)  # so that it runs here and there
            count(z.partition(64)).submit()

    before = gc.get_threshold()
    thread = threading.Thread(target=launch, daemon=True)
    thread.start()
    thread.join(60)
    gc.set_threshold(*before)
    assert not thread.is_alive(), "a finaliser waits for what its own thread holds"
    gc.collect()
    np.testing.assert_array_equal(z.numpy(), np.full(64, STEPS + 1, np.float32))
    assert STEPS // 2 < len(launched) <= STEPS
    np.testing.assert_array_equal(counted.numpy(), np.full(64, len(launched), np.float32))
