"""Files and folders that others could have written are not used; one word is said, and no more."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from test_jit_disk_cache import add, build, counted, folder  # noqa: F401 (fixtures)

import tilewright as tw
from tilewright.files import private_files
from tilewright.files.private_files import (
    Unusable,
    check_folder,
    check_root,
    read_private,
    write_private,
)
from tilewright.files.process_lock import hold_lock
from tilewright.jit.cache.store import FOLDER, MARKER, FileStore
from tilewright.settings import Settings
from tilewright.tune import own_files, records

POSIX = pytest.mark.skipif(os.name == "nt", reason="Windows keeps the files of users apart itself")
KEY = "ab" + "0" * 62


@pytest.fixture
def store(tmp_path):
    made = FileStore(tmp_path / "cache", limit=1 << 20)
    made.prepare()
    made.put(KEY, b"cubin")
    return made


def _by_others(monkeypatch):
    monkeypatch.setattr(os, "getuid", lambda: 12345)


@POSIX
def test_files_of_others_are_not_read(store, monkeypatch):
    assert store.get(KEY) == b"cubin"
    store.path(KEY).chmod(0o602)
    assert store.get(KEY) is None
    store.path(KEY).chmod(0o620)
    assert store.get(KEY) is None
    store.path(KEY).chmod(0o644)  # others may read it
    assert store.get(KEY) == b"cubin"
    _by_others(monkeypatch)
    assert store.get(KEY) is None
    assert store.path(KEY).exists(), "it is not ours to remove"


@POSIX
@pytest.mark.parametrize("part", ["root", "folder", "shelf"])
def test_folders_that_others_can_change_are_not_used(store, part):
    path = {"root": store.root, "folder": store.folder, "shelf": store.path(KEY).parent}[part]
    path.chmod(0o777)
    if part == "shelf":
        assert store.get(KEY) is None
        assert not store.put(KEY, b"another")
    else:
        with pytest.raises(Unusable, match=r"can be written by others: chmod 700 it$"):
            store.prepare()
        assert list(store.files()) == []
        assert store.clear() == 0
    path.chmod(0o700)
    assert store.get(KEY) == b"cubin"


@POSIX
def test_links_are_not_followed(store, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(store.path(KEY).read_bytes())
    elsewhere.chmod(0o600)
    store.path(KEY).unlink()
    store.path(KEY).symlink_to(elsewhere)
    before = elsewhere.read_bytes()
    assert store.get(KEY) is None
    assert store.clear() == 0
    assert store.put(KEY, b"another")  # in place of the link
    assert store.get(KEY) == b"another"
    assert elsewhere.read_bytes() == before
    shelf = store.path(KEY).parent
    shelf.rename(tmp_path / "moved")
    shelf.symlink_to(tmp_path / "moved")
    assert store.get(KEY) is None
    assert store.clear() == 0
    assert (tmp_path / "moved" / KEY).exists()


@POSIX
def test_a_link_of_the_users_own_leads_to_the_folder(tmp_path, monkeypatch):
    (tmp_path / "disk").mkdir(mode=0o700)
    link = tmp_path / "cache"
    link.symlink_to(tmp_path / "disk")
    FileStore(link, 1 << 20).prepare()
    assert (tmp_path / "disk" / FOLDER / MARKER).exists()
    (tmp_path / "disk").chmod(0o777)
    with pytest.raises(Unusable, match="disk can be written by others"):
        check_root(link)
    (tmp_path / "disk").chmod(0o700)
    (tmp_path / "disk" / "link").symlink_to(tmp_path)
    with pytest.raises(Unusable, match="link is no folder"):
        check_folder(tmp_path / "disk" / "link")
    _by_others(monkeypatch)
    with pytest.raises(Unusable, match="cache belongs to another user"):
        check_root(link)


@POSIX
def test_a_pipe_is_no_file_and_keeps_nobody_waiting(tmp_path):
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(Unusable, match="pipe is no file"):
        read_private(tmp_path / "pipe", 10)
    with pytest.raises(Unusable, match="pipe is no file"), hold_lock(tmp_path / "pipe", 0):
        pass
    write_private(tmp_path / "file", b"x" * 11)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o600
    assert read_private(tmp_path / "file", 11) == b"x" * 11
    with pytest.raises(Unusable, match="has more than 10 bytes"):
        read_private(tmp_path / "file", 10)


@POSIX
def test_a_lock_is_not_taken_through_a_link(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "a.lock").symlink_to(victim)
    with pytest.raises(OSError, match="symbolic links"), hold_lock(tmp_path / "a.lock", 0):
        pass
    assert victim.read_text() == "precious"


def _one_record():
    text = records.shipped_file("sm_90").read_text()
    return records.Record.from_json(json.loads(text)["records"][0])


@pytest.fixture
def tuned(tmp_path, monkeypatch):
    """The folder of records below a folder that the user names."""
    monkeypatch.setattr(own_files, "current_settings", lambda: Settings(cache=str(tmp_path)))
    tmp_path.chmod(0o700)
    records.forget_tables()
    yield tmp_path / "tuned"
    records.forget_tables()


@POSIX
def test_records_are_kept_in_private_folders_alone(tuned, tmp_path):
    tuned.mkdir()
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tuned / "cpu.lock").symlink_to(victim)
    tmp_path.chmod(0o777)
    with pytest.warns(tw.CacheWarning, match="not kept: .* can be written by others: chmod 700 it"):
        records.keep(_one_record(), "cpu")
    records.keep(_one_record(), "cpu")  # and another time without a word
    assert [path.name for path in tuned.iterdir()] == ["cpu.lock"]
    assert victim.read_text() == "precious"
    tmp_path.chmod(0o700)
    (tuned / "cpu.lock").unlink()
    records.keep(_one_record(), "cpu")
    records.forget_tables()
    assert len(records.records_for("cpu")) == 1


@POSIX
def test_records_that_others_can_have_written_are_not_used(tuned, tmp_path):
    records.keep(_one_record(), "cpu")
    (tuned / "cpu.json").chmod(0o666)
    records.forget_tables()
    with pytest.warns(tw.CacheWarning, match=r"not used: .*cpu\.json can be written by others"):
        assert len(records.records_for("cpu")) == 0
    (tuned / "cpu.json").chmod(0o644)
    records.forget_tables()
    assert len(records.records_for("cpu")) == 1
    (tuned / "cpu.json").rename(tmp_path / "moved.json")
    (tuned / "cpu.json").symlink_to(tmp_path / "moved.json")
    records.forget_tables()
    assert len(records.records_for("cpu")) == 0  # said before


@pytest.mark.parametrize("where", ["homeless", "closed"])
def test_records_where_there_is_no_home(tmp_path, monkeypatch, where):
    home = Path("~/.cache/tilewright") if where == "homeless" else tmp_path / "home" / "cache"
    lstat = Path.lstat

    def closed(path):
        if str(path).startswith(str(tmp_path / "home")):
            raise PermissionError(13, "Permission denied", str(path))
        return lstat(path)

    monkeypatch.setattr(Path, "lstat", closed)
    if where == "closed":
        monkeypatch.setattr(Path, "mkdir", lambda path, **_: closed(path))
    store = FileStore(home, 1 << 20)
    monkeypatch.setattr(own_files, "current_settings", Settings)
    monkeypatch.setattr(own_files, "disk_cache", type("", (), {"store_of": lambda _: store}))
    monkeypatch.setattr(private_files, "_told", set())
    monkeypatch.chdir(tmp_path)
    records.forget_tables()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert len(records.records_for("cpu")) == 0
        records.keep(_one_record(), "cpu")
        with pytest.raises(Unusable):
            store.prepare()
    assert [one.category for one in caught] == [tw.CacheWarning]
    assert {"homeless": "no home folder", "closed": "Permission denied"}[where] in str(
        caught[0].message
    )
    assert len(records.records_for("cpu")) == 1, "in memory it is kept"
    assert list(tmp_path.iterdir()) == [], "nothing is made in the folder we happen to be in"
    records.forget_tables()


CONTAINER = """
import os, sys, warnings
import numpy as np
from click.testing import CliRunner
import tilewright as tw
from tilewright import f32, kernels
from tilewright.cli import main
from tilewright.settings import current_settings
from tilewright.tune.records import forget_tables

