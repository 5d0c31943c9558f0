"""A lock between processes: one has it, others wait for it, and the end of one frees it."""

import subprocess
import sys

import pytest

from tilewright.files.process_lock import Taken, hold_lock

HOLD = """
import sys, time
from pathlib import Path
from tilewright.files.process_lock import hold_lock
with hold_lock(Path(sys.argv[1]), 10):
    print("mine", flush=True)
    time.sleep(60)
"""


def test_one_at_a_time(tmp_path):
    path = tmp_path / "a.lock"
    with hold_lock(path, 0), pytest.raises(Taken, match=r"a\.lock"), hold_lock(path, 0):
        pass
    with hold_lock(path, 0):
        pass
    with hold_lock(path, 0):
        pass


def test_the_end_of_a_process_frees_it(tmp_path):
    path = tmp_path / "a.lock"
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"mine\n"
        with pytest.raises(Taken), hold_lock(path, 0.05):
            pass
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()
    with hold_lock(path, 10):
        pass


def test_a_folder_that_is_not_there(tmp_path):
    missing = tmp_path / "none" / "a.lock"
    with pytest.raises(OSError, match="No such file"), hold_lock(missing, 1):
        pass
