"""What the library declares to be tuned: every space, and each kernel tried on something small."""

import math
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tilewright import TuneError, f16
from tilewright.bench import Effort
from tilewright.kernels.tunables import TUNABLES, several, signed_sums
from tilewright.tune import Config, Provenance, Record, Records, Space, forcing, key_of
from tilewright.tune.attempts import Verdict
from tilewright.tune.engine import tune
from tilewright.tune.plans import SearchPlan
from tilewright.tune.records import read_records, write_records
from tilewright.tune.task import task_of
from tilewright.tune.turns import in_turns

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
if str(BENCHMARKS) not in sys.path:
    sys.path.append(str(BENCHMARKS))

import tune_library  # noqa: E402

CPU = tw.Device("cpu")
PLAN = SearchPlan(
    finalists=1,
    hopeless=math.inf,
    first=Effort(repetitions=1, warmup=0.0, rounds=1),
    last=Effort(repetitions=1, warmup=0.0, rounds=1),
)
SMALL = {
    "matmul": key_of(f16, (1, 40, 70, 50), layout="nt"),
    "gemv": key_of(f16, (1, 1, 90, 50), layout="nt"),
    "attention": key_of(f16, (4, 32, 32), causal=True, width=16),
    "decode_attention": key_of(f16, (8, 40), group=4, width=16),
    "softmax": key_of(f16, (20, 70)),
    "rms_norm": key_of(f16, (20, 70)),
    "layer_norm": key_of(f16, (20, 70)),
    "add": key_of(f16, (1, 9000)),
    "silu_mul": key_of(f16, (1, 9000)),
    "gelu": key_of(f16, (1, 9000)),
    "transpose": key_of(f16, (1, 40, 70)),
    "sum": key_of(f16, (20, 70)),
    "cumsum": key_of(f16, (20, 70)),
    "add_rms_norm": key_of(f16, (20, 70)),
    "cross_entropy": key_of(f16, (20, 70)),
    "cross_entropy_gradient": key_of(f16, (20, 70)),
    "dropout": key_of(f16, (1, 9000)),
    "embedding": key_of(f16, (20, 70)),
}


def small_task(name, monkeypatch):
    monkeypatch.setattr(several, "VOCABULARY", 100)
    task = task_of(TUNABLES[name], SMALL[name], CPU)
    return replace(task, configs=(task.configs[0], task.configs[-1]))


@pytest.mark.parametrize("name", SMALL)
def test_each_kernel_is_tuned_and_right(name, monkeypatch):
    record, found = tune(small_task(name, monkeypatch), PLAN, tool="a test")
    assert found.counts == {Verdict.TIMED: 2}
    assert record.kernel == name
    assert record.key == SMALL[name]


def test_every_kernel_is_tried_here():
    assert SMALL.keys() == TUNABLES.keys()


@pytest.mark.parametrize("name", TUNABLES)
def test_keys_are_distinct_and_their_spaces_small_enough_to_search(name):
    tunable = TUNABLES[name]
    assert len(set(tunable.keys)) == len(tunable.keys)
    for key in tunable.keys:
        assert 2 <= len(tunable.space(key)) <= 160


def test_a_candidate_that_leaves_something_out_is_wrong(monkeypatch):
    task = small_task("softmax", monkeypatch)
    right = task.build

    def half(config):
        if config != task.configs[1]:
            return right(config)
        return tw.value(None, device=tw.Device("cpu"))

    _, found = tune(replace(task, build=half), PLAN, tool="a test")
    assert found.counts == {Verdict.TIMED: 1, Verdict.WRONG: 1}


def test_one_wrong_element_of_millions_is_found():
    """Too little to show in the norm of all."""
    values = np.random.default_rng(1).standard_normal((8192, 256)).astype(np.float16)
    off, rounded = values.copy(), np.nextafter(values, np.float16(9))
    off[5000, 100] += 1.5
    assert signed_sums.relative_error(off, values) < 2e-3
    right, wrong, close = (tw.from_numpy(one, device="cpu") for one in (values, off, rounded))
    out = tw.empty(right.shape, f16, device="cpu")
    trial = signed_sums.checked_trial(lambda: tw.copy(out, right), out, lambda: (values, values))
    assert trial.limit == 2e-3
    assert trial.error(tw.copy(out, wrong).sync()) > trial.limit
    assert 0 < trial.error(tw.copy(out, close).sync()) < trial.limit


def test_a_default_that_is_wrong_is_told_and_nothing_wins(monkeypatch):
    monkeypatch.setattr(signed_sums, "LIMITS", {f16: 1e-9})
    with pytest.raises(TuneError, match="the untuned choice is wrong: relative error"):
        tune(small_task("softmax", monkeypatch), PLAN, tool="a test")


def test_what_is_known_already_is_tried_first():
    known = Config.of(BM=1, PART=128)
    with forcing("softmax", known):
        task = task_of(TUNABLES["softmax"], SMALL["softmax"], tw.Device("cpu"))
    assert task.configs[0] == known
    assert task.configs.count(known) == 1


@pytest.mark.parametrize(
    ("extent", "starts"), [(100, [0, 46, 92]), (8, [0]), (5, [0]), (9, [0, 1])]
)
def test_samples_reach_both_ends(extent, starts):
    found = signed_sums.spread(extent, 3, 8)
    assert [one.start for one in found] == starts
    assert found[-1].stop == extent


