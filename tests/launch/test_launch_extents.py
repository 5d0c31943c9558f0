"""Launches with other extents: planned where all else is alike, refused as the first would be."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from launch_ways import way

import tilewright as tw
from tilewright import Const, Mapped, Mut, Ref, f32, i32
from tilewright.dims import BM, BN, B, K, M, N
from tilewright.jit.bind import launch as bind_module
from tilewright.jit.plans import polymorphic
from tilewright.runtime.memory.layout import Layout


@tw.kernel
def add(z: Mut[f32, B], x: Ref[f32, N], y: Ref[f32, N]) -> None:
    z.store(x.load_like(z) + y.load_like(z))


@tw.kernel
def rows(z: Mut[f32, BM, tw.All], x: Ref[f32, M, N], w: Ref[f32, N], *, BN: Const[int] = 4) -> None:
    parts, xs, ws = z.partition(BM, BN), x.partition(BM, BN), w.partition(BN)
    for k in range(parts.num_tiles(1)):
        parts.store(xs[z.index[0], k] * ws[k][None, :], 0, k)


@tw.kernel
def product(z: Mapped[f32, BM, BN], x: Ref[f32, M, K], y: Ref[f32, K, N]) -> None:
    tw.require(x.shape[1] % 4 == 0)
    xs, ys = x.partition(BM, 4), y.partition(4, BN)
    for at in z.indices():
        acc = tw.zeros((BM, BN), f32)
        for k in range(xs.num_tiles(1)):
            acc = tw.mma(xs[at[0], k], ys[k, at[1]], acc)
        z.store(acc, at)


@tw.kernel
def shifted(z: Mut[i32, B], x: Ref[i32, N], by: i32) -> None:
    xs = x.partition(B)
    z.store(xs[z.index[0] + by])


def ran(operation):
    found = way(operation)
    operation.sync()
    return found


def vectors(size):
    x = np.arange(size, dtype=np.float32)
    return tw.zeros((size,), f32), tw.from_numpy(x), tw.from_numpy(x * 2), x * 3


def refuse(text):
    return pytest.raises(tw.LaunchError, match=re.escape(text))


def test_extents_that_the_compiler_knows_the_same_of_are_planned():
    found = []
    for size in (64, 64, 96, 160, 7 * 16, 96, 16, 1 << 12):
        z, x, y, wanted = vectors(size)
        found.append(ran(add(z.partition(16), x, y)))
        assert np.array_equal(z.numpy(), wanted)
    assert found[1:] == ["plan"] * 7


def test_other_divisors_other_tiles_and_strides_are_others():
    z, x, y, _ = vectors(64)
    add(z.partition(16), x, y).sync()
    z, x, y, wanted = vectors(63)
    assert ran(add(z.partition(16), x, y)) == "cold"
    assert np.array_equal(z.numpy(), wanted)
    z, x, y, wanted = vectors(128)
    assert ran(add(z.partition(32), x, y)) == "cold"
    assert np.array_equal(z.numpy(), wanted)
    z, x, y, wanted = vectors(128)
    assert ran(add(z[::2].partition(16), x[::2], y[::2])) == "cold"
    assert np.array_equal(z.numpy()[::2], wanted[::2])


def test_dims_that_do_not_agree_are_refused_as_ever():
    z, x, y, _ = vectors(64)
    add(z.partition(16), x, y).sync()
    w, *_ = vectors(96)
    with refuse("has extent 96 along axis 0, but N is 64"):
        add(z.partition(16), x, w)
    with refuse("the kernel requires `x.shape[0] == z.shape[0], since x is read like z`"):
        add(w.partition(16), x, y)
    _, x, y, wanted = vectors(96)
    assert ran(add(w.partition(16), x, y)) != "cold"
    assert np.array_equal(w.numpy(), wanted)


def test_an_empty_launch_leaves_what_there_is():
    z, x, y, _ = vectors(64)
    add(z.partition(16), x, y).sync()
    z, x, y, _ = vectors(0)
    assert add(z.partition(16), x, y).sync()[1] is x


def test_overlaps_are_looked_at():
    z, x, y, _ = vectors(64)
    add(z.partition(16), x, y).sync()
    wide, *_ = vectors(96)
    with pytest.raises(tw.BorrowError, match="is written by this launch and also read by it as x"):
        add(wide[:80].partition(16), wide[16:], tw.zeros((80,), f32))


def test_whole_axes():
    for m, n, expected in ((8, 16, None), (24, 16, "plan"), (40, 48, "plan")):
        x, w = np.random.rand(m, n).astype(np.float32), np.random.rand(n).astype(np.float32)
        z = tw.zeros((m, n), f32)
        operation = rows(z.partition(8, None), tw.from_numpy(x), tw.from_numpy(w))
        assert expected in (None, way(operation))
        operation.sync()
        assert np.array_equal(z.numpy(), x * w)


def test_how_many_rows_there_are_decides_nothing():
    """What counts is whether vectors fill the axis along which memory runs."""
    found = []
    for m, n in ((16, 16), (3, 16), (1, 16), (12, 32), (16, 12), (5, 20)):
        x, w = np.random.rand(m, n).astype(np.float32), np.random.rand(n).astype(np.float32)
        z = tw.zeros((m, n), f32)
        found.append(ran(rows(z.partition(2, None), tw.from_numpy(x), tw.from_numpy(w))))
        assert np.array_equal(z.numpy(), x * w)
    assert found == ["cold", *["plan"] * 3, "cold", "plan"]


def test_walks_and_requirements():
    found = []
    for m, k, n in ((16, 16, 16), (48, 32, 16), (16, 16, 80)):
        x, y = (np.random.rand(*shape).astype(np.float32) for shape in ((m, k), (k, n)))
        z = tw.zeros((m, n), f32)
        cut = z.partition(8, 8).persistent(blocks=3)
        found.append(ran(product(cut, tw.from_numpy(x), tw.from_numpy(y))))
        assert np.allclose(z.numpy(), x @ y, rtol=1e-5)
    assert found[1:] == ["plan"] * 2
    x, y, z = tw.zeros((16, 18), f32), tw.zeros((18, 16), f32), tw.zeros((16, 16), f32)
    with refuse("the kernel requires `x.shape[1] % 4 == 0`"):
        product(z.partition(8, 8).persistent(blocks=3), x, y)


def test_checks_with_scalars_are_made_with_the_extents_of_the_call():
    for size in (64, 64, 128):
        x = np.arange(size + 16, dtype=np.int32)
        z, y = tw.zeros((size,), i32), tw.from_numpy(x)
        shifted(z.partition(16), y, 1).sync()
        assert np.array_equal(z.numpy(), x[16:])
        with refuse("axis 0"):
            shifted(z.partition(16), y, 2)
    assert ran(shifted(z.partition(16), y, 0)) != "cold"


def test_a_plan_for_other_extents_is_prepared_in_the_end():
    z, x, y, _ = vectors(64)
    add(z.partition(16), x, y).sync()
    z, x, y, wanted = vectors(48)
    assert [ran(add(z.partition(16), x, y)) for _ in range(3)] == ["plan", *["bound"] * 2]
    again = [(tw.zeros(48, f32), x, y) for _ in range(3)]
    assert [ran(add(a.partition(16), b, c)) for a, b, c in again] == ["plan"] * 3
    assert np.array_equal(z.numpy(), wanted)


layouts = st.lists(
    st.tuples(st.integers(1, 40), st.sampled_from((1, 2, 3, 16, 40, 2**31))), min_size=1, max_size=3
)


@settings(max_examples=150)
@given(one=layouts, other=layouts, places=st.tuples(st.integers(0, 8), st.integers(0, 8)))
def test_equal_polymorphic_keys_have_one_specialisation(one, other, places):
    device = tw.Device("cpu")

    def key_and_spec(axes, place):
        shape, strides = zip(*axes, strict=True)
        storage = tw.zeros((1,), f32, device=device).storage
        handle = tw.Tensor(storage, f32, Layout(shape, strides, place))
        return polymorphic.polymorphic_key((handle.spec,)), bind_module._plain_spec(handle)

    (key, spec), (key_too, spec_too) = map(key_and_spec, (one, other), places)
    if key == key_too:
        assert spec == spec_too


@tw.kernel
def first_of_two(z: Mut[f32, B], x: Ref[f32, N], unused: Ref[f32, N]) -> None:
    z.store(x.load_like(z))


def test_a_tensor_that_the_kernel_leaves_alone_counts_at_the_launch_all_the_same():
    z, x, y, _ = vectors(64)
    first_of_two(z.partition(16), x, y).sync()
    assert np.array_equal(z.numpy(), x.numpy())
    short, *_ = vectors(48)
    with refuse("has extent 48 along axis 0, but N is 64"):
        first_of_two(z.partition(16), x, short)
    with pytest.raises(tw.BorrowError, match="is written by this launch and also read by it"):
        first_of_two(z.partition(16), x, z)
    z, x, y, _ = vectors(96)
    assert ran(first_of_two(z.partition(16), x, y)) != "cold"
    assert np.array_equal(z.numpy(), x.numpy())
