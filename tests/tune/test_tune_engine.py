"""From a search to a record: what is kept, and where it says that it comes from."""

import math
from dataclasses import replace
from functools import partial

from fake_clock import SPACE, Bench

import tilewright as tw
from tilewright.bench import Effort
from tilewright.tune.engine import provenance_on, record_of, stale_reasons, tune
from tilewright.tune.plans import Plan
from tilewright.tune.records import UNTUNED
from tilewright.tune.search import search

QUICK = Plan(
    near=math.inf,
    first=Effort(repetitions=2, warmup=0.0, rounds=1),
    last=Effort(repetitions=2, warmup=0.0),
)
_, B8, _, B32 = SPACE


def larger_is_faster(config):
    return 1.0 / config["B"]


def test_from_a_problem_to_a_record():
    record, found = tune(Bench(larger_is_faster).task, QUICK, tool="a test")
    assert record.kernel == "doubled"
    assert record.config == found.winner.config
    assert record.seconds == found.seconds
    assert record.provenance.source == "a digest"
    assert record.provenance.tool == "a test"
    assert record.provenance.gpu == "cpu"
    assert record.provenance.tilewright == tw.__version__
    assert list(stale_reasons(record, "a digest", record.provenance.tileiras)) == []
    assert list(stale_reasons(record, "another", "99.0")) == [
        "the kernel has changed",
        f"it was tuned with tileiras {record.provenance.tileiras}, and here is 99.0",
    ]
    assert list(stale_reasons(record, None, None)) == ["there is no such kernel"]


def test_where_nothing_is_faster_the_record_says_so():
    bench = Bench(larger_is_faster)
    origin = provenance_on(bench.task.device, "a digest", "a test")
    for untuned, kept in ((B8, B32), (B32, UNTUNED)):
        task = replace(bench.task, untuned=partial(bench.build, untuned))
        found = search(task, QUICK, timer=bench.timer)
        record = record_of(task, found, origin)
        assert (record.config, record.seconds) == (kept, 1 / 32)
