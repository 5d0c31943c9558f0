"""Launches made over and over, by launch and by graph of one node: none is lost or out of order."""

import itertools

import numpy as np
import pytest
from gpu_kernels import GPU, add

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import B, N

pytestmark = pytest.mark.gpu

TILE = 256
MANY = 200  # more than it takes until a stream is asked, and asked again


@pytest.fixture
def gpu():
    with tw.device(GPU) as device:
        yield device


@tw.kernel
def count(z: Mut[f32, B]) -> None:
    z.store(z.load() + 1.0)


@tw.kernel
def turn(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    """Tiles in the opposite order, and one more: a block reads what another block wrote."""
    tiles = x.partition(B)
    (i,) = z.index
    z.store(tiles[tiles.num_tiles(0) - 1 - i] + 1.0)


def graphs(device):
    """How many launches have become graphs on a GPU so far."""
    return device.backend.driver.graphs._count


def test_a_stream_that_waits_for_the_host_counts_every_launch(gpu):
    before = graphs(gpu)
    z = tw.zeros(TILE)
    for _ in range(MANY):
        count(z.partition(TILE)).sync()
    assert graphs(gpu) == before + 1
    np.testing.assert_array_equal(z.numpy(), np.full(TILE, MANY, np.float32))


def test_a_stream_that_is_held_is_given_launches(gpu):
    before = graphs(gpu)
    z = tw.zeros(TILE)
    for _ in range(3):
        count(z.partition(TILE)).sync()
    hold = gpu.stream.hold()
    for _ in range(MANY):
        count(z.partition(TILE)).submit()
    hold.release()
    assert graphs(gpu) == before
    np.testing.assert_array_equal(z.numpy(), np.full(TILE, MANY + 3, np.float32))


def test_new_tensors_go_by_the_graph_of_their_plan(gpu):
    before = graphs(gpu)
    x, y = (tw.from_numpy(np.full(TILE, value, np.float32)) for value in (1.0, 2.0))
    outputs = [tw.zeros(TILE) for _ in range(MANY)]
    for z in outputs:
        z.wait()
    for number, z in enumerate(outputs):
        add(z.partition(TILE), x if number % 3 else y, y).submit()
        if number % 2:
            z.wait()
    assert graphs(gpu) > before
    for number, z in enumerate(outputs):
        np.testing.assert_array_equal(z.numpy(), np.full(TILE, 3 if number % 3 else 4, np.float32))


# One tile: the host takes the time. So many that the GPU does: then the ways take turns.
@pytest.mark.parametrize("tiles", [1, 100, 20_000])
def test_both_ways_in_turn_keep_the_order(gpu, tiles):
    values = np.arange(tiles * TILE, dtype=np.float32)
    x, y = tw.from_numpy(values), tw.zeros(values.size)
    for step in range(MANY):
        turn(y.partition(TILE), x).submit()
        if step % 40 < 10:
            y.wait()
        x, y = y, x
    expected = values.reshape(-1, TILE)[:: -1 if MANY % 2 else 1].reshape(-1) + MANY
    np.testing.assert_array_equal(x.numpy(), expected)


def test_a_graph_waits_for_no_other_stream(gpu):
    # What is prepared on one stream, which is then held, goes on on another one.
    first, second = gpu.stream, gpu.new_stream()
    x = tw.from_numpy(np.ones(TILE, np.float32))
    outputs = itertools.cycle([tw.zeros(TILE) for _ in range(4)])
    for _ in range(MANY):
        add(next(outputs).partition(TILE), x, x).sync()
    held, free = tw.zeros(TILE), tw.zeros(TILE)
    held.wait(), free.wait()
    hold = first.hold()
    add(held.partition(TILE), x, x).submit()
    for _ in range(MANY):
        add(free.partition(TILE), x, x).sync_on(second)
    hold.release()
    np.testing.assert_array_equal(free.numpy(), held.numpy())


def test_a_kernel_that_is_gone_gives_its_graphs_back(gpu):
    z = tw.zeros(TILE)

    def launched():
        kernel = tw.kernel(count.__wrapped__)
        for _ in range(MANY):
            kernel(z.partition(TILE)).sync()

    launched()
    before = graphs(gpu)
    for _ in range(3):
        launched()
    assert graphs(gpu) <= before + 1
    np.testing.assert_array_equal(z.numpy(), np.full(TILE, 4 * MANY, np.float32))
