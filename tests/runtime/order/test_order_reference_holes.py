"""The holes of the reference system's host side, by number: each test fails if ours has it."""

import asyncio
import gc
import threading

import numpy as np
import pytest

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import B, N
from tilewright.errors import BorrowError
from tilewright.jit.plans.launch import KernelWork
from tilewright.runtime.memory.layout import Layout
from tilewright.runtime.memory.tensor import Tensor

pytestmark = pytest.mark.usefixtures("loaded")


@tw.kernel
def add(z: Mut[f32, B], x: Ref[f32, N], y: Ref[f32, N]) -> None:
    z.store(x.load_like(z) + y.load_like(z))


@pytest.fixture
def loaded(device):
    """The kernel is on the device: to load it there would wait for streams that are held."""
    add(ones().partition(4), ones(), ones()).sync()
    device.synchronize()  # and nothing of it is left


def ones(n=16):
    return tw.ones((n,), f32)


def test_h1_memory_outlives_its_last_use(device):
    """H1: a dropped tensor's memory could be used again while a kernel still read it."""
    s, z, x = device.new_stream(), ones(), tw.full((16,), 3.0, f32)
    hold = s.hold()
    add(z.partition(4), x, x).submit(s)
    del x
    gc.collect()
    others = [tw.full((16,), 9.0, f32) for _ in range(8)]
    for other in others:
        other.numpy()
    hold.release()
    assert z.numpy().tolist() == [6.0] * 16


def test_h2_a_sibling_is_the_same_memory():
    """H2: a reshaped handle and the tensor itself were borrowed independently."""
    z = ones()
    with pytest.raises(BorrowError):
        add(z.partition(4), z.reshape(4, 4).reshape(16), ones())
    operation = add(ones().partition(4), z.reshape(2, 8)[0:2].reshape(16), ones())
    with pytest.raises(BorrowError):
        add(z.partition(4), ones(), ones())
    operation.close()


def test_h3_dropping_an_operation_does_not_end_its_work(device):
    """H3: dropping a future ended its borrows while the kernel ran."""
    s, z, x = device.new_stream(), ones(), ones()
    hold = s.hold()
    add(z.partition(4), x, x).submit(s)
    gc.collect()
    other = add(x.partition(4), ones(), tw.full((16,), 5.0, f32)).submit(device.new_stream())
    assert not other.done, "it overwrites what is still being read"
    hold.release()
    assert z.numpy().tolist() == [2.0] * 16
    assert x.numpy().tolist() == [6.0] * 16


def test_h3_cancelling_a_wait_does_not_end_its_work(device):
    """H3 again: the stream alone knows of the work and of its inputs."""
    z = ones()
    holds = [device.policy.next_stream().hold() for _ in range(4)]

    async def main():
        task = asyncio.ensure_future(launch())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    async def launch():
        x = tw.full((16,), 3.0, f32)
        await add(z.partition(4), x, x)

    asyncio.run(main())
    gc.collect()
    others = [tw.full((16,), 9.0, f32) for _ in range(8)]
    for other in others:
        other.numpy()
    for hold in holds:
        hold.release()
    assert z.numpy().tolist() == [6.0] * 16


def test_h4_a_graph_keeps_its_tensors_and_a_replay_its_graph():
    """H4: a graph had nothing but addresses, and a replay nothing but a handle of the graph."""
    z, x = ones(), tw.full((16,), 3.0, f32)
    with tw.graph() as g:
        g.record(add(z.partition(4), x, x))
    replay = g.launch()
    del g, x
    gc.collect()
    others = [tw.full((16,), 9.0, f32) for _ in range(8)]
    for other in others:
        other.numpy()
    replay.sync()
    assert z.numpy().tolist() == [6.0] * 16


