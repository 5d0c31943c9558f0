"""Records: written, checked, looked up by the nearest shape, and never in the way of a launch."""

import dataclasses
import json
import logging
import math
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright import CacheWarning, TuneError, bf16, f16
from tilewright.settings import Settings
from tilewright.tune import (
    Config,
    Key,
    Provenance,
    Record,
    Records,
    chosen,
    forcing,
    key_of,
    own_files,
)
from tilewright.tune import records as module
from tilewright.tune.records import (
    UNTUNED,
    add_record,
    forget_tables,
    keep,
    own_file,
    read_records,
    records_for,
    remembered,
    shipped_file,
    write_records,
)

WHERE = Provenance(
    "a search", "NVIDIA H200", "580.159", "13.4.92", "0.1.0", "2026-11-15", "ab" * 32
)
EXTENT = st.integers(1, 1 << 16)


def record(m, n, k, *, dtype=f16, kernel="matmul", seconds=1e-3, **options):
    config = Config.of(BM=min(m, 128), BN=128, num_ctas=2)
    return Record(kernel, key_of(dtype, (m, n, k), **options), config, seconds, WHERE)


@pytest.fixture
def own_folder(tmp_path, monkeypatch):
    """Records of the user in a folder of the test's own; tables are read anew."""
    monkeypatch.setattr(own_files, "current_settings", lambda: Settings(tuned=str(tmp_path)))
    forget_tables()
    yield tmp_path
    forget_tables()


def test_keys_name_dtypes_and_sort_options():
    key = key_of((f16, bf16), (1, 2), b=True, a="nt")
    assert key == Key(("f16", "bf16"), (1, 2), (("a", "nt"), ("b", True)))
    assert str(key) == "f16,bf16 1x2 a=nt b=True"
    assert Key.from_json(json.loads(json.dumps(key.to_json()))) == key


def test_the_nearest_shape_is_found_by_ratios_and_only_among_its_like():
    small, large = record(64, 64, 64), record(1024, 1024, 1024)
    table = Records([small, large, record(256, 256, 256, dtype=bf16), record(8, 8, 8, kernel="x")])
    assert table.chosen("matmul", key_of(f16, (255, 255, 255))) == small.config
    assert table.chosen("matmul", key_of(f16, (257, 257, 257))) == large.config
    assert table.chosen("matmul", key_of(f16, (0, 64, 64))) == small.config
    assert table.chosen("matmul", key_of(f16, (255, 255, 255)), within=1.0) is None
    assert table.chosen("matmul", small.key, within=0.0) == small.config
    assert table.chosen("matmul", key_of(f16, (64, 64))) is None
    assert table.chosen("matmul", key_of(f16, (64, 64, 64), transposed=True)) is None
    assert table.chosen("softmax", key_of(f16, (64, 64, 64))) is None


def test_a_record_may_say_that_nothing_is_faster_than_what_runs_without_one(tmp_path):
    small, large = record(64, 64, 64), record(1024, 1024, 1024)
    as_it_is = dataclasses.replace(large, config=UNTUNED)
    table = Records([small, as_it_is])
    assert table.chosen("matmul", large.key) is None
    assert table.chosen("matmul", key_of(f16, (900, 900, 900))) is None, "no farther one is asked"
    assert table.chosen("matmul", key_of(f16, (80, 80, 80))) == small.config
    write_records(tmp_path / "sm_90.json", "sm_90", [as_it_is])
    assert read_records(tmp_path / "sm_90.json", "sm_90") == (as_it_is,)


@settings(max_examples=50, deadline=None)
@given(st.sets(st.tuples(EXTENT, EXTENT, EXTENT), min_size=1, max_size=8))
def test_every_record_is_its_own_nearest(shapes):
    table = Records(record(*shape) for shape in shapes)
    for one in table:
        assert table.nearest("matmul", one.key) is one
        assert table.chosen("matmul", one.key) == one.config


def test_shapes_without_end_are_not_remembered_without_end(monkeypatch):
    monkeypatch.setattr(module, "_MOST_REMEMBERED", 3)
    table = Records([record(64, 64, 64)])
    for m in range(1, 20):
        assert table.chosen("matmul", key_of(f16, (m, 64, 64))) is not None
    assert len(table._chosen) == 4


def test_files_both_ways_sorted_and_the_later_record_wins(tmp_path):
    file = tmp_path / "sm_90.json"
    old, new = record(64, 64, 64), record(64, 64, 64, seconds=5e-4)
    others = [record(2, 2, 2, kernel="softmax"), record(1, 1, 1)]
    write_records(file, "sm_90", [*others, old, new])
    found = read_records(file, "sm_90")
    assert set(found) == {*others, new}
    text = file.read_text()
    write_records(file, "sm_90", reversed(found))
    assert file.read_text() == text
    assert [one.name for one in tmp_path.iterdir()] == ["sm_90.json"]


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda data: data.update(target="sm_80"), "it has records for sm_80 in format 2, and"),
        (lambda data: data.update(format=1), "in format 2 are wanted: tune again, or remove it"),
        (lambda data: data.pop("records"), r"no file of records: KeyError\('records'\)"),
        (lambda data: data["records"][0].pop("provenance"), "a record has config, kernel, key, p"),
        (lambda data: data["records"][0].update(seconds=0.0), "and a time in seconds, not"),
        (lambda data: data["records"][0].update(seconds="fast"), "and a time in seconds, not"),
        (lambda data: data["records"][0].update(seconds=math.nan), "and a time in seconds, not"),
        (lambda data: data["records"][0].update(seconds=math.inf), "and a time in seconds, not"),
        (lambda data: data["records"][0]["provenance"].update(gpu=""), "and leaves nothing out"),
        (lambda data: data["records"][0]["provenance"].pop("tool"), "comes from date, driver, gpu"),
        (lambda data: data["records"][0]["key"].update(dtypes=["f17"]), "a key names dtypes, ext"),
        (lambda data: data["records"][0]["key"].update(shape=[1.5]), "a key names dtypes, extents"),
        (lambda data: data["records"][0]["config"].update(num_ctas=3), "num_ctas"),
    ],
)
def test_files_that_are_refused(tmp_path, spoil, message):
    file = tmp_path / "sm_90.json"
    write_records(file, "sm_90", [record(1, 2, 3)])
    data = json.loads(file.read_text())
    spoil(data)
    file.write_text(json.dumps(data))
    with pytest.raises(TuneError, match=rf"sm_90\.json.*{message}"):
        read_records(file, "sm_90")


