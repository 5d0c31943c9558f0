"""`tilewright cache`: what is there, how much, and away with it."""

import json
import os
from pathlib import Path

import pytest

from tilewright.jit.cache import disk as disk_cache
from tilewright.jit.cache.disk import _SCHEMA, _Label, store_of
from tilewright.jit.cache.store import FOLDER, MARKER
from tilewright.settings import current_settings


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TILEWRIGHT_CACHE_LIMIT", "1048576")
    current_settings.cache_clear()
    made = store_of(current_settings())
    made.prepare()
    yield made
    current_settings.cache_clear()


def _kept(store):
    store.put("c" * 64, b"code" * 256)
    label = _Label("add", "`add` specialised for z: f32[128] on sm_90", "c" * 64)
    store.put("e" * 64, b"kernel\n" + _SCHEMA.write(label) + b"\nbody")
    store.put("a" * 64, b"places")


def test_an_empty_folder(run, store):
    assert f"no kernels in {store.root}" in run("cache", "ls").output.replace("\n", "")
    assert json.loads(run("cache", "stats", "--json").output) == {
        "folder": str(store.root),
        "kernels": 0,
        "bytes": 0,
        "limit": 1048576,
    }


def test_kernels_are_listed_counted_and_removed(run, store):
    _kept(store)
    listed = run("cache", "ls").output
    assert "add" in listed
    assert "z: f32[128] on sm_90" in listed
    assert "1.0 KiB" in listed
    (kernel,) = json.loads(run("cache", "ls", "--json").output)
    assert kernel["kernel"] == "add"
    assert "1 kernel in" in run("cache", "stats").output
    assert "of 1.0 MiB" in run("cache", "stats").output
    assert "3 files removed" in run("cache", "clear").output
    assert json.loads(run("cache", "ls", "--json").output) == []


def test_a_cache_that_is_off(run, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_CACHE", "off")
    current_settings.cache_clear()
    result = run("cache", "ls")
    assert result.exit_code == 2
    assert "TILEWRIGHT_CACHE is `off`" in result.output
    current_settings.cache_clear()


def test_a_limit_that_is_no_number(run, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_CACHE_LIMIT", "-3")
    current_settings.cache_clear()
    result = run("cache", "stats")
    assert result.exit_code == 1
    assert "TILEWRIGHT_CACHE_LIMIT='-3': it is a number of bytes" in result.output
    monkeypatch.undo()
    current_settings.cache_clear()


def test_nothing_but_our_own_files_is_removed(run, store):
    """Not in the folder that is named, nor by names like ours in it."""
    _kept(store)
    precious = [
        store.root / "db" / "x" / "orders.sqlite",
        store.root / "ui" / "main.tsx",
        store.root / "ab" / "note.part",
        store.root / "ab" / ("ab" + "0" * 62),
        store.folder / "ab" / "thesis.txt",
        store.folder / "ab" / ("cd" + "0" * 62),  # another shelf's
        store.folder / "ab" / "x.part",
        store.folder / "abc" / ("ab" + "0" * 62),
        store.folder / "notes",
    ]
    for path in precious:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("precious")
        os.utime(path, (1, 1))
    assert "3 files removed" in run("cache", "clear").output
    store.limit = 0
    store.evict()
    assert [path.read_text() for path in precious] == ["precious"] * len(precious)
    assert store.put("c" * 64, b"") is False
    assert list(store.files()) == []


def test_a_folder_without_our_marker_is_left_alone(run, store):
    _kept(store)
    (store.folder / MARKER).unlink()
    result = run("cache", "clear")
    assert "0 files removed" in result.output
    assert "was not made by tilewright, which has left no marker" in result.output
    assert len(list(store.folder.glob("??/*"))) == 3


@pytest.mark.parametrize("command", ["ls", "stats", "clear"])
@pytest.mark.parametrize("where", ["file", "closed", "shared", "homeless"])
def test_a_folder_that_cannot_be_used(run, tmp_path, monkeypatch, command, where):
    root = tmp_path / where
    if where == "homeless":
        monkeypatch.delenv("TILEWRIGHT_CACHE", raising=False)
        monkeypatch.setattr(disk_cache, "user_cache_path", lambda name: Path("~/.cache") / name)
    elif where == "file":
        root.write_text("precious")
    else:
        (root / FOLDER).mkdir(parents=True)
    if where == "shared":
        root.chmod(0o777)
    if where == "closed":

        def closed(path, *args):
            raise PermissionError(13, "Permission denied", str(path))

        monkeypatch.setattr(os, "scandir", closed)
    if where != "homeless":
        monkeypatch.setenv("TILEWRIGHT_CACHE", str(root))
    current_settings.cache_clear()
    result = run("cache", command)
    assert result.exit_code == 0, result.output
    assert {"ls": "no kernels in", "stats": "0 kernels in", "clear": "0 files removed"}[
        command
    ] in result.output
    assert "kernels are not kept: " in result.output
    current_settings.cache_clear()


def test_names_that_no_screen_should_show_are_not_listed(run, store):
    for number, name in enumerate(("[bold red]add", "\x1b[2Jadd")):
        label = _Label(name, f"`{name}` specialised", "c" * 64)
        store.put(f"{number:x}" * 64, b"kernel\n" + _SCHEMA.write(label) + b"\nbody")
    listed = run("cache", "ls").output
    assert "[bold red]add" in listed
    assert "\x1b[2J" not in listed
