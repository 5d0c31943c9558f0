"""The form of report is chosen by what the kernel does around its checks."""

import numpy as np
import pytest

import tilewright as tw
from tilewright import Const, Mut, Ref, f32, i32
from tilewright.dims import BM, BN, B, K, M, N, P, T
from tilewright.frontend.signature.samples import sample_specialization


@tw.kernel
def listed_gemm(
    z: Mut[T, BM, BN], x: Ref[T, M, K], y: Ref[T, K, N], ks: Ref[i32, P], *, BK: Const[int] = 64
) -> None:
    """A product whose k tiles come from a list in memory."""
    xs, ys = x.partition(BM, BK), y.partition(BK, BN)
    i, j = z.index
    acc = tw.zeros((BM, BN), f32)
    for n in range(ks.partition(1).num_tiles(0)):
        k = ks.partition(1)[n].item()
        acc = tw.mma(xs[i, k], ys[k, j], acc)
    z.store(acc.astype(z.dtype))


@tw.kernel
def listed_sum(z: Mut[f32, B], x: Ref[f32, N], ks: Ref[i32, P]) -> None:
    """A sum of tiles from a list in memory."""
    xs = x.partition(B)
    total = tw.zeros((B,), f32)
    for n in range(ks.partition(1).num_tiles(0)):
        total = total + xs[ks.partition(1)[n].item()]
    z.store(total)


def entries(kernel: tw.Kernel) -> list[str]:
    compiled = kernel.specialized(sample_specialization(kernel.signature, "sm_90"))
    return [function.name for function in compiled.module.functions]


def test_a_checked_loop_of_products_is_audited_and_another_carries_its_report():
    assert entries(listed_gemm) == ["listed_gemm", "listed_gemm_audit"]
    assert entries(listed_sum) == ["listed_sum"]


@pytest.mark.parametrize("bad", [-1, 2, 2**31 - 1])
def test_the_audit_reports_and_the_kernel_clamps(bad):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 32, 128)).astype(np.float32)
    x, y, z = tw.from_numpy(a), tw.from_numpy(np.ascontiguousarray(b.T)), tw.zeros((32, 32), f32)
    op = listed_gemm(z.partition(32, 32), x, y, tw.from_numpy(np.array([0, bad], np.int32)))
    op.submit()
    with pytest.raises(tw.OutOfBoundsError, match=rf"index {bad} is outside axis 1 of `x`"):
        op.sync()
    listed_gemm(z.partition(32, 32), x, y, tw.from_numpy(np.array([1, 0], np.int32))).sync()
    np.testing.assert_allclose(z.numpy(), a @ b.T, rtol=1e-4, atol=1e-4)
