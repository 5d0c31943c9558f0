"""A process that forks, ends, or has no GPU; each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import tilewright as tw
from tilewright.backends.cuda.driver import missing_driver

SUPPORT = Path(__file__).parents[1] / "support"
PATHS = os.pathsep.join((str(SUPPORT), str(Path(tw.__file__).parents[1])))
PRELUDE = """
import os, sys
import numpy as np
from runtime_doubles import copy, operation, put, writes
import runtime_names as tw
from tilewright.errors import OutOfBoundsError
device = tw.Device("cpu")
"""


def run(body: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": PATHS}
    command = [sys.executable, "-W", "error", "-c", PRELUDE + body]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def test_unseen_failures_are_reported_at_exit():
    ended = run("""
z = tw.zeros(4, device=device)
hold = device.stream.hold()
op = operation("k", lambda _: None, writes(z), failure=lambda: OutOfBoundsError("not seen"))
op.submit()
""")
    assert ended.returncode == 0
    assert "OutOfBoundsError: not seen" in ended.stderr


def test_seen_failures_are_not():
    ended = run("""
z = tw.zeros(4, device=device)
op = operation("k", lambda _: None, writes(z), failure=lambda: OutOfBoundsError("handled"))
try:
    op.sync()
except OutOfBoundsError:
    print("seen")
""")
    assert ended.stdout == "seen\n"
    assert ended.stderr == ""


def test_work_in_flight_at_exit_is_waited_for():
    ended = run("""
z = tw.zeros(4, device=device)
operation("k", lambda _: print("ran", flush=True), writes(z)).submit()
""")
    assert ended.stdout == "ran\n"
    assert ended.stderr == ""


def test_without_assertions_everything_is_done_all_the_same():
    example = Path(tw.__file__).parents[2] / "examples" / "gemm.py"
    if not example.exists():
        pytest.skip("the examples are not here")
    ended = subprocess.run(
        [sys.executable, "-OO", str(example)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr


def test_operations_never_run_warn_like_coroutines():
    ended = run("""
import warnings
warnings.simplefilter("default")
z = tw.zeros(4, device=device)
put(z, 1, "add")
""")
    assert "RuntimeWarning: operation add, built at " in ended.stderr
    assert "was never run" in ended.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_starts_its_workers_anew():
    ended = run("""
z = tw.zeros(4, device=device)
put(z, 1).sync()
hold = device.stream.hold()
put(z, 2).submit()
child = os.fork()
if child == 0:
    ok = z.numpy().tolist() == [2.0] * 4
    put(z, 3).sync()
    os._exit(0 if ok and z.numpy()[0] == 3 else 1)
hold.release()
_, status = os.waitpid(child, 0)
print(status, z.numpy()[0])
""")
    assert ended.stdout == "0 2.0\n", ended.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_an_operation_under_way_at_the_fork_is_not_trusted():
    ended = run("""
import threading
z = tw.zeros(4, device=device)
z.numpy()
started, go = threading.Event(), threading.Event()
def slow(_):
    started.set()
    go.wait()
operation("slow", slow, writes(z)).submit()
started.wait()
child = os.fork()
if child == 0:
    try:
        z.numpy()
    except Exception as error:
        ok = "forked while" in str(error)
        put(z, 1).sync()
        os._exit(0 if ok else 2)
    os._exit(1)
go.set()
_, status = os.waitpid(child, 0)
print(status, z.numpy()[0])
""")
    assert ended.stdout == "0 0.0\n", ended.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_waits_for_no_lock_of_its_parent():
    ended = run("""
import threading
from tilewright.backends.cpu.pool import CpuPool
from tilewright.jit.plans.config_override import CONFIG_CACHES

def child(act):
    pid = os.fork()
    if pid == 0:
        thread = threading.Thread(target=act, daemon=True)
        thread.start()
        thread.join(20)
        os._exit(thread.is_alive())
    print(os.waitpid(pid, 0)[1])

def hold(lock):
    with lock:
        held.release()
        over.wait()

held, over, pool = threading.Semaphore(0), threading.Event(), CpuPool(None)
for lock in (CONFIG_CACHES.lock, pool._lock):
    threading.Thread(target=hold, args=(lock,), daemon=True).start()
    held.acquire()
child(CONFIG_CACHES.invalidate)
child(lambda: pool.take(8))
over.set()
""")
    assert ended.stdout == "0\n0\n", ended.stderr


@pytest.mark.skipif(missing_driver() is None, reason="there is a CUDA driver here")
def test_the_default_device_is_said_once():
    ended = run("""
tw.zeros(3); tw.zeros(3)
print(tw.current_device(), "cuda.core" in sys.modules, "cuda.bindings" in sys.modules)
""")
    assert ended.stdout == "Device('cpu') False False\n"
    assert ended.stderr.count("tensors are made on the CPU") == 1


def test_importing_the_runtime_loads_no_backend():
    ended = run("""
print([name for name in sys.modules if name.startswith("cuda.") or name == "rich"])
""")
    assert ended.stdout == "[]\n"
