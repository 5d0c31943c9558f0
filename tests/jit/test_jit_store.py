"""The folder of the cache: whole files, private, bounded; damage and refusal are misses."""

import multiprocessing
import os
import random

import pytest

from tilewright.files.private_files import Unusable
from tilewright.files.process_lock import hold_lock
from tilewright.jit.cache.store import FileStore

KEY = "ab" + "0" * 62


@pytest.fixture
def store(tmp_path):
    made = FileStore(tmp_path / "cache", limit=1 << 20)
    made.prepare()
    return made


def key(number):
    return f"{number:064x}"


def test_what_is_put_is_got(store):
    assert store.get(KEY) is None
    assert store.put(KEY, b"cubin")
    assert store.get(KEY) == b"cubin"
    assert store.put(KEY, b"another")
    assert store.get(KEY) == b"another"
    assert [file.key for file in store.files()] == [KEY]
    assert store.clear() == 1
    assert store.get(KEY) is None


def test_files_and_folders_are_private(store):
    store.put(KEY, b"cubin")
    assert store.root.stat().st_mode & 0o077 == 0
    assert store.path(KEY).stat().st_mode & 0o077 == 0
    assert store.path(KEY).parent.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    "damage", [lambda d: d[:-1], lambda d: d[:-1] + b"?", lambda d: b"", bytes]
)
def test_damage_is_a_miss_and_is_removed(store, damage, caplog):
    store.put(KEY, b"cubin")
    path = store.path(KEY)
    data = path.read_bytes()
    path.write_bytes(damage(data))
    if damage is bytes:  # the neighbour: nothing was changed
        assert store.get(KEY) == b"cubin"
        return
    assert store.get(KEY) is None
    assert not path.exists()
    assert "is damaged and is removed" in caplog.text


def test_a_folder_of_others_is_not_used(tmp_path):
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(Unusable, match="can be written by others: chmod 700 it"):
        FileStore(folder, 1).prepare()
    folder.chmod(0o755)
    FileStore(folder, 1).prepare()
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(Unusable, match="cannot be made"):
        FileStore(file, 1).prepare()


def test_a_full_folder_is_a_miss_with_one_warning(store, monkeypatch, caplog):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.replace", full)
    assert not store.put(KEY, b"x")
    assert not store.put(key(1), b"x")
    assert caplog.text.count("nothing is kept in") == 1
    assert store.get(KEY) is None


def test_an_interrupted_write_leaves_nothing(store, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("pathlib.Path.replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        store.put(KEY, b"x")
    monkeypatch.undo()
    assert list(store.folder.glob("??/*")) == []


def test_the_least_recently_used_go_first(tmp_path):
    store = FileStore(tmp_path / "cache", limit=10_000)
    store.prepare()
    for number in range(10):
        store.put(key(number), bytes(900))
        os.utime(store.path(key(number)), (number, number))
    assert store.get(key(0)) is not None  # used now
    for number in range(10, 14):
        store.put(key(number), bytes(900))
    store.evict()
    left = {file.key for file in store.files()}
    assert sum(file.nbytes for file in store.files()) <= 10_000
    assert key(0) in left
    assert key(13) in left
    assert key(1) not in left


def test_what_would_drive_out_all_others_is_not_kept(tmp_path):
    store = FileStore(tmp_path / "cache", limit=10_000)
    store.prepare()
    assert store.put(KEY, bytes(900))
    assert not store.put(key(1), bytes(9_000))
    store.evict()
    assert [file.key for file in store.files()] == [KEY]
    assert not FileStore(tmp_path / "cache", limit=0).put(key(2), b"")


def test_the_limit_holds_for_processes_that_write_little(tmp_path, monkeypatch):
    monkeypatch.setattr("tilewright.jit.cache.store._chance", random.Random(7))
    FileStore(tmp_path, limit=16_000).prepare()
    for number in range(1000):
        FileStore(tmp_path, limit=16_000).put(key(number), bytes(60))  # each as another process
    assert 8_000 < sum(file.nbytes for file in FileStore(tmp_path, 0).files()) < 24_000


def test_scraps_of_processes_that_were_killed_are_removed_in_time(store):
    store.put(KEY, b"x")
    old, new = (store.path(KEY).with_name(f"{KEY}.{name * 16}.part") for name in ("a", "b"))
    for scrap in (old, new):
        scrap.write_bytes(b"half")
    os.utime(old, (1, 1))
    store.evict()
    assert not old.exists()
    assert new.exists()  # somebody may be writing it
    assert store.get(KEY) == b"x"


def test_nothing_is_removed_while_another_process_is_at_it(tmp_path):
    store = FileStore(tmp_path / "cache", limit=2_000)
    store.prepare()
    with hold_lock(store.folder / "evicting.lock", 0):
        for number in range(10):
            store.put(key(number), bytes(900))
        assert store.evict() == 0
        assert sum(1 for _ in store.files()) == 10
    assert store.evict() == 9


def test_numbers_of_users_are_left_alone(store):
    random.seed(3)
    wanted = random.random()
    random.seed(3)
    store.put(KEY, b"x")
    assert random.random() == wanted


def test_locks_are_few(store):
    for number in range(300):
        with store.lock(key(number * 2**248), 1):
            pass
    assert len(list((store.folder / "making").iterdir())) <= 256


def _hammer(root, seed):
    store = FileStore(root, limit=200_000)
    for turn in range(200):
        name = key((seed + turn) % 50)
        store.put(name, name.encode() * 100)
        found = store.get(key(turn % 50))
        assert found is None or found == key(turn % 50).encode() * 100


def test_processes_share_a_folder(store):
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_hammer, args=(store.root, seed)) for seed in (0, 7, 31)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    assert list(store.folder.glob("??/*.part")) == []
