"""The hints that follow from a kernel's tiles, beside those that its author gives."""

import math
from dataclasses import replace
from typing import Literal

import pytest

import tilewright as tw
from tilewright import Const, Cut, Hints, Mapped, Mut, Ref, f8e4m3fn, f16, f32
from tilewright.dims import BM, BN, B, D, K, L, M, N, S, T
from tilewright.frontend.signature.samples import sample_specialization
from tilewright.ir.function import EntryHints
from tilewright.ir.ops.memory import LoadView


@tw.kernel(deny_checks=True)
def gemm(
    z: Mapped[T, Cut[M, BM], Cut[N, BN]], x: Ref[T, M, K], y: Ref[T, K, N], *, BK: Const[int] = 64
) -> None:
    xs, ys = x.partition(BM, BK), y.partition(BK, BN)
    for at in z.indices():
        i, j = at
        acc = tw.zeros((BM, BN), f32)
        for k in range(xs.num_tiles(1)):
            acc = tw.mma(xs[i, k], ys[k, j], acc)
        z.store(acc.astype(z.dtype), at)


@tw.kernel(deny_checks=True)
def hasty(z: Mut[f16, Cut[M, BM], Cut[N, BN]], x: Ref[f16, M, K], y: Ref[f16, K, N]) -> None:
    i, j = z.index
    xs, ys = x.partition(BM, 64), y.partition(64, BN)
    acc = tw.zeros((BM, BN), f32)
    for k in range(xs.num_tiles(1)):
        acc = tw.mma(xs.load(i, k, latency=7), ys[k, j], acc)
    z.store(acc.astype(f16))


@tw.kernel(deny_checks=True)
def attention(
    z: Mut[f16, Cut[B, Literal[1]], Cut[S, BM], Cut[D, D]],
    q: Ref[f16, B, S, D], k: Ref[f16, B, L, D], v: Ref[f16, B, L, D],
    *, KEYS: Const[int] = 64,
) -> None:  # fmt: skip
    b, i, _ = z.index
    tw.require(L % KEYS == 0)
    keys, values = k[b].partition(KEYS, D), v[b].partition(KEYS, D)
    queries = q[b].partition(BM, D)[i, 0]
    top = tw.full((BM, 1), -math.inf, f32)
    acc = tw.zeros((BM, D), f32)
    for j in range(keys.num_tiles(0)):
        scores = queries @ keys[j, 0].T
        higher = tw.maximum(top, tw.max(scores, axis=1, keepdims=True))
        acc = tw.mma(tw.exp2(scores - higher).astype(f16), values[j, 0], acc)
        top = higher
    z[b].store(acc.astype(f16))


@tw.kernel(deny_checks=True)
def softmax(z: Mut[f32, Cut[M, Literal[1]], Cut[N, BN]], x: Ref[f32, M, N]) -> None:
    v = x.load_like(z, padding=-math.inf)
    v = tw.exp(v - tw.max(v, axis=1, keepdims=True))
    z.store(v / tw.sum(v, axis=1, keepdims=True))


@tw.kernel
def add(z: Mut[f32, Cut[N, B]], x: Ref[f32, N]) -> None:
    z.store(x.load_like(z) + 1.0)


def compiled(kernel, target="sm_90", hints=None, **chosen):
    spec = sample_specialization(kernel.signature, target, chosen, hints or Hints())
    return kernel.specialized(spec)


def hints_of(kernel, target="sm_90", hints=None, **chosen):
    return compiled(kernel, target, hints, **chosen).facts.hints


WIDE = EntryHints(num_worker_warps=8)
SMALL = EntryHints(occupancy=2)


