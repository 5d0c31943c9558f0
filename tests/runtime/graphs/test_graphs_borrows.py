"""Replays among other operations: refused while built, ordered when submitted."""

from __future__ import annotations

import asyncio
import gc

import numpy as np
import pytest
import runtime_names as tw
from runtime_doubles import add_one, copy, put

from tilewright.errors import BorrowError, LaunchError, MovedError

pytestmark = pytest.mark.usefixtures("device")


class TestBorrows:
    """A built replay conflicts like any operation; a submitted one is ordered."""

    def test_a_built_replay_holds_its_tensors(self):
        x, y, z = tw.full(4, 1), tw.zeros(4), tw.zeros(4)
        g = copy(z, x).graph()
        replay = g.launch()
        for use in (lambda: put(z, 1), lambda: copy(y, z), z.numpy, lambda: put(x, 1)):
            with pytest.raises(BorrowError, match=r"graph replay, built at .*has not been run"):
                use()
        copy(y, x).sync()  # readers of what it only reads
        with pytest.raises(BorrowError, match="graph replay, built at"):
            tw.move(z)
        replay.sync()
        assert z.numpy()[0] == 1

    def test_a_built_operation_stands_against_a_replay(self):
        x, y, z = tw.full(4, 1), tw.zeros(4), tw.zeros(4)
        g = copy(z, x).graph()
        for build in (lambda: put(x, 2), lambda: put(z, 1), lambda: copy(y, z)):
            op = build()
            with pytest.raises(
                BorrowError, match=r", built at .*has not been run.*graph replay at"
            ):
                g.launch()
            op.close()
        reader = copy(y, x)
        g.launch().sync()
        reader.sync()
        assert y.numpy()[0] == 1

    def test_also_after_replays(self):
        x, y, z = tw.full(4, 1), tw.zeros(4), tw.zeros(4)
        g = copy(z, x).graph()
        for build in (lambda: put(x, 2), lambda: put(z, 1), lambda: copy(y, z)):
            g.launch().sync()
            op = build()
            for _ in range(2):
                with pytest.raises(BorrowError, match=r", built at .*graph replay at"):
                    g.launch()
            op.sync()
        g.launch().sync()
        assert z.numpy()[0] == 2

    def test_an_export_stands_against_a_replay(self, cpu):
        x, z = tw.full(4, 1), tw.zeros(4)
        g = copy(z, x).graph()
        g.launch().sync()
        theirs = np.from_dlpack(z)
        with pytest.raises(BorrowError, match=r"holds.*graph replay at"):
            g.launch()
        assert theirs.tolist() == [1.0] * 4
        del theirs
        gc.collect()
        g.launch().sync()

    def test_an_operation_built_before_the_graph_was(self):
        x, z = tw.full(4, 1), tw.zeros(4)
        with tw.graph() as g:
            g.record(copy(z, x))
            late = put(x, 2)
        with pytest.raises(BorrowError, match="put, built at"):
            g.launch()
        late.close()
        g.launch().sync()

    def test_two_built_replays_conflict(self):
        g = put(tw.zeros(4), 1).graph()
        for _ in range(3):  # the first, and others behind it
            built = g.launch()
            with pytest.raises(
                BorrowError, match=r"replay, built at .*graphs_borrows.py:\d+, holds its tensors"
            ):
                g.launch()
            built.close()
            g.launch().sync()

    def test_graphs_that_share_tensors(self):
        x, y, z = tw.zeros(4), tw.zeros(4), tw.zeros(4)
        fill, read, apart = put(x, 1).graph(), copy(y, x).graph(), copy(z, tw.ones(4)).graph()
        replay = fill.launch()
        with pytest.raises(BorrowError, match="graph replay, built at"):
            read.launch()
        apart.launch().sync()
        replay.sync()
        read.launch().sync()
        assert y.numpy()[0] == 1

    def test_a_replay_runs_once_and_can_be_closed(self):
        x = tw.zeros(4)
        g = add_one(x).graph()
        replay = g.launch()
        replay.sync()
        with pytest.raises(LaunchError, match="runs once"):
            replay.submit()
        closed = g.launch()
        closed.close()
        with pytest.raises(LaunchError, match="was closed"):
            closed.sync()
        assert x.numpy()[0] == 1

    def test_a_dropped_replay_says_so_and_gives_back(self):
        x = tw.zeros(4)
        g = add_one(x).graph()
        with pytest.warns(RuntimeWarning, match=r"graph replay, built at .*never run"):
            g.launch()
        put(x, 1).sync()

    def test_replays_and_operations_are_ordered_across_streams(self, device):
        first, second = device.new_stream(), device.new_stream()
        x, y, z = tw.full(4, 1), tw.zeros(4), tw.zeros(4)
        with tw.graph() as g:
            g.record(copy(y, x))
            g.record(copy(z, y))
        hold = first.hold()
        put(x, 5).submit(first)
        g.launch().submit(second)  # waits for the put
        put(x, 6).submit(first)  # waits for the replay
        g.launch().submit(second)
        put(z[:2], 7).submit(first)
        hold.release()
        assert y.numpy().tolist() == [6.0] * 4
        assert z.numpy().tolist() == [7, 7, 6, 6]

    def test_replays_on_several_streams_follow_each_other(self, device):
        streams = [device.new_stream() for _ in range(4)]
        x = tw.zeros(4)
        with tw.graph() as g:
            g.record(add_one(x))
            g.record(add_one(x))
        hold = streams[0].hold()
        for turn in range(20):
            g.launch().submit(streams[turn % 4])
        hold.release()
        assert x.numpy()[0] == 40

    def test_other_graphs_replays_are_ordered(self, device):
        first, second = device.new_stream(), device.new_stream()
        x, y = tw.zeros(4), tw.zeros(4)
        count, take = add_one(x).graph(), copy(y, x).graph()
        for turn in range(5):
            hold = first.hold()
            count.launch().submit(first)
            take.launch().submit(second)
            hold.release()
            assert y.numpy()[0] == turn + 1

    def test_in_a_chain_and_awaited(self):
        x, y = tw.zeros(4), tw.zeros(4)
        g = add_one(x).graph()
        chain = g.launch().then(lambda _: g.launch()).then(lambda _: copy(y, x))
        chain.sync()
        assert y.numpy()[0] == 2

        async def several():
            for _ in range(5):
                await g.launch()
            await asyncio.gather(*(put(tw.zeros(4), 1).map(id) for _ in range(3)))
            return x.numpy()[0]

        assert asyncio.run(several()) == 7

    def test_a_moved_handle_changes_nothing(self):
        x, z = tw.full(4, 3), tw.zeros(4)
        g = copy(z, x).graph()
        kept = tw.move(x)
        with pytest.raises(MovedError):
            _ = x.shape
        g.launch().sync()
        put(kept, 4).sync()
        g.launch().sync()
        assert z.numpy()[0] == 4


class TestAccess:
    """A replay looks at its graph's access, not at its tensors."""

    def test_only_dirty_timelines_are_looked_at(self, device):
        tensors = [tw.zeros(4) for _ in range(50)]
        with tw.graph() as g:
            for tensor in tensors:
                g.record(put(tensor, 1))
        graph = g._built.access
        assert len(graph.due()) == 50
        g.launch().sync()
        assert graph.due() == ()
        put(tensors[7], 3).sync()
        assert [access.index for access in graph.due()] == [7]
        g.launch().sync()
        assert graph.due() == ()
        assert tensors[7].numpy()[0] == 1

    def test_many_graphs_on_a_tensor_leave_nothing(self, device):
        x = tw.zeros(4)
        for _ in range(4):
            g = add_one(x).graph()
            g.launch().submit()
            del g
            gc.collect()
        assert x.numpy()[0] == 4
        assert not x.storage.timeline.graphs
