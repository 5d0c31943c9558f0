"""Launches made over and over, by launch and by graph of one node: none is lost or out of order."""

import gc

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


@pytest.fixture
def made(gpu, monkeypatch):
    """The graphs that launches have become."""
    graphs = gpu.backend.driver.graphs
    make, found = graphs.make, []

    def noting(*launch):
        graph = make(*launch)
        found.append(graph is not None)
        return graph

    monkeypatch.setattr(graphs, "make", noting)
    return found


def test_a_stream_that_waits_for_the_host_counts_every_launch(gpu, made):
    z = tw.zeros(TILE)
    for _ in range(MANY):
        count(z.partition(TILE)).sync()
    assert made == [True]
    np.testing.assert_array_equal(z.numpy(), np.full(TILE, MANY, np.float32))


def test_a_stream_that_is_held_is_given_launches(gpu, made):
    z = tw.zeros(TILE)
    for _ in range(3):
        count(z.partition(TILE)).sync()
    hold = gpu.stream.hold()
    for _ in range(MANY):
        count(z.partition(TILE)).submit()
    hold.release()
    assert made == []
    np.testing.assert_array_equal(z.numpy(), np.full(TILE, MANY + 3, np.float32))


# One tile: the host takes the time. So many that the GPU does: then the ways take turns.
@pytest.mark.parametrize("tiles", [1, 100, 20_000])
def test_both_ways_in_turn_keep_the_order(gpu, made, tiles):
    values = np.arange(tiles * TILE, dtype=np.float32)
    x, y = tw.from_numpy(values), tw.zeros(values.size)
    for step in range(2 * MANY):
        turn(y.partition(TILE), x).submit()
        if step % 40 < 10:
            y.wait()
        x, y = y, x
    assert made in ([True], [True, True])  # one for either direction
    np.testing.assert_array_equal(x.numpy(), values + 2 * MANY)


def test_a_graph_waits_for_no_other_stream(gpu, made):
    # What was prepared on one stream, which is then held, goes on on another one.
    first, second = gpu.stream, gpu.new_stream()
    x, z = tw.from_numpy(np.ones(TILE, np.float32)), tw.zeros(TILE)
    for _ in range(MANY):
        add(z.partition(TILE), x, x).sync()
    assert made == [True]
    held = tw.zeros(TILE)
    held.wait()
    hold = first.hold()
    count(held.partition(TILE)).submit()
    for _ in range(MANY):
        add(z.partition(TILE), x, x).sync_on(second)
    hold.release()
    np.testing.assert_array_equal(z.numpy(), np.full(TILE, 2, np.float32))
    np.testing.assert_array_equal(held.numpy(), np.full(TILE, 1, np.float32))


def test_a_kernel_that_is_gone_gives_its_graphs_back(gpu, made):
    graphs, z = gpu.backend.driver.graphs, tw.zeros(TILE)

    def launched():
        kernel = tw.kernel(count.__wrapped__)
        for _ in range(MANY):
            kernel(z.partition(TILE)).sync()
        del kernel
        gc.collect()

    launched()
    before = graphs._count
    for _ in range(3):
        launched()
    assert made == [True] * 4
    assert graphs._count == before
    np.testing.assert_array_equal(z.numpy(), np.full(TILE, 4 * MANY, np.float32))