def test_h6_nothing_in_a_graph_allocates(device):
    """H6: an operation whose argument allocated was recorded, and so were dropped outputs."""
    with tw.graph() as g:
        z = g.record(add(tw.zeros((16,), f32).partition(4), ones(), ones()))[0].tensor
        inner = tw.zeros((16,), f32)
        g.record(add(inner.partition(4), z, z))
        g.record(add(z.partition(4), inner, inner))
        del inner
    gc.collect()
    used = device.pool.statistics().used
    for _ in range(5):
        g.launch().sync()
    assert device.pool.statistics().used == used
    assert z.numpy().tolist() == [8.0] * 16


def test_h5_an_operation_keeps_its_tensors():
    """H5: a copy that had not run held nothing but addresses."""
    z, x, y = ones(), ones(), ones()
    operation = add(z.partition(4), x, y)
    copied = tw.copy(tw.zeros((16,), f32), tw.full((16,), 7.0, f32))
    del x, y
    gc.collect()
    operation.sync()
    assert z.numpy().tolist() == [2.0] * 16
    assert copied.sync().numpy().tolist() == [7.0] * 16


def test_h7_a_result_is_ready_for_every_stream(device):
    """H7: a result was used on another stream without waiting for the one that made it."""
    one, two, three = (device.new_stream() for _ in range(3))
    x, z, w = ones(), ones(), ones()
    hold = one.hold()
    add(z.partition(4), x, x).submit(one)
    reader = add(w.partition(4), z, z).submit(two)
    writer = add(z.partition(4), x, w).submit(three)
    assert not reader.done
    assert not writer.done
    hold.release()
    assert w.numpy().tolist() == [4.0] * 16
    assert z.numpy().tolist() == [5.0] * 16


def test_h8_a_failed_submission_leaves_nothing_locked(monkeypatch):
    """H8: a lock stayed taken when a launch failed."""
    z, x = ones(), ones()
    operation = add(z.partition(8), x, x)  # which was never launched before
    with monkeypatch.context() as patched:
        patched.setattr(KernelWork, "enqueue", lambda self, stream: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            operation.submit()
    add(z.partition(4), x, x).sync()
    assert z.numpy().tolist() == [2.0] * 16


def test_h9_random_numbers_are_ordered_like_any_other(device):
    """H9: they were made on a stream without a wait for it."""
    x, z = tw.rand((16,), f32, seed=1), ones()
    add(z.partition(4), x, x).submit(device.new_stream())
    assert (z.numpy() == 2 * tw.rand((16,), f32, seed=1).numpy()).all()


def test_h10_views_with_gaps_are_not_taken_for_dense():
    """H10: reshapes and copies ignored gaps, and views their offset."""
    base = np.arange(64, dtype=np.float32).reshape(8, 8)
    t = tw.from_numpy(base)
    column = t[:, 3]
    assert column.numpy().tolist() == base[:, 3].tolist()
    with pytest.raises(tw.LaunchError, match="has gaps"):
        t[:, 3:5].reshape(16)
    assert column.reshape(2, 4).numpy().tolist() == base[:, 3].reshape(2, 4).tolist()
    for part, want in ((t[1, 1:7], base[1, 1:7]), (t[2:6, 5], base[2:6, 5])):
        z = tw.zeros(part.shape, f32)
        add(z.partition(4), part, part).sync()
        assert z.numpy().tolist() == (2 * want).tolist()


@pytest.mark.parametrize("strides", [(1, 1), (0, 1), (2, 1), (3, 2)])
def test_h11_an_output_has_its_elements_apart(strides):
    """H11: an output whose strides make elements share memory was accepted."""

    @tw.kernel
    def fill(z: Mut[f32, B, B]) -> None:
        z.store(tw.ones((B, B), f32))

    overlapping = Tensor(ones(64).storage, f32, Layout((4, 4), strides))
    with pytest.raises(BorrowError, match="share memory"):
        fill(overlapping.partition(2, 2))


def test_h12_any_thread_may_submit_and_wait():
    """H12: a future polled on another thread relied on the first one's context."""
    z, x = ones(), ones()
    operation = add(z.partition(4), x, x)
    found = []
    thread = threading.Thread(target=lambda: found.append(operation.sync()))
    thread.start()
    thread.join()
    assert len(found) == 1
    assert z.numpy().tolist() == [2.0] * 16
