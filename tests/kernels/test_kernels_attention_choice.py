"""The choice of a form of attention: legal for every problem, and where each form pays."""

import numpy as np
import pytest

import tilewright as tw
from tilewright import bf16, f16, i32, kernels
from tilewright.kernels.heads.arguments import Heads
from tilewright.kernels.heads.configs import choose_decode, choose_prefill
from tilewright.tune import forcing

TARGETS = ("sm_80", "sm_89", "sm_90", "sm_100", "sm_120")


@pytest.fixture(autouse=True)
def unmeasured():
    """The model decides, where no record does."""
    with forcing("attention", None), forcing("decode_attention", None):
        yield


def prefill(batch, heads, queries, length, channels=128, causal=False, window=None):
    shape = Heads(f16, "sm_90", batch, heads, 1, queries, length, channels)
    return choose_prefill(shape, causal=causal, window=window)


def decode(batch, heads, length, channels=128):
    return choose_decode(Heads(f16, "sm_90", batch, heads, 4, 1, length, channels))


def drawn(seed):
    """Batch, key heads, group, queries, length, channels, dtype and mask of a random problem."""
    draw = np.random.default_rng(seed)
    sizes = [round(float(np.exp(draw.uniform(0, np.log(most))))) for most in (300, 32, 16)]
    lengths = [round(float(np.exp(draw.uniform(0, np.log(70000))))) for _ in range(2)]
    channels = int(draw.choice([16, 40, 64, 80, 96, 112, 128, 144, 192, 256]))
    window = int(draw.integers(1, 5000)) if draw.integers(3) == 0 else None
    dtype = f16 if draw.integers(2) else bf16
    return *sizes, *lengths, channels, dtype, {"causal": bool(draw.integers(2)), "window": window}


@pytest.mark.usefixtures("nothing_assembled")
@pytest.mark.parametrize("seed", range(30))
def test_the_launch_agrees(seed):
    batch, key_heads, group, queries, length, channels, dtype, mask = drawn(seed)
    target = TARGETS[seed % len(TARGETS)]
    sizes = ((key_heads * group, queries), (key_heads, length), (key_heads, length))
    q, k, v = (
        tw.meta((batch, heads, rows, channels), dtype, target=target) for heads, rows in sizes
    )
    kernels.attention(q, k, v, **mask).close()
    one = tw.meta((batch, key_heads * group, channels), dtype, target=target)
    lengths = tw.meta((batch,), i32, target=target)
    kernels.decode_attention(one, k, v, lengths, window=mask["window"]).close()


@pytest.mark.parametrize(
    ("queries", "causal", "window", "lags"),
    [
        (4096, False, None, True),
        (4096, True, None, True),
        (4096, False, 9, False),
        (4000, False, None, True),
        (4000, True, None, False),
    ],
)
def test_values_lag_where_one_tile_of_keys_is_seen_in_part(queries, causal, window, lags):
    config = prefill(4, 32, queries, 4096, causal=causal, window=window)
    assert config["BEHIND"] == lags


def test_persistent_blocks_take_the_tiles_of_short_sequences():
    assert prefill(32, 16, 512, 512)["WALK"]
    assert not prefill(2, 16, 8192, 8192)["WALK"]


def test_longest_tiles_of_all_heads_come_first_where_the_cache_holds_their_keys():
    few, many = (prefill(batch, 32, 8192, 8192, 64, causal=True) for batch in (2, 4))
    assert few["ACROSS"]
    assert not many["ACROSS"]


def test_few_queries_share_their_keys_between_blocks():
    assert prefill(1, 8, 512, 16384)["SPLITS"] > 1
    assert prefill(1, 64, 512, 16384)["SPLITS"] == 1
    assert prefill(1, 8, 512, 128)["SPLITS"] == 1


@pytest.mark.parametrize(("channels", "rest"), [(96, 32), (112, 0), (192, 64), (256, 0)])
def test_channels_are_as_few_as_tiles_allow(channels, rest):
    assert prefill(4, 16, 2048, 2048, channels)["REST"] == rest


def test_many_sequences_are_decoded_by_one_launch():
    assert decode(32, 8, 4096)["SPLITS"] == 1
    assert decode(256, 8, 65536)["SPLITS"] == 1
    assert decode(1, 8, 40)["SPLITS"] == 1  # no longer than a tile


@pytest.mark.parametrize("length", [2048, 8192, 65536])
def test_one_sequence_is_decoded_by_all_multiprocessors(length):
    config = decode(1, 8, length)
    assert 64 <= 8 * config["SPLITS"] <= 264


def test_tiles_of_a_cache_fit_in_shared_memory():
    for channels in (16, 64, 80, 128, 160, 256):
        for length in (1, 100, 5000):
            config = decode(8, 8, length, channels)
            assert config["BN"] * channels * config["occupancy"] <= 64 * 1024
