"""A `return` wherever it stands: in branches, in loops, in loops inside both."""

from itertools import product

import numpy as np
import pytest
from gpu_kernels import poisoned, run_both

import tilewright as tw
from tilewright import Mapped, Mut, i32
from tilewright.dims import B

pytestmark = pytest.mark.gpu

LENGTH = 11


@tw.kernel
def branch_in_branch(z: Mut[i32, B], a: i32, b: i32, n: i32) -> None:
    if a > 0:
        if b < n:
            return
        z.store(tw.full((B,), 2, i32))
    z.store(z.load() + 3)


@tw.kernel
def loop_in_branch(z: Mut[i32, B], a: i32, b: i32, n: i32) -> None:
    if a > 0:
        i = 0
        while i < n:
            i += 1
            if b < i:
                return
    z.store(tw.full((B,), 3, i32))


@tw.kernel
def loop_in_loop(z: Mut[i32, B], a: i32, b: i32, n: i32) -> None:
    for j in range(a):
        for i in range(n):
            if b < i + j:
                return
        z.store(tw.full((B,), j, i32))
    z.store(z.load() + 3)


@tw.kernel
def branches_in_loop(z: Mut[i32, B], a: i32, b: i32, n: i32) -> None:
    for i in range(n):
        if i < a:
            z.store(tw.full((B,), -i, i32))
            if b < i:
                return
        z.store(tw.full((B,), i, i32))
    z.store(z.load() + 3)


@tw.kernel
def before_a_walk(z: Mapped[i32, B], a: i32, b: i32, n: i32) -> None:
    if a > 0:
        i = 0
        while True:
            i += 1
            if i > 3:
                break
            if b < n:
                return
    for at in z.indices():
        z.store(tw.full((B,), 3, i32), at)


KERNELS = [branch_in_branch, loop_in_branch, loop_in_loop, branches_in_loop, before_a_walk]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.__name__)
def test_nothing_runs_behind_it(kernel):
    def launch(z, *scalars):
        cut = z.partition(4)
        return kernel(cut.persistent(blocks=2) if kernel is before_a_walk else cut, *scalars)

    for scalars in product((0, 1, 3), (0, 2), (0, 1, 4)):
        gpu, cpu = run_both(lambda z, given=scalars: launch(z, *given), poisoned(LENGTH, np.int32))
        np.testing.assert_array_equal(gpu, cpu, err_msg=str(scalars))
