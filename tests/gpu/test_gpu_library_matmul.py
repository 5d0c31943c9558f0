"""The matrix products of the library on the GPU, against float64."""

import numpy as np
import pytest
from matrix_products import TF32, check, check_grouped, some, stored

import tilewright as tw
from tilewright import bf16, f8e4m3fn, f8e5m2, f16, f32
from tilewright.kernels import grouped_matmul, matmul, matvec
from tilewright.tune import Config, forcing

pytestmark = pytest.mark.gpu

LARGE, PRIMES = (520, 776, 640), (257, 131, 67)


def poisoned(m, n, dtype=f16) -> tw.Tensor:
    return tw.full((m, n), float("nan"), dtype)


@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("shape", [LARGE, PRIMES])
def test_transposes(shape, transpose_a, transpose_b):
    asked = {"transpose_a": transpose_a, "transpose_b": transpose_b}
    a, b = stored(*shape, transpose_a, transpose_b, f16)
    check(matmul(a, b, out=poisoned(*shape[:2]), **asked).sync(), a, b, **asked)


@pytest.mark.parametrize("dtype", [bf16, f32, f8e4m3fn, f8e5m2], ids=lambda d: d.label)
@pytest.mark.parametrize("transpose_b", [False, True])
def test_dtypes(dtype, transpose_b):
    a, b = stored(*LARGE, False, transpose_b, dtype)
    check(matmul(a, b, transpose_b=transpose_b).sync(), a, b, transpose_b=transpose_b,
          factor_rounding=2.0**-14 if dtype in (f8e4m3fn, f8e5m2) else 0.0)  # fmt: skip


def test_tf32():
    a, b = stored(*LARGE, False, False, f32)
    check(matmul(a, b, tf32=True).sync(), a, b, factor_rounding=2 * TF32)


@pytest.mark.parametrize("activation", [None, "relu", "gelu", "silu"])
def test_epilogues(activation):
    m, n, _ = LARGE
    a, b = stored(*LARGE, False, True, f16)
    epilogue = {
        "bias": some(n, f32, 3), "activation": activation, "residual": some((m, n), f16, 4)
    }  # fmt: skip
    check(matmul(a, b, transpose_b=True, **epilogue).sync(), a, b, transpose_b=True, **epilogue)


def test_batches():
    a, b = some((5, 300, 136)), some((5, 136, 264), f16, 1)
    check(matmul(a, b).sync(), a, b)
    check(matmul(a, b[1]).sync(), a, b[1])
    check(matmul(a[1], b).sync(), a[1], b)


@pytest.mark.parametrize("dtype", [f16, f32], ids=lambda d: d.label)
def test_vectors(dtype):
    a, x, bias = some((777, 1037), dtype), some(1037, dtype, 1), some(777, dtype, 2)
    found = matvec(a, x, bias=bias).sync()
    check(found.unsqueeze(-1), a, x.unsqueeze(-1), bias=bias.unsqueeze(-1))


@pytest.mark.parametrize("shape", [(0, 64, 64), (64, 0, 64), (64, 64, 0), (1, 64, 0)])
def test_empty(shape):
    a, b = stored(*shape, False, False, f16)
    bias = some(shape[1], f16, 3)
    check(matmul(a, b, bias=bias).sync(), a, b, bias=bias)


