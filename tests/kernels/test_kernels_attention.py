"""Attention of the library against float64: every variant, ragged and prime lengths."""

import math
import re

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tilewright import bf16, f16, f32, f64, i32, kernels
from tilewright.kernels.arithmetic import LOG2_E
from tilewright.kernels.heads import arguments as attention_arguments
from tilewright.kernels.reference import attention as reference

EPSILON = {f16: 2.0**-11, bf16: 2.0**-8, f32: 2.0**-24}
ARRAYS = {
    f16: np.dtype(np.float16),
    bf16: np.dtype(ml_dtypes.bfloat16),
    f32: np.dtype(np.float32),
}


def random(seed, *shape, dtype=f16):
    return np.random.default_rng(seed).standard_normal(shape).astype(ARRAYS[dtype])


def tensors(*arrays):
    return tuple(tw.from_numpy(array) for array in arrays)


def assert_close(found, wanted, magnitude, v, dtype):
    bound = reference.rounding_bound(magnitude, np.abs(v.astype(np.float64)).max(initial=0),
                                     v.shape[2], EPSILON[dtype])  # fmt: skip
    off = np.abs(found.astype(np.float64) - wanted)
    assert (off <= bound).all(), (off / bound).max()


def check(q, k, v, dtype=f16, **options):
    lse = tw.empty(q.shape[:3], f32)
    found = kernels.attention(*tensors(q, k, v), lse=lse, **options).sync()
    wanted = reference.attention(q, k, v, **options)
    magnitude = reference.attention(q, k, np.abs(v), **options)
    assert_close(found.numpy(), wanted, magnitude, v, dtype)
    sums = reference.log_sums(q, k, **options)
    np.testing.assert_allclose(lse.numpy(), sums, atol=1e-5, rtol=1e-5)


