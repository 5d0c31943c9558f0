"""Graphs as users write them: kernels, copies and fills, asyncio, threads."""

from __future__ import annotations

import asyncio
import threading

import numpy as np
import pytest
from runtime_doubles import edges

import tilewright as tw
from tilewright import Mut, Ref, f32, i32
from tilewright.dims import B, M, N
from tilewright.errors import BorrowError, LaunchError

pytestmark = pytest.mark.usefixtures("device")


@tw.kernel
def add(z: Mut[f32, B], x: Ref[f32, N], y: Ref[f32, N]) -> None:
    z.store(x.load_like(z) + y.load_like(z))


@tw.kernel
def pick(z: Mut[f32, B], x: Ref[f32, N], ids: Ref[i32, M]) -> None:
    i = ids.partition(1)[z.index[0]].item()
    z.store(x.partition(B)[i])


@tw.kernel
def scale(z: Mut[f32, B], x: Ref[f32, N], by: f32) -> None:
    z.store(x.load_like(z) * by)


def test_kernels_copies_and_fills():
    x, y, z, w = tw.ones(100), tw.zeros(100), tw.zeros(100), tw.zeros((10, 10))
    with tw.graph() as g:
        g.record(tw.fill(y, 2))
        g.record(add(z.partition(32), x, y))
        g.record(tw.copy(w, z.reshape(10, 10)))
        g.record(tw.copy(w.T[:5], z.reshape(10, 10)[:5]))
        g.record(tw.fill(w[::2, ::3], 7))
    assert edges(g) == ((), (0,), (1,), (2,), (3,))
    tw.fill(y, 9).submit()
    g.launch().sync()
    expected = np.full((10, 10), 3.0)
    expected[::2, ::3] = 7
    assert (w.numpy() == expected).all()


def test_scalars_are_those_of_the_recording_until_an_update():
    x, z = tw.ones(100), tw.zeros(100)
    g = scale(z.partition(32), x, 3.0).graph()
    g.launch().sync()
    assert z.numpy()[0] == 3
    g.update(scale(z.partition(32), x, 5.0))
    g.launch().sync()
    assert z.numpy()[0] == 5


def test_an_update_with_a_launch_that_was_made_before():
    x, y, z = tw.ones(100), tw.full(100, 3), tw.zeros(100)
    for _ in range(3):  # for the same handles, found again
        add(z.partition(32), x, x).sync()
        add(z.partition(32), y, y).sync()
    g = add(z.partition(32), x, x).graph()
    g.update(add(z.partition(32), y, y))
    g.launch().sync()
    assert z.numpy()[0] == 6
    g.update(add(z.partition(32), x, y))
    g.launch().sync()
    assert z.numpy()[0] == 4


def test_an_update_may_have_another_size():
    x, z = tw.ones(100), tw.zeros(100)
    g = scale(z.partition(32), x, 3.0).graph()
    g.update(scale(z[:68].partition(32), x[:68], 5.0))
    g.launch().sync()
    assert z.numpy().tolist() == [5.0] * 68 + [0.0] * 32


def test_an_update_that_is_compiled_otherwise_is_refused():
    x, z = tw.ones(100), tw.zeros(100)
    g = scale(z.partition(32), x, 3.0).graph()
    with pytest.raises(LaunchError, match=r"compiled for other arguments.*divide alike"):
        g.update(scale(z[:64].partition(32), x[:64], 5.0))
    g.launch().sync()
    assert z.numpy().tolist() == [3.0] * 100


def test_an_empty_launch_is_a_node():
    x, z = tw.zeros(0), tw.zeros(0)
    g = add(z.partition(32), x, x).graph()
    g.launch().sync()
    assert z.numpy().shape == (0,)


def test_handles_moved_away_after_recording(device):
    x, z, ids = tw.ones(8), tw.zeros(8), tw.from_numpy(np.array([0, 1], np.int32))
    g = pick(z.partition(4), x, ids).graph()
    kept = tw.move(x), tw.move(z), tw.move(ids)
    hold = device.stream.hold()
    for _ in range(3):  # each gets a failure record of its own
        g.launch().submit()
    hold.release()
    assert kept[1].numpy()[0] == 1


def test_handles_are_not_moved_away_while_they_are_recorded():
    x, y, z = tw.ones(8), tw.ones(8), tw.zeros(8)
    with tw.graph() as g:
        g.record(add(z.partition(4), x, x))
        for recorded in (x, z):
            with pytest.raises(BorrowError, match=r"^add, recorded at .* the tensor behind the bl"):
                tw.move(recorded)
        y = tw.move(y)  # which nothing recorded uses
        g.record(add(x.partition(4), z, y))
    z = tw.move(z)
    g.launch().sync()
    assert (z.numpy()[0], x.numpy()[0]) == (2, 3)


def test_meta_tensors_have_no_graph():
    x, z = (tw.meta(100, target="cpu") for _ in range(2))
    with pytest.raises(LaunchError, match="has no memory, so nothing runs on it"):
        add(z.partition(32), x, x).graph()


def test_launch_checks_come_before_recording():
    x, z = tw.ones(100), tw.zeros(100)
    with tw.graph() as g, pytest.raises(LaunchError, match="`x`"):
        g.record(add(z.partition(32), x[:50], x))


def test_asyncio():
    x, z = tw.ones(1000), tw.zeros(1000)
    other = tw.zeros(1000)
    g = add(z.partition(32), x, x).graph()

    async def replays():
        for _ in range(10):
            await g.launch()
        replay = asyncio.ensure_future(_cancelled(g))
        await asyncio.sleep(0)
        replay.cancel()
        return await asyncio.gather(add(other.partition(32), x, x).map(id), g.launch().map(id))

    asyncio.run(replays())
    assert z.numpy()[0] == 2


async def _cancelled(graph):
    await graph.launch()


def test_threads_replay_one_graph(device):
    x, z, one = tw.zeros(1000), tw.zeros(1000), tw.ones(1000)
    with tw.graph() as g:
        g.record(add(z.partition(64), x, one))
        g.record(tw.copy(x, z))
    done, lock = [], threading.Lock()

    def replay():
        stream = device.new_stream()
        for _ in range(20):
            while True:
                try:
                    with lock:  # to build and to submit are two steps
                        g.launch().submit(stream)
                    break
                except BorrowError:
                    continue
        done.append(True)

    threads = [threading.Thread(target=replay) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == 4
    assert x.numpy()[0] == 80


@tw.kernel(unsafe=True)
def collide(z: tw.Ptr[f32]) -> None:
    with tw.unsafe("every block writes the same element, which is what is to be found"):
        tw.store(z, 1.0)


def test_a_graph_recorded_under_race_check_is_watched(cpu):
    z = tw.zeros(4)
    with tw.race_check():
        g = collide.grid(2).unsafe(z).graph()
    for _ in range(2):
        with pytest.raises(tw.UndefinedBehaviourError, match="race"):
            g.launch().sync()
