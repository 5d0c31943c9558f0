"""Flash attention with a sliding window: no check inside, right on ragged lengths, shared heads."""

import numpy as np
import pytest
from running import run
from sliding_attention import attention, expected

import tilewright as tw
from tilewright import f16, f32
from tilewright.check.ledger import Rung
from tilewright.frontend.signature.samples import sample_specialization


def drawn(*shapes, dtype=np.float32):
    generator = np.random.default_rng(len(shapes[0]))
    return tuple(generator.standard_normal(shape).astype(dtype) for shape in shapes)


@pytest.mark.parametrize(("causal", "window"), [(False, 0), (True, 0), (True, 1), (True, 23)])
@pytest.mark.parametrize(
    ("heads", "shared", "length", "keys"),
    [(1, 1, 1, 1), (4, 4, 37, 37), (6, 2, 64, 64), (4, 1, 65, 65), (2, 1, 16, 97)],
)
def test_attention(heads, shared, length, keys, causal, window):
    arrays = drawn((heads, length, 16), (shared, keys, 16), (shared, keys, 16))
    got = run(
        attention, (arrays[0].shape, f32), (1, 32, 16), *arrays, 0.25,
        BN=16, CAUSAL=causal, WINDOW=window,
    )  # fmt: skip
    np.testing.assert_allclose(got, expected(arrays, 0.25, causal, window), rtol=2e-4, atol=2e-5)


def test_attention_in_half_precision():
    arrays = drawn((2, 70, 32), (1, 70, 32), (1, 70, 32), dtype=np.float16)
    got = run(attention, (arrays[0].shape, f16), (1, 16, 32), *arrays, 0.2, BN=32, CAUSAL=True)
    np.testing.assert_allclose(got, expected(arrays, 0.2, causal=True), rtol=1e-2, atol=5e-3)


def test_no_check_is_left_and_none_is_in_the_loop_over_keys():
    for constants in ({}, {"CAUSAL": True}, {"CAUSAL": True, "WINDOW": 100}):
        chosen = {"BM": 64, "D": 64, **constants}
        specialization = sample_specialization(attention.signature, "sm_90", chosen)
        compiled = attention.specialized(specialization)
        outcomes = {entry.outcome for entry in compiled.ledger.entries}
        assert outcomes == {Rung.PROVED, Rung.LAUNCH}
        assert not compiled.facts.sites


def test_a_launch_whose_heads_find_no_keys_is_refused():
    q, k = tw.zeros((4, 16, 16), f32), tw.zeros((3, 16, 16), f32)
    z = tw.zeros((4, 16, 16), f32)
    with pytest.raises(tw.LaunchError, match="`k`, axis 0"):
        attention(z.partition(1, 16, 16), q, k, k, 0.25)
    with pytest.raises(tw.LaunchError, match="is zero"):
        attention(
            z.partition(1, 16, 16), q, tw.zeros((5, 16, 16), f32), tw.zeros((5, 16, 16), f32), 1
        )
