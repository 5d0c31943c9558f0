"""From a search to a record: what is kept, and where it says that it comes from."""

from dataclasses import replace
from functools import partial

import pytest
from fake_clock import QUICK, SPACE, Bench

import tilewright as tw
from tilewright.backends.cuda.gpus import Gpu
from tilewright.tune import engine
from tilewright.tune.engine import provenance_on, record_of, stale_reasons, tune
from tilewright.tune.records import UNTUNED
from tilewright.tune.search import search

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
        "the kernel, or its untuned choice, has changed",
        f"it was tuned with tileiras {record.provenance.tileiras}, and here is 99.0",
    ]
    assert list(stale_reasons(record, None, None)) == ["there is no such kernel"]


H200 = Gpu("NVIDIA H200", "cpu", "141 GB", "580.159")


@pytest.mark.parametrize(
    ("gpus", "named"),
    [
        ((H200, H200), "NVIDIA H200 580.159"),
        ((replace(H200, target="sm_80", name="NVIDIA A100"), H200), "NVIDIA H200 580.159"),
        ((replace(H200, name="NVIDIA H100"), H200), "NVIDIA H100 or NVIDIA H200 580.159"),
        ((), "cpu unknown"),
    ],
)
def test_the_machine_is_that_of_the_device(gpus, named, monkeypatch):
    """As far as it can be told: nvidia-smi counts GPUs otherwise than the driver."""
    monkeypatch.setattr(engine, "list_gpus", lambda: gpus)
    monkeypatch.setattr(engine, "release_here", lambda: "13.4.92")
    assert provenance_on(tw.Device("cpu"), "a digest", "a test").machine == f"{named} 13.4.92"


def test_where_nothing_is_faster_the_record_says_so():
    bench = Bench(larger_is_faster)
    origin = provenance_on(bench.task.device, "a digest", "a test")
    for untuned, kept in ((B8, B32), (B32, UNTUNED)):
        task = replace(bench.task, untuned=partial(bench.build, untuned))
        found = search(task, QUICK, timer=bench.timer)
        record = record_of(task, found, origin)
        assert (record.config, record.seconds) == (kept, 1 / 32)
