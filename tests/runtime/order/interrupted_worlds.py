"""Host programs that are interrupted, and how it is known that everything is usable behind that."""

from __future__ import annotations

import asyncio
import gc
import threading

import numpy as np

import tilewright as tw
from tilewright import Mut, Ref, i32
from tilewright.dims import B
from tilewright.runtime.devices import context
from tilewright.runtime.devices import process as forked_locks
from tilewright.runtime.devices.device import current_device
from tilewright.runtime.graphs import recording
from tilewright.runtime.ops import inside_chains
from tilewright.runtime.ops.launch import LaunchOp
from tilewright.runtime.ops.sequence import SequenceWork

try:
    import torch
except ImportError:
    torch = None


@tw.kernel
def bump(z: Mut[i32, B], a: i32) -> None:
    z.store(z.load() + a)


@tw.kernel
def twice(z: Mut[i32, B], x: Ref[i32, B]) -> None:
    z.store(x.load_like(z) * 2)


SIZE = 8


class World:
    """Tensors, an array, a stream and a graph, for one program."""

    def __init__(self, device):
        self.device = device
        self.z, self.x = tw.zeros((SIZE,), i32), tw.ones((SIZE,), i32)
        tw.copy(self.z, self.x).sync()
        self.array = np.zeros(SIZE, np.int32)
        self.stream = device.new_stream()
        with tw.graph() as self.graph:
            self.graph.record(self.bump_z())
            self.graph.record(self.twice_x())
        self.graph.launch().sync()
        for _ in range(3):  # from then on a launch has a plan, which a sequence may use, too
            self.bump_z().then(lambda _: self.twice_x()).sync()
        self.tensor = None if torch is None else torch.zeros(SIZE, dtype=torch.int32)
        self.built = []  # operations that the program has left

    def bump_z(self):
        return bump(self.z.partition(SIZE), 1)

    def bump_x(self):
        return bump(self.x.partition(SIZE), 1)

    def twice_x(self):
        return twice(self.x.partition(SIZE), self.z)


def _sequence_of(*launches):
    """Launches as one sequence, each by a function that builds it."""
    works, tensors, uses = [], [], []
    for build in launches:
        operation = build()
        works.append(operation.work)
        tensors += operation.tensors
        uses += operation.borrow.uses
        operation.close()
    held = len(works[0].roles)
    work = SequenceWork(tuple(works), ())
    made = LaunchOp().build(work, tuple(tensors), tuple(uses[:held]), None)
    return made.with_later(tuple(uses))


# --- programs -------------------------------------------------------------------------------------


def build(w):
    w.built.append(w.bump_z())


def submit(w):
    w.bump_z().submit()


def sync(w):
    w.bump_z().sync()


def close(w):
    w.bump_z().close()


def chain(w):
    behind = w.bump_z().then(lambda _: w.bump_x()).then(lambda _: w.twice_x())
    behind.map(lambda result: result).sync()


def keep(w):
    w.built.append(w.bump_z())
    w.built.append(w.built[-1].then(lambda _: w.bump_x()))
    w.built.append(w.built[-1].map(lambda result: result))
    w.built.append(tw.zip(w.built[-1], 1))


def zipped(w):
    tw.zip(w.bump_z(), w.bump_x()).sync()


def shared(w):
    once = w.bump_z().shared()
    once.map(lambda _: 1).sync()
    once.sync()


def record(w):
    with tw.graph() as graph:
        graph.record(w.bump_z())
        graph.record(w.twice_x())
    graph.launch().submit()


def replay(w):
    w.graph.launch().submit().sync()


def update(w):
    w.graph.update(bump(w.z.partition(SIZE), 3))


def on_a_stream(w):
    with tw.stream(w.stream):
        w.bump_z().submit()
    w.twice_x().sync()


def on_a_device(w):
    with tw.device("cpu:1"):
        tw.zeros((4,), i32).numpy()


def create(w):
    tw.ones((64,), i32).numpy()


