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
from tilewright.kernels.tunables import TUNABLES, heads, several, signed_sums
from tilewright.tune import Config, Provenance, Record, Space, forcing, key_of
from tilewright.tune.attempts import Verdict
from tilewright.tune.engine import tune
from tilewright.tune.plans import Plan
from tilewright.tune.records import read_records, write_records
from tilewright.tune.sources import source_digest
from tilewright.tune.task import task_of

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
if str(BENCHMARKS) not in sys.path:
    sys.path.append(str(BENCHMARKS))

import tune_library  # noqa: E402

PLAN = Plan(
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
    "add_rms_norm": key_of(f16, (20, 70)),
    "cross_entropy": key_of(f16, (20, 70)),
    "cross_entropy_gradient": key_of(f16, (20, 70)),
    "dropout": key_of(f16, (1, 9000)),
    "embedding": key_of(f16, (20, 70)),
}


def small_task(name, monkeypatch):
    monkeypatch.setattr(heads, "TOKENS", 64)
    monkeypatch.setattr(several, "VOCABULARY", 100)
    task = task_of(TUNABLES[name], SMALL[name], tw.Device("cpu"))
    return replace(task, configs=(task.configs[0], task.configs[-1]))


@pytest.mark.parametrize("name", SMALL)
def test_each_kernel_is_tuned_and_right(name, monkeypatch):
    record, found = tune(small_task(name, monkeypatch), PLAN)
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

    _, found = tune(replace(task, build=half), PLAN)
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
    with pytest.raises(TuneError, match="what runs without tuning is wrong: relative error"):
        tune(small_task("softmax", monkeypatch), PLAN)


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
    cpu = tw.Device("cpu")
    wanted = list(tune_library.in_turns([small("softmax"), small("rms_norm")]))
    assert tune_library.tune_all(wanted, cpu, 60.0, tmp_path, PLAN) == 2
    journal = (tmp_path / "journal.jsonl").read_text()
    assert journal.count('"attempt"') == 4
    assert tune_library.tune_all(wanted, cpu, 60.0, tmp_path, PLAN) == 2
    assert (tmp_path / "journal.jsonl").read_text() == journal
    assert "softmax f16 20x70: " in capsys.readouterr().out
    kept = read_records(tmp_path / "cpu.json", "cpu")
    assert {one.provenance.source for one in kept} == {
        source_digest(*tunable.kernels) for tunable, _ in wanted
    }
    assert tune_library.tune_all(wanted, cpu, -1.0, tmp_path / "late", PLAN) == 0
    late = capsys.readouterr().out.splitlines()
    assert late == ["no time for softmax f16 20x70", "no time for rms_norm f16 20x70"]


def test_what_was_found_is_shipped_and_what_is_stale_goes(tmp_path):
    tunable = TUNABLES["softmax"]
    now = Provenance(
        "NVIDIA H200", "580.1", "13.4", "0.1", "2026-11-15", source_digest(*tunable.kernels)
    )
    config = Config.of(BM=1, PART=1024)

    def record(seconds, key=tunable.keys[0], origin=now, kernel="softmax"):
        return Record(kernel, key, config, seconds, origin)

    shipped, found = tmp_path / "shipped.json", tmp_path / "sm_90.json"
    other = record(2.0, tunable.keys[1])
    stale = record(3.0, tunable.keys[2], replace(now, source="another"))
    elsewhere = record(4.0, SMALL["softmax"])
    write_records(shipped, "sm_90", [record(1.0), other, stale, elsewhere])
    write_records(found, "sm_90", [better := record(0.5)])
    assert set(tune_library.adopt(found, shipped)) == {stale, elsewhere}
    assert set(read_records(shipped, "sm_90")) == {better, other}
    gone = record(1.0, kernel="no_such")
    write_records(found, "sm_90", [gone])
    assert tune_library.adopt(found, tmp_path / "new.json") == (gone,)


def test_turns():
    first, second = TUNABLES["matmul"], TUNABLES["softmax"]
    order = list(tune_library.in_turns([first, second]))
    assert order[:3] == [(first, first.keys[0]), (second, second.keys[0]), (first, first.keys[1])]
    assert len(order) == len(first.keys) + len(second.keys)
