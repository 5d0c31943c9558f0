"""`tilewright tune`: a search in a child, records, and what is stale."""

import json
import textwrap
from dataclasses import replace
from types import SimpleNamespace

import pytest

from tilewright import f16
from tilewright.cli import tune as tuning
from tilewright.kernels.tunables import TUNABLES
from tilewright.settings import current_settings
from tilewright.tune import Config, Provenance, Record, key_of
from tilewright.tune.records import UNTUNED, forget_tables, read_records, write_records

KERNEL = """
    import tilewright as tw
    from tilewright import Mut, Ref, f32
    from tilewright.dims import B, N
    from tilewright.tune import Space

    @tw.autotune(Space(B=(4, 8)), key=("N",))
    @tw.kernel
    def doubled(z: Mut[f32, B], x: Ref[f32, N]) -> None:
        z.store(x.load_like(z) * 2.0)

    @tw.kernel
    def plain(z: Mut[f32, B], x: Ref[f32, N]) -> None:
        z.store(x.load_like(z))
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A file with kernels, and a folder for records of the test's own."""
    monkeypatch.setenv("TILEWRIGHT_TUNED", str(tmp_path / "tuned"))
    current_settings.cache_clear()
    forget_tables()
    (tmp_path / "mine.py").write_text(textwrap.dedent(KERNEL))
    yield tmp_path
    current_settings.cache_clear()
    forget_tables()


@pytest.fixture
def shown(monkeypatch):
    """What the progress bar was told."""
    told = []

    class Watched(tuning.Progress):
        def update(self, task, **values):
            told.append((values["completed"], values["total"]))
            super().update(task, **values)

    monkeypatch.setattr(tuning, "Progress", Watched)
    return told


@pytest.mark.parametrize("where", [(), ("--in-process",)], ids=["in a child", "here"])
def test_a_kernel_of_the_users_own(run, folder, where, shown):
    address = f"{folder / 'mine.py'}::doubled"
    arguments = ("--arg", "z=f32:50", "--arg", "x=f32:50", "--device", "cpu", "--json", *where)
    result = run("tune", address, *arguments)
    assert result.exit_code == 0, result.output
    (told,) = json.loads(result.stdout)
    assert told["key"] == {"dtypes": ["f32", "f32"], "shape": [50], "options": {}}
    assert told["config"] in ({"B": 4}, {"B": 8})
    (record,) = read_records(folder / "tuned" / "cpu.json", "cpu")
    assert record.to_json() == told
    assert (folder / "tuned" / "cpu.journal").read_text().count('"attempt"') == 2
    assert (shown[0], shown[-1]) == ((0, 2), (2, 2))
    assert shown == sorted(shown)


def test_where_the_records_go(run, folder):
    address, output = f"{folder / 'mine.py'}::doubled", folder / "cpu.json"
    given = ("--arg", "z=f32:50", "--arg", "x=f32:50", "--device", "cpu", "--in-process")
    result = run("tune", address, *given, "--output", output)
    assert result.exit_code == 0, result.output
    assert "doubled f32,f32 50: " in result.output
    assert len(read_records(output, "cpu")) == 1
    result = run("tune", address, *given, "--output", folder / "sm_90.json")
    assert result.exit_code == 2
    assert "records of this device go into cpu.json" in result.output


def test_a_folder_that_others_can_write_is_not_used(run, folder):
    (folder / "tuned").mkdir()
    (folder / "victim").write_text("precious")
    (folder / "tuned" / "cpu.journal").symlink_to(folder / "victim")
    (folder / "tuned").chmod(0o777)
    given = (f"{folder / 'mine.py'}::doubled", "--arg", "z=f32:50", "--arg", "x=f32:50")
    result = run("tune", *given, "--device", "cpu", "--in-process")
    assert result.exit_code == 2
    said = " ".join(result.output.split())
    assert "tuned can be written by others: chmod 700 it: give --output FILE" in said
    assert (folder / "victim").read_text() == "precious"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "name a kernel to tune, `tilewright tune matmul`; --list shows them all"),
        (("matmul", "--finalists", "0"), "'--finalists': 0 is not in the range x>=1"),
        (("matmul", "--seconds", "-4"), "'--seconds': -4 is not above 0"),
        (
            ("matmul", "--patience", "0"),
            "'--patience': 0 is not above 0 and at most 10,000,000 seconds",
        ),
        (
            ("matmul", "--budget", "0"),
            "'--budget': 0 is not above 0 and at most 10,000,000 seconds",
        ),
        (("matmull", "--device", "cpu"), "no tunable kernel matmull; did you mean matmul?"),
        (("matmul", "--device", "cpu", "--arg", "x=1"), "--arg is for a kernel in a file"),
        (("matmul", "--device", "cpu", "--only", "i4"), "--only 'i4': no key has that in it"),
        (("{file}::plain", "--device", "cpu"), "is a kernel without a search space"),
        (("{file}::doubled", "--device", "cpu", "--arg", "q=1"), "where NAME is one of"),
        (("{file}::doubled", "--device", "cpu", "--arg", "x=f33:4"), "a tensor is written as"),
        (("{file}::doubled", "--device", "cpu", "--arg", "x=many"), "a number, or a tensor"),
    ],
)
def test_what_is_refused(run, folder, arguments, message):
    given = [argument.format(file=folder / "mine.py") for argument in arguments]
    result = run("tune", *given, "--in-process")
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


