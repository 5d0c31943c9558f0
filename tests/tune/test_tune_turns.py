"""Which keys are tuned first when there may not be time for all of them."""

from dataclasses import replace

from tilewright.kernels.tunables import TUNABLES
from tilewright.tune import Config, Provenance, Record, Records
from tilewright.tune.records import UNTUNED
from tilewright.tune.turns import Urgency, by_need, in_turns, need_of

FIRST, SECOND = TUNABLES["softmax"], TUNABLES["embedding"]
OLD = Provenance("a search", "a GPU", "1", "1", "1", "2026-11-15", "old")


def record(tunable, number, *, is_fresh):
    key = tunable.keys[number]
    source = tunable.source(key, "sm_90") if is_fresh else "old"
    config = Config.of(BM=1, PART=128)
    return Record(tunable.name, key, config, 1.0, replace(OLD, source=source))


def test_kernels_take_turns():
    order = list(in_turns([FIRST, SECOND]))
    assert order[:3] == [(FIRST, FIRST.keys[0]), (SECOND, SECOND.keys[0]), (FIRST, FIRST.keys[1])]
    assert order[-1] == (FIRST, FIRST.keys[-1]), "the other one has no more"
    assert len(order) == len(FIRST.keys) + len(SECOND.keys)
    assert list(in_turns([])) == []


def test_those_without_a_record_come_first_then_stale_ones():
    records = Records([
        record(FIRST, 0, is_fresh=True), record(FIRST, 1, is_fresh=False),
        record(SECOND, 0, is_fresh=False),
    ])  # fmt: skip
    found = by_need(in_turns([FIRST, SECOND]), records, "sm_90")
    assert [need for need, _, _ in found] == sorted(need for need, _, _ in found)
    assert [one for need, *one in found if need is Urgency.NONE] == [[FIRST, FIRST.keys[0]]]
    stale = [one for need, *one in found if need is Urgency.STALE]
    assert stale == [[SECOND, SECOND.keys[0]], [FIRST, FIRST.keys[1]]], "as they take turns"
    assert found[0] == (Urgency.MISSING, SECOND, SECOND.keys[1])


def test_a_record_is_stale_once_something_else_runs_without_it():
    key = FIRST.keys[0]
    beaten = record(FIRST, 0, is_fresh=True)
    records = Records([replace(beaten, config=UNTUNED)])
    assert need_of(FIRST, key, records, "sm_90") is Urgency.NONE
    now = FIRST.rule(key, "sm_90")
    ruled = replace(FIRST, rule=lambda key, target: now.updated(BM=now["BM"] * 2))
    assert need_of(ruled, key, records, "sm_90") is Urgency.STALE
    assert need_of(ruled, key, Records([beaten]), "sm_90") is Urgency.STALE
    same = replace(FIRST, rule=lambda key, target: now.updated())
    assert need_of(same, key, records, "sm_90") is Urgency.NONE


def test_a_record_of_another_key_or_kernel_does_not_count():
    records = Records([record(FIRST, 0, is_fresh=True)])
    assert need_of(FIRST, FIRST.keys[0], records, "sm_90") is Urgency.NONE
    assert need_of(FIRST, FIRST.keys[1], records, "sm_90") is Urgency.MISSING
    assert need_of(TUNABLES["rms_norm"], FIRST.keys[0], records, "sm_90") is Urgency.MISSING
