"""Calls of a graph to the CUDA driver, and their order, on a GPU that is on paper."""

from __future__ import annotations

import ctypes
import gc

import numpy as np
import pytest
import runtime_names as tw
from paper_launches import copy_kernel, floats, mix_kernel
from runtime_doubles import edges, reads, updates, writes

from tilewright.backends.cuda.module import POINTER, CudaFunction
from tilewright.errors import DriverError, LaunchError, OutOfBoundsError

CREATING = ("create_graph", "add_launch", "add_fill", "add_copy", "add_empty", "instantiate")


class Launch:
    """Work that launches kernels on the addresses of some tensors, and may have a record."""

    def __init__(self, functions, tensors, blocks=1, record=None):
        self.kind = self.functions = functions
        self.storages = tuple(tensor.storage for tensor in tensors)
        self.tensors = tensors
        self.blocks = blocks
        self.record = record

    def repeated(self):
        return self

    def renew(self):
        self.record = self.storages[0].device.new_record()
        return reader(self.record)

    def enqueue(self, stream):
        addresses = [storage.address for storage in self.storages]
        if self.record is not None:
            addresses.append(self.record.address)
        for function in self.functions:
            function.launch(stream, self.blocks, tuple(addresses), self.storages)


def reader(record):
    return lambda: OutOfBoundsError(f"site {record.read()[1]}") if record.read()[0] else None


def check_kernel(driver, _blocks, z, x, record):
    """Copies, and reports a failure where the first element is negative."""
    copy_kernel(driver, _blocks, z, x)
    if floats(driver, x)[0] < 0:
        claim = (ctypes.c_int32 * 2).from_address(int.from_bytes(record, "little"))
        claim[:] = (1, 7)


@pytest.fixture
def kernels(driver, cuda):
    driver.kernels |= {
        "copy": ((8, 8), copy_kernel),
        "mix": ((8, 8), mix_kernel),
        "check": ((8, 8, 8), check_kernel),
    }

    class Kernels:
        functions = {
            name: CudaFunction(driver, b"cubin", name, (POINTER,) * len(sizes))
            for name, (sizes, _) in driver.kernels.items()
        }

        def copy(self, z, x, blocks=1, twice=False):
            functions = (self.functions["copy"],) * (2 if twice else 1)
            work = Launch(functions, (z, x), blocks)
            return tw.make_operation("copy", cuda, (writes(z), reads(x)), work, z)

        def mix(self, z, x):
            work = Launch((self.functions["mix"],), (z, x))
            return tw.make_operation("mix", cuda, (updates(z), reads(x)), work, z)

        def check(self, z, x):
            record = cuda.new_record()
            work = Launch((self.functions["check"],), (z, x), record=record)
            accesses = (writes(z), reads(x))
            return tw.make_operation("check", cuda, accesses, work, z, failure=reader(record))

    return Kernels()


