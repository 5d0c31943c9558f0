"""The collector may run anywhere: finalisers take no lock and call no driver.

A thread that waits for a device lets the other threads of Python go on.
"""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
import warnings
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from foreign_doubles import Library
from runtime_doubles import put

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.backends.cuda import program as assembler
from tilewright.dims import B, N
from tilewright.runtime.interop.imports import from_dlpack


@contextmanager
def locked_by_another_thread(device):
    """The device's lock is taken, as it is during a submission."""
    taken, over = threading.Event(), threading.Event()

    def hold():
        with device.lock:
            taken.set()
            over.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    taken.wait()
    try:
        yield
    finally:
        over.set()
        thread.join()


def drop(things, device):
    """Drop things while the device is locked; fails if that waits for the lock."""

    def end():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # never run, which is what is tried
            things.clear()
            gc.collect()

    with locked_by_another_thread(device):
        thread = threading.Thread(target=end)
        thread.start()
        thread.join(20)
        is_stuck = thread.is_alive()
    thread.join()
    assert not is_stuck, "a finaliser waits for the lock"


def in_use():
    made = tw.full(8, 2)
    made.numpy()  # which gives it bytes
    return made


def replayed(launch):
    graph = launch(in_use(), in_use()).graph()
    graph.launch().submit()
    return graph


KINDS = {
    "a tensor": lambda c: in_use(),
    "a tensor without a use": lambda c: tw.zeros(8),
    "contents without a use": lambda c: tw.from_numpy(np.ones(8, np.float32)),
    "a tensor in flight": lambda c: c(in_use(), in_use()).submit() and in_use(),
    "a built operation": lambda c: c(in_use(), in_use()),
    "a submitted operation": lambda c: c(in_use(), in_use()).submit(),
    "a chain": lambda c: c(in_use(), in_use()).then(lambda z: c(z, in_use())),
    "a zip": lambda c: tw.zip(c(in_use(), in_use()), c(in_use(), in_use())),
    "a shared operation": lambda c: c(in_use(), in_use()).shared(),
    "a graph": replayed,
    "a built replay": lambda c: replayed(c).launch(),
    "a capsule": lambda c: in_use().__dlpack__(stream=-1),
    "an export": lambda c: in_use().export(),
    "a failure record": lambda c: tw.Device("cuda").new_record(),
}


@pytest.mark.parametrize("kind", KINDS)
def test_no_lock_and_no_driver(driver, cuda, copy, kind):
    things = [KINDS[kind](copy) for _ in range(3)]
    cuda.synchronize()
    before = len(driver.log)
    drop(things, cuda)
    assert driver.log[before:] == []
    for _ in range(2):  # deferred work
        cuda.synchronize()
        with cuda.lock:
            cuda.empty_free_lists()
    for stream in driver.streams:
        driver.synchronize_stream(stream)
    assert driver.memory == {}
    assert driver.graphs == driver.executables == []


def test_a_graph_dropped_while_it_runs_goes_when_it_has_ended(driver, cuda, copy):
    """Also if nothing is put on its stream any more."""
    z, x = in_use(), in_use()
    graph = copy(z, x).graph()
    cuda.synchronize()
    driver.patient = True  # nothing ends before a wait for it
    graph.launch().submit()
    del graph, z, x
    with cuda.lock:
        cuda.settle_deferred()
    for _ in range(3):
        cuda.synchronize()
    with cuda.lock:
        cuda.empty_free_lists()
    assert driver.graphs == driver.executables == []
    for stream in driver.streams:
        driver.synchronize_stream(stream)
    assert driver.memory == {}


@pytest.fixture
def double(driver, cuda, monkeypatch):
    """A kernel on a GPU on paper."""
    monkeypatch.setattr(assembler, "assemble", lambda *_: b"cubin")
    driver.kernels["double"] = ((8, 4, 8, 4), lambda *_: None)

    @tw.kernel
    def double(z: Mut[f32, B], x: Ref[f32, N]) -> None:
        z.store(x.load_like(z) + x.load_like(z))

    return double


def test_nor_for_bound_launches(driver, cuda, double):
    z, x = tw.zeros(64), tw.ones(64)
    for _ in range(3):
        double(z.partition(16), x).sync()
    things = [double(z.partition(16), x)]
    before = len(driver.log)
    drop(things, cuda)
    assert driver.log[before:] == []
    double(z.partition(16), x).sync()  # the dropped one holds nothing


def test_nor_for_arrays_of_other_libraries(driver, cuda):
    library = Library(driver)
    things = [from_dlpack(library.array(at=at)) for at in range(3)]
    things[0].numpy()
    before = len(driver.log)
    drop(things, cuda)
    assert driver.log[before:] == []


AT_THE_END = """
import torch, tilewright as tw
from tilewright import Mut, f32
from tilewright.dims import B

@tw.kernel
def grow(z: Mut[f32, B]) -> None:
    z.store(z.load() + 1)

z = torch.zeros(8)
with tw.device("cpu"):
    grow(tw.partition(z, 8)).sync()
    kept = tw.from_dlpack(z)
assert z.tolist() == [1.0] * 8
"""


def test_nor_at_the_end_of_the_process(tmp_path):
    """Modules are taken apart then: finalisers of arrays of other libraries come before."""
    pytest.importorskip("torch", reason="needs torch")
    script = tmp_path / "script.py"
    script.write_text(AT_THE_END)
    environment = {**os.environ, "PYTHONPATH": str(Path(tw.__file__).parents[1])}
    ended = subprocess.run(
        [sys.executable, script], env=environment, capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")


# --- waiting --------------------------------------------------------------------------------------


async def _awaited(operation):
    await operation


WAITS = {
    "sync": lambda operation, z: operation.submit().sync(),
    "await": lambda operation, z: asyncio.run(_awaited(operation.submit())),
    "tensor.wait": lambda operation, z: operation.submit() and z.wait(),
    "numpy": lambda operation, z: operation.submit() and z.numpy(),
    "stream.sync": lambda operation, z: operation.submit() and z.device.stream.sync(),
    "synchronize": lambda operation, z: operation.submit() and tw.synchronize(),
}


@pytest.mark.parametrize("way", WAITS)
def test_a_wait_lets_other_threads_go_on(device, way):
    """A wait that held the interpreter would last for ever: it is released from here."""
    z = tw.zeros(4)
    for turn in range(5):
        hold = device.stream.hold()
        begun = threading.Event()

        def wait(operation, begun=begun):
            begun.set()
            WAITS[way](operation, z)

        thread = threading.Thread(target=wait, args=(put(z, turn),))
        thread.start()
        begun.wait()
        for _ in range(200):  # and is put aside again and again, long enough for it to wait
            np.add(1, 1)
            thread.join(0.0001)
        assert thread.is_alive()
        hold.release()
        thread.join()
    assert z.numpy().tolist() == [4.0] * 4


def test_reading_in_one_thread_keeps_no_other_from_submitting(device):
    first, second = device.new_stream(), device.new_stream()
    slow, quick = tw.zeros(4), tw.zeros(4)
    slow.numpy(), quick.numpy()
    hold = first.hold()
    put(slow, 3).submit(first)
    found = []
    thread = threading.Thread(target=lambda: found.append(slow.numpy().tolist()))
    thread.start()
    for turn in range(20):
        put(quick, turn).submit(second).sync()
        thread.join(0.001)
    assert not found
    hold.release()
    thread.join()
    assert found == [[3.0] * 4]
    assert quick.numpy().tolist() == [19.0] * 4
