"""Numbers in a kernel's source that 32 bits do not hold.

| quantity | seen to by |
|---|---|
| literals and constants | refused where they do not fit |
| lengths of `tw.arange`, of unrolled loops | refused |
| extents that a signature fixes | refused by the launch, which has no such tensor |
| products | computed as the machine does, and never trusted to fit |
| wide scalars as indices | compared in their own width |
"""

import numpy as np
import pytest

import tilewright as tw
from tilewright import (
    CompileError,
    Const,
    LaunchError,
    Mut,
    OutOfBoundsError,
    Ref,
    f32,
    i32,
    i64,
)
from tilewright.dims import B, N

LARGEST = 2**31 - 1
X = np.arange(16, dtype=np.float32)


def result(kernel, *arguments, dtype=f32, **constants):
    z = tw.zeros((4,), dtype)
    kernel(z.partition(4), *arguments, **constants).sync()
    return z.numpy().tolist()


@tw.kernel
def constant(z: Mut[i32, B], n: i32, *, K: Const[int]) -> None:
    z.store(tw.full((B,), n + K, i32))


@tw.kernel
def at_constant(z: Mut[f32, B], x: Ref[f32, N], *, K: Const[int]) -> None:
    z.store(x.partition(B)[K])


@tw.kernel
def up_to(z: Mut[i32, B], *, K: Const[int]) -> None:
    t = 0
    for _ in range(K):
        t += 1
        if t == 3:
            break
    z.store(tw.full((B,), t, i32))


@tw.kernel
def unrolled(z: Mut[i32, B], *, K: Const[int]) -> None:
    t = 0
    for _ in tw.static_range(K):
        t += 1
    z.store(tw.full((B,), t, i32))


@tw.kernel
def counting(z: Mut[i32, B], *, K: Const[int]) -> None:
    z.store(tw.arange(K, i32))


@pytest.mark.parametrize("number", [2**31, -(2**31) - 1, 2**32, -(2**32), 2**63, 2**70])
def test_a_constant_that_does_not_fit_is_refused(number):
    for kernel, arguments, dtype in ((constant, (1,), i32), (at_constant, (X,), f32)):
        with pytest.raises(CompileError, match="does not fit i32"):
            result(kernel, *arguments, K=number, dtype=dtype)


def test_the_largest_constants_are_taken():
    assert result(constant, 0, K=LARGEST, dtype=i32) == [LARGEST] * 4
    assert result(constant, 0, K=-(2**31), dtype=i32) == [-(2**31)] * 4
    assert result(constant, -1, K=-(2**31), dtype=i32) == [LARGEST] * 4, "as the machine has it"
    assert result(up_to, K=LARGEST, dtype=i32) == [3] * 4


def test_lengths_beyond_reach_are_refused():
    with pytest.raises(CompileError, match="2147483648 does not fit i32"):
        result(up_to, K=2**31, dtype=i32)
    with pytest.raises(CompileError, match="each is a turn of its own"):
        result(unrolled, K=2**40, dtype=i32)
    with pytest.raises(CompileError, match="the most a tile can have is 16,777,216"):
        result(counting, K=2**33, dtype=i32)


@tw.kernel
def fixed(z: Mut[i32, B], x: Ref[f32, 2147483648]) -> None:
    z.store(tw.full((B,), x.partition(4).num_tiles(0), i32))


@tw.kernel
def multiplied(z: Mut[f32, B], x: Ref[f32, N], n: i32) -> None:
    """`n * 65536` is 0 in 32 bits for n of 65536, and no index of the axis for most others."""
    at = n * 65536
    z.store(x.partition(B)[at if n > 0 else 0])


@tw.kernel
def wide(z: Mut[f32, B], x: Ref[f32, N], n: i64) -> None:
    z.store(x.partition(B)[n])


def test_an_extent_that_no_tensor_has_is_refused():
    with pytest.raises(LaunchError, match="the signature fixes it at 2147483648"):
        result(fixed, X, dtype=i32)


@pytest.mark.parametrize("factor", [0, 1, 2**15, 2**16, -(2**15), LARGEST, -(2**31)])
def test_products_wrap_as_the_machine_does_and_are_checked_behind_that(factor):
    at = (factor * 65536 + 2**31) % 2**32 - 2**31
    if factor <= 0 or at == 0:
        assert result(multiplied, X, factor) == [0, 1, 2, 3]
    else:
        with pytest.raises((OutOfBoundsError, LaunchError), match=f"{at}"):
            result(multiplied, X, factor)


@pytest.mark.parametrize("index", [2**31, 2**32, 2**32 + 1, -(2**32), 2**63 - 1, -(2**63)])
def test_a_wide_scalar_is_no_index_though_its_low_bits_are(index):
    with pytest.raises(LaunchError, match=f"index {index}"):
        result(wide, X, index)
    assert result(wide, X, 3) == [12, 13, 14, 15]
