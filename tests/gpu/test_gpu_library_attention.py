"""Attention of the library on the GPU, at sizes of models, against float64."""

import numpy as np
import pytest

import tilewright as tw
from tilewright import bf16, f16, f32, kernels
from tilewright.kernels.reference import attention as reference

pytestmark = pytest.mark.gpu

EPSILON = {f16: 2.0**-11, bf16: 2.0**-8}


def random(seed, *shape, dtype=f16):
    drawn = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return tw.from_numpy(drawn).astype(dtype)


def arrays(*tensors):
    return tuple(tensor.numpy().astype(np.float64) for tensor in tensors)


def assert_close(found, wanted, magnitude, v, dtype=f16):
    largest, keys = np.abs(v).max(), v.shape[-2]
    bound = reference.rounding_bound(magnitude, largest, keys, EPSILON[dtype])
    off = np.abs(found.numpy().astype(np.float64) - wanted)
    assert (off <= bound).all(), (off / bound).max()


@pytest.mark.parametrize(
    ("dtype", "channels", "causal", "window", "with_lse"),
    [
        (f16, 128, False, None, True),
        (f16, 128, True, None, False),
        (f16, 64, True, 300, True),
        (bf16, 64, True, None, False),
        (f16, 80, False, 300, False),
        (bf16, 256, True, None, True),
    ],
)
def test_attention(dtype, channels, causal, window, with_lse):
    q = random(0, 1, 4, 1000, channels, dtype=dtype)
    k, v = (
        random(1, 1, 2, 1537, channels, dtype=dtype),
        random(2, 1, 2, 1537, channels, dtype=dtype),
    )
    lse = tw.empty((1, 4, 1000), f32) if with_lse else None
    found = kernels.attention(q, k, v, causal=causal, window=window, lse=lse).sync()
    a, b, c = arrays(q, k, v)
    wanted = reference.attention(a, b, c, causal=causal, window=window)
    magnitude = reference.attention(a, b, np.abs(c), causal=causal, window=window)
    assert_close(found, wanted, magnitude, c, dtype)
    if lse is not None:
        sums = reference.log_sums(a, b, causal=causal, window=window)
        np.testing.assert_allclose(lse.numpy(), sums, atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize("length", [512, 1000, 4096])
@pytest.mark.parametrize("channels", [64, 128])
def test_as_many_queries_as_keys(length, channels):
    q, k, v = (random(n, 1, 2, length, channels) for n in range(3))
    a, b, c = arrays(q, k, v)
    for causal in (False, True):
        wanted = reference.attention(a, b, c, causal=causal)
        magnitude = reference.attention(a, b, np.abs(c), causal=causal)
        assert_close(kernels.attention(q, k, v, causal=causal).sync(), wanted, magnitude, c)


@pytest.mark.parametrize(("batch", "heads", "key_heads"), [(1, 32, 8), (16, 8, 8), (3, 40, 8)])
@pytest.mark.parametrize("window", [None, 500])
def test_decode(batch, heads, key_heads, window):
    q = random(0, batch, heads, 128)
    k, v = random(1, batch, key_heads, 3001, 128), random(2, batch, key_heads, 3001, 128)
    filled = np.random.default_rng(3).integers(0, 3002, batch).astype(np.int32)
    lengths = tw.from_numpy(filled)
    out, parts = tw.empty(q.shape, f16), kernels.decode_parts(q, k)
    with tw.graph() as g:
        g.record(kernels.decode_attention(q, k, v, lengths, window=window, out=out, parts=parts))
    g.launch().sync()
    a, b, c = arrays(q, k, v)
    wanted = reference.decode_attention(a, b, c, filled, window=window)
    magnitude = reference.decode_attention(a, b, np.abs(c), filled, window=window)
    assert_close(out, wanted, magnitude, c)


@pytest.mark.parametrize("causal", [False, True])
def test_packed_sequences(causal):
    lengths = np.random.default_rng(0).integers(0, 700, (2, 9))
    offsets = [np.concatenate([[0], np.cumsum(one)]).astype(np.int32) for one in lengths]
    (tokens, places), heads = (one[-1] for one in offsets), 4
    q, k, v = random(0, tokens, heads, 64), random(1, places, 2, 64), random(2, places, 2, 64)
    ours = [tw.from_numpy(one) for one in offsets]
    found = kernels.varlen_attention(q, k, v, *ours, causal=causal).sync()
    a, b, c = arrays(q, k, v)
    wanted = reference.varlen_attention(a, b, c, *offsets, causal=causal)
    magnitude = reference.varlen_attention(a, b, np.abs(c), *offsets, causal=causal)
    assert_close(found, wanted, magnitude, c.swapaxes(0, 1))


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("starts", [11, [0, 900]])
@pytest.mark.parametrize("channels", [128, 96])
def test_rope(interleaved, starts, channels):
    half = channels // 2
    angles = np.outer(np.arange(2000), 10_000.0 ** (-np.arange(half) / half))
    cosines, sines = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    x = random(0, 2, 5, 1003, channels)
    first = starts if isinstance(starts, int) else np.array(starts, np.int32)
    given = first if isinstance(first, int) else tw.from_numpy(first)
    tables = tw.from_numpy(cosines), tw.from_numpy(sines)
    found = kernels.rope(x, *tables, starts=given, interleaved=interleaved).sync()
    wanted = reference.rope(x.numpy(), cosines, sines, starts=first, interleaved=interleaved)
    np.testing.assert_allclose(found.numpy(), wanted, rtol=2**-10, atol=1e-6)


@pytest.mark.parametrize(("tokens", "places"), [(1, 1000), (16, 1000), (300, 1000), (300, 1024)])
def test_append(tokens, places):
    keys, values = random(0, 3, 8, places, 128), random(1, 3, 8, places, 128)
    k, v = random(2, 3, 8, tokens, 128), random(3, 3, 8, tokens, 128)
    starts = np.array([0, 900, -5], np.int32)
    wanted = [
        reference.append_kv(*(x.numpy() for x in pair), starts) for pair in ((keys, k), (values, v))
    ]
    kernels.append_kv(keys, values, k, v, tw.from_numpy(starts)).sync()
    np.testing.assert_array_equal(keys.numpy(), wanted[0])
    np.testing.assert_array_equal(values.numpy(), wanted[1])