def use():
    with tw.device("cpu"):
        x = tw.ones((8, 8), f32)
        assert np.all(kernels.matmul(x, x).sync().numpy() == 8)
        kernels.softmax(x).sync()
    return [
        (done.exit_code, done.output)
        for done in (CliRunner().invoke(main, ["cache", word]) for word in ("ls", "stats", "clear"))
    ]

os.environ["TILEWRIGHT_CACHE"] = "off"
use()  # everything is loaded: a user whom the system does not know may not reach Python
del os.environ["TILEWRIGHT_CACHE"]


def somebody(home):
    os.setgroups([])
    os.setgid(54321)
    os.setuid(54321)
    os.environ.pop("HOME")
    if home:
        os.environ["HOME"] = home
    current_settings.cache_clear()
    forget_tables()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        told = use()
    assert [code for code, _ in told] == [0, 0, 0], told
    is_told = "kernels are not kept" in told[1][1]
    print(*{one.category.__name__: one for one in caught}, len(caught), is_told, flush=True)

for home in sys.argv[1:]:
    child = os.fork()
    if not child:
        somebody(home)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, home
"""


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can be others")
def test_a_user_whom_the_system_does_not_know(tmp_path):
    """Where nothing is there, nothing is to be said; a home that is closed, or none, is told of."""
    (tmp_path / "home").mkdir(mode=0o700)
    environment = {**os.environ, "HOME": "/", "PYTHONPATH": os.pathsep.join(sys.path)}
    environment.pop("XDG_CACHE_HOME", None)
    done = subprocess.run(
        [sys.executable, "-c", CONTAINER, str(tmp_path / "home"), "", "/", "/nowhere"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    closed, none, root, nowhere = done.stdout.splitlines()
    assert closed == none == "CacheWarning 1 True"
    assert root == nowhere == "0 False"


def test_the_cache_steps_aside_with_one_warning(tmp_path, monkeypatch, counted):  # noqa: F811
    from test_jit_disk_cache import _forget

    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "file" / "cache"))
    _forget()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            build(add)
    assert [one.category for one in caught] == [tw.CacheWarning]
    assert str(caught[0].message) == (
        f"compiled kernels are not kept: {tmp_path}/file/cache cannot be made: Not a directory. "
        "Kernels are compiled, and functions run, without it; TILEWRIGHT_CACHE names another "
        "folder, or is `off`"
    )
    assert counted == {"front end": 3, "tileiras": 3}
    _forget()
