"""Views as arguments: what was sliced, permuted or reinterpreted is read and written in place."""

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright as tw
from tilewright import AnyDType, Mut, Ref, f16, f32, i16, i32, u8
from tilewright.dims import BM, BN, B, M, N, T
from tilewright.jit.bind.launch import specialize


class TX(AnyDType): ...


@tw.kernel(deny_checks=True)
def add_one(z: Mut[T, BM, BN], x: Ref[T, M, N]) -> None:
    z.store(x.load_like(z) + 1)


@tw.kernel(deny_checks=True)
def line(z: Mut[T, B], x: Ref[TX, N]) -> None:
    z.store(x.load_like(z).astype(z.dtype))


@st.composite
def views(draw):
    """A view of rank 2 of something of shape (7, 9), as a function of it."""
    rows, columns = (
        slice(draw(st.integers(0, 3)), draw(st.integers(4, 9)), draw(st.integers(1, 3)))
        for _ in range(2)
    )
    turned = draw(st.booleans())

    def view(x):
        part = x[rows, columns]
        return part.T if turned else part

    return view


@settings(max_examples=40, deadline=None)
@given(views(), views(), st.sampled_from([(1, 2), (4, 4), (2, 8)]))
def test_any_view_is_an_input_and_an_output(into, out_of, tile):
    here = np.arange(63, dtype=np.int32).reshape(7, 9)
    there = np.full((7, 9), -1, np.int32)
    x, z = tw.from_numpy(here), tw.from_numpy(there)
    shape = tuple(map(min, into(there).shape, out_of(here).shape))
    part = tuple(slice(extent) for extent in shape)
    add_one(into(z)[part].partition(*tile), out_of(x)[part]).sync()
    into(there)[part] = out_of(here)[part] + 1
    np.testing.assert_array_equal(z.numpy(), there)


def test_every_other_element_is_written_by_two_operations_at_once():
    z = tw.zeros((8, 64), f32)
    x = tw.ones((8, 32), f32)
    streams = [z.device.new_stream() for _ in range(2)]
    built = [add_one(z[:, odd::2].partition(4, 16), x) for odd in range(2)]
    for operation, stream in zip(built, streams, strict=True):
        operation.submit(stream)
    assert (z.numpy() == 2).all()


def test_reshaped_halves_are_written_by_two_operations_at_once():
    z = tw.zeros((8, 64), f32)
    x = tw.ones((8, 32), f32)
    built = [
        add_one(z.reshape(8, 2, 32)[:, 0].partition(4, 16), x),
        add_one(z[:, 32:].partition(4, 16), x),
    ]
    for operation in built:
        operation.submit()
    assert (z.numpy() == 2).all()


def test_reinterpreted_bytes_are_read_and_written():
    values = np.linspace(-2, 2, 100).astype(np.float16)
    x = tw.from_numpy(values)
    z = tw.zeros(100, f32)
    line(z.partition(32), x.reinterpret(i16).reinterpret(f16)).sync()
    np.testing.assert_array_equal(z.numpy(), values.astype(np.float32))
    line(x.reinterpret(i16).partition(32), tw.full(100, 0x3C00, i32)).sync()
    assert (x.numpy() == 1).all()
    line(x.reinterpret(u8)[1::2].partition(32), tw.full(100, 0xBC, u8)).sync()
    assert (x.numpy() == -1).all()


def test_the_rank_of_the_view_counts():
    z, x = tw.zeros((4, 16), f32), tw.ones((4, 16), f32)
    line(z[2].partition(16), x.reshape(64)[:16]).sync()
    assert z.numpy().sum(1).tolist() == [0, 0, 16, 0]
    with pytest.raises(tw.LaunchError, match="has rank 1; the tensor has rank 2"):
        line(z[2].partition(16), x)


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x,
        lambda x: x[1:, 3:],
        lambda x: x[:, ::2],
        lambda x: x.T,
        lambda x: x.reshape(-1, 4),
        lambda x: x[:, 8:].permute(1, 0),
    ],
)
def test_a_view_without_memory_is_compiled_for_as_a_real_one(view, monkeypatch):
    seen = []

    def noted(binding):
        made = specialize(binding)
        seen.append(made.tensors)
        return made

    # By name: `tilewright.kernel` is also the decorator.
    monkeypatch.setattr(sys.modules["tilewright.kernel"], "specialize", noted)
    real = tw.zeros((16, 32), f32)
    target = real.device.target
    unreal = tw.meta((16, 32), f32, target=target)
    for x in (real, unreal):
        shape = view(x).shape
        z = tw.zeros(shape, f32) if x is real else tw.meta(shape, f32, target=target)
        operation = add_one(z.partition(4, 4), view(x))
        operation.compile()
        operation.close()
    assert seen[0] == seen[1]
