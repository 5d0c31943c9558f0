"""Recording a graph and replaying it, and which of its nodes wait for which."""

from __future__ import annotations

import pytest
import runtime_names as tw
from runtime_doubles import add_one, copy, edges, put

from tilewright.errors import LaunchError
from tilewright.runtime.ops.lifecycle import State

pytestmark = pytest.mark.usefixtures("device")


class TestRecording:
    def test_recording_runs_nothing_and_a_replay_runs_all_in_order(self):
        x, y, z = tw.full(4, 1), tw.full(4, 0), tw.full(4, 0)
        with tw.graph() as g:
            g.record(add_one(x))
            g.record(copy(y, x))
            g.record(copy(z, y))
        assert (x.numpy()[0], y.numpy()[0], z.numpy()[0]) == (1, 0, 0)
        assert len(g) == 3
        g.launch().sync()
        assert (x.numpy()[0], y.numpy()[0], z.numpy()[0]) == (2, 2, 2)

    def test_ten_replays(self):
        x = tw.full(4, 0)
        with tw.graph() as g:
            g.record(add_one(x))
        for _ in range(10):
            g.launch().submit()
        assert x.numpy().tolist() == [10.0] * 4

    def test_record_gives_handles_and_a_replay_gives_them_again(self):
        x, y = tw.full(4, 3), tw.zeros(4)
        with tw.graph() as g:
            given = g.record(copy(y, x))
        assert given == (y, x)
        assert g.results == (given,)
        ((again, _),) = g.launch().sync()
        assert again is y
        assert again.numpy()[0] == 3

    def test_a_graph_of_one_operation(self):
        x = tw.full(4, 0)
        g = add_one(x).graph()
        g.launch().sync()
        g.launch().sync()
        assert x.numpy()[0] == 2

    def test_an_empty_graph_replays_nothing(self):
        with tw.graph() as g:
            pass
        assert g
        assert len(g) == 0
        assert g.launch().sync() == ()

    def test_values_chains_and_zips_are_recorded_by_their_parts(self):
        w, x, y, z = tw.zeros(4), tw.full(4, 1), tw.zeros(4), tw.zeros(4)
        seen = []
        with tw.graph() as g:
            chain = add_one(x).then(lambda got: copy(y, got[0])).inspect(seen.append)
            assert g.record(chain.map(lambda got: got[0])) is y
            assert g.record(tw.zip_operations(copy(z, y), 5, add_one(w)))[1] == 5
            assert g.record(tw.value(7)) == 7
        assert len(g) == 4
        assert len(seen) == 1  # functions run while recording, on handles
        for _ in range(2):
            g.launch().sync()
        assert [tensor.numpy()[0] for tensor in (w, x, y, z)] == [2, 3, 3, 3]
        assert len(seen) == 1

    def test_what_a_step_submits_is_recorded_too(self):
        x = tw.full(4, 0)

        def step(_):
            add_one(x).submit()
            return add_one(x)

        with tw.graph() as g:
            g.record(add_one(x).then(step))
        assert len(g) == 3
        assert x.numpy()[0] == 0
        g.launch().sync()
        assert x.numpy()[0] == 3

    def test_a_recorded_operation_runs_only_with_its_graph(self):
        x = tw.full(4, 0)
        op = add_one(x)
        with tw.graph() as g:
            g.record(op)
            for run in (op.submit, op.sync, lambda: g.record(op)):
                with pytest.raises(LaunchError, match="was recorded in a graph"):
                    run()
        assert op.state is State.RECORDED
        assert op.done

    def test_lazy_tensors_get_their_bytes_before(self, device):
        x, z = tw.full(4, 2), tw.zeros(4)
        with tw.graph() as g:
            g.record(copy(z, x))
            assert x.storage.is_lazy
        assert not x.storage.is_lazy
        before = device.pool.statistics().used
        for _ in range(3):
            g.launch().sync()
        assert device.pool.statistics().used == before

    def test_contents_are_made_once_and_not_at_every_replay(self):
        x = tw.zeros(4)
        with tw.graph() as g:
            g.record(add_one(x))
        g.launch().sync()
        g.launch().sync()
        assert x.numpy()[0] == 2


class TestEdges:
    """An edge for each real conflict, and none where others imply it."""

    def test_independent_nodes_have_none(self):
        tensors = [tw.zeros(4) for _ in range(4)]
        x = tw.ones(4)
        with tw.graph() as g:
            for tensor in tensors:
                g.record(copy(tensor, x))
        assert edges(g) == ((), (), (), ())

    def test_read_after_write_write_after_read_write_after_write(self):
        x, y, z = tw.ones(4), tw.zeros(4), tw.zeros(4)
        with tw.graph() as g:
            g.record(copy(y, x))  # 0
            g.record(copy(z, y))  # 1 reads what 0 wrote
            g.record(put(y, 5))  # 2 overwrites what 1 read
            g.record(put(z, 6))  # 3 overwrites what 1 wrote
        assert edges(g) == ((), (0,), (1,), (1,))
        g.launch().sync()
        assert (y.numpy()[0], z.numpy()[0]) == (5, 6)

    def test_slices_that_do_not_overlap_are_independent(self):
        z = tw.zeros(8)
        with tw.graph() as g:
            g.record(put(z[:4], 1))
            g.record(put(z[4:], 2))
            g.record(put(z[2:6], 3))
        assert edges(g) == ((), (), (0, 1))
        g.launch().sync()
        assert z.numpy().tolist() == [1, 1, 3, 3, 3, 3, 2, 2]

    def test_what_others_imply_is_left_out(self):
        x = tw.zeros(4)
        with tw.graph() as g:
            for _ in range(5):
                g.record(add_one(x))
        assert edges(g) == ((), (0,), (1,), (2,), (3,))

    def test_readers_are_not_ordered(self):
        x = tw.zeros(4)
        with tw.graph() as g:
            g.record(put(x, 1))
            for _ in range(3):
                g.record(copy(tw.zeros(4), x))
            g.record(put(x, 2))
        assert edges(g) == ((), (0,), (0,), (0,), (1, 2, 3))