def test_a_damaged_file_of_the_user_is_left_aside_with_one_word(own_folder, caplog):
    (own_folder / "sm_90.json").write_text("{")
    with caplog.at_level(logging.WARNING, "tilewright"):
        for _ in range(3):
            assert chosen("no_such_kernel", key_of(f16, (1,)), "sm_90") is None
    assert [line.message for line in caplog.records] == [
        f"tilewright: no tuned configurations are used: {own_folder / 'sm_90.json'} is no file of "
        "records: JSONDecodeError('Expecting property name enclosed in double quotes: line 1 "
        "column 2 (char 1)')"
    ]


def test_records_of_threads_that_write_at_once_are_all_there(tmp_path):
    file, all_of_them = tmp_path / "sm_90.json", [record(m, 1, 1) for m in range(1, 25)]

    def add(some):
        for one in some:
            add_record(file, "sm_90", one)

    threads = [threading.Thread(target=add, args=(all_of_them[n::4],)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(read_records(file, "sm_90")) == set(all_of_them)


def test_a_folder_that_cannot_be_written_is_no_reason_to_fail(own_folder, monkeypatch):
    def full(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr(module, "write_records", full)
    one = record(16, 16, 16, kernel="of a test")
    with pytest.warns(CacheWarning, match="^tuned configurations are not kept: no space left on"):
        keep(one, "sm_90")
    keep(one, "sm_90")  # and another time without a word
    assert chosen("of a test", one.key, "sm_90") == one.config


def test_records_that_two_threads_keep_at_once(own_folder, monkeypatch):
    """Neither takes the other's away, though both begin with what there was before."""
    one, other = (record(extent, 16, 16, kernel="of a test") for extent in (16, 1024))
    threads = [threading.Thread(target=keep, args=(other, "sm_90"))]

    def meanwhile(target):
        found = records_for(target)
        if not threads[0].ident:
            threads[0].start()
            threads[0].join(0.2)  # it has to wait
        return found

    monkeypatch.setattr(module, "records_for", meanwhile)
    keep(one, "sm_90")
    threads[0].join()
    for kept in (one, other):
        assert records_for("sm_90").get("of a test", kept.key) == kept


def test_a_kept_record_is_used_at_once_and_by_the_next_process(own_folder):
    one = record(16, 16, 16, kernel="of a test")
    assert chosen("of a test", one.key, "sm_90") is None
    keep(one, "sm_90")
    better = dataclasses.replace(one, config=Config.of(BM=16))
    assert chosen("of a test", one.key, "sm_90") == one.config
    keep(better, "sm_90")
    assert chosen("of a test", one.key, "sm_90") == better.config
    forget_tables()
    assert records_for("sm_90").get("of a test", one.key) == better
    assert chosen("of a test", one.key, "sm_80") is None


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (Settings(tuned="off"), None),
        (Settings(cache="off"), None),
        (Settings(cache="off", tuned="there"), "there/sm_90.json"),
        (Settings(cache="kernels"), "kernels/tuned/sm_90.json"),
    ],
)
def test_where_the_users_records_lie(monkeypatch, settings, expected):
    monkeypatch.setattr(own_files, "current_settings", lambda: settings)
    found = own_file("sm_90")
    assert (None if found is None else found.as_posix()) == expected


def test_a_choice_is_made_once_until_records_change(own_folder):
    asked = []
    late = None

    @remembered
    def choose(extent, *, is_wide=False):
        asked.append(extent)
        found = chosen("of a test", key_of(f16, (extent, extent, extent)), "sm_90")
        if late is not None:
            keep(late, "sm_90")
        return found or Config.of(BM=extent)

    for _ in range(3):
        assert choose(64) == Config.of(BM=64)
    assert choose(64, is_wide=True) == choose(64, is_wide=True)
    assert asked == [64, 64]
    one = record(64, 64, 64, kernel="of a test")
    keep(one, "sm_90")
    assert choose(64) is choose(64) is one.config
    assert asked == [64, 64, 64]
    forced = Config.of(BM=1)
    with forcing("of a test", forced):
        assert choose(64) is forced
    assert choose(64) is one.config
    forget_tables()
    late = record(65, 65, 65, kernel="of a test")
    before = len(asked)
    assert choose(65) == one.config, "the record came while it was chosen"
    late = None
    assert choose(65) is choose(65)
    assert len(asked) == before + 2
    assert choose(65) == record(65, 65, 65).config


def test_without_a_folder_a_record_serves_this_process(monkeypatch):
    monkeypatch.setattr(own_files, "current_settings", lambda: Settings(tuned="off"))
    forget_tables()
    one = record(16, 16, 16, kernel="of a test")
    keep(one, "cpu")
    assert chosen("of a test", one.key, "cpu") == one.config
    forget_tables()
    assert chosen("of a test", one.key, "cpu") is None


def test_what_we_ship_is_whole():
    """Every file of ours is read, strictly."""
    for file in shipped_file("sm_90").parent.glob("*.json"):
        assert read_records(file, file.stem)
