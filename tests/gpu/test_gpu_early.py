"""Kernels that start before the one before them has ended see all that it wrote."""

import numpy as np
import pytest
from gpu_kernels import GPU

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import B, N

pytestmark = pytest.mark.gpu

STEPS = 301


@pytest.fixture(autouse=True)
def on_gpu():
    with tw.device(GPU) as device:
        yield device


@tw.kernel(starts_early=True)
def turn(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    """Tiles in the opposite order, and one more: a block reads what another block wrote."""
    tiles = x.partition(B)
    (i,) = z.index
    z.store(tiles[tiles.num_tiles(0) - 1 - i] + 1.0)


@tw.kernel(starts_early=False)
def turn_later(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    tiles = x.partition(B)
    (i,) = z.index
    z.store(tiles[tiles.num_tiles(0) - 1 - i] + 1.0)


def turned(values, tile, steps):
    tiles = values.reshape(-1, tile)
    return (tiles[::-1] if steps % 2 else tiles).reshape(-1) + steps


# One tile, less than the GPU takes at a time, and many times as much.
@pytest.mark.parametrize("count", [1, 100, 20_000])
@pytest.mark.parametrize("kernels", [(turn,), (turn, turn_later)], ids=["early", "mixed"])
def test_a_row_of_launches_that_need_each_other(count, kernels):
    values = np.arange(count * 256, dtype=np.float32)
    x, y = tw.from_numpy(values), tw.zeros(values.size)
    for step in range(STEPS):
        kernels[step % len(kernels)](y.partition(256), x).submit()
        x, y = y, x
    np.testing.assert_array_equal(x.numpy(), turned(values, 256, STEPS))


@pytest.mark.parametrize("count", [1, 100, 20_000])
@pytest.mark.parametrize("kernels", [(turn,), (turn, turn_later)], ids=["early", "mixed"])
def test_a_graph_of_launches_that_need_each_other(count, kernels):
    values = np.arange(count * 256, dtype=np.float32)
    x, y = tw.from_numpy(values), tw.zeros(values.size)
    with tw.graph() as recorded:
        for step in range(20):
            recorded.record(kernels[step % len(kernels)](y.partition(256), x))
            x, y = y, x
    for _ in range(10):
        recorded.launch().submit()
    np.testing.assert_array_equal(x.numpy(), turned(values, 256, 200))


def test_streams_that_hand_over_to_each_other(on_gpu):
    values = np.arange(100 * 256, dtype=np.float32)
    x, y = tw.from_numpy(values), tw.zeros(values.size)
    streams = [on_gpu.new_stream() for _ in range(3)]
    for step in range(STEPS):
        with tw.stream(streams[step % 3]):
            turn(y.partition(256), x).submit()
        x, y = y, x
    np.testing.assert_array_equal(x.numpy(), turned(values, 256, STEPS))
