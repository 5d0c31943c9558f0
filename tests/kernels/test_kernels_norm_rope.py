"""Norm, rotation and cache in one call against NumPy."""

import numpy as np
import pytest

import tilewright as tw
from tilewright import bf16, f16, f32, i32, kernels
from tilewright.dtypes import numpy_dtype
from tilewright.kernels.reference import attention as reference

PLACES = 60
# Sequences, key heads, query heads for each, tokens, channels.
SHAPES = [(2, 2, 3, 1, 12), (1, 3, 1, 5, 64), (3, 1, 5, 30, 24), (2, 2, 2, 40, 32)]


def tables(half):
    angles = np.outer(np.arange(PLACES), 10_000.0 ** (-np.arange(half) / half))
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def problem(shape, dtype, normed, seed=0):
    """A fused row of queries, keys and values, caches with contents, and weights."""
    sequences, heads, group, tokens, channels = shape
    random, kind = np.random.default_rng(seed), numpy_dtype(dtype)
    fused = random.standard_normal((sequences, tokens, heads * (group + 2), channels)).astype(kind)
    caches = random.standard_normal((2, sequences, heads, PLACES, channels)).astype(kind)
    norms = random.standard_normal((2, channels)).astype(kind) if normed else None
    return fused, caches, norms


@pytest.mark.parametrize("starts", [(0, 0, 0), (7, 58, -2)])
@pytest.mark.parametrize("normed", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_against_numpy(shape, normed, starts):
    fused, caches, norms = problem(shape, f32, normed)
    first = np.array(starts[: shape[0]], np.int32)
    angles, queries = tables(shape[4] // 2), shape[1] * shape[2]
    cuts = (slice(0, queries), slice(queries, queries + shape[1]), slice(queries + shape[1], None))

    rows = tw.from_numpy(fused).permute(0, 2, 1, 3)
    keys, values = map(tw.from_numpy, caches)
    given = dict.fromkeys(("q_norm", "k_norm"))
    if normed:
        given = dict(zip(("q_norm", "k_norm"), map(tw.from_numpy, norms), strict=True))
    out = tw.zeros((shape[0], shape[3], queries, shape[4]), f32).permute(0, 2, 1, 3)
    new = (rows[:, cut] for cut in cuts)
    tensors = (keys, values, *map(tw.from_numpy, (*angles, first)))
    with tw.race_check():
        kernels.norm_rope_append(*new, *tensors, **given, out=out).sync()

    split = tuple(fused.swapaxes(1, 2)[:, cut] for cut in cuts)
    wanted = reference.norm_rope_append(split, tuple(caches), angles, first, norms)
    for found, exact in zip((out, keys, values), wanted, strict=True):
        np.testing.assert_allclose(found.numpy(), exact, rtol=2e-6, atol=4e-6)


@pytest.mark.parametrize("dtype", [f16, bf16])
def test_rounded_once(dtype):
    shape = (1, 2, 2, 3, 16)
    fused, caches, norms = problem(shape, dtype, normed=True)
    rows = tw.from_numpy(fused).permute(0, 2, 1, 3)
    keys, values = map(tw.from_numpy, caches)
    first, angles = np.array([4], np.int32), tables(8)
    q_norm, k_norm = map(tw.from_numpy, norms)
    new = (rows[:, :4], rows[:, 4:6], rows[:, 6:])
    tensors = (keys, values, *map(tw.from_numpy, (*angles, first)))
    found = kernels.norm_rope_append(*new, *tensors, q_norm=q_norm, k_norm=k_norm).sync()
    split = np.split(fused.swapaxes(1, 2), (4, 6), axis=1)
    wide = tuple(one.astype(np.float64) for one in norms)
    wanted, *_ = reference.norm_rope_append(split, tuple(caches), angles, first, wide)
    step = 2.0 ** (-11 if dtype is f16 else -8)
    found = found.numpy().astype(np.float64)
    np.testing.assert_allclose(found, wanted, rtol=1.01 * step, atol=1e-5)


def test_recorded():
    fused, caches, _ = problem((1, 2, 2, 1, 16), f32, normed=False)
    rows = tw.from_numpy(fused).permute(0, 2, 1, 3)
    keys, values = map(tw.from_numpy, caches)
    start, out = tw.zeros((1,), i32), tw.zeros((1, 4, 1, 16), f32)
    angles = tuple(map(tw.from_numpy, tables(8)))
    with tw.graph() as graph:
        new = (rows[:, :4], rows[:, 4:6], rows[:, 6:])
        graph.record(kernels.norm_rope_append(*new, keys, values, *angles, start, out=out))
    for place in (3, 9):
        tw.fill(start, place).submit()
        graph.launch().submit()
    found = values.numpy()[0, :, [3, 9]]
    assert (found == fused[0, 0, 6:]).all()


def refused(**changed):
    head, cache = tw.zeros((1, 2, 3, 8), f32), tw.zeros((1, 2, 20, 8), f32)
    table = tw.zeros((20, 4), f32)
    given = {
        "q": tw.zeros((1, 4, 3, 8), f32), "k": head, "v": head, "keys": cache, "values": cache,
        "cosines": table, "sines": table, "starts": tw.zeros((1,), i32),
    }  # fmt: skip
    return kernels.norm_rope_append(**{**given, **changed})


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"q": tw.zeros((1, 3, 3, 8), f32)}, "a multiple of the key heads"),
        ({"v": tw.zeros((1, 2, 4, 8), f32)}, r"`v` .* shape \(1, 2, 4, 8\)"),
        ({"keys": tw.zeros((1, 2, 20, 6), f32)}, r"`keys` .* shape \(1, 2, 20, 6\)"),
        ({"cosines": tw.zeros((20, 8), f32)}, r"`cosines` .* shape \(20, 8\)"),
        ({"starts": tw.zeros((2,), i32)}, r"`starts` .* shape \(2,\)"),
        ({"q_norm": tw.zeros((8,), f32)}, "queries and keys, or neither"),
        ({"q_norm": tw.zeros((7,), f32), "k_norm": tw.zeros((8,), f32)}, "`q_norm` .* shape"),
        ({"k": tw.zeros((1, 2, 3, 8), f16)}, "`k` of norm_rope_append is one of f32"),
    ],
)
def test_refused(changed, message):
    with pytest.raises(tw.LaunchError, match=message):
        refused(**changed)


def test_the_neighbour_is_accepted():
    head, cache = tw.zeros((1, 2, 3, 8), f32), tw.zeros((1, 2, 20, 8), f32)
    new, caches = {"k": head, "v": head.clone()}, {"keys": cache, "values": cache.clone()}
    assert refused(**new, **caches).sync().shape == (1, 4, 3, 8)
