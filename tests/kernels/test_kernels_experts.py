"""Routing of a mixture of experts against NumPy."""

import numpy as np
import pytest

import tilewright as tw
from tilewright import f16, f32, i32, kernels
from tilewright.kernels.reference import choices as reference

# Tokens, experts, experts for each token.
SHAPES = [(1, 5, 2), (7, 128, 8), (50, 6, 6), (300, 60, 4), (3, 1, 1)]


@pytest.mark.parametrize("normalised", [False, True])
@pytest.mark.parametrize(("tokens", "experts", "used"), SHAPES)
def test_routes(tokens, experts, used, normalised):
    logits = np.random.default_rng(0).standard_normal((tokens, experts)).astype(np.float32)
    with tw.race_check():
        found = kernels.route(tw.from_numpy(logits), used, normalised=normalised).sync()
    names, shares, slots, order, offsets = reference.route(logits, used, normalised=normalised)
    assert (found.experts.numpy() == names).all()
    np.testing.assert_allclose(found.shares.numpy(), shares, rtol=2e-6)
    assert (found.slots.numpy() == slots).all()
    assert (found.tokens.numpy() == order).all()
    assert (found.offsets.numpy() == offsets).all()


def test_the_first_of_equal_logits():
    found = kernels.route(tw.zeros((3, 4), f16), 2).sync()
    assert found.experts.numpy().tolist() == [[0, 1]] * 3
    assert found.shares.numpy().tolist() == [[0.5, 0.5]] * 3


def test_no_tokens():
    found = kernels.route(tw.zeros((0, 4), f32), 2).sync()
    assert found.offsets.numpy().tolist() == [0] * 5


@pytest.mark.parametrize(("tokens", "used", "width"), [(1, 8, 33), (70, 3, 1100)])
def test_combined(tokens, used, width):
    random = np.random.default_rng(0)
    residual = random.standard_normal((tokens, width)).astype(np.float32)
    rows = random.standard_normal((tokens * used, width)).astype(np.float32)
    slots = random.permutation(tokens * used).reshape(tokens, used).astype(np.int32)
    shares = random.random((tokens, used)).astype(np.float32)
    arrays = (residual, rows, slots, shares)
    found = kernels.combine(*map(tw.from_numpy, arrays)).sync().numpy()
    np.testing.assert_allclose(found, reference.combine(*arrays), rtol=1e-5, atol=1e-5)


def test_a_whole_mixture():
    """Routing, grouped products and the sum, recorded in a graph, against a loop over tokens."""
    random = np.random.default_rng(0)
    x, logits = random.standard_normal((20, 24)), random.standard_normal((20, 5))
    weights = random.standard_normal((5, 16, 24))
    x, logits, weights = (one.astype(np.float32) for one in (x, logits, weights))
    tensor, matrices = tw.from_numpy(x), tw.from_numpy(weights)
    out, rows, done = tw.zeros((20, 16), f32), tw.zeros((40, 24), f32), tw.zeros((40, 16), f32)
    routes = kernels.route(tw.from_numpy(logits), 2).sync()
    with tw.graph() as graph:
        graph.record(kernels.route(tw.from_numpy(logits), 2, out=tuple(routes)))
        graph.record(kernels.embedding(routes.tokens, tensor, out=rows))
        grouped = (rows, matrices, routes.offsets)
        graph.record(kernels.grouped_matmul(*grouped, transpose_b=True, out=done))
        residual = tw.zeros((20, 16), f32)
        graph.record(kernels.combine(residual, done, routes.slots, routes.shares, out=out))
    graph.launch().sync()
    experts, shares, *_ = reference.route(logits, 2)
    wanted = [
        sum(share * weights[expert] @ row for expert, share in zip(*pair, strict=True))
        for row, *pair in zip(x, experts, shares, strict=True)
    ]
    np.testing.assert_allclose(out.numpy(), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: kernels.route(tw.zeros((4,), f32), 1), r"\[tokens, experts\], not shape \(4,\)"),
        (lambda: kernels.route(tw.zeros((4, 3), f32), 4), "1 to 3 of 3 experts, not 4"),
        (lambda: kernels.route(tw.zeros((1 << 23, 3), f32), 3), "up to 16777216 choices"),
        (lambda: kernels.route(tw.zeros((4, 3), i32), 1), "`logits` of route is one of f16"),
        (lambda: combined(rows=tw.zeros((7, 8), f32)), r"`rows` of combine has shape \(7, 8\)"),
        (lambda: combined(shares=tw.zeros((4, 3), f32)), r"`shares` .* shape \(4, 3\)"),
        (lambda: combined(slots=tw.zeros((8,), i32)), "are matrices"),
    ],
)
def test_refused(call, message):
    with pytest.raises(tw.LaunchError, match=message):
        call()


def combined(**changed):
    given = {
        "residual": tw.zeros((4, 8), f32), "rows": tw.zeros((8, 8), f32),
        "slots": tw.zeros((4, 2), i32), "shares": tw.zeros((4, 2), f32),
    }  # fmt: skip
    return kernels.combine(**{**given, **changed})


def test_the_neighbour_is_accepted():
    assert combined().sync().shape == (4, 8)
