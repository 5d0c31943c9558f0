"""Every form of attention on random shapes against float64, whatever the model would choose."""

import math

import numpy as np
import pytest

import tilewright as tw
from tilewright import f16, kernels
from tilewright.kernels.heads.channels import rest_of
from tilewright.kernels.heads.splitting import merge
from tilewright.kernels.reference import attention as reference
from tilewright.tune import Config, forcing

SEEDS = range(8)
TILES = {"BM": 16, "BN": 32, "WALK": False}
FORMS = {
    "tiles": {},
    "walk": {"WALK": True, "blocks": 3},
    "splits": {"SPLITS": 3},
    "many splits": {"SPLITS": 7},
}


def drawn(seed):
    """Operands and options of a random problem, with every mask."""
    draw = np.random.default_rng(seed)
    batch, key_heads, group = (int(n) for n in draw.integers(1, 3, 3))
    queries, length = (int(n) for n in draw.integers(1, 150, 2))
    channels = int(draw.choice([16, 33, 40, 48, 80, 96, 112, 144, 192]))
    sizes = (
        (batch, key_heads * group, queries, channels),
        *2 * ((batch, key_heads, length, channels),),
    )
    window = int(draw.integers(1, 60)) if draw.integers(3) == 0 else None
    options = {"causal": bool(draw.integers(2)), "window": window}
    return [draw.standard_normal(size).astype(np.float16) for size in sizes], options


def assert_right(found, q, k, v, options):
    wanted = reference.attention(q, k, v, **options)
    magnitude = reference.attention(q, k, np.abs(v), **options)
    largest = np.abs(v.astype(np.float64)).max(initial=0)
    bound = reference.rounding_bound(magnitude, largest, v.shape[2], 2.0**-11)
    assert (np.abs(found.astype(np.float64) - wanted) <= bound).all()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", SEEDS)
def test_random_problems(seed, form):
    (q, k, v), options = drawn(seed)
    config = Config.of(**{**TILES, **FORMS[form]})
    if "splits" not in form:
        config = config.updated(REST=rest_of(q.shape[3]))
    with forcing("attention", config), tw.race_check():
        found = kernels.attention(*map(tw.from_numpy, (q, k, v)), **options).sync()
    assert_right(found.numpy(), q, k, v, options)


@pytest.mark.parametrize(
    ("channels", "rest"),
    [(64, 0), (72, 16), (80, 16), (96, 32), (97, 0), (112, 0), (128, 0), (130, 16), (160, 32),
     (192, 64), (193, 0), (256, 0), (16, 0), (32, 0), (33, 16), (1, 0)],
)  # fmt: skip
def test_channels_are_two_tiles_where_one_would_waste_a_quarter(channels, rest):
    assert rest_of(channels) == rest


def test_ranges_without_keys_weigh_nothing():
    """Means of empty ranges are finite, and their log-sum-exp is minus infinity."""
    draw = np.random.default_rng(0)
    means = draw.standard_normal((1, 2, 4, 5, 24)).astype(np.float32)
    logs = draw.standard_normal((1, 2, 4, 5)).astype(np.float32)
    logs[:, :, 1:3] = -math.inf
    logs[:, 1, :, 2] = -math.inf
    z = tw.zeros((1, 2, 5, 24), f16)
    merge(z, tw.from_numpy(means), tw.from_numpy(logs)).sync()
    shares = np.exp(logs)[..., None]
    wanted = (means * shares).sum(2) / np.maximum(shares.sum(2), 1e-30)
    np.testing.assert_allclose(z.numpy(), wanted, atol=2e-3)
    assert (z.numpy()[0, 1, 2] == 0).all()


@pytest.mark.parametrize("splits", [1, 2, 5])
@pytest.mark.parametrize("seed", SEEDS)
def test_random_caches(seed, splits):
    """Lengths outside the cache, windows, grouped heads, and any number of ranges."""
    draw = np.random.default_rng(seed)
    batch, key_heads = (int(n) for n in draw.integers(1, 4, 2))
    group, length = int(draw.integers(1, 20)), int(draw.integers(1, 200))
    channels = int(draw.choice([16, 40, 64, 80, 128]))
    q = draw.standard_normal((batch, key_heads * group, channels)).astype(np.float16)
    k, v = draw.standard_normal((2, batch, key_heads, length, channels)).astype(np.float16)
    lengths = draw.integers(-3, length + 9, batch).astype(np.int32)
    window = int(draw.integers(1, 60)) if draw.integers(2) else None
    config = Config.of(BN=32, BLOCKS=splits * batch * key_heads)
    with forcing("decode_attention", config), tw.race_check():
        operands = map(tw.from_numpy, (q, k, v, lengths))
        found = kernels.decode_attention(*operands, window=window).sync().numpy()
    wanted = reference.decode_attention(q, k, v, lengths, window=window)
    magnitude = reference.decode_attention(q, k, np.abs(v), lengths, window=window)
    largest = np.abs(v.astype(np.float64)).max()
    bound = reference.rounding_bound(magnitude, largest, length, 2.0**-11)
    assert (np.abs(found.astype(np.float64) - wanted) <= bound).all()
