"""The library's own choices, and those for a user's product, spill on no architecture.

An architecture without measurements has no other proof that a configuration is reasonable. One
problem stands for each form of a kernel; products and attention are those that fill the registers.
"""

import pytest

import tilewright as tw
from tilewright import Const, Cut, Mapped, Ref, f16, f32, kernels
from tilewright.dims import BM, BN, K, M, N
from tilewright.jit.compile.launch_warnings import TOLERATED

OTHERS = ("sm_80", "sm_89", "sm_100", "sm_120")  # sm_90 has measured records


@tw.kernel(deny_checks=True)
def gemm(
    z: Mapped[f16, Cut[M, BM], Cut[N, BN]], x: Ref[f16, M, K], y: Ref[f16, K, N],
    *, BK: Const[int] = 64,
) -> None:  # fmt: skip
    xs, ys = x.partition(BM, BK), y.partition(BK, BN)
    for at in z.indices():
        i, j = at
        acc = tw.zeros((BM, BN), f32)
        for k in range(xs.num_tiles(1)):
            acc = tw.mma(xs[i, k], ys[k, j], acc)
        z.store(acc.astype(f16), at)


def _problems(target):
    def of(*shape):
        return tw.meta(shape, f16, target=target)

    for rows in (1, 128, 4096):
        out, weights = of(rows, 4096), of(4096, 4096)
        made = kernels.matmul(of(rows, 4096), weights, transpose_b=rows == 1, out=out)
        yield f"matmul of {rows}", made
    for channels in (64, 128, 256):
        shape = (1, 16, 2048, channels)
        made = kernels.attention(*(of(*shape) for _ in "qkv"), causal=True, out=of(*shape))
        yield f"attention of {channels}", made
    yield "softmax", kernels.softmax(of(256, 8192), out=of(256, 8192))
    yield "rms_norm", kernels.rms_norm(of(256, 8192), of(8192), out=of(256, 8192))


def _spilling(operations):
    """The kernels that spill, by the name of their problem; assemblers run side by side."""
    named = [(name, made.programs, made) for name, made in operations]
    found = {}
    for name, programs, made in named:
        for one in (entry for program in programs for entry in program.result().resources()):
            if one.stack_bytes > TOLERATED:
                found[name, one.kernel] = one.stack_bytes
        made.close()
    return found


@pytest.mark.parametrize("target", OTHERS)
def test_the_library_spills_nowhere(target):
    assert _spilling(_problems(target)) == {}


@pytest.mark.parametrize(
    ("target", "rows", "columns"),
    [(target, 128, 256) for target in ("sm_80", "sm_89", "sm_90", "sm_120")]
    + [("sm_80", 64, 64), ("sm_90", 256, 256), ("sm_100", 256, 256), ("sm_120", 256, 256)],
)
def test_a_users_product_spills_for_no_tile_that_fits(target, rows, columns):
    z, x, y = (tw.meta((4096, 4096), f16, target=target) for _ in "zxy")
    made = gemm(z.partition(rows, columns).persistent(), x, y)
    assert _spilling([("gemm", made)]) == {}


@pytest.mark.parametrize(("ctas", "spills"), [(1, True), (2, False)])
def test_a_tile_beyond_the_registers_spills(ctas, spills):
    """The figure that the others must not have is one that the assembler states."""
    z, x, y = (tw.meta((4096, 4096), f16, target="sm_90") for _ in "zxy")
    hinted = gemm.with_hints(num_worker_warps=4, num_ctas=ctas)
    made = hinted(z.partition(128, 256).persistent(), x, y)
    assert bool(_spilling([("gemm", made)])) is spills