class TestAttention:
    @pytest.mark.parametrize("causal", [False, True])
    @pytest.mark.parametrize("window", [None, 1, 70])
    @pytest.mark.parametrize(("queries", "length"), [(131, 131), (7, 257), (200, 128)])
    def test_masks(self, causal, window, queries, length):
        q, k, v = (
            random(0, 1, 2, queries, 16),
            random(1, 1, 2, length, 16),
            random(2, 1, 2, length, 16),
        )
        check(q, k, v, causal=causal, window=window)

    @pytest.mark.parametrize(
        ("channels", "dtype"), [(64, bf16), (128, f16), (40, f16), (256, bf16), (12, f32)]
    )
    def test_channels_and_dtypes(self, channels, dtype):
        q, k, v = (random(n, 1, 2, 67, channels, dtype=dtype) for n in range(3))
        check(q, k, v, dtype, causal=True)

    @pytest.mark.parametrize("heads", [(6, 2), (5, 1), (4, 4)])
    def test_grouped_heads(self, heads):
        query_heads, key_heads = heads
        check(random(0, 2, query_heads, 33, 32), random(1, 2, key_heads, 65, 32),
              random(2, 2, key_heads, 65, 32), scale=0.3)  # fmt: skip

    @pytest.mark.parametrize(("length", "causal"), [(64, False), (100, True)])
    def test_blocks_that_stay(self, length, causal):
        q, k, v = (random(n, 2, 2, length, 32) for n in range(3))
        z, ours = tw.empty(q.shape, f16), tensors(q, k, v)
        walk = z.partition(1, 1, 32, 32).persistent(blocks=3)
        even, scale = length % 32 == 0, LOG2_E / math.sqrt(32)
        with tw.race_check():
            kernels.attention_walk(walk, *ours, scale, 0, BN=32, CAUSAL=causal, EVEN=even).sync()
        wanted = reference.attention(q, k, v, causal=causal)
        magnitude = reference.attention(q, k, np.abs(v), causal=causal)
        assert_close(z.numpy(), wanted, magnitude, v, f16)

    @pytest.mark.parametrize("causal", [False, True])
    @pytest.mark.parametrize(("queries", "length"), [(64, 64), (50, 50), (37, 101), (101, 37)])
    def test_values_a_step_behind(self, queries, length, causal):
        q, k, v = (random(n, 1, 2, rows, 32) for n, rows in enumerate((queries, length, length)))
        z, scale, even = tw.empty(q.shape, f16), LOG2_E / math.sqrt(32), length % 32 == 0
        last_first = z.partition(1, 1, 16, 32, order=(~2, 0, 1, 3))
        with tw.race_check():
            kernels.attention_tiles(
                last_first, *tensors(q, k, v), scale, 0,
                BN=32, CAUSAL=causal, EVEN=even, BEHIND=True,
            ).sync()  # fmt: skip
        wanted = reference.attention(q, k, v, causal=causal)
        magnitude = reference.attention(q, k, np.abs(v), causal=causal)
        assert_close(z.numpy(), wanted, magnitude, v, f16)

    def test_a_step_behind_needs_tiles_on_one_diagonal(self):
        q, k = tw.zeros((1, 1, 16, 16), f16), tw.zeros((1, 1, 40, 16), f16)
        z = tw.zeros(q.shape, f16).partition(1, 1, 16, 16)
        with pytest.raises(tw.LaunchError, match=re.escape("(L - S) % BN == 0")):
            kernels.attention_tiles(z, q, k, k, 1.0, 0, BN=32, CAUSAL=True, BEHIND=True)

    def test_large_scores(self):
        q, k, v = (
            30 * random(0, 1, 1, 50, 32),
            30 * random(1, 1, 1, 50, 32),
            random(2, 1, 1, 50, 32),
        )
        check(q, k, v, scale=1.0)

    @pytest.mark.parametrize("shape", [(0, 2, 5), (2, 2, 0), (1, 0, 5)])
    def test_nothing_to_do(self, shape):
        q = tw.zeros((*shape, 16), f16)
        k = tw.zeros((shape[0], 2, 7, 16), f16)
        assert kernels.attention(q, k, k).sync().shape == q.shape

    def test_no_keys_give_zeros(self):
        q, k = tw.ones((1, 2, 5, 16), f16), tw.zeros((1, 2, 0, 16), f16)
        lse = tw.empty((1, 2, 5), f32)
        assert not kernels.attention(q, k, k, lse=lse).sync().numpy().any()
        assert np.isneginf(lse.numpy()).all()

    def test_views_are_read_as_they_lie(self):
        q, k, v = (random(n, 1, 40, 2, 32) for n in range(3))
        views = (x.permute(0, 2, 1, 3) for x in tensors(q, k, v))
        out = tw.empty((1, 40, 2, 32), f16)
        found = kernels.attention(*views, out=out.permute(0, 2, 1, 3)).sync()
        plain = kernels.attention(*tensors(*(x.swapaxes(1, 2).copy() for x in (q, k, v)))).sync()
        np.testing.assert_array_equal(found.numpy(), plain.numpy())
        np.testing.assert_array_equal(out.numpy(), plain.numpy().swapaxes(1, 2))

    def test_lazy_chained_and_recorded(self):
        q, k, v = tensors(*(random(n, 1, 2, 20, 16) for n in range(3)))
        out, twice = tw.zeros(q.shape, f16), tw.zeros(q.shape, f16)
        kernels.attention(q, k, v, out=out).then(
            lambda once: kernels.attention(once, k, v, out=twice)
        ).sync()
        wanted = twice.numpy()
        again, last = tw.zeros(q.shape, f16), tw.zeros(q.shape, f16)
        with tw.graph() as g:
            g.record(kernels.attention(q, k, v, out=again))
            g.record(kernels.attention(again, k, v, out=last))
        g.launch().sync()
        np.testing.assert_array_equal(last.numpy(), wanted)

    def test_no_two_blocks_write_one_element(self):
        q, k, v = tensors(*(random(n, 1, 2, 70, 16) for n in range(3)))
        with tw.race_check():
            kernels.attention(q, k, v, causal=True, lse=tw.empty((1, 2, 70), f32)).sync()


