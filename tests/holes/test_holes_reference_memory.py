"""Holes 2, 13 and 16 of the reference system: memory and order by other ways than tensors."""

import numpy as np
import pytest

import tilewright as tw
from tilewright import Mut, Ref, f32, i32
from tilewright.dims import B, N


def zeros(n, dtype=i32):
    return tw.zeros((n,), dtype)


@pytest.mark.parametrize(
    "name",
    ["int_to_ptr", "ptr_to_int", "load_ptr", "store_ptr", "atomic_rmw", "Global", "make_token",
     "new_token_unordered", "join_tokens", "make_tensor_view"],
)  # fmt: skip
def test_02_13_16_no_public_name_reaches_memory_or_order(name):
    """Holes 2, 13, 16: raw memory, shared globals and tokens were within reach of safe code."""
    assert not hasattr(tw, name)


def by_pointer(z: Mut[i32, B], p: tw.Ptr[i32]) -> None:
    z.store(tw.load(p + tw.arange(B)))


def by_swapping(z: Mut[i32, B], p: tw.Ptr[i32]) -> None:
    z.store(tw.atomic_cas(p + tw.arange(B), 0, 1))


def by_promising(z: Mut[i32, B], x: Ref[i32, N], n: i32) -> None:
    tw.assume(n < x.partition(B).num_tiles(0))
    z.store(x.partition(B)[n])


def test_02_memory_is_reached_where_a_reason_is_given_and_nowhere_else():
    """Hole 2: pointers, atomics and assumptions were safe to call."""
    for function in (by_pointer, by_swapping):
        with pytest.raises(tw.CompileError, match=r"raw pointer \(Ptr\), which only an unsafe"):
            tw.kernel(function)
        kernel = tw.kernel(unsafe=True)(function)
        with pytest.raises(tw.LaunchError, match="is unsafe"):
            kernel(zeros(4).partition(4), zeros(4))
        with pytest.raises(tw.CompileError, match=r"is unsafe, and this is not inside `with"):
            kernel.unsafe(zeros(4).partition(4), zeros(4))
    with pytest.raises(tw.CompileError, match=r"`tw\.assume` is unsafe, and this is not inside"):
        tw.kernel(by_promising)(zeros(4).partition(4), zeros(4), 0)


SHARED = np.zeros(4)


@tw.kernel
def writes_a_global(z: Mut[f32, B]) -> None:
    z.store(SHARED)


def test_13_no_kernel_shares_a_global():
    """Hole 13: every block could store to a global without order."""
    with pytest.raises(tw.CompileError, match="cannot use `SHARED` from outside"):
        writes_a_global(zeros(4, f32).partition(4))
