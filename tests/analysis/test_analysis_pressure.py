"""How many words of tiles are held at once, and where."""

import pytest

import tilewright as tw
from tilewright import Cut, Mut, Ref, f16, f32
from tilewright.analysis.pressure import Pressure, register_pressure
from tilewright.dims import BM, BN, B, K, M, N
from tilewright.frontend.signature.samples import sample_specialization
from tilewright.ir.function import Function
from tilewright.ir.op import Block
from tilewright.ir.ops.control import Return


@tw.kernel
def product(z: Mut[f16, Cut[M, BM], Cut[N, BN]], x: Ref[f16, M, K], y: Ref[f16, K, N]) -> None:
    i, j = z.index
    xs, ys = x.partition(BM, 64), y.partition(64, BN)
    acc = tw.zeros((BM, BN), f32)
    for k in range(xs.num_tiles(1)):
        acc = tw.mma(xs[i, k], ys[k, j], acc)
    z.store(acc.astype(f16))


@tw.kernel
def three(z: Mut[f32, Cut[N, B]], w: Ref[f32, N], x: Ref[f32, N], y: Ref[f32, N]) -> None:
    a, b, c = w.load_like(z), x.load_like(z), y.load_like(z)
    z.store(a * b + c)


@tw.kernel
def one_by_one(z: Mut[f32, Cut[N, B]], w: Ref[f32, N], x: Ref[f32, N], y: Ref[f32, N]) -> None:
    total = w.load_like(z) * x.load_like(z)
    z.store(total + y.load_like(z))


def pressure(kernel, **chosen):
    spec = sample_specialization(kernel.signature, "sm_90", chosen)
    return kernel.specialized(spec).facts.pressure


def test_sums_of_a_product_are_held_and_its_factors_are_not():
    found = pressure(product, BM=128, BN=256)
    assert found.words == 128 * 256
    assert found.round_bytes == 2 * 64 * (128 + 256)
    assert found.location.span.line == product.source.node.lineno + 5  # the product itself


@pytest.mark.parametrize(("kernel", "tiles"), [(three, 3), (one_by_one, 2)])
def test_a_tile_is_held_to_its_last_use(kernel, tiles):
    assert pressure(kernel, B=1024).words == tiles * 1024


def test_half_words_and_nothing_at_all():
    @tw.kernel
    def copy(z: Mut[f16, Cut[N, B]], x: Ref[f16, N]) -> None:
        z.store(x.load_like(z))

    assert pressure(copy, B=1024).words == 512
    assert register_pressure(Function("empty", Block((), [Return()]))) == Pressure()