class TestDecode:
    @pytest.mark.parametrize("window", [None, 100])
    @pytest.mark.parametrize("heads", [(8, 2), (3, 3)])
    def test_lengths_are_read_on_the_device(self, heads, window):
        query_heads, key_heads = heads
        lengths = np.array([613, 1, 0, 257, 9999, -3], np.int32)
        q = random(0, 6, query_heads, 32)
        k, v = random(1, 6, key_heads, 613, 32), random(2, 6, key_heads, 613, 32)
        found = kernels.decode_attention(*tensors(q, k, v, lengths), window=window).sync()
        wanted = reference.decode_attention(q, k, v, lengths, window=window)
        magnitude = reference.decode_attention(q, k, np.abs(v), lengths, window=window)
        assert_close(found.numpy(), wanted, magnitude, v, f16)

    def test_recorded_with_memory_of_its_own(self):
        lengths = np.array([300, 17], np.int32)
        q, k, v = random(0, 2, 4, 64), random(1, 2, 2, 300, 64), random(2, 2, 2, 300, 64)
        ours = tensors(q, k, v, lengths)
        wanted = kernels.decode_attention(*ours).sync().numpy()
        out, parts = tw.zeros(q.shape, f16), kernels.decode_parts(ours[0], ours[1])
        with tw.graph() as g:
            g.record(kernels.decode_attention(*ours, out=out, parts=parts))
        g.launch().sync()
        np.testing.assert_array_equal(out.numpy(), wanted)

    def test_nobody_attends(self):
        q, k = tw.zeros((0, 4, 32), f16), tw.zeros((0, 2, 10, 32), f16)
        assert kernels.decode_attention(q, k, k, tw.zeros(0, i32)).sync().shape == q.shape
        q, k = tw.zeros((2, 0, 32), f16), tw.zeros((2, 2, 10, 32), f16)
        assert kernels.decode_attention(q, k, k, tw.zeros(2, i32)).sync().shape == q.shape


class TestVarlen:
    @pytest.mark.parametrize(("causal", "window"), [(False, None), (True, None), (True, 20)])
    def test_packed_sequences(self, causal, window):
        q_offsets = np.array([0, 70, 70, 71, 200], np.int32)
        k_offsets = np.array([0, 90, 97, 230, 359], np.int32)
        q, k, v = random(0, 200, 4, 32), random(1, 359, 2, 32), random(2, 359, 2, 32)
        options = {"causal": causal, "window": window}
        found = kernels.varlen_attention(*tensors(q, k, v, q_offsets, k_offsets), **options).sync()
        wanted = reference.varlen_attention(q, k, v, q_offsets, k_offsets, **options)
        magnitude = reference.varlen_attention(q, k, np.abs(v), q_offsets, k_offsets, **options)
        assert_close(found.numpy(), wanted, magnitude, v[None, None], f16)

    def test_queries_of_no_sequence(self):
        q, offsets = random(0, 50, 2, 16), np.array([10, 30], np.int32)
        ours = tensors(q, q, q, offsets, offsets)
        found, out = kernels.varlen_attention(*ours).sync().numpy(), tw.full(q.shape, 7, f16)
        kernels.varlen_attention(*ours, out=out).sync()
        rest = np.r_[:10, 30:50]
        assert not found[rest].any()
        assert (out.numpy()[rest] == 7).all()
        np.testing.assert_array_equal(out.numpy()[10:30], found[10:30])

    def test_offsets_that_make_no_sense_stay_inside(self):
        q, k = random(0, 50, 2, 16), random(1, 60, 2, 16)
        offsets = (np.array([0, 40, 20, 99], np.int32), np.array([-7, 30, 2**31 - 1, 5], np.int32))
        with tw.race_check():
            found = kernels.varlen_attention(*tensors(q, k, k, *offsets), causal=True).sync()
        assert found.shape == q.shape


def _prefill(**changed):
    q = {"q": tw.zeros((1, 4, 8, 16), f16), "k": tw.zeros((1, 2, 8, 16), f16)}
    given = {"v": tw.zeros((1, 2, 8, 16), f16), **q, **changed}
    return kernels.attention(given.pop("q"), given.pop("k"), given.pop("v"), **given)


