"""Which keys are tuned first when there may not be time for all of them."""

from dataclasses import replace

from tilewright.kernels.tunables import TUNABLES
from tilewright.tune import Config, Provenance, Record, Records
from tilewright.tune.sources import source_digest
from tilewright.tune.turns import Need, by_need, in_turns, need_of

FIRST, SECOND = TUNABLES["softmax"], TUNABLES["embedding"]
OLD = Provenance("a search", "a GPU", "1", "1", "1", "2026-11-15", "old")


def record(tunable, number, *, is_fresh):
    source = source_digest(*tunable.kernels) if is_fresh else "old"
    config = Config.of(BM=1, PART=128)
    return Record(tunable.name, tunable.keys[number], config, 1.0, replace(OLD, source=source))


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
    found = by_need(in_turns([FIRST, SECOND]), records)
    assert [need for need, _, _ in found] == sorted(need for need, _, _ in found)
    assert [one for need, *one in found if need is Need.NONE] == [[FIRST, FIRST.keys[0]]]
    stale = [one for need, *one in found if need is Need.STALE]
    assert stale == [[SECOND, SECOND.keys[0]], [FIRST, FIRST.keys[1]]], "as they take turns"
    assert found[0] == (Need.MISSING, SECOND, SECOND.keys[1])


def test_a_record_of_another_key_or_kernel_does_not_count():
    records = Records([record(FIRST, 0, is_fresh=True)])
    assert need_of(FIRST, FIRST.keys[0], records) is Need.NONE
    assert need_of(FIRST, FIRST.keys[1], records) is Need.MISSING
    assert need_of(TUNABLES["rms_norm"], FIRST.keys[0], records) is Need.MISSING