@pytest.mark.parametrize(
    "config",
    [
        Config.of(BM=128, BN=128, BK=64, SPLITS=3, group=(1, 8, 1)),
        Config.of(BM=256, BN=256, BK=64, SPLITS=1, num_ctas=2, num_worker_warps=8),
        Config.of(BM=128, BN=256, BK=32, SPLITS=1, num_worker_warps=8),
        Config.of(BM=256, BN=256, BK=64, SPLITS=2, num_ctas=2, num_worker_warps=8),
        Config.of(BM=128, BN=128, BK=64, SPLITS=9, num_worker_warps=4),
        Config.of(BM=128, BN=128, BX=32, BK=64, SWAPPED=True, num_worker_warps=8),
        Config.of(BM=64, BN=128, BK=128, blocks=132, num_worker_warps=8),
        Config.of(BM=128, BN=128, BX=64, BK=64, LATENCY=6, num_worker_warps=8),
        Config.of(BM=64, BN=128, BX=32, BK=128, LATENCY=4, num_worker_warps=4),
    ],
    ids=str,
)
def test_configurations(config):
    m, n, k = 700, 904, 1000
    a, b = stored(m, n, k, False, True, f16)
    bias, out = some(n, f16, 3), poisoned(m, n)
    with forcing("matmul", config):
        matmul(a, b, out=out, transpose_b=True, bias=bias, activation="relu").sync()
    check(out, a, b, transpose_b=True, bias=bias, activation="relu")


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize(
    "shape", [(1, 517, 2049), (19, 131, 4099), (1000, 777, 333), (130, 2000, 77), (5, 3, 2)]
)
def test_rows_that_are_not_aligned(shape, transpose_a, transpose_b):
    a, b = stored(*shape, transpose_a, transpose_b, f16)
    turned = {"transpose_a": transpose_a, "transpose_b": transpose_b}
    out = poisoned(*shape[:2])
    check(matmul(a, b, out=out, **turned).sync(), a, b, **turned)


@pytest.mark.parametrize("rows", [17, 24, 33, 64, 90, 100, 128, 150, 190, 256, 300])
@pytest.mark.parametrize(("n", "k"), [(1024, 4096), (6144, 512), (320, 20000)])
def test_any_number_of_rows(rows, n, k):
    a, b = stored(rows, n, k, False, True, bf16)
    out, residual = poisoned(rows, n, bf16), some((rows, n), bf16, 4)
    given = {"transpose_b": True, "residual": residual, "activation": "gelu"}
    check(matmul(a, b, out=out, **given).sync(), a, b, **given)


@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("rows", [1, 3, 16])
def test_few_rows(rows, transpose_b):
    a, b = stored(rows, 1000, 2560, False, transpose_b, f16)
    out = poisoned(rows, 1000)
    check(matmul(a, b, out=out, transpose_b=transpose_b).sync(), a, b, transpose_b=transpose_b)


@pytest.mark.parametrize(("rows", "folds"), [(1, 4), (1, 8), (7, 2), (16, 4)])
def test_folded_rows(rows, folds):
    a, b = stored(rows, 1000, 2560, False, True, bf16)
    out = poisoned(rows, 1000, bf16)
    config = Config.of(BM=max(8 // folds, 1 << (rows - 1).bit_length()), BN=64 // folds, BK=128,
                       FOLDS=folds)  # fmt: skip
    with forcing("gemv", config):
        matmul(a, b, out=out, transpose_b=True).sync()
    check(out, a, b, transpose_b=True)


@pytest.mark.parametrize(
    "offsets", [[0, 100, 100, 300, 555], [7, 600, 3, 64, 700], [0, 0, 0, 0, 0]]
)
def test_groups(offsets):
    a, b = some((640, 264)), some((4, 136, 264), f16, 1)
    out = tw.full((640, 136), 7, f16)
    places = np.array(offsets)
    grouped_matmul(a, b, tw.from_numpy(places), out=out, transpose_b=True).sync()
    check_grouped(out, a, b, np.clip(places, 0, 640), elsewhere=7.0, transpose_b=True)


def test_in_a_graph():
    a, b = some((300, 200)), some((200, 400), f16, 1)
    hidden, out = tw.zeros((300, 400), f16), tw.zeros((300, 200), f16)
    with tw.graph() as g:
        g.record(matmul(a, b, activation="relu", out=hidden))
        g.record(matmul(hidden, b, transpose_b=True, out=out))
    for _ in range(3):
        g.launch().submit()
    check(out, hidden, b, transpose_b=True)
