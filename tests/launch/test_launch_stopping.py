"""Ctrl-C ends a kernel that would never end, and everything goes on behind it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tilewright import Mut, f32, i32
from tilewright.backends.cpu.executor import compile_module
from tilewright.backends.cpu.stopping import Stop
from tilewright.bytecode import encode
from tilewright.dims import B
from tilewright.errors import StoppedError
from tilewright.ir.text import parse_module


@tw.kernel
def spin(z: Mut[f32, B], step: i32) -> None:
    """Never ends for steps of 0."""
    k, t = i32(0), tw.zeros((B,), f32)
    while k < 1:
        k += step
        t += 1.0
    z.store(t)


@tw.kernel
def count(z: Mut[f32, B], rounds: i32) -> None:
    """A counted loop, which takes as long as it is told to."""
    t = tw.zeros((B,), f32)
    for _ in range(rounds):
        t += 1.0
    z.store(t)


FOREVER = 2**31 - 1


@pytest.fixture(autouse=True)
def cpu():
    device = tw.Device("cpu")
    with tw.device(device):
        yield device
    while device.unseen or any(stream.failed for stream in device.streams):
        with suppress(StoppedError):  # that of the stream, which is told once
            device.synchronize()


def interrupted(wait):
    """Wait for something, and interrupt that."""
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            wait()
    finally:
        timer.cancel()
        timer.join()


@pytest.mark.parametrize(("endless", "number"), [(spin, 0), (count, FOREVER)])
def test_a_wait_is_interrupted_and_the_kernel_stopped(endless, number):
    z, other = tw.zeros((8,), f32), tw.zeros((8,), f32)
    running = endless(z.partition(8), number).submit()
    interrupted(running.sync)
    with pytest.raises(StoppedError, match="was stopped while it ran, since a wait was interrup"):
        z.numpy()
    with pytest.raises(StoppedError):
        running.sync()
    with pytest.raises(StoppedError):
        tw.copy(other, z).sync()
    tw.fill(z, 3.0).submit()
    np.testing.assert_array_equal(z.numpy(), np.full(8, 3, np.float32))
    endless(z.partition(8), 1).sync()
    np.testing.assert_array_equal(z.numpy(), np.ones(8, np.float32))


@pytest.mark.parametrize("wait", ["numpy", "stream", "all", "other"])
def test_every_wait_can_be_interrupted(cpu, wait):
    z, x = tw.zeros((8,), f32), tw.ones((8,), f32)
    spin(z.partition(8), 0).submit()
    if wait == "other":  # which stands behind the kernel, on a stream of its own
        behind = tw.copy(x, z).submit(cpu.new_stream())
        interrupted(behind.sync)
    else:
        interrupted({"numpy": z.numpy, "stream": cpu.stream.sync, "all": tw.synchronize}[wait])
    with pytest.raises(StoppedError):
        z.numpy()
    tw.fill(z, 1.0).submit()
    np.testing.assert_array_equal(z.numpy(), np.ones(8, np.float32))


def test_a_replay_can_be_interrupted():
    z, x = tw.zeros((8,), f32), tw.zeros((8,), f32)
    with tw.graph() as graph:
        graph.record(count(x.partition(8), 2))
        graph.record(spin(z.partition(8), 0))
    replay = graph.launch().submit()
    interrupted(replay.sync)
    with pytest.raises(StoppedError):
        z.numpy()


def test_another_thread_that_waits_learns_of_it():
    z, raised = tw.zeros((8,), f32), []
    running = spin(z.partition(8), 0).submit()

    def read():
        try:
            z.numpy()
        except StoppedError as error:
            raised.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    interrupted(running.sync)
    reader.join()
    assert len(raised) == 1


def test_an_exception_of_a_handler_stops_no_kernel():
    """A limit for a wait is not one for the kernel."""

    class Late(Exception):
        pass

    def handle(number, frame):
        raise Late

    z = tw.zeros((8,), f32)
    slow = count(z.partition(8), 300_000).submit()
    before = signal.signal(signal.SIGALRM, handle)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        with pytest.raises(Late):
            slow.sync()
    finally:
        signal.signal(signal.SIGALRM, before)
    np.testing.assert_array_equal(z.numpy(), np.full(8, 300_000, np.float32))


# --- the executor ---------------------------------------------------------------------------------


ENDLESS = """\
entry @endless() {
  loop {
    continue
  }
  return
}
"""


@pytest.mark.parametrize("threads", [1, 3])
def test_a_run_ends_when_it_is_told_to(threads):
    kernel, stop = compile_module(parse_module(ENDLESS, "endless.mlir"))["endless"], Stop()
    timer = threading.Timer(0.1, stop.ask, (TimeoutError("a limit"),))
    timer.start()
    with pytest.raises(TimeoutError, match="a limit"):
        kernel.run((4, 1, 1), (), (), threads=threads, stop=stop)
    timer.join()


def test_a_run_that_was_told_before_does_nothing():
    kernel, stop = compile_module(parse_module(ENDLESS, "endless.mlir"))["endless"], Stop()
    stop.ask(TimeoutError("before"))
    stop.ask(TimeoutError("too late"))
    with pytest.raises(TimeoutError, match="before"):
        kernel.run((4, 1, 1), (), (), stop=stop)


@pytest.mark.parametrize("threads", [1, 3])
def test_an_interrupt_ends_all_threads_of_a_run(threads):
    kernel = compile_module(parse_module(ENDLESS, "endless.mlir"))["endless"]
    before = set(threading.enumerate())
    interrupted(lambda: kernel.run((4, 1, 1), (), (), threads=threads))
    left = set(threading.enumerate()) - before
    assert all(thread.name == "tilewright cpu worker" for thread in left)  # idle ones of the pool


# --- processes ------------------------------------------------------------------------------------

SCRIPT = """
import os, signal, threading
import tilewright as tw
from tilewright import Mut, f32, i32
from tilewright.backends.cpu import executor
from tilewright.dims import B
@tw.kernel
def spin(z: Mut[f32, B], step: i32) -> None:
    k, t = i32(0), tw.zeros((B,), f32)
    while k < 1:
        k += step
        t += 1.0
    z.store(t)
