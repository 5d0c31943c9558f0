"""Calls that are found again: which tensors are made anew, and which are those of before."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import B, N

CALLS = 6  # found again from the third on


@tw.kernel
def more(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    z.store(x.load_like(z) + 1.0)


@tw.function
def thrice_of_the_end(x: tw.Tensor) -> tw.DeviceOp[tw.Tensor]:
    out, a, b = (tw.empty(16, f32) for _ in range(3))
    first = more(a.partition(16), x[16:32])
    return (
        first.then(lambda _: more(b.partition(16), a))
        .then(lambda _: more(out.partition(16), b))
        .giving(out)
    )


@tw.function
def two_handles(x: tw.Tensor) -> tw.DeviceOp[tuple[tw.Tensor, tw.Tensor]]:
    z = tw.empty(x.shape, f32)
    return more(z.partition(16), x).giving((z, z.reshape(4, -1)))


@tw.function
def reshaped(x: tw.Tensor, out: tw.Tensor) -> tw.DeviceOp[tw.Tensor]:
    return more(out.partition(16), x).giving(out.reshape(4, -1))


@tw.kernel
def one(z: Mut[f32, B]) -> None:
    z.store(tw.ones(B, f32))


@tw.function
def named(name: str) -> tw.DeviceOp[tw.Tensor]:
    z = tw.empty(16 if name == "" else 32, f32)
    return one(z.partition(16)).giving(z)


def numbers(start=0):
    return tw.from_numpy(np.arange(start, start + 32, dtype=np.float32))


def test_a_part_of_an_argument_in_a_chain_that_makes_more_tensors():
    x = numbers()
    for _ in range(CALLS):
        assert thrice_of_the_end(x).sync().numpy().tolist() == [n + 3.0 for n in range(16, 32)]


def test_another_handle_on_what_was_made_is_not_made_anew():
    for call in range(CALLS):
        whole, rows = two_handles(numbers(call)).sync()
        assert rows.storage is whole.storage
        assert rows.numpy()[0, 0] == call + 1.0


def test_another_handle_on_an_output_is_not_made_anew():
    for call in range(CALLS):
        out = tw.empty(32, f32)
        assert reshaped(numbers(call), out).sync().storage is out.storage
        assert out.numpy()[0] == call + 1.0


def test_what_is_made_is_made_where_the_context_says(device_name):
    if device_name != "cpu":
        pytest.skip("there are two devices of the CPU, and perhaps one GPU")
    for _ in range(CALLS):
        assert named("").sync().device is tw.Device("cpu")
    with tw.device("cpu:1"):
        assert named("").sync().device is tw.Device("cpu:1")


def test_an_empty_text_is_like_no_other():
    for _ in range(CALLS):
        assert named("").sync().shape == (16,)
    assert named("''").sync().shape == (32,)