def _decode(**changed):
    given = {
        "q": tw.zeros((2, 4, 16), f16), "k": tw.zeros((2, 2, 8, 16), f16),
        "v": tw.zeros((2, 2, 8, 16), f16), "lengths": tw.zeros(2, i32), **changed,
    }  # fmt: skip
    positional = [given.pop(name) for name in ("q", "k", "v", "lengths")]
    return kernels.decode_attention(*positional, **given)


class TestRefused:
    @pytest.mark.parametrize(
        ("changed", "message"),
        [
            ({"q": 3}, "`q` of attention is a tensor or an array, and int is neither"),
            (
                {"q": tw.zeros((1, 4, 8, 16), f64)},
                "`q` of attention is one of f16, bf16, f32, not f64",
            ),
            ({"k": tw.zeros((1, 2, 8, 16), bf16)}, "`k` of attention is one of f16, not bf16"),
            ({"v": tw.zeros((2, 8, 16), f16)}, r"`v` .* axes \(sequence, head, place, channel\)"),
            ({"v": tw.zeros((1, 2, 9, 16), f16)}, r"`v` .*shape \(1, 2, 9, 16\), .*ask for"),
            ({"q": tw.zeros((1, 3, 8, 16), f16)}, "3 query heads cannot share 2"),
            ({"scale": 0}, "`scale` of attention is a positive number, not 0.0: .*negate q"),
            ({"scale": float("nan")}, "a positive number, not nan"),
            ({"window": 0}, "`window` of attention is a number of places, 1 or more, not 0"),
            ({"window": True}, "a whole number, not True"),
            ({"out": tw.zeros((1, 4, 8, 8), f16)}, r"`out` of attention has shape"),
            ({"lse": tw.zeros((1, 4, 8), f16)}, "`lse` of attention is one of f32, not f16"),
            ({"lse": tw.zeros((1, 4), f32)}, r"`lse` of attention has shape \(1, 4\)"),
            ({"k": tw.zeros((1, 2, 8, 16), f16, device="cpu:1")}, "`k` .* lives on cpu:1"),
        ],
    )
    def test_attention(self, changed, message):
        with pytest.raises(tw.LaunchError, match=message):
            _prefill(**changed)

    def test_wide_heads(self):
        wide = tw.zeros((1, 1, 4, attention_arguments.WIDEST + 1), f16)
        with pytest.raises(tw.LaunchError, match="1 to 256 channels, not 257"):
            kernels.attention(wide, wide, wide)

    @pytest.mark.parametrize(
        ("changed", "message"),
        [
            ({"q": tw.zeros((2, 4, 1, 16), f16)}, r"`q` .* axes \(sequence, head, channel\)"),
            ({"lengths": tw.zeros(3, i32)}, r"`lengths` .* has shape \(3,\)"),
            ({"parts": 3}, "`parts` of decode_attention is made by `decode_parts"),
            ({"lengths": tw.zeros(2, f32)}, "`lengths` .* one of i32, not f32"),
            (
                {
                    "parts": kernels.Parts(
                        tw.zeros((2, 2, 65, 2, 16), f32), tw.zeros((2, 2, 65, 2), f32)
                    )
                },
                "1 to 64 stretches, not 65: make it with `decode_parts",
            ),
            (
                {
                    "parts": kernels.Parts(
                        tw.zeros((2, 2, 1, 2, 8), f32), tw.zeros((2, 2, 1, 2), f32)
                    )
                },
                "`parts.means` of decode_attention has shape",
            ),
        ],
    )
    def test_decode(self, changed, message):
        with pytest.raises(tw.LaunchError, match=message):
            _decode(**changed)

    def test_an_output_that_is_also_read(self):
        q = tw.zeros((1, 2, 8, 16), f16)
        with pytest.raises(tw.BorrowError, match="also read"):
            kernels.attention(q, q, q, out=q)

    def test_varlen(self):
        q, offsets = tw.zeros((8, 2, 16), f16), tw.zeros(3, i32)
        with pytest.raises(tw.LaunchError, match=r"as many offsets .* not \(3,\) and \(2,\)"):
            kernels.varlen_attention(q, q, q, offsets, tw.zeros(2, i32))
        with pytest.raises(tw.LaunchError, match=r"axes \(token, head, channel\)"):
            kernels.varlen_attention(q[0], q, q, offsets, offsets)