def arrays(w):
    bump(tw.partition(w.array, SIZE), 1).sync()


def tensors(w):
    bump(tw.partition(w.tensor, SIZE), 1).sync()


def sequence(w):
    _sequence_of(w.bump_z, w.twice_x).sync()


def copies(w):
    tw.copy(w.z, w.x).sync()
    w.z.clone().numpy()


def watch(w):
    with tw.race_check():
        w.bump_z().sync()


def wait(w):
    w.z.wait()
    tw.synchronize()
    w.device.stream.sync()


def schedule(w):
    w.bump_z().schedule(tw.RoundRobin(w.device)).sync()


def move(w):
    w.z = tw.move(w.z)


def gather(w):
    async def both():
        await w.bump_z()
        await w.x

    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(both())
    finally:
        loop.close()


PROGRAMS = (
    build, submit, sync, close, chain, keep, zipped, shared, record, replay, update, on_a_stream,
    on_a_device, create, arrays, copies, watch, wait, schedule, move, gather, sequence,
    *(() if torch is None else (tensors,)),
)  # fmt: skip


# --- afterwards -----------------------------------------------------------------------------------

# Errors for readers of outputs of an interrupted submission, or of a kernel that was stopped.
TOLD = (tw.LaunchError, tw.StoppedError)


def check(w):
    """Everything is as it was before a program, or as it is behind it, and can be used."""
    _check_locks(w.device)
    assert gc.isenabled()
    assert w.device.busy is None
    assert w.device.current.get() is None
    assert current_device() is w.device
    assert not context.INTERCEPTED.get()
    assert not inside_chains.is_inside_chain()
    assert not recording.block_is_open()
    assert not context.is_watching()
    while w.built:
        w.built.pop().close()
    for tensor in (w.z, w.x):
        _check_readable(tensor)
    _check_array(w)
    _check_tensor(w)
    _check_launches(w)


def _check_locks(device):
    locks = [device.lock, *forked_locks._all, *(one.queue._lock for one in device.streams)]
    free = []

    def take():
        for lock in locks:
            if lock.acquire(timeout=20):
                lock.release()
                free.append(lock)

    thread = threading.Thread(target=take)
    thread.start()
    thread.join()
    assert len(free) == len(locks), "a lock is held"


def _check_told(error):
    assert "interrupted" in str(error)


def _check_readable(tensor):
    try:
        value = tensor.numpy()
    except TOLD as error:
        _check_told(error)
        tw.fill(tensor, 0).submit()
        value = tensor.numpy()
    assert (value == value[0]).all()  # a kernel has run as a whole, or not at all


def _check_array(w):
    try:
        arrays(w)
    except TOLD as error:
        _check_told(error)
        w.array = np.zeros(SIZE, np.int32)
        arrays(w)


def _check_tensor(w):
    """The version of a torch tensor says whether it was written."""
    if w.tensor is None:
        return
    before, version = w.tensor.clone(), w.tensor._version
    try:
        tensors(w)
    except TOLD as error:
        _check_told(error)
        w.tensor = torch.zeros(SIZE, dtype=torch.int32)
        return
    assert w.tensor._version == version + 1
    assert (w.tensor == before + 1).all()


def _check_launches(w):
    while any(one.failed for one in w.device.streams):
        try:
            tw.synchronize()
        except tw.StoppedError:
            continue
    tw.fill(w.z, 0).submit()  # or the numbers would grow
    w.bump_z().sync()
    before = w.z.numpy()[0]
    w.graph.launch().sync()
    after = w.z.numpy()[0]
    assert after in (before + 1, before + 3)
    assert w.x.numpy()[0] == 2 * after
    with tw.graph() as graph:
        graph.record(w.bump_x())
    graph.launch().sync()
    w.bump_z().then(lambda _: w.bump_x()).sync()
    assert tw.ones((64,), i32).numpy().all()
    with tw.stream(w.stream):
        w.bump_z().sync()
    tw.synchronize()