def test_a_search_that_finds_nothing_is_told(run, folder):
    address = f"{folder / 'mine.py'}::doubled"
    given = ("--arg", "z=f32:50", "--arg", "x=f32:51", "--device", "cpu")
    result = run("tune", address, *given, "--in-process")
    assert result.exit_code == 1
    assert "2 refused: LaunchError" in result.output
    assert "1 of 1 searches found nothing" in result.output


class Searches:
    """What would have been searched for, each taking so many seconds of the test's clock."""

    def __init__(self, monkeypatch, seconds):
        self.labels, self.now = [], 0.0
        self._seconds = seconds
        monkeypatch.setattr(tuning, "_search_here", self.search)
        monkeypatch.setattr(tuning, "time", SimpleNamespace(monotonic=lambda: self.now))

    def search(self, goal, *_):
        self.labels.append(goal.label)
        self.now += self._seconds
        return []


CHOSEN = ("tune", "embedding", "cross_entropy", "--device", "cpu", "--in-process")
ALL = [
    "embedding f16 16384x2560",
    "cross_entropy f16 4096x151936",
    "embedding f16 16384x4096",
]


def test_when_the_budget_is_spent_no_further_search_is_begun(run, folder, monkeypatch):
    searches = Searches(monkeypatch, seconds=10.0)
    result = run(*CHOSEN, "--budget", "15")
    assert result.exit_code == 0
    assert searches.labels == ALL[:2], "kernels take turns"
    assert "no time for embedding f16 16384x4096\n" in result.output
    assert "the same with --stale goes on with these 1\n" in result.output
    assert run(*CHOSEN, "--budget", "30").exit_code == 0
    assert searches.labels[2:] == ALL
    refused = run(*CHOSEN, "--budget", "0")
    assert refused.exit_code == 2
    assert "0 is not above 0 and at most 10,000,000 seconds" in refused.output


def test_only_what_has_no_fresh_record(run, folder, monkeypatch):
    key = key_of(f16, (16384, 2560))
    source = TUNABLES["embedding"].source(key, "cpu")
    origin = Provenance("a search", "cpu", "1", "1", "1", "2026-11-15", source)
    fresh = Record("embedding", key, Config.of(BM=1), 1e-5, origin)
    (folder / "tuned").mkdir()
    write_records(folder / "tuned" / "cpu.json", "cpu", [fresh])
    searches = Searches(monkeypatch, seconds=1.0)
    result = run(*CHOSEN, "--stale")
    assert "1 of 3 have a fresh record" in result.output
    assert searches.labels == ["cross_entropy f16 4096x151936", "embedding f16 16384x4096"]
    searches.labels.clear()
    assert run(*CHOSEN).exit_code == 0
    assert searches.labels[-1] == "embedding f16 16384x2560", "what needs it least comes last"


def test_a_key_that_reads_like_this_is_preferred_to_those_that_have_it_in_them(
    run, folder, monkeypatch
):
    """A child gets its key by the text of it."""
    keys = [key_of(f16, (16384, width)) for width in (256, 2560)]
    tunable = replace(TUNABLES["embedding"], keys=tuple(keys))
    monkeypatch.setitem(TUNABLES, "embedding", tunable)
    searches = Searches(monkeypatch, seconds=1.0)
    assert run(*CHOSEN, "--only", str(keys[0])).exit_code == 0
    assert searches.labels == [f"embedding {keys[0]}"]
    assert run(*CHOSEN, "--only", "16384x").exit_code == 0
    assert searches.labels[1:] == [f"embedding {key}" for key in keys]


def test_what_can_be_tuned(run):
    rows = json.loads(run("tune", "--list", "--json").output)
    assert {"matmul", "attention", "softmax"} <= {row["kernel"] for row in rows}
    assert all(row["candidates"] >= row["keys"] > 0 for row in rows)
    assert "decode_attention" in run("tune", "--list").output


def test_every_kernel_with_a_record_of_ours_can_be_tuned_again(run):
    """A kernel that changes makes its records stale; then they are measured anew, or go."""
    for row in json.loads(run("tune", "--check", "--json").output):
        assert "there is no such kernel" not in row["stale"], row["kernel"]


