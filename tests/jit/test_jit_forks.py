"""A process that forks while kernels are compiled: the child has none of the threads that do it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")

COMPILING = """
import os, threading
from tilewright.jit.cache.memory import SingleFlight, in_background

started, making, go = (threading.Event() for _ in range(3))

def assemble():
    started.set()
    go.wait(20)
    return os.getpid()

def make():
    making.set()
    go.wait(20)
    return "parent"

assert in_background(lambda: 1).result() == 1  # a thread that is idle when the process forks
program, table = in_background(assemble), SingleFlight()
threading.Thread(target=table.get, args=("key", make), daemon=True).start()
table.get("another", lambda: "made before")
started.wait()
making.wait()
child = os.fork()
go.set()
found = (
    in_background(lambda: 2).result(20),
    program.result(20) == os.getpid(),
    table.get("key", lambda: "child"),
    table.get("another", lambda: "made again"),
)
if child == 0:
    os._exit(0 if found == (2, True, "child", "made before") else 1)
print(os.waitpid(child, 0)[1], *found)
"""


HELD = """
import os, sys, time
from pathlib import Path
from tilewright.files.process_lock import hold_lock

with hold_lock(Path(sys.argv[1]), 0):
    child = os.fork()
    if child == 0:
        time.sleep(60)
try:
    with hold_lock(Path(sys.argv[1]), 0):
        print("mine again")
finally:
    os.kill(child, 9)
    os.waitpid(child, 0)
"""


def run(script: str, *arguments: str) -> str:
    """What a process of its own says."""
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=60, check=True).stdout


def test_a_child_begins_again_what_was_under_way():
    assert run(COMPILING) == "0 2 True parent made before\n"


def test_a_child_keeps_no_lock_of_its_parent(tmp_path):
    assert run(HELD, str(tmp_path / "a.lock")) == "mine again\n"
