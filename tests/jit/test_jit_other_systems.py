"""macOS and Windows are CPU machines: nothing there needs a module that only POSIX systems have.

What Linux has beyond them is taken away before anything of ours is imported.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import types

import pytest

from tilewright.files import process_lock
from tilewright.files.process_lock import Taken

ELSEWHERE = """
import os, select, signal, sys, types
import asyncio, concurrent.futures, multiprocessing, subprocess, tempfile  # Python's own may look
import click, ml_dtypes, numpy, platformdirs, rich.console, rich.progress, rich.syntax, rich.table

GONE = {"fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "syslog", "readline", "curses"}

OPTIONAL = {"cuda", "jax", "matplotlib", "torch", "z3"}

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name in GONE or name.partition(".")[0] in OPTIONAL:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

for name in GONE:
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Missing())
for name in (
    "fork", "getuid", "geteuid", "getpgid", "killpg", "mkfifo", "pidfd_open", "register_at_fork",
    "sched_getaffinity", "setsid", "waitid", "WEXITED", "WNOHANG", "WNOWAIT", "P_PID",
    "O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK",
):
    if hasattr(os, name):
        delattr(os, name)
for name in ("SIGKILL", "SIGHUP", "SIGALRM", "SIGUSR1", "pthread_kill", "setitimer"):
    delattr(signal, name)
del select.poll

sys.platform = "win32"
sys.modules["msvcrt"] = msvcrt = types.ModuleType("msvcrt")
msvcrt.LK_NBLCK, msvcrt.LK_UNLCK, msvcrt.locking = 2, 0, lambda handle, mode, nbytes: None

import importlib, pkgutil
import tilewright as tw

for module in pkgutil.walk_packages(tw.__path__, "tilewright."):
    if module.name != "tilewright.__main__":
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:
            assert error.name.partition(".")[0] in OPTIONAL, (module.name, error)

from tilewright import Mut, Ref, f32, kernels
from tilewright.dims import B, N
from tilewright.jit.cache.disk import store_of
from tilewright.settings import Settings

@tw.kernel
def add(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    z.store(x.load_like(z) + 1.0)

with tw.device("cpu"):
    x, z = tw.ones((64,), f32), tw.zeros((64,), f32)
    add(z.partition(16), x).sync()
    assert z.numpy().sum() == 128
    y = tw.ones((8, 8), f32)
    assert kernels.matmul(y, y).sync().numpy().sum() == 512

from click.testing import CliRunner
from tilewright.cli import main
for words in (["cache", "ls"], ["cache", "stats"], ["cache", "clear"], ["doctor"], ["--help"]):
    done = CliRunner().invoke(main, words)
    assert done.exception is None or isinstance(done.exception, SystemExit), (words, done)

store = store_of(Settings(cache=sys.argv[1]))
store.prepare()
assert store.put("a" * 64, b"x") and store.get("a" * 64) == b"x"
assert store.evict() == 0

from pathlib import Path
from tilewright.tune.records import add_record, read_records, shipped_file
one, *_ = read_records(shipped_file("sm_90"), "sm_90")
add_record(Path(sys.argv[1], "sm_90.json"), "sm_90", one)
assert read_records(Path(sys.argv[1], "sm_90.json"), "sm_90") == (one,)
print("works")
"""


def test_everything_is_imported_and_a_kernel_runs_without_posix(tmp_path):
    path = tmp_path / "elsewhere.py"  # kernels are read from files
    path.write_text(ELSEWHERE)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    environment["TILEWRIGHT_CACHE"] = str(tmp_path / "cache")
    done = subprocess.run(
        [sys.executable, str(path), str(tmp_path / "other")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("works\n")


@pytest.fixture
def windows(monkeypatch):
    """Locks as Windows has them: of bytes, by calls that say in two ways that one is taken."""
    taken: dict[tuple[int, int], int] = {}

    def locking(handle, mode, nbytes):
        assert os.lseek(handle, 0, os.SEEK_CUR) == 0
        assert nbytes == 1
        found = os.fstat(handle)
        place = (found.st_dev, found.st_ino)
        if mode == "unlock":
            assert taken.pop(place) == handle
        elif place in taken:
            raise OSError(13, "Permission denied")
        else:
            taken[place] = handle

    calls = types.ModuleType("msvcrt")
    calls.locking, calls.LK_NBLCK, calls.LK_UNLCK = locking, "lock", "unlock"
    monkeypatch.setitem(sys.modules, "msvcrt", calls)
    monkeypatch.setattr(sys, "platform", "win32")
    return _another(process_lock)


def _another(module):
    """The module again, as this system would import it now."""
    spec = importlib.util.spec_from_file_location("another", module.__file__)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_locks_of_windows(windows, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux")  # for all but the module that was made
    path, hold_lock = tmp_path / "a.lock", windows.hold_lock
    with hold_lock(path, 0), pytest.raises(windows.Taken, match=r"a\.lock"), hold_lock(path, 0):
        pass
    with hold_lock(path, 0):
        pass


def test_a_system_without_locks(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "fcntl", None)
    without = _another(process_lock)
    path = tmp_path / "a.lock"
    with pytest.raises(OSError, match="this system locks no files"), without.hold_lock(path, 0):
        pass
    assert Taken is not without.Taken
