"""Memory that a graph keeps alive, and updates of its nodes."""

from __future__ import annotations

import gc
import warnings
import weakref

import pytest
import runtime_names as tw
from runtime_doubles import add_one, copy, edges, put

from tilewright.errors import BorrowError, LaunchError

pytestmark = pytest.mark.usefixtures("device")


class TestMemory:
    def test_a_graph_keeps_its_memory(self):
        z = tw.zeros(4)
        with tw.graph() as g:
            x = tw.full(4, 8)
            storage = weakref.ref(x.storage)
            g.record(copy(z, x))
            del x
        gc.collect()
        assert storage() is not None
        g.launch().sync()
        assert z.numpy()[0] == 8
        del g
        gc.collect()
        z.device.synchronize()
        assert storage() is None

    def test_a_replay_keeps_its_graph(self):
        x = tw.full(4, 1)
        g = add_one(x).graph()
        built = weakref.ref(g._built)
        replay = g.launch()
        del g
        gc.collect()
        assert built() is not None
        replay.sync()
        del replay
        gc.collect()
        assert built() is None
        assert x.numpy()[0] == 2

    def test_a_graph_dropped_while_a_replay_is_under_way(self, device):
        z = tw.zeros(1024)
        z.wait()
        hold = device.stream.hold()
        with tw.graph() as g:
            x = tw.full(1024, 8)
            g.record(copy(z, x))
        g.launch().submit()
        used = device.pool.statistics().used
        del g, x
        gc.collect()
        assert device.pool.statistics().used == used  # freed behind the replay
        with device.lock:
            tw.full(1024, 9).storage.materialise(device.new_stream())
        hold.release()
        assert z.numpy()[0] == 8
        device.synchronize()
        assert device.pool.statistics().used < used

    def test_a_tensor_outlives_the_graph_with_its_fences(self, device):
        first, second = device.new_stream(), device.new_stream()
        x, y = tw.zeros(4), tw.zeros(4)
        g = add_one(x).graph()
        hold = first.hold()
        g.launch().submit(first)
        del g
        gc.collect()
        copy(y, x).submit(second)
        hold.release()
        assert y.numpy()[0] == 1

    def test_nothing_is_left_of_an_abandoned_graph(self, device):
        def block():
            with tw.graph() as g:
                x = tw.full(4, 8)
                kept.append(weakref.ref(x.storage))
                g.record(put(x, 1))
                raise KeyError("mine")

        kept = []
        with pytest.raises(KeyError, match="mine"):
            block()
        gc.collect()
        (storage,) = kept
        assert storage() is None

    def test_no_warning_for_a_graph_that_is_dropped(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            add_one(tw.zeros(4)).graph()
            gc.collect()


class TestUpdate:
    def test_other_tensors(self):
        x, y, z = tw.full(4, 1), tw.full(4, 2), tw.zeros(4)
        g = copy(z, x).graph()
        g.launch().sync()
        g.update(copy(z, y))
        assert g.results == ((z, y),)
        g.launch().sync()
        assert z.numpy()[0] == 2

    def test_order_is_found_anew(self):
        a, b, c = tw.full(4, 1), tw.zeros(4), tw.zeros(4)
        with tw.graph() as g:
            g.record(copy(b, a, "first"))
            g.record(put(c, 7))
        assert edges(g) == ((), ())
        g.update(copy(b, c, "first"))
        assert edges(g) == ((), (0,))  # now it reads what the other overwrites
        g.launch().sync()
        assert (b.numpy()[0], c.numpy()[0]) == (0, 7)
        g.launch().sync()
        assert b.numpy()[0] == 7

    def test_a_replay_under_way_keeps_its_tensors(self, device):
        x, y, z = tw.full(4, 1), tw.full(4, 2), tw.zeros(4)
        w = tw.zeros(4)
        g = copy(z, x).graph()
        hold = device.stream.hold()
        g.launch().submit()
        g.update(copy(w, y))
        g.launch().submit()
        hold.release()
        assert (z.numpy()[0], w.numpy()[0]) == (1, 2)

    def test_old_tensors_are_free_and_new_ones_held(self):
        x, y, z, w = tw.full(4, 1), tw.full(4, 2), tw.zeros(4), tw.zeros(4)
        g = copy(z, x).graph()
        g.update(copy(w, y))
        replay = g.launch()
        put(z, 1).sync()
        with pytest.raises(BorrowError):
            put(w, 1)
        replay.sync()
        storage = weakref.ref(x.storage)
        del x
        gc.collect()
        z.device.synchronize()
        assert storage() is None

    def test_which_node(self):
        x, y, z = tw.full(4, 1), tw.zeros(4), tw.zeros(4)
        with tw.graph() as g:
            g.record(copy(y, x))
            g.record(copy(z, x))
        op = copy(y, z)
        with pytest.raises(LaunchError, match=r"and nodes 0, 1 do: say which, `g.update"):
            g.update(op)
        with pytest.raises(
            LaunchError, match="the graph has 2 nodes, counted from 0, and no node 5"
        ):
            g.update(op, node=5)
        for node in (True, 1.0, "1", [1], object()):
            with pytest.raises(LaunchError, match="nodes of a graph are counted from 0"):
                g.update(op, node=node)
        g.update(op, node=0)
        g.launch().sync()
        g.launch().sync()
        assert (y.numpy()[0], z.numpy()[0]) == (1, 1)

    def test_refusals(self):
        x, y, z = tw.full(4, 1), tw.zeros(4), tw.zeros(4)
        with tw.graph() as g:
            g.record(copy(z, x))
            g.record(put(y, 1))
        for build, node, message in [
            (lambda: put(z, 1, "other"), None, "and no node does: record the graph again"),
            (lambda: copy(z, y), 1, r"node 1 of the graph runs put.*: node 0 does"),
            (lambda: tw.value(1), None, "no node does"),
        ]:
            op = build()
            with pytest.raises(LaunchError, match=message):
                g.update(op, node=node)
            op.close()  # still its builder's
        with pytest.raises(LaunchError, match="consists of 2 operations"):
            g.update(copy(z, y).then(lambda _: put(x, 2)))
        replay = g.launch()
        with pytest.raises(BorrowError, match=r"graph replay, built at .*holds the graph"):
            g.update(copy(tw.zeros(4), tw.ones(4)))
        replay.sync()
        assert (y.numpy()[0], z.numpy()[0]) == (1, 1)

    def test_not_while_it_is_recorded(self):
        z = tw.zeros(4)
        with tw.graph() as g:
            op = put(z, 1)
            with pytest.raises(LaunchError, match="still being recorded"):
                g.update(op)
            g.record(op)