def test_stale_records_are_listed_with_the_reason(run, folder):
    origin = Provenance(
        "a search", "NVIDIA H200", "580.159", "1.2.3", "0.1.0", "2026-11-15", "no digest"
    )
    key, config = key_of(f16, (1, 64, 64, 64), layout="nn"), Config.of(BM=64)
    (folder / "tuned").mkdir()
    ours = Record("matmul", key, config, 1e-5, origin)
    theirs = [Record("mine.doubled", key, config, 1e-5, origin)]
    gone = [Record("no_such", key, UNTUNED, 1e-5, origin)]
    write_records(folder / "tuned" / "sm_80.json", "sm_80", (ours, *theirs, *gone))
    told = json.loads(run("tune", "--check", "--target", "sm_80", "--json").output)
    stale = {row["kernel"]: row["stale"] for row in told}
    assert stale["matmul"][0] == "the kernel, or its untuned choice, has changed"
    assert stale["no_such"][0] == "there is no such kernel"
    assert not any("kernel" in reason for reason in stale["mine.doubled"])
    assert told[-1]["config"] == "the untuned choice"
    shown = run("tune", "--check", "--target", "sm_80").output
    assert "3 records, " in shown
    assert "of them stale: used all the same, and perhaps slow" in shown
    assert "3 by a search on NVIDIA H200, 2026-11-15\n" in shown
    empty = run("tune", "--check", "--target", "sm_86").output
    assert "nothing is tuned yet" in empty


# --- records, moved between machines --------------------------------------------------------------

MADE = Provenance("a test", "a GPU", "1", "13.4", "0.1.0", "2026-11-17", "0123")


def _own(folder, *records):
    kept = folder / "tuned" / "sm_90.json"
    kept.parent.mkdir(mode=0o700, exist_ok=True)
    write_records(kept, "sm_90", records)
    return kept


def _record(kernel="softmax", seconds=1e-3, **constants):
    key = next(iter(TUNABLES["softmax"].keys))
    named = dict(next(iter(TUNABLES["softmax"].space(key))).constants)
    return Record(kernel, key, Config.of(**{**named, **constants}), seconds, MADE)


def test_records_move_to_another_machine(run, folder, monkeypatch):
    moved, one = folder / "moved.json", _record()
    _own(folder, one)
    result = run("tune", "--export", moved, "--target", "sm_90")
    assert result.stdout == f"1 record for sm_90 written to {moved}\n"
    monkeypatch.setenv("TILEWRIGHT_TUNED", str(folder / "other"))
    current_settings.cache_clear()
    forget_tables()
    kept = folder / "other" / "sm_90.json"
    for ending in ("", ", 1 of them in place of earlier ones"):
        result = run("tune", "--import", moved, columns=400)
        assert (result.exit_code, result.stderr) == (0, "")
        assert result.stdout == f"1 record for sm_90 imported into {kept}{ending}\n"
        assert read_records(kept, "sm_90") == (one,)
    found = json.loads(run("tune", "--import", moved, "--json").stdout)
    assert found == {"target": "sm_90", "records": 1, "replaced": 1, "file": str(kept)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("sm_90", "sm_77"), "sm_77 is no target"),
        (('"target": "sm_90"', '"target": 90'), "it names no target such as sm_90"),
        (('"format": 2', '"format": 3'), "in format 3, and those for sm_90 in format 2 are wanted"),
        (('"kernel": "softmax"', '"kernel": "sofmax"'), "the library has no kernel `sofmax`"),
        (('"seconds": 0.001', '"seconds": -1.0'), "names its kernel and a time in seconds"),
        (('"tool": "a test"', '"tool": ""'), "says where it comes from"),
        (('"config": {', '"config": {"EXTRA": 1, '), "`softmax` has no constant EXTRA=1"),
        (("{", "["), "is no file of records"),
    ],
)
def test_a_forged_file_is_refused_as_a_whole(run, folder, change, message):
    moved = folder / "moved.json"
    write_records(moved, "sm_90", (_record(),))
    text = moved.read_text()
    assert change[0] in text
    moved.write_text(text.replace(*change))
    result = run("tune", "--import", moved, columns=400)
    assert result.exit_code != 0
    assert message in result.stderr
    assert not (folder / "tuned" / "sm_90.json").exists()


def test_moves_that_make_no_sense(run, folder):
    moved = folder / "moved.json"
    write_records(moved, "sm_90", (_record(),))
    for arguments, message in (
        (
            ("--export", folder / "out.json", "--target", "sm_80"),
            "no records of your own for sm_80",
        ),
        (("--import", moved, "--target", "sm_80"), "its records are for sm_90, and not for sm_80"),
        (("softmax", "--import", moved), "take no kernel, and one of them is given"),
        (("--export", moved, "--import", moved), "take no kernel, and one of them is given"),
        (("--import", folder / "nothing.json"), "does not exist"),
    ):
        result = run("tune", *arguments, columns=400)
        assert result.exit_code != 0
        assert message in " ".join(result.stderr.split())


def test_records_that_are_not_kept_are_not_imported(run, folder, monkeypatch):
    moved = folder / "moved.json"
    write_records(moved, "sm_90", (_record(),))
    monkeypatch.setenv("TILEWRIGHT_TUNED", "off")
    current_settings.cache_clear()
    assert "records are not kept here" in run("tune", "--import", moved).stderr
