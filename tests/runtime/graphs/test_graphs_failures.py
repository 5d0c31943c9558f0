"""A failure belongs to its replay, and reaches every reader of its outputs."""

from __future__ import annotations

import asyncio
import gc

import numpy as np
import pytest
import runtime_names as tw
from runtime_doubles import copy, operation, put, reads, updates, writes

import tilewright as tile
from tilewright import Mut, Ref, f32, i32
from tilewright.dims import B, M, N
from tilewright.errors import LaunchError, OutOfBoundsError
from tilewright.runtime.ops.lifecycle import State

pytestmark = pytest.mark.usefixtures("device")


@tile.kernel
def pick(z: Mut[f32, B], x: Ref[f32, N], ids: Ref[i32, M]) -> None:
    i = ids.partition(1)[z.index[0]].item()
    z.store(x.partition(B)[i])


@tile.kernel
def double(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    z.store(x.load_like(z) + x.load_like(z))


GOOD, BAD = [0, 1], [0, 9]


class Numbers:
    """Indices in place, so that a test can make the next replay fail."""

    def __init__(self):
        self.tensor = tw.from_numpy(np.array(GOOD, np.int32))
        self.tensor.wait()

    def set(self, ids):
        array = np.array(ids, np.int32)
        operation("set", lambda target: np.copyto(target, array), writes(self.tensor)).submit()


@pytest.fixture
def graph(device):
    """A checked node, two that depend on it and one that does not."""

    class Made:
        ids = Numbers()
        x = tw.from_numpy(np.arange(8, dtype=np.float32))
        picked, behind, further, apart = (tw.zeros(8) for _ in range(4))

    with tw.graph() as g:
        g.record(pick(Made.picked.partition(4), Made.x, Made.ids.tensor))
        g.record(double(Made.behind.partition(4), Made.picked))
        g.record(double(Made.apart.partition(4), Made.x))
        g.record(double(Made.further.partition(4), Made.behind))
    Made.g = g
    return Made


def test_dependent_results_raise_and_the_independent_one_is_there(graph):
    graph.ids.set(BAD)
    replay = graph.g.launch().submit()
    assert graph.apart.numpy().tolist() == [2.0 * n for n in range(8)]
    observers = [graph.picked.numpy, graph.behind.numpy, graph.further.numpy, graph.picked.wait]
    observers += [replay.sync, replay.sync, graph.behind[:2].numpy]
    for observer in observers:
        with pytest.raises(OutOfBoundsError, match="index 9 is outside axis 0"):
            observer()
    assert replay.state is State.FAILED
    with pytest.raises(OutOfBoundsError):
        double(tw.zeros(8).partition(4), graph.further)
    double(tw.zeros(8).partition(4), graph.apart).sync()


def test_of_ten_replays_the_failing_ones_tell(graph):
    """Replays one behind the other, each looked at when all are over."""
    hold = graph.x.device.stream.hold()
    replays = []
    for turn in range(10):
        graph.ids.set(BAD if turn in (2, 3, 7) else GOOD)
        replays.append(graph.g.launch().submit())
    hold.release()
    failed = []
    for turn, replay in enumerate(replays):
        try:
            replay.sync()
        except OutOfBoundsError:
            failed.append(turn)
    assert failed == [2, 3, 7]
    assert graph.further.numpy().tolist() == [4.0 * n for n in range(8)]


def test_of_ten_replays_the_failing_ones_tell_at_once(graph):
    for turn in range(10):
        graph.ids.set(BAD if turn % 3 == 2 else GOOD)
        replay = graph.g.launch()
        if turn % 3 == 2:
            with pytest.raises(OutOfBoundsError):
                replay.sync()
            with pytest.raises(OutOfBoundsError):
                graph.further.numpy()
        else:
            replay.sync()
            assert graph.further.numpy()[1] == 4


def test_failing_replays_leak_no_record(graph, device):
    graph.ids.set(BAD)
    for _ in range(300):
        with pytest.raises(OutOfBoundsError):
            graph.g.launch().sync()
    gc.collect()
    chunk = {"cpu": 64, "cuda": 256}[device.kind]
    assert device.backend._records._free.qsize() <= chunk  # one was enough
    assert not device.unseen


def test_the_next_whole_write_clears_it(graph):
    graph.ids.set(BAD)
    with pytest.raises(OutOfBoundsError):
        graph.g.launch().sync()
    put(graph.picked, 3).submit()
    assert graph.picked.numpy()[0] == 3
    with pytest.raises(OutOfBoundsError):
        graph.behind.numpy()
    graph.ids.set(GOOD)
    graph.g.launch().sync()  # it writes all of them
    assert graph.behind.numpy()[1] == 2


def test_the_next_launch_tells_an_untold_failure(graph, device):
    graph.ids.set(BAD)
    graph.g.launch().submit()
    graph.ids.set(GOOD)
    device.stream.wait(device.stream.issued)
    with pytest.raises(OutOfBoundsError, match="index 9"):
        graph.g.launch()
    assert not device.unseen
    graph.g.launch().sync()
    assert graph.further.numpy()[1] == 4


def test_the_stream_tells_too(graph, device):
    graph.ids.set(BAD)
    graph.g.launch().submit()
    with pytest.raises(OutOfBoundsError):
        device.stream.sync()
    device.stream.sync()


def test_operations_queued_behind_a_failing_replay(graph, device):
    y, w = tw.zeros(8), tw.zeros(8)
    graph.ids.set(BAD)
    hold = device.stream.hold()
    graph.g.launch().submit()
    copy(y, graph.further).submit()
    copy(w, graph.apart).submit()
    hold.release()
    with pytest.raises(OutOfBoundsError):
        y.numpy()
    assert w.numpy()[1] == 2


def test_in_a_chain_and_awaited(graph):
    graph.ids.set(BAD)
    with pytest.raises(OutOfBoundsError):
        graph.g.launch().map(id).sync()

    async def both():
        other = tw.zeros(4)
        return await asyncio.gather(graph.g.launch(), put(other, 1).map(id), return_exceptions=True)

    failed, fine = asyncio.run(both())
    assert isinstance(failed, OutOfBoundsError)
    assert isinstance(fine, int)


def test_a_replay_that_reads_what_failed_is_refused(graph, device):
    y, z = tw.zeros(8), tw.zeros(8)
    g = copy(z, y).graph()
    g.launch().sync()
    failing = operation(
        "bad", lambda a: a.fill(1), writes(y), failure=lambda: LaunchError("broken")
    )
    with pytest.raises(LaunchError, match="broken"):
        failing.sync()
    with pytest.raises(LaunchError, match="broken"):
        g.launch()
    put(y, 2).sync()
    g.launch().sync()
    assert z.numpy()[0] == 2


def test_a_replay_whose_input_may_fail_yet(device):
    x, y, z, w = tw.zeros(4), tw.zeros(4), tw.zeros(4), tw.zeros(4)
    with tw.graph() as g:
        g.record(copy(z, y))
        g.record(copy(w, x))
    g.launch().sync()
    hold = device.stream.hold()
    check = lambda: LaunchError("broken")  # noqa: E731
    operation("bad", lambda a: a.fill(1), writes(y), failure=check).submit()
    replay = g.launch().submit()
    hold.release()
    with pytest.raises(LaunchError, match="broken"):
        replay.sync()
    with pytest.raises(LaunchError, match="broken"):
        z.numpy()
    assert w.numpy()[0] == 0


def test_what_a_replay_leaves_for_the_next_stays_failed(device):
    """A graph that reads what it wrote the last time is refused until that is overwritten."""
    x, state = tw.full(8, 1), tw.zeros(8)
    ids = Numbers()
    with tw.graph() as g:
        part = tw.zeros(8)
        g.record(pick(part.partition(4), x, ids.tensor))
        g.record(operation("sum", lambda s, p: np.add(s, p, out=s), updates(state), reads(part)))
    g.launch().sync()
    ids.set(BAD)
    hold = device.stream.hold()
    first, second = g.launch().submit(), None
    ids.set(GOOD)
    second = g.launch().submit()  # under way before the failure is known
    hold.release()
    for replay in (first, second):
        with pytest.raises(OutOfBoundsError):
            replay.sync()
    with pytest.raises(OutOfBoundsError):
        state.numpy()
    assert part.numpy()[0] == 1  # the second replay has made it anew
    for _ in range(2):
        with pytest.raises(OutOfBoundsError):
            g.launch()
    put(state, 0).sync()
    g.launch().sync()
    assert state.numpy()[0] == 1


def test_what_a_graph_overwrites_first_is_no_input():
    x = tw.zeros(4)
    with tw.graph() as g:
        g.record(put(x[2:], 1))
        g.record(operation("up", lambda a: np.add(a, 1, out=a), updates(x)))
    bad = operation("bad", lambda a: a, writes(x[2:]), failure=lambda: LaunchError("broken"))
    with pytest.raises(LaunchError, match="broken"):
        bad.sync()
    g.launch().sync()
    assert x.numpy().tolist() == [1, 1, 2, 2]


def test_a_graph_behind_a_failing_graph(device):
    x, y, z = tw.full(8, 1), tw.zeros(8), tw.zeros(8)
    ids = Numbers()
    first = pick(y.partition(4), x, ids.tensor).graph()
    second = copy(z, y).graph()
    first.launch().sync()
    second.launch().sync()
    ids.set(BAD)
    hold = device.stream.hold()
    first.launch().submit()
    behind = second.launch().submit()
    hold.release()
    with pytest.raises(OutOfBoundsError):
        behind.sync()
    with pytest.raises(OutOfBoundsError):
        second.launch()
    ids.set(GOOD)
    first.launch().sync()
    second.launch().sync()
    assert z.numpy()[0] == 1


def test_work_that_raises_concerns_its_node_only():
    y, z, w = tw.zeros(4), tw.zeros(4), tw.zeros(4)

    def explode(_):
        raise ValueError("inside")

    with tw.graph() as g:
        g.record(operation("explode", explode, writes(y)))
        g.record(copy(z, y))
        g.record(put(w, 1))
    replay = g.launch().submit()
    for observer in (replay.sync, y.numpy, z.numpy):
        with pytest.raises(ValueError, match="inside"):
            observer()
    assert w.numpy()[0] == 1


def test_a_check_that_cannot_be_renewed_is_refused():
    z = tw.zeros(4)
    with pytest.raises(LaunchError, match="reports failures in a place of its own"):
        operation("k", lambda a: None, writes(z), failure=lambda: None).graph()
    put(z, 1).sync()


def test_an_update_takes_the_check_along(graph):
    other = tw.from_numpy(np.array(BAD, np.int32))
    graph.g.launch().sync()
    graph.g.update(pick(graph.picked.partition(4), graph.x, other))
    with pytest.raises(OutOfBoundsError):
        graph.g.launch().sync()
    graph.g.update(pick(graph.picked.partition(4), graph.x, graph.ids.tensor))
    graph.g.launch().sync()
    assert graph.further.numpy()[1] == 4


@pytest.mark.parametrize("last_is_bad", [False, True])
def test_the_last_of_several_graphs_counts(device, last_is_bad):
    """A storage takes stamps over in the order of the replays, whichever graph was made first."""
    first, second = device.new_stream(), device.new_stream()
    x = tw.zeros(4)

    def explode(array):
        array.fill(1)
        raise ValueError("inside")

    good, bad = put(x, 2).graph(), operation("bad", explode, writes(x)).graph()
    hold = first.hold()
    for graph, stream in zip(
        (good, bad) if last_is_bad else (bad, good), (first, second), strict=True
    ):
        graph.launch().submit(stream)
    hold.release()
    if last_is_bad:
        with pytest.raises(ValueError, match="inside"):
            x.numpy()
    else:
        assert x.numpy().tolist() == [2.0] * 4