class TestCalls:
    def test_a_graph_is_built_of_explicit_nodes_with_edges(self, driver, kernels):
        x, y, z, w = tw.full(8, 2), tw.zeros(8), tw.zeros(8), tw.zeros(8)
        with tw.graph() as g:
            g.record(kernels.copy(y, x))
            g.record(kernels.copy(z, y))
            g.record(kernels.copy(w, x))
            assert driver.calls(*CREATING, "allocate", "launch") == []
        assert driver.calls(*CREATING) == [
            ("create_graph",),
            ("add_launch", 0, ()),
            ("add_launch", 1, (0,)),
            ("add_launch", 2, ()),
            ("instantiate", 3),
        ]
        assert len(driver.calls("allocate")) == 4  # before: no node allocates
        assert driver.calls("launch", "launch_graph") == []
        g.launch().sync()
        assert [tensor.numpy()[0] for tensor in (y, z, w)] == [2, 2, 2]

    def test_a_replay_is_one_call(self, driver, kernels):
        tensors = [tw.full(8, number) for number in range(30)]
        with tw.graph() as g:
            for z, x in zip(tensors[1:], tensors, strict=False):
                g.record(kernels.copy(z, x))
        g.launch().sync()
        driver.log.clear()
        for _ in range(100):
            g.launch().submit()
        assert {entry[0] for entry in driver.log} == {"launch_graph"}
        assert len(driver.log) == 100

    def test_work_of_several_launches_is_a_row(self, driver, kernels):
        x, y, z = tw.full(8, 2), tw.zeros(8), tw.zeros(8)
        with tw.graph() as g:
            g.record(kernels.copy(y, x, twice=True))
            g.record(kernels.copy(z, y))
        assert driver.calls("add_launch") == [
            ("add_launch", 0, ()),
            ("add_launch", 1, (0,)),
            ("add_launch", 2, (1,)),
        ]
        g.launch().sync()
        assert z.numpy()[0] == 2

    def test_no_blocks_are_an_empty_node(self, driver, kernels):
        x, y, z = tw.full(8, 2), tw.full(8, 1), tw.zeros(8)
        with tw.graph() as g:
            g.record(kernels.copy(y, x))
            g.record(kernels.copy(z, y, blocks=0))
            g.record(kernels.copy(y, x))
        assert driver.calls("add_empty") == [("add_empty", 1, (0,))]
        g.launch().sync()
        assert (y.numpy()[0], z.numpy()[0]) == (2, 0)

    @pytest.mark.parametrize(
        ("pattern", "nodes"), [(b"\0" * 8, 1), (b"\1\2", 1), (b"\1\2\3\4", 1), (b"12345678", 2)]
    )
    def test_fills_and_uploads_are_nodes(self, driver, cuda, pattern, nodes):
        z, w = tw.zeros(8), tw.zeros(8)
        source = np.arange(32, dtype=np.uint8)

        class Fill:
            def enqueue(self, stream):
                stream.queue.fill(z.storage.allocation, pattern, 32 // len(pattern))

        class Upload:
            def enqueue(self, stream):
                stream.keep(source)
                stream.queue.upload(w.storage.allocation, source)

        with tw.graph() as g:
            g.record(tw.make_operation("fill", cuda, (writes(z),), Fill(), None))
            g.record(tw.make_operation("upload", cuda, (writes(w),), Upload(), None))
        assert len(driver.calls("add_fill")) == nodes
        assert len(driver.calls("add_copy")) == 1
        assert any(kept is source for node in g._built.nodes for kept in node.kept)
        g.launch().sync()
        assert z.numpy().tobytes() == pattern * (32 // len(pattern))
        assert w.numpy().tobytes() == source.tobytes()

    def test_other_streams_wait_through_one_event(self, driver, cuda, kernels):
        first, second = cuda.new_stream(), cuda.new_stream()
        x, y, z = tw.full(8, 2), tw.zeros(8), tw.zeros(8)
        g = kernels.copy(y, x).graph()
        g.launch().submit(first).sync()
        z.numpy()
        driver.log.clear()
        kernels.copy(x, z).submit(second)  # after the replay, which has passed
        g.launch().submit(first)
        kernels.copy(z, y).submit(second)
        names = [entry[0] for entry in driver.log if entry[0] != "query"]
        assert names == [
            "launch", "create_event", "record", "wait", "launch_graph",
            "create_event", "record", "wait", "launch",
        ]  # fmt: skip
        assert z.numpy()[0] == 0

    def test_graphs_that_share_a_tensor_wait_for_each_other(self, driver, cuda, kernels):
        first, second = cuda.new_stream(), cuda.new_stream()
        x, y, z = tw.full(8, 2), tw.zeros(8), tw.zeros(8)
        make, take = kernels.mix(y, x).graph(), kernels.copy(z, y).graph()
        for _ in range(3):
            make.launch().submit(first)
            take.launch().submit(second)
        assert driver.calls("launch_graph", "wait")[-4:] == [
            ("wait", first.queue.handle, second.queue.handle),
            ("launch_graph", first.queue.handle, 1),
            ("wait", second.queue.handle, first.queue.handle),
            ("launch_graph", second.queue.handle, 1),
        ]
        assert z.numpy()[0] == ((0 * 3 + 3) * 3 + 3) * 3 + 3

    def test_graphs_that_only_read_the_same_do_not_wait(self, driver, cuda, kernels):
        streams = [cuda.new_stream() for _ in range(2)]
        weights, graphs = [tw.full(8, number) for number in range(20)], []
        for _ in streams:
            with tw.graph() as g:
                for weight in weights:
                    g.record(kernels.copy(tw.zeros(8), weight))
            graphs.append(g)
        cuda.synchronize()
        driver.log.clear()
        for _ in range(3):
            for g, stream in zip(graphs, streams, strict=True):
                g.launch().submit(stream)
        assert {entry[0] for entry in driver.calls("launch_graph", "wait")} == {"launch_graph"}


class TestUpdates:
    def test_the_same_edges_change_in_place(self, driver, kernels):
        x, y, z = tw.full(8, 2), tw.full(8, 5), tw.zeros(8)
        g = kernels.copy(z, x).graph()
        g.launch().submit()
        driver.log.clear()
        g.update(kernels.copy(z, y))
        assert driver.calls("create_graph", "set_launch") == [("set_launch", 0)]
        assert z.numpy()[0] == 2  # the replay under way has its own parameters
        g.launch().sync()
        assert z.numpy()[0] == 5

    def test_other_edges_are_another_graph(self, driver, kernels):
        x, y, z = tw.full(8, 2), tw.zeros(8), tw.zeros(8)
        with tw.graph() as g:
            g.record(kernels.copy(y, x))
            g.record(kernels.mix(z, x))
        g.launch().submit()
        g.update(kernels.mix(z, y))
        assert edges(g) == ((), (0,))
        assert len(driver.calls("instantiate")) == 2
        g.launch().sync()
        gc.collect()
        assert z.numpy()[0] == (0 * 3 + 2 + 1) * 3 + 2 + 1
        g.launch().submit()
        assert len(driver.executables) == 1  # the old one went when its replay was over

    def test_blocks_where_there_were_none(self, driver, kernels):
        x, z = tw.full(8, 2), tw.zeros(8)
        g = kernels.copy(z, x, blocks=0).graph()
        g.update(kernels.copy(z, x))
        g.launch().sync()
        assert z.numpy()[0] == 2

    def test_a_change_that_the_driver_refuses_ends_the_graph(self, driver, kernels, monkeypatch):
        x, z = tw.full(8, 2), tw.zeros(8)
        g = kernels.copy(z, x).graph()
        op = kernels.copy(z, tw.zeros(8))

        def refuse(*_):
            raise DriverError("cuGraphExecKernelNodeSetParams failed")

        monkeypatch.setattr(driver, "set_launch_node", refuse)
        with pytest.raises(DriverError, match="SetParams"):
            g.update(op)
        with pytest.raises(LaunchError, match=r"could not be changed \(cuGraph.*record it again"):
            g.launch()
        kernels.copy(z, x).sync()


class TestFailures:
    def test_a_graph_that_cannot_be_built_leaves_nothing(self, driver, kernels, monkeypatch):
        x, z = tw.full(8, 2), tw.zeros(8)

        def refuse(_):
            raise DriverError("cuGraphInstantiate failed")

        monkeypatch.setattr(driver, "instantiate_graph", refuse)
        op = kernels.copy(z, x)
        with pytest.raises(DriverError, match="cuGraphInstantiate"):
            op.graph()
        assert driver.graphs == []
        assert not z.storage.timeline.graphs
        kernels.copy(z, x).sync()

    def test_each_checked_node_of_each_replay_has_a_record(self, driver, cuda, kernels):
        good, bad = tw.full(8, 1), tw.full(8, -1)
        x, z, w = tw.full(8, 1), tw.zeros(8), tw.zeros(8)
        with tw.graph() as g:
            g.record(kernels.check(z, x))
            g.record(kernels.copy(w, good))
        g.launch().sync()
        driver.log.clear()
        g.launch().sync()
        assert driver.calls("set_launch") == []  # all is well: the record is used again
        replays = []
        for turn in range(6):
            kernels.copy(x, bad if turn in (1, 4) else good).submit()
            replays.append(g.launch().submit())
        assert len(driver.calls("set_launch")) == 5  # one under way keeps its own
        failed = []
        for turn, replay in enumerate(replays):
            try:
                replay.sync()
            except OutOfBoundsError:
                failed.append(turn)
        assert failed == [1, 4]
        assert (z.numpy()[0], w.numpy()[0]) == (1, 1)

    def test_what_depends_on_a_failed_node(self, driver, kernels):
        x, y, z, w = tw.full(8, -1), tw.zeros(8), tw.zeros(8), tw.zeros(8)
        with tw.graph() as g:
            g.record(kernels.check(y, x))
            g.record(kernels.copy(z, y))
            g.record(kernels.copy(w, x))
        replay = g.launch().submit()
        assert w.numpy()[0] == -1
        for observer in (replay.sync, y.numpy, z.numpy):
            with pytest.raises(OutOfBoundsError, match="site 7"):
                observer()

    def test_a_launch_that_the_driver_refuses(self, driver, kernels, monkeypatch):
        x, z = tw.full(8, 2), tw.zeros(8)
        g = kernels.copy(z, x).graph()

        def refuse(*_):
            raise DriverError("cuGraphLaunch failed")

        with monkeypatch.context() as patch:
            patch.setattr(driver, "launch_graph", refuse)
            with pytest.raises(DriverError, match="cuGraphLaunch"):
                g.launch().submit()
        with pytest.raises(DriverError, match="cuGraphLaunch"):
            z.numpy()
        g.launch().sync()
        assert z.numpy()[0] == 2


class TestLifetime:
    def test_a_dropped_graph_is_destroyed_after_its_last_replay(self, driver, cuda, kernels):
        x, z = tw.full(8, 2), tw.zeros(8)
        g = kernels.copy(z, x).graph()
        g.launch().submit()
        address = x.address
        del g, x
        gc.collect()
        assert driver.calls("destroy_executable", "destroy_graph", "free") == []
        assert z.numpy()[0] == 2
        cuda.synchronize()
        with cuda.lock:
            cuda.empty_free_lists()
        assert driver.calls("free") == [("free", cuda.stream.queue.handle, address)]
        assert driver.executables == driver.graphs == []
        log = [entry[0] for entry in driver.log]
        assert log.index("launch_graph") < log.index("free")

    def test_memory_is_freed_behind_replays_on_other_streams(self, driver, cuda, kernels):
        first, second = cuda.new_stream(), cuda.new_stream()
        x, z = tw.full(8, 2), tw.zeros(8)
        kernels.copy(z, x).submit(first)
        g = kernels.copy(z, x).graph()
        g.launch().submit(second)
        driver.log.clear()
        del g, x
        gc.collect()
        assert z.numpy()[0] == 2  # the paper GPU says if it was touched after it was freed
        cuda.synchronize()
        assert len(driver.calls("free")) == 1

    def test_after_a_fork(self, driver, cuda, kernels):
        x, z = tw.full(8, 2), tw.zeros(8)
        g = kernels.copy(z, x).graph()
        built, calls = g.launch(), len(driver.log)
        cuda.restart()  # as a forked child does
        for use in (built.submit, g.launch):
            with pytest.raises(DriverError, match="CUDA does not survive a fork"):
                use()
        del g, built, use
        gc.collect()
        with pytest.raises(DriverError, match="fork"):
            tw.zeros(8).numpy()
        assert len(driver.log) == calls
