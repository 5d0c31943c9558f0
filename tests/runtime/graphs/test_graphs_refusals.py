"""Refused recordings, and blocks that end badly."""

from __future__ import annotations

import asyncio
import threading

import numpy as np
import pytest
import runtime_names as tw
from runtime_doubles import add_one, copy, put, writes

from tilewright.errors import LaunchError

pytestmark = pytest.mark.usefixtures("device")


class TestRefusals:
    def test_nested_recording(self):
        x = tw.zeros(4)
        with tw.graph() as g:
            with pytest.raises(LaunchError, match="recorded already, and one is recorded at a"):
                tw.graph().__enter__()
            op = add_one(x)
            with pytest.raises(LaunchError, match="recorded already"):
                op.graph()
            op.close()
            g.record(add_one(x))
        assert len(g) == 1

    def test_an_exception_in_the_block_leaves_nothing(self, device):
        x, z = tw.zeros(4), tw.zeros(4)
        g = tw.graph()

        def block():
            with g:
                g.record(copy(z, x))
                raise KeyError("mine")

        with pytest.raises(KeyError, match="mine"):
            block()
        assert x.storage.is_lazy
        assert x.storage.timeline.held is None
        assert not x.storage.timeline.graphs
        with pytest.raises(LaunchError, match="given up by an exception"):
            g.launch()
        with pytest.raises(LaunchError, match="given up by an exception"):
            g.record(tw.value(1))
        put(z, 1).sync()
        with tw.graph() as again:
            again.record(add_one(z))
        again.launch().sync()
        assert z.numpy()[0] == 2

    def test_an_operation_that_is_refused_leaves_the_rest(self):
        x, y, z = tw.zeros(4), tw.zeros(4), tw.zeros(4)

        def step(_):
            raise KeyError("step")

        with tw.graph() as g:
            g.record(put(x, 1))
            with pytest.raises(KeyError, match="step"):
                g.record(tw.zip_operations(put(y, 2), put(z, 3).then(step), put(x[:2], 4)))
            g.record(put(z, 5))
        assert len(g) == 2
        assert not any(tensor.storage.timeline.borrows() for tensor in (x, y, z))
        g.launch().sync()
        assert (x.numpy()[0], y.numpy()[0], z.numpy()[0]) == (1, 0, 5)

    def test_building_that_fails_gives_the_graph_up(self):
        def allocate(stream):
            stream.queue.allocate(64, None)

        z, g = tw.zeros(4), tw.graph()
        both = put(z[:2], 1), _work(z[2:], allocate)
        with pytest.raises(LaunchError, match="allocates memory when it runs"), g:
            g.record(tw.zip_operations(*both))
        assert not z.storage.timeline.graphs
        with pytest.raises(LaunchError, match="given up"):
            g.launch()

    @pytest.mark.parametrize(
        ("enqueue", "message"),
        [
            (lambda s: s.queue.allocate(64, None), "allocates memory when it runs"),
            (lambda s: s.queue.free(None, None), "allocates memory when it runs"),
            (lambda s: s.queue.download(None, 0, np.zeros(4, np.uint8)), "copy to the host"),
        ],
    )
    def test_work_that_no_node_can_do(self, enqueue, message):
        z = tw.zeros(4)
        with pytest.raises(LaunchError, match=message), tw.graph() as g:
            g.record(_work(z, enqueue))

    def test_a_read_of_what_is_being_recorded(self):
        x, z = tw.full(4, 1), tw.zeros(4)
        with tw.graph() as g:
            g.record(copy(z, x))
            with pytest.raises(LaunchError, match=r"numpy\(\).*uses z of copy.*runs nothing"):
                z.numpy()
            with pytest.raises(LaunchError, match=r"put.*would run now.*End the block"):
                put(z, 1).submit()
            assert x.numpy()[0] == 1  # an input has its contents
            add_one(x).sync()
        g.launch().sync()
        assert z.numpy()[0] == 2

    def test_other_threads_read_what_there_was(self):
        z = tw.full(4, 9)
        got = []
        with tw.graph() as g:
            g.record(put(z, 1))
            thread = threading.Thread(target=lambda: got.append(z.numpy()[0]))
            thread.start()
            thread.join()
        assert got == [9]

    def test_a_task_that_outlives_the_block_is_outside(self):
        z = tw.zeros(4)

        async def main():
            async def later():
                await ended.wait()
                put(z, 3).sync()
                return put(z, 4).graph()

            ended = asyncio.Event()
            with tw.graph() as g:
                g.record(put(z, 1))
                task = asyncio.ensure_future(later())
                await asyncio.sleep(0)
            ended.set()
            return await task

        asyncio.run(main()).launch().sync()
        assert z.numpy()[0] == 4

    def test_recording_outside_the_block(self):
        x = tw.zeros(4)
        g = tw.graph()
        op = add_one(x)
        with pytest.raises(LaunchError, match="has not been recorded"):
            g.record(op)
        with pytest.raises(LaunchError, match="has not been recorded"):
            g.launch()
        with g:
            with pytest.raises(LaunchError, match="still being recorded"):
                g.launch()
            failed = []

            def elsewhere():
                try:
                    g.record(op)
                except LaunchError as error:
                    failed.append(str(error))

            thread = threading.Thread(target=elsewhere)
            thread.start()
            thread.join()
            assert "its block's thread and task" in failed[0]
            g.record(op)
        with pytest.raises(LaunchError, match="records no more"):
            g.record(tw.value(1))
        with pytest.raises(LaunchError, match="records no more"):
            g.__enter__()

    def test_what_is_no_operation(self):
        message = "consists of operations, and this is Tensor"
        with tw.graph() as g, pytest.raises(LaunchError, match=message):
            g.record(tw.zeros(4))

    def test_one_device(self, device):
        x, other = tw.zeros(4), tw.zeros(4, device="cpu:1")
        with tw.graph() as g:
            g.record(add_one(x))
            op = add_one(other)
            message = f"runs on cpu:1, and this graph on {device.name}"
            with pytest.raises(LaunchError, match=message):
                g.record(op)
            op.close()

    def test_the_device_is_that_of_the_operations(self):
        other = tw.full(4, 1, device="cpu:1")
        g = add_one(other).graph()
        g.launch().sync()
        assert other.numpy()[0] == 2

    def test_shared_operations_run_once_and_are_refused(self):
        x = tw.zeros(4)
        shared = add_one(x).shared()
        with tw.graph() as g, pytest.raises(LaunchError, match="is shared and runs once"):
            g.record(shared)
        shared.sync()
        assert x.numpy()[0] == 1
        with tw.graph() as g:
            assert g.record(shared) == (x,)  # it has run: its result is there

    def test_a_graph_in_a_graph(self):
        inner = add_one(tw.zeros(4)).graph()
        with tw.graph() as g:
            replay = inner.launch()
            with pytest.raises(LaunchError, match="no graphs"):
                g.record(replay)
        inner.launch().sync()

    def test_a_replay_inside_a_block_on_what_is_recorded_there(self):
        x, y = tw.zeros(4), tw.zeros(4)
        other, apart = add_one(x).graph(), add_one(y).graph()
        with tw.graph() as g:
            g.record(put(x, 1))
            with pytest.raises(LaunchError, match=r"graph replay.*uses z of put"):
                other.launch().submit()
            apart.launch().sync()
        assert y.numpy()[0] == 1


def _work(tensor, enqueue):
    class Work:
        def enqueue(self, stream):
            enqueue(stream)

    return tw.make_operation("work", tensor.device, (writes(tensor),), Work(), tensor)
