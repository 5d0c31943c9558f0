"""What goes wrong around compiled kernels: tools that are killed, folders that are full or closed.

A fault is a clear error or no error at all; nothing is lost, and no half-written file is left.
"""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from fake_toolkits import toolkit
from test_jit_disk_cache import add, build, counted, folder, pick  # noqa: F401 (fixtures)

import tilewright as tw
from tilewright.backends.cuda import program as assembler
from tilewright.backends.cuda import toolchain
from tilewright.backends.cuda.toolchain import Toolchain
from tilewright.backends.cuda.toolkits import find_toolkit
from tilewright.errors import ToolchainError
from tilewright.jit.cache import disk as disk_cache
from tilewright.jit.cache.store import FOLDER, FileStore
from tilewright.settings import Settings

# What a tool does: the argument behind `-o` is the file to write.
OUTPUT = 'while [ "$1" != -o ]; do shift; done; out=$2'


def tools(root: Path, script: str) -> Toolchain:
    made = toolkit(root, tileiras=f"{OUTPUT}; {script}")
    return Toolchain(find_toolkit(Settings(toolkit=made)), 30.0)


def kept(folder: Path) -> list[str]:  # noqa: F811
    """Files of the cache, which are whole, and what is left of others."""
    store = FileStore(folder, limit=1 << 30)
    files = list(folder.glob(f"{FOLDER}/??/*"))
    assert all(store.get(file.name) is not None for file in files), "a half-written file"
    return [file.name for file in files]


def test_tileiras_is_killed_midway(folder, tmp_path, monkeypatch):  # noqa: F811
    killed = tools(tmp_path / "killed", 'printf half > "$out"; kill -KILL $$')
    whole = tools(tmp_path / "whole", 'printf whole > "$out"')
    monkeypatch.setattr(toolchain, "find_toolchain", lambda: killed)
    before = None
    for _ in range(2):  # nothing of the first attempt is found by the second
        with pytest.raises(ToolchainError, match=r"sm_90 \(it ended with SIGKILL\)") as caught:
            build(add)
        assert "perhaps because memory ran out: try again" in str(caught.value)
        before = kept(folder) if before is None else before
        assert kept(folder) == before
    monkeypatch.setattr(toolchain, "find_toolchain", lambda: whole)
    for _ in range(2):
        assert build(add).program.result().cubin == b"whole"


def test_an_operation_whose_kernel_is_not_assembled_gives_its_borrows_back(monkeypatch):
    def killed(*_):
        raise ToolchainError("tileiras was killed")

    monkeypatch.setattr(assembler, "assemble", killed)
    kernel = tw.kernel(add)
    z, x = (tw.meta((64,), tw.f32, target="sm_90") for _ in range(2))
    op = kernel(z.partition(16), x)
    with pytest.raises(ToolchainError, match="was killed"):
        op.compile()
    op.close()
    monkeypatch.undo()
    kernel(z.partition(16), x).close()


@pytest.fixture
def close_folder(folder, monkeypatch):  # noqa: F811
    """Makes the folder read-only for every call that would change it, whoever runs this."""

    def refusing(function, writes):
        def call(path, *args, **kwargs):
            if str(path).startswith(str(folder)) and writes(*args):
                raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
            return function(path, *args, **kwargs)

        return call

    def close() -> None:
        changing = os.O_WRONLY | os.O_RDWR | os.O_CREAT
        monkeypatch.setattr(os, "open", refusing(os.open, lambda flags, *_: flags & changing))
        for name in ("mkdir", "utime", "unlink", "remove", "rename", "replace", "rmdir"):
            monkeypatch.setattr(os, name, refusing(getattr(os, name), lambda *_: True))

    return close


def test_a_read_only_folder_serves_what_it_has(folder, counted, close_folder, caplog):  # noqa: F811
    first = build(add).program.result().cubin
    before = kept(folder)
    close_folder()
    disk_cache.open_cache.cache_clear()
    assert build(add).program.result().cubin == first
    assert counted == {"front end": 1, "tileiras": 1}
    for number in range(2):
        build(pick)
        assert counted == {"front end": 2 + number, "tileiras": 2 + number}
    assert caplog.text.count("nothing is kept in") == 1
    assert kept(folder) == before


def test_damage_in_a_read_only_folder_is_a_miss(folder, counted, close_folder):  # noqa: F811
    build(add)
    for path in folder.glob(f"{FOLDER}/??/*"):
        path.write_bytes(path.read_bytes()[:-1])
    close_folder()
    build(add)
    assert counted == {"front end": 2, "tileiras": 2}


FULL = """
import resource, sys
sys.path.insert(0, {tests!r})
from test_jit_disk_cache import add, build, pick
from tilewright.backends.cuda import program as assembler
assembler.assemble = lambda *_: b"cubin" * 1000
assembler.tools_version = lambda: "13.4.92"
_, most = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (600, most))  # a write stops in the middle of a file
assert build(add).program.result().cubin == b"cubin" * 1000
assert build(pick).program.result().cubin == b"cubin" * 1000
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
"""


def test_a_folder_that_is_full_in_the_middle_of_a_write(folder):  # noqa: F811
    source = str(Path(tw.__file__).parents[1])
    ended = subprocess.run(
        [sys.executable, "-c", FULL.format(tests=str(Path(__file__).parent))],
        env={**os.environ, "PYTHONPATH": source},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.count("nothing is kept in") == 1
    assert all((folder / FOLDER / name[:2] / name).stat().st_size <= 600 for name in kept(folder))
