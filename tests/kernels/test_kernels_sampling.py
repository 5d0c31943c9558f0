"""Sampling of tokens: exact filters, honest chances, and seeds that reproduce."""

import numpy as np
import pytest

import tilewright as tw
from tilewright import bool_, f32, i32, i64, kernels
from tilewright.kernels.reference import choices as reference

KINDS = (np.float32, np.int32, np.float32, np.float32, np.int64, np.int64)
# Temperature, top-k, top-p, min-p.
FILTERS = [(1.0, 0, 1.0, 0.0), (0.7, 5, 1.0, 0.0), (1.5, 0, 0.8, 0.0), (1.0, 10, 0.9, 0.05)]
DRAWS = 300


def drawn(logits, filters, seeds, steps):
    """Tokens of rows with the same filters."""
    lines = [np.full(len(logits), one) for one in filters]
    lines += [np.broadcast_to(seeds, len(logits)), np.broadcast_to(steps, len(logits))]
    tensors = (tw.from_numpy(line.astype(kind)) for line, kind in zip(lines, KINDS, strict=True))
    return kernels.sample(tw.from_numpy(logits), *tensors).sync().numpy()


@pytest.mark.parametrize("filters", FILTERS)
def test_chances(filters):
    """A chi-square test with fixed seeds, at five standard deviations."""
    logits = 2 * np.random.default_rng(7).standard_normal(40).astype(np.float32)
    rows = np.tile(logits, (DRAWS, 1))
    found = np.bincount(drawn(rows, filters, np.arange(DRAWS), 3), minlength=40)
    wanted = DRAWS * reference.sample(logits, *filters)
    possible = wanted > 0
    assert not found[~possible].any()
    chi = ((found - wanted)[possible] ** 2 / wanted[possible]).sum()
    freedom = possible.sum() - 1
    assert chi < freedom + 5 * np.sqrt(2 * freedom)


def test_filters_are_exact():
    """Every kept token is drawn, and no other, where all of them are about equally likely."""
    random = np.random.default_rng(1)
    logits = (random.permutation(12) * 1e-3).astype(np.float32)
    for filters in ((1.0, 3, 1.0, 0.0), (1.0, 0, 0.3, 0.0), (1.0, 6, 0.5, 0.0)):
        found = drawn(np.tile(logits, (60, 1)), filters, np.arange(60), 0)
        assert set(found) == set(np.flatnonzero(reference.sample(logits, *filters)))


@pytest.mark.parametrize("width", [1, 50, 5000])
def test_greedy(width):
    logits = np.random.default_rng(0).standard_normal((4, width)).astype(np.float32)
    logits[1, width // 2 :] = logits[1].max() + 1  # equal ones: the first wins
    found = drawn(logits, (0.0, 3, 0.5, 0.9), 0, 0)
    assert (found == logits.argmax(axis=1)).all()


def test_a_row_does_not_depend_on_its_batch():
    logits = np.random.default_rng(0).standard_normal((6, 300)).astype(np.float32)
    filters = (1.0, 0, 0.95, 0.0)
    together = drawn(logits, filters, np.arange(6), np.arange(6))
    alone = [drawn(logits[n : n + 1], filters, n, n)[0] for n in range(6)]
    assert together.tolist() == alone
    others = {tuple(drawn(logits, filters, np.arange(6), step)) for step in range(5)}
    assert len(others) == 5  # each step has random numbers of its own


def test_columns_of_wider_rows():
    logits = np.zeros((2, 64), np.float32)
    logits[:, 50] = 9
    tensor = tw.from_numpy(logits)[:, :40]
    lines = (tw.full((2,), 0, one) for one in (f32, i32, f32, f32, i64, i64))
    assert kernels.sample(tensor, *lines).sync().numpy().tolist() == [0, 0]


def test_penalties():
    random = np.random.default_rng(0)
    logits, bias = random.standard_normal((2, 3, 700)).astype(np.float32)
    prompted = random.random((3, 700)) < 0.2
    counts = random.integers(0, 3, (3, 700)).astype(np.int32)
    lines = np.array([[1.0, 1.3, 0.8], [0.0, 0.5, -0.5], [0.0, 0.2, 0.1]], np.float32)
    arrays = (logits, bias, prompted, counts, *lines)
    found = kernels.penalise(*map(tw.from_numpy, arrays)).sync().numpy()
    np.testing.assert_allclose(found, reference.penalise(*arrays), rtol=1e-5, atol=1e-6)


def test_counts():
    counts, ids = tw.zeros((4, 5), i32), np.array([1, 4, 5, -1])
    for _ in range(2):
        kernels.count_tokens(counts, tw.from_numpy(ids)).sync()
    once = reference.count_tokens(np.zeros((4, 5), np.int32), ids)
    assert (counts.numpy() == 2 * once).all()
    assert once.sum() == 2


def sampled(**changed):
    given = {
        "logits": tw.zeros((2, 9), f32), "temperatures": tw.zeros((2,), f32),
        "top_ks": tw.zeros((2,), i32), "top_ps": tw.zeros((2,), f32),
        "min_ps": tw.zeros((2,), f32), "seeds": tw.zeros((2,), i64), "steps": tw.zeros((2,), i64),
    }  # fmt: skip
    return kernels.sample(**{**given, **changed})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sampled(logits=tw.zeros((2, 0), f32)), "one token or more"),
        (lambda: sampled(top_ks=tw.zeros((3,), i32)), r"`top_ks` .* shape \(3,\)"),
        (lambda: sampled(seeds=tw.zeros((2,), i32)), "`seeds` of sample is one of i64"),
        (lambda: penalised(counts=tw.zeros((2, 8), i32)), r"`counts` .* shape \(2, 8\)"),
        (lambda: penalised(prompted=tw.zeros((2, 9), i32)), "`prompted` .* is one of bool"),
        (
            lambda: kernels.count_tokens(tw.zeros((2, 9), i32), tw.zeros((3,), i64)),
            r"`ids` of count_tokens has shape \(3,\)",
        ),
    ],
)
def test_refused(call, message):
    with pytest.raises(tw.LaunchError, match=message):
        call()


def penalised(**changed):
    table, line = tw.zeros((2, 9), f32), tw.ones((2,), f32)
    given = {
        "logits": table, "bias": table, "prompted": tw.zeros((2, 9), bool_),
        "counts": tw.zeros((2, 9), i32), "repetition": line, "presence": line, "frequency": line,
    }  # fmt: skip
    return kernels.penalise(**{**given, **changed})


def test_neighbours_are_accepted():
    assert sampled().sync().shape == (2,)
    assert penalised().sync().shape == (2, 9)
