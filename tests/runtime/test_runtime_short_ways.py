"""Launches made before, on a GPU on paper: what they do does not grow with their arguments."""

from __future__ import annotations

import gc
import sys

import pytest

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.backends.cuda import program as assembler
from tilewright.dims import B, N
from tilewright.jit.cache import disk as disk_cache


def kernels():
    """Two kernels, made anew for a driver that is, each with the number of its inputs."""

    @tw.kernel
    def one(z: Mut[f32, B], a: Ref[f32, N]) -> None:
        z.store(a.load_like(z))

    @tw.kernel
    def four(
        z: Mut[f32, B], a: Ref[f32, N], b: Ref[f32, N], c: Ref[f32, N], d: Ref[f32, N]
    ) -> None:
        z.store(a.load_like(z) + b.load_like(z) + c.load_like(z) + d.load_like(z))

    return (one, 1), (four, 4)


@pytest.fixture
def paper(driver, cuda, monkeypatch):
    """A GPU on paper that takes these kernels, and does nothing for them."""

    class LearntSizes(tuple):
        """Sizes of parameters that the driver learns from whoever compares them."""

        __slots__ = ()

        def __ne__(self, other):
            driver.kernels |= dict.fromkeys(("one", "four"), (other, lambda *_: None))
            return False

    monkeypatch.setattr(assembler, "assemble", lambda *_: b"cubin")
    monkeypatch.setattr(disk_cache, "open_cache", lambda *_: None)
    monkeypatch.setattr(driver, "parameter_sizes", lambda _: LearntSizes())
    return cuda


def calls_of(act, *events):
    """The functions that run, by name, up to the driver; those written in C are `c_call`s."""
    seen = []

    def note(frame, event, function):
        if event in events and frame.f_globals.get("__name__") not in ("runtime_doubles", "ctypes"):
            seen.append(frame.f_code.co_name if event == "call" else function.__name__)

    gc.disable()  # or it is somebody's finaliser that is seen
    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(None)
        gc.enable()
    return seen


def tensors(number):
    """An output and some inputs, all of which have been used on the current stream."""
    made = [tw.zeros(64) for _ in range(number + 1)]
    for tensor in made:
        tw.fill(tensor, 1).submit()
    return made[0].partition(16), made[1:]


@pytest.mark.usefixtures("paper")
def test_a_prepared_launch_does_the_same_for_any_number_of_arguments():
    seen = []
    for kernel, number in kernels():
        z, xs = tensors(number)
        for _ in range(4):
            kernel(z, *xs).submit()
        seen.append(calls_of(lambda: kernel(z, *xs).submit(), "call", "c_call"))  # noqa: B023
    assert seen[0] == seen[1]
    assert "build" in seen[0]
    assert "_look_and_hold" not in seen[0]  # nothing is asked of any tensor


@pytest.mark.usefixtures("paper")
def test_a_planned_launch_calls_nothing_of_ours_for_an_argument():
    seen, kept = [], []
    for kernel, number in kernels():
        for _ in range(4):
            kept.append(tensors(number))
            z, xs = kept[-1]
            calls = calls_of(lambda: kernel(z, *xs).submit(), "call")  # noqa: B023
        seen.append(calls)
    assert seen[0] == seen[1]
    assert "launch_at" in seen[0]