@pytest.mark.parametrize(
    ("target", "rows", "columns", "expected"),
    [
        ("sm_90", 64, 64, SMALL), ("sm_90", 128, 128, EntryHints()), ("sm_90", 128, 256, WIDE),
        ("sm_90", 256, 128, WIDE), ("sm_90", 256, 256, replace(WIDE, num_ctas=2)),
        ("sm_90", 512, 256, replace(WIDE, num_ctas=4)),
        ("sm_80", 64, 64, SMALL), ("sm_80", 128, 128, WIDE), ("sm_80", 256, 256, WIDE),
        ("sm_120", 64, 64, SMALL), ("sm_120", 64, 128, WIDE),
        ("sm_120", 256, 256, replace(WIDE, num_ctas=2)),
        ("sm_100", 128, 256, EntryHints()), ("sm_100", 256, 256, EntryHints(num_ctas=2)),
        ("sm_107", 256, 256, EntryHints()), ("cpu", 256, 256, EntryHints()),
    ],
)  # fmt: skip
def test_larger_tiles_get_more_threads(target, rows, columns, expected):
    assert hints_of(gemm, target, BM=rows, BN=columns) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (Hints(num_worker_warps=4), EntryHints(num_worker_warps=4, num_ctas=4)),
        (Hints(num_ctas=1), EntryHints(num_worker_warps=8, num_ctas=1)),
        (Hints(num_worker_warps=4, num_ctas=1), EntryHints(num_worker_warps=4, num_ctas=1)),
        (Hints(occupancy=2), EntryHints(occupancy=2)),
    ],
)
def test_a_hint_of_the_author_is_kept_and_the_others_follow(given, expected):
    assert hints_of(gemm, "sm_90", given, BM=256, BN=256) == expected


def test_sums_of_8_bit_floats_are_kept_twice_unless_they_are_fast():
    assert hints_of(gemm, "sm_90", T=f8e4m3fn, BM=128, BN=128) == WIDE
    assert hints_of(gemm, "sm_90", T=f16, BM=128, BN=128) == EntryHints()


def test_products_without_tensor_cores_need_more_threads():
    for target in ("sm_80", "sm_90", "sm_100", "sm_120"):
        assert hints_of(gemm, target, T=f32, BM=64, BN=64) == WIDE


@pytest.mark.parametrize(
    ("queries", "keys", "channels", "expected"),
    [(64, 64, 64, SMALL), (64, 128, 128, SMALL), (128, 64, 128, WIDE), (128, 128, 128, WIDE)],
)
def test_attention_has_two_blocks_or_more_warps_and_never_more_ctas(
    queries, keys, channels, expected
):
    assert hints_of(attention, BM=queries, KEYS=keys, D=channels) == expected


@pytest.mark.parametrize(
    ("target", "width", "expected"),
    [
        ("sm_90", 1024, EntryHints(occupancy=8)),
        ("sm_90", 4096, EntryHints(occupancy=8, num_worker_warps=8)),
        ("sm_90", 16384, EntryHints(occupancy=2, num_worker_warps=8)),
        ("sm_90", 32768, WIDE),
        ("sm_80", 4096, EntryHints()), ("sm_80", 32768, WIDE),
    ],
)  # fmt: skip
def test_rows_share_a_multiprocessor_as_long_as_they_fit(target, width, expected):
    assert hints_of(softmax, target, BN=width) == expected


def test_element_by_element_nothing_is_chosen():
    assert hints_of(add, B=65536) == EntryHints()


def _latencies(made):
    loads = [op for op in made.module.functions[0].walk() if isinstance(op, LoadView)]
    return [() if op.hints is None else op.hints.named("latency") for op in loads]


def test_loads_without_the_accelerator_start_later_unless_the_author_says_when():
    assert _latencies(compiled(hasty, "sm_80", BM=64, BN=64)) == [(7,), (1,)]
    assert _latencies(compiled(hasty, "sm_90", BM=64, BN=64)) == [(7,), ()]


def test_a_walk_of_products_is_grouped_unless_the_launch_says_how():
    spec = sample_specialization(gemm.signature, "sm_90", {})
    z, *others = spec.tensors
    text = {
        group: _text(gemm.specialized(replace(spec, tensors=(replace(z, group=group), *others))))
        for group in (None, (1, 1), (8, 1))
    }
    assert text[None] == text[8, 1] != text[1, 1]


def _text(made):
    return made.content


@pytest.mark.usefixtures("nothing_assembled")
@pytest.mark.parametrize(("tile", "wanted"), [(256, (1, 2)), (128, (1, 1)), (64, (2, 1))])
def test_a_walk_has_as_many_blocks_as_the_chosen_hints_let_run(tile, wanted, monkeypatch):
    x, y, z = (tw.meta((8192, 8192), f16, target="sm_90") for _ in "xyz")
    asked = []

    def resident(_, occupancy=1, num_ctas=1):
        asked.append((occupancy, num_ctas))
        return 132 * occupancy // num_ctas

    monkeypatch.setattr(type(z.device.backend), "resident_blocks", resident)
    gemm(z.partition(tile, tile).persistent(), x, y).close()
    assert asked[-1] == wanted