tw.device("cpu").__enter__()
z, x = tw.zeros((8,), f32), tw.zeros((8,), f32)
def interrupt():
    print("waiting", flush=True)
    os.kill(os.getpid(), signal.SIGINT)
def run(self, *args, _run=executor.CpuKernel.run, **kwargs):
    if not started:
        started.append(None)
        threading.Timer(0.2, interrupt).start()
    _run(self, *args, **kwargs)
started, executor.CpuKernel.run = [], run
"""


def process(tmp_path, text):
    """A script in a process of its own, and how it ended."""
    path = tmp_path / "script.py"
    path.write_text(SCRIPT + text)
    source = str(Path(tw.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": source}
    return subprocess.run(
        [sys.executable, str(path)],
        env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def test_a_process_goes_on_and_ends(tmp_path):
    ended = process(
        tmp_path,
        """
try:
    spin(z.partition(8), 0).sync()
except KeyboardInterrupt:
    print("interrupted")
spin(x.partition(8), 1).sync()
print(x.numpy()[0])
""",
    )
    assert ended.stdout == "waiting\ninterrupted\n1.0\n"
    assert ended.returncode == 0
    assert "Error" not in ended.stderr


@pytest.mark.parametrize(
    "wait",
    [
        "spin(z.partition(8), 0).sync()",
        "[spin(one.partition(8), 0).submit() for one in (z, x)]; threading.Event().wait()",
        "import asyncio\nasync def main(): await spin(z.partition(8), 0)\nasyncio.run(main())",
    ],
    ids=["waits", "elsewhere", "asyncio"],
)
def test_one_interrupt_ends_a_process(tmp_path, wait):
    ended = process(tmp_path, wait)
    assert ended.stdout == "waiting\n"
    assert ended.returncode == -signal.SIGINT
    assert ended.stderr.endswith("KeyboardInterrupt\n")


def test_one_interrupt_ends_the_command_line(tmp_path):
    path = tmp_path / "endless.tileirbc"
    path.write_bytes(encode(parse_module(ENDLESS, "endless.mlir"), (13, 3)).data)
    ended = process(
        tmp_path,
        f"""
import sys
from tilewright.cli import main
sys.argv = ["tilewright", "run-bytecode", {str(path)!r}]
main()
""",
    )
    assert "Aborted" in ended.stderr
    assert ended.returncode == 130  # as a shell says of an interrupt
