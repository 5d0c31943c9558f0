"""A lock between processes: one has it, others wait for it, and the end of one frees it."""

import subprocess
import sys

import pytest

from tilewright.jit.cache.process_lock import ProcessLock, Taken

HOLD = """
import sys, time
from pathlib import Path
from tilewright.jit.cache.process_lock import ProcessLock
lock = ProcessLock(Path(sys.argv[1]), 10)
lock.acquire()
print("mine", flush=True)
time.sleep(60)
"""


def test_one_at_a_time(tmp_path):
    first, second = (ProcessLock(tmp_path / "a.lock", 0) for _ in range(2))
    with first, pytest.raises(Taken, match=r"a\.lock"):
        second.acquire()
    with second:
        pass
    second.release()  # of nothing is nothing
    with first:
        pass


def test_the_end_of_a_process_frees_it(tmp_path):
    path = tmp_path / "a.lock"
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"mine\n"
        with pytest.raises(Taken):
            ProcessLock(path, 0.05).acquire()
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()
    with ProcessLock(path, 10):
        pass


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(OSError, match="No such file"):
        ProcessLock(tmp_path / "none" / "a.lock", 1).acquire()