# --- the script that tunes all of them ------------------------------------------------------------


def small(name):
    tunable = TUNABLES[name]
    return replace(tunable, keys=(SMALL[name],), space=lambda key: Space(BM=(1, 2), PART=(128,)))


def test_the_script_goes_on_where_it_was(tmp_path, capsys):
    wanted = list(in_turns([small("softmax"), small("rms_norm")]))
    assert tune_library.Campaign(CPU, tmp_path, PLAN).run(wanted, 60.0) == 2
    journal = (tmp_path / "journal.jsonl").read_text()
    assert journal.count('"attempt"') == 4
    told = capsys.readouterr().err
    assert "softmax f16 20x70: " in told
    assert "\n    2 timed\n" in told
    kept = read_records(tmp_path / "cpu.json", "cpu")
    assert {one.provenance.tool for one in kept} == {"benchmarks/tune_library.py"}
    assert {one.provenance.source for one in kept} == {
        tunable.source(key, "cpu") for tunable, key in wanted
    }
    assert tune_library.Campaign(CPU, tmp_path, PLAN).run(wanted, 60.0) == 0
    assert f"2 keys have their record in {tmp_path}/cpu.json already" in capsys.readouterr().err
    first = next(one for one in kept if one.kernel == "softmax")
    elsewhere = replace(first, provenance=replace(first.provenance, driver="another"))
    write_records(tmp_path / "cpu.json", "cpu", [elsewhere])
    assert tune_library.Campaign(CPU, tmp_path, PLAN).run(wanted, 60.0) == 2
    assert (tmp_path / "journal.jsonl").read_text() == journal, "it knows all candidates"


def test_when_the_budget_is_spent_what_is_left_is_told(tmp_path, capsys):
    wanted = list(in_turns([small("softmax"), small("rms_norm")]))
    assert tune_library.Campaign(CPU, tmp_path, PLAN).run(wanted, -1.0) == 0
    assert capsys.readouterr().err.splitlines() == [
        "no time for softmax f16 20x70",
        "no time for rms_norm f16 20x70",
        "the same command again goes on with these 2",
    ]


def test_a_key_whose_tensors_do_not_fit_costs_no_other(tmp_path, capsys):
    def no_room(key, device):
        raise tw.OutOfMemoryError("no room for x")

    wanted = list(in_turns([replace(small("softmax"), trial=no_room), small("rms_norm")]))
    assert tune_library.Campaign(CPU, tmp_path, PLAN).run(wanted, 60.0) == 1
    assert "softmax f16 20x70: no room for x\n" in capsys.readouterr().err


def test_the_keys_of_some_kernels(monkeypatch):
    """By name, by what stands in them, and only those without a fresh record of this script."""
    key, second, third, *_ = TUNABLES["softmax"].keys
    origin = Provenance(tune_library.TOOL, "a GPU", "1", "1", "1", "2026-11-15", "old")
    fresh = replace(origin, source=TUNABLES["softmax"].source(second, "sm_90"))
    stale, known, foreign = (
        Record("softmax", *one)
        for one in (
            (key, Config.of(BM=1, PART=128), 1.0, origin),
            (second, Config.of(BM=1, PART=128), 1.0, fresh),
            (third, Config.of(BM=1, PART=128), 1.0, replace(fresh, tool="a sweep")),
        )
    )
    known_ones = Records([stale, known, foreign])
    monkeypatch.setattr(tune_library, "records_for", lambda target: known_ones)

    def wanted(*names, only=(), is_stale=False):
        found = tune_library.wanted_keys(names, only, is_stale, "sm_90")
        return [(tunable.name, one) for tunable, one in found]

    every = wanted("softmax")
    assert every[0] == ("softmax", third), "nobody knows how another tool came to it"
    assert every[-2:] == [("softmax", key), ("softmax", known.key)]
    assert wanted("softmax", is_stale=True) == every[:-1]
    assert wanted("softmax", "rms_norm", only=("4096x1024",)) == [
        ("rms_norm", key), ("softmax", key),
    ]  # fmt: skip
    assert {name for name, _ in wanted()} == set(TUNABLES)


def test_what_was_found_is_shipped_and_what_is_stale_goes(tmp_path):
    tunable = TUNABLES["softmax"]
    origin = Provenance("a search", "NVIDIA H200", "580.1", "13.4", "0.1", "2026-11-15", "another")
    config = Config.of(BM=1, PART=1024)

    def record(seconds, key=tunable.keys[0], kernel="softmax", *, is_stale=False):
        source = origin.source if is_stale else tunable.source(key, "sm_90")
        return Record(kernel, key, config, seconds, replace(origin, source=source))

    shipped, found = tmp_path / "shipped.json", tmp_path / "sm_90.json"
    other = record(2.0, tunable.keys[1])
    stale = record(3.0, tunable.keys[2], is_stale=True)
    elsewhere = record(4.0, SMALL["softmax"])
    write_records(shipped, "sm_90", [record(1.0), other, stale, elsewhere])
    write_records(found, "sm_90", [better := record(0.5)])
    assert set(tune_library.adopt(found, shipped)) == {stale, elsewhere}
    assert set(read_records(shipped, "sm_90")) == {better, other}
    gone = record(1.0, kernel="no_such")
    write_records(found, "sm_90", [gone])
    assert tune_library.adopt(found, tmp_path / "new.json") == (gone,)
