"""Constants that a call leaves out are the extents of the tensors that it gives."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tilewright as tw
from tilewright import Const, Cut, Mut, Ref, f32
from tilewright.dims import BM, B, K, M, N
from tilewright.tune import Space

pytestmark = pytest.mark.filterwarnings("error::tilewright.ExtentWarning")


@tw.kernel(deny_checks=True)
def totals(
    z: Mut[f32, Cut[M, BM]], x: Ref[f32, M, N], *, N: Const[int], BY: Const[int] = 1
) -> None:
    """All columns at once: N is a number when the kernel is compiled, here a power of two."""
    tw.static_assert(N == 4 or N == 8, "N is known")
    z.store(tw.sum(x.partition(BM, N)[z.index[0], 0], axis=1) * BY)


def refuse(text):
    return pytest.raises(tw.LaunchError, match=re.escape(text))


def rows(columns, count=6):
    return tw.zeros((count,), f32), tw.ones((count, columns), f32)


def test_the_extent_is_the_constant():
    for columns in (4, 8, 4, 8):
        z, x = rows(columns)
        for _ in range(3):  # cold, planned, bound
            result = totals(z.partition(4), x).sync()
            assert (z.numpy() == columns).all()
            assert result[2:] == (columns, 1)
    with pytest.raises(tw.CompileError, match="N is known"):
        totals(*(part(one) for part, one in zip((cut, whole), rows(5), strict=True)))


def cut(tensor):
    return tensor.partition(4)


def whole(tensor):
    return tensor


def test_one_that_is_given_is_compared_with_the_extent():
    z, x = rows(8)
    totals(z.partition(4), x, N=8, BY=2).sync()
    assert (z.numpy() == 16).all()
    with refuse("`x` of kernel `totals` has extent 8 along axis 1, but N is 4 in this call"):
        totals(z.partition(4), x, N=4)
    totals(z.partition(4), x).sync()
    with refuse("`x` of kernel `totals` has extent 8 along axis 1, but N is 4 in this call"):
        totals(z.partition(4), x, N=4)


def test_other_extents_are_other_kernels():
    found = set()
    for columns in (4, 8, 4):
        z, x = rows(columns, 12)
        operation = totals(z.partition(4), x)
        operation.sync()
        assert (z.numpy() == columns).all()
    for specialization in {key[1] for key in totals._compiled._entries}:
        found.add(specialization.constant("N"))
    assert found >= {4, 8}


def test_arrays_of_other_libraries(on_the_cpu):
    for columns in (4, 8, 4, 4):
        z, x = np.zeros(6, np.float32), np.ones((6, columns), np.float32)
        result = totals(tw.partition(z, 4), x).sync()
        assert (z == columns).all()
        assert result[2] == columns


def test_an_output_gives_its_extent_too():
    @tw.kernel
    def sized(z: Mut[f32, Cut[K, B]], *, K: Const[int]) -> None:
        z.store(tw.full((B,), K, f32))

    for size in (10, 12, 10):
        z = tw.zeros((size,), f32)
        sized(z.partition(4)).sync()
        assert (z.numpy() == size).all()


def test_all_axes_that_have_the_name_agree():
    @tw.kernel
    def scaled(z: Mut[f32, Cut[N, B]], x: Ref[f32, N], w: Ref[f32, N], *, N: Const[int]) -> None:
        z.store((x.load_like(z) + w.load_like(z)) * N)

    z, x, w = (tw.ones((size,), f32) for size in (8, 8, 12))
    scaled(z.partition(4), x, x[:]).sync()
    assert (z.numpy() == 16).all()
    with refuse("`w` of kernel `scaled` has extent 12 along axis 0, but N is 8 in this call"):
        scaled(z.partition(4), x, w)


def test_constants_that_nothing_gives_are_asked_for():
    @tw.kernel
    def shifted(z: Mut[f32, B], x: Ref[f32, N], *, BY: Const[int], M: Const[float]) -> None:
        z.store(x.load_like(z) + BY * M)

    z, x = tw.zeros((8,), f32), tw.ones((8,), f32)
    with refuse("missing a required"):
        shifted(z.partition(4), x)
    with refuse("missing a required"):
        shifted(z.partition(4), x, M=1.0)


def test_a_default_stays_what_it_is():
    @tw.kernel
    def fixed(z: Mut[f32, Cut[N, B]], x: Ref[f32, N], *, N: Const[int] = 8) -> None:
        z.store(x.load_like(z) * N)

    z, x = tw.zeros((8,), f32), tw.ones((8,), f32)
    fixed(z.partition(4), x).sync()
    assert (z.numpy() == 8).all()
    with refuse("has extent 4 along axis 0, but N is 8 in this call"):
        fixed(z[:4].partition(4), x[:4])


def test_a_tuned_kernel_infers_too():
    @tw.autotune(Space(B=(4, 8)), key=("M",))
    @tw.kernel
    def scaled(z: Mut[f32, Cut[M, B]], x: Ref[f32, M], w: Ref[f32, N], *, N: Const[int]) -> None:
        z.store(x.load_like(z) * N)

    for columns in (3, 5):
        z = tw.zeros((8,), f32)
        scaled(z, tw.ones((8,), f32), tw.ones((columns,), f32)).sync()
        assert (z.numpy() == columns).all()
