"""`tilewright cache`: what is there, how much, and away with it."""

import json

import pytest

from tilewright.jit.disk_cache import store_of
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
    label = {"kernel": "add", "made for": "`add` specialised for z: f32[128] on sm_90"}
    label["cubin"] = "c" * 64
    store.put("e" * 64, b"kernel\n" + json.dumps(label).encode() + b"\nbody")
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
