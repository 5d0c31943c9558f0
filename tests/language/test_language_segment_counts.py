"""The number of segments is a fact of the launch: what has an element for each needs no clip."""

import re

import numpy as np
import pytest

import tilewright as tw
from tilewright import Cut, Mut, Ref, f32, i32
from tilewright.dims import BM, BN, B, D, E, M, N

pytestmark = pytest.mark.filterwarnings("error::tilewright.ExtentWarning")


@tw.kernel(deny_checks=True)
def experts(z: Mut[f32, Cut[M, BM], Cut[N, BN]], x: Ref[f32, M, D], w: Ref[f32, E, D, N]) -> None:
    """Each expert multiplies the rows of its segment; nothing is clipped."""
    tw.require(z.segments == E and D <= 4)
    expert, _, j = z.index
    begin, _ = z.rows
    rows = x.gather((begin + tw.arange(BM)).reshape(BM, 1), tw.arange(4))
    z.store(rows @ w.partition(1, 4, BN)[expert, 0, j].reshape(4, BN))


def launch(offsets, experts_there, rows=7):
    random = np.random.default_rng(0)
    x = random.standard_normal((rows, 4)).astype(np.float32)
    w = random.standard_normal((experts_there, 4, 6)).astype(np.float32)
    z = tw.zeros((rows, 6), f32)
    segments = tw.from_numpy(np.array(offsets, np.int32))
    pieces = z.partition(2, 4, segments=segments)
    experts(pieces, tw.from_numpy(x), tw.from_numpy(w)).sync()
    wanted = np.zeros((rows, 6), np.float32)
    for number in range(len(offsets) - 1):
        own = slice(offsets[number], offsets[number + 1])
        wanted[own] = x[own] @ w[number]
    np.testing.assert_allclose(z.numpy(), wanted, rtol=1e-5, atol=1e-5)


def test_weights_of_as_many_experts_as_segments():
    launch([0, 3, 3, 7], 3)
    launch([0, 7], 1)
    launch([0, 0, 0, 2, 5, 5], 5)


@pytest.mark.parametrize("experts_there", [1, 2, 4, 9])
def test_other_numbers_of_experts_are_refused(experts_there):
    text = "the kernel requires `z.segments == E and D <= 4`"
    facts = f"w.shape[0] = {experts_there}", "z.offsets.shape[0] = 4"  # one more than segments
    for _ in range(2):
        with pytest.raises(tw.LaunchError, match=re.escape(text)) as refused:
            launch([0, 3, 3, 7], experts_there)
        assert all(fact in str(refused.value) for fact in facts)


def test_without_the_requirement_it_would_be_a_check():
    """What the requirement replaces: the place of the segment among the weights is not known."""

    @tw.kernel(deny_checks=True)
    def hidden(z: Mut[f32, B], w: Ref[f32, E]) -> None:
        z.store(tw.full((B,), w.partition(1)[z.index[0]].item(), f32))

    @tw.kernel(deny_checks=True)
    def tied(z: Mut[f32, B], w: Ref[f32, E]) -> None:
        tw.require(z.segments <= E)
        z.store(tw.full((B,), w.partition(1)[z.index[0]].item(), f32))

    offsets = tw.from_numpy(np.array([0, 2, 5], np.int32))
    z, w = tw.zeros((5,), f32), tw.from_numpy(np.array([3, 4, 5], np.float32))
    tied(z.partition(4, segments=offsets), w).sync()
    assert z.numpy().tolist() == [3, 3, 4, 4, 4]
    with pytest.raises(tw.LaunchError, match=re.escape("requires `z.segments <= E`")):
        tied(z.partition(4, segments=offsets), w[:1])
    with pytest.raises(tw.CompileError, match="would need a check inside the kernel"):
        hidden(z.partition(4, segments=offsets), w)


def test_it_is_a_number_of_the_body():
    @tw.kernel
    def told(z: Mut[i32, B]) -> None:
        z.store(tw.full((B,), z.segments, i32))

    z = tw.zeros((5,), i32)
    told(z.partition(4)).sync()  # without segments there is one
    assert z.numpy().tolist() == [1] * 5
    for offsets in ([0, 2, 5], [0, 1, 2, 3, 4, 5]):
        told(z.partition(4, segments=tw.from_numpy(np.array(offsets, np.int64)))).sync()
        assert z.numpy().tolist() == [len(offsets) - 1] * 5
