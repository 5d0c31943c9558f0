"""What functions of the library keep of a handle: the same views, no longer than the handle."""

import gc
import weakref

import numpy as np
import pytest

import tilewright as tw
from tilewright import f16, f32
from tilewright.kernels import matmul
from tilewright.kernels.gemm.operands import ProductRequest, product
from tilewright.kernels.views import kept
from tilewright.tune import Config, forcing

SMALL = Config.of(BM=32, BN=16, BK=16)
FEW = Config.of(BM=8, BN=16, BK=64)


def drawn(*shape, dtype=f16, seed=0):
    return tw.from_numpy(np.random.default_rng(seed).standard_normal(shape, "f4")).astype(dtype)


def test_a_view_is_made_once_for_each_handle_and_way():
    made = []

    def view(tensor, start):
        made.append(start)
        return tensor[start:]

    x = tw.zeros((8,), f32)
    assert kept(x, view, 1) is kept(x, view, 1)
    assert kept(x, view, 2).shape == (6,)
    assert kept(x[:], view, 1) is not kept(x, view, 1)
    assert made == [1, 2, 1]


@pytest.mark.parametrize("rows", [40, 2])
def test_nothing_outlives_the_handles(rows):
    a, b, out = drawn(1, rows, 32), drawn(32, 24), tw.zeros((1, rows, 24), f16)
    with forcing("matmul", SMALL), forcing("gemv", FEW):
        for _ in range(3):
            matmul(a, b, out=out).sync()
    gone = [weakref.ref(one.storage) for one in (a, b, out)]
    del a, b, out
    gc.collect()
    assert [one() for one in gone] == [None] * 3


def test_the_same_handles_give_the_same_operands():
    a, b, out = drawn(40, 32), drawn(24, 32), tw.zeros((40, 24), f16)
    request = ProductRequest("matmul", out=out, transpose_b=True)
    first, again = (product(a, b, request)[0] for _ in range(2))
    assert all(one is other for one, other in zip(first, again, strict=True))
    other = product(drawn(40, 32, seed=1), b, request)[0]
    assert other.form is first.form
    assert other.a is not first.a


def test_what_was_allowed_before_is_refused_where_operands_differ():
    a, b = drawn(40, 32), drawn(32, 24)
    with forcing("matmul", SMALL):
        matmul(a, b).sync()
        with pytest.raises(tw.LaunchError, match="sums over the columns of `a` and the rows"):
            matmul(a, b, transpose_b=True)
        with pytest.raises(tw.LaunchError, match="`out` of matmul has shape"):
            matmul(a, b, out=tw.zeros((40, 25), f16))
        with pytest.raises(tw.LaunchError, match="`tf32` of matmul is for factors of f32"):
            matmul(a, b, tf32=True)
        tw.move(a)
        with pytest.raises(tw.MovedError):
            matmul(a, b)


def test_another_configuration_is_taken_at_the_next_call():
    a, b, out = drawn(40, 32), drawn(32, 24), tw.zeros((40, 24), f16)
    exact = a.numpy().astype("f8") @ b.numpy().astype("f8")
    for config in (SMALL, SMALL.updated(BM=16), SMALL.updated(SPLITS=2)):
        tw.fill(out, np.nan).sync()
        with forcing("matmul", config):
            matmul(a, b, out=out).sync()
        np.testing.assert_allclose(out.numpy(), exact, atol=1e-2)


def test_a_call_is_found_again_by_its_handles_alone():
    a, b, out = drawn(40, 32), drawn(32, 24), tw.zeros((40, 24), f16)
    others = [drawn(40, 32, seed=seed) for seed in range(1, 4)]
    with forcing("matmul", SMALL):
        for left in (a, *others, a, *others):
            for activation in (None, "relu"):
                tw.fill(out, np.nan).sync()
                assert matmul(left, b, out=out, activation=activation).sync() is out
                exact = left.numpy().astype("f8") @ b.numpy().astype("f8")
                exact = exact if activation is None else np.maximum(exact, 0)
                np.testing.assert_allclose(out.numpy(), exact, atol=1e-2)


def test_a_call_found_again_borrows_as_the_first_did():
    a, b, out = drawn(40, 32), drawn(32, 24), tw.zeros((40, 24), f16)
    with forcing("matmul", SMALL):
        for _ in range(3):
            matmul(a, b, out=out).sync()
        held = matmul(a, b, out=out)
        with pytest.raises(tw.BorrowError, match="matmul_once_kernel"):
            matmul(a, b, out=out)
        held.close()
        with pytest.raises(tw.BorrowError):
            matmul(out, drawn(24, 24), out=out)
        matmul(a, b, out=out).sync()
        tw.move(b)
        with pytest.raises(tw.MovedError):
            matmul(a, b, out=out)
