"""Kernels that a GPU on paper runs, for functions of them on a machine with no GPU."""

from __future__ import annotations

import numpy as np

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.backends.cuda import program as assembler
from tilewright.dims import B, N
from tilewright.jit.cache import disk as disk_cache

__all__ = ["SIZE", "numbers", "one_more", "set_up"]

SIZE = 16


def _add_one(driver, _blocks, *parameters):
    z, x = (int.from_bytes(one, "little") for one in parameters if len(one) == 8)
    length = int.from_bytes(next(one for one in parameters if len(one) == 4), "little")
    driver.at(z, 4 * length).view(np.float32)[:] = driver.at(x, 4 * length).view(np.float32) + 1


class _LearntSizes(tuple):
    """Sizes of parameters that the driver learns from the first comparison."""

    __slots__ = ()

    driver = None

    def __ne__(self, other):
        type(self).driver.kernels["one_more"] = (other, _add_one)
        return False


def set_up(driver, monkeypatch):
    """Have the driver run `one_more`, whatever its parameters are."""
    monkeypatch.setattr(assembler, "assemble", lambda *_: b"cubin")
    monkeypatch.setattr(disk_cache, "open_cache", lambda *_: None)
    monkeypatch.setattr(_LearntSizes, "driver", driver)
    monkeypatch.setattr(driver, "parameter_sizes", lambda _: _LearntSizes())
    return driver


def one_more():
    """The kernel, made anew for a driver that is."""

    @tw.kernel
    def one_more(z: Mut[f32, B], x: Ref[f32, N]) -> None:
        z.store(x.load_like(z) + 1.0)

    return one_more


def numbers(ahead=0):
    """The elements 0, 1, 2, … after so many launches."""
    return (np.arange(SIZE, dtype=np.float32) + ahead).tolist()
