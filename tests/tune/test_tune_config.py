"""Configurations: one flat set of names, in one line, as JSON, and what a launch does with them."""

import json
import pickle

import numpy as np
import pytest

import tilewright as tw
from tilewright import Const, Mapped, Ref, ReportForm, TuneError, f16, f32
from tilewright.dims import BN, N
from tilewright.tune import Config, Schedule

FULL = Config.of(
    BM=128, BK=64, FAST=True, ACC=f32, num_ctas=2, num_worker_warps=8, opt_level=3, occupancy=1,
    blocks=66, group=(8, 1), report=ReportForm.AUDIT,
)  # fmt: skip


def test_values_by_name_whichever_part_they_belong_to():
    assert FULL["BM"] == 128
    assert FULL["ACC"] is f32
    assert FULL["num_ctas"] == 2
    assert FULL["group"] == (8, 1)
    assert FULL.hints == tw.Hints(num_ctas=2, occupancy=1, num_worker_warps=8, opt_level=3)
    assert FULL.schedule == Schedule(66, (8, 1))
    assert FULL.report is ReportForm.AUDIT


def test_what_is_left_open_is_left_out():
    plain = Config.of(BM=64, num_ctas=None, blocks=None, group=None, report=None)
    assert plain == Config.of(BM=64)
    assert plain.schedule is None
    assert plain["num_ctas"] is None
    assert plain.values == {"BM": 64}


@pytest.mark.parametrize("config", [FULL, Config(), Config.of(BM=1), Config.of(group=4)], ids=str)
def test_json_both_ways(config):
    assert Config.from_json(json.loads(json.dumps(config.to_json()))) == config
    again = pickle.loads(pickle.dumps(config))
    assert again == config
    assert hash(again) == hash(config)


def test_one_line():
    assert str(FULL) == (
        "ACC=f32 BK=64 BM=128 FAST=True num_ctas=2 occupancy=1 num_worker_warps=8 opt_level=3 "
        "blocks=66 group=8x1 report=AUDIT"
    )
    assert str(Config()) == "(nothing set)"


def test_updated():
    assert FULL.updated(BM=64, num_ctas=None)["BM"] == 64
    assert FULL.updated(num_ctas=None)["num_ctas"] is None
    assert FULL.updated() == FULL


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"BM": 1.5},
            "the constant `BM` is 1.5; a kernel is specialised on integers, truth values and "
            "dtypes",
        ),
        ({"B M": 1}, "'B M' is no name for a constant"),
        ({"num_ctas": 3}, "the hint `num_ctas` is a power of two up to 16, not 3"),
        (
            {"blocks": 0},
            "a schedule has a positive number of blocks and a positive group, or one for each "
            "axis, not blocks=0 and group=1",
        ),
        (
            {"group": (8, True)},
            "a schedule has a positive number of blocks and a positive group, or one for each "
            "axis, not blocks=None and group=(8, True)",
        ),
        ({"report": "AUDIT"}, "`report` is a tw.ReportForm, not 'AUDIT'"),
    ],
)
def test_values_that_are_refused(values, message):
    with pytest.raises(TuneError) as refusal:
        Config.of(**values)
    assert str(refusal.value) == message


@pytest.mark.parametrize("data", [None, [1], {"BM": "f33"}, {"report": "LOUD"}, {"group": []}])
def test_json_that_is_no_configuration(data):
    with pytest.raises(TuneError):
        Config.from_json(data)


def test_a_constant_it_does_not_have():
    with pytest.raises(TuneError) as refusal:
        Config.of(BM=1, BN=2)["BK"]
    assert str(refusal.value) == "this configuration has no constant `BK`; it has: BM, BN"


@tw.kernel
def scaled(z: Mapped[f32, BN], x: Ref[f32, N], *, FACTOR: Const[int] = 1) -> None:
    xs = x.partition(BN)
    for at in z.indices():
        (i,) = at
        z.store(xs[i] * float(FACTOR), at)


def test_a_launch_with_it():
    config = Config.of(BN=8, FACTOR=3, occupancy=2, blocks=3, group=1)
    kernel = config.applied_to(scaled)
    assert kernel.hints.general == tw.Hints(occupancy=2)
    assert config.applied_to(scaled) is kernel
    assert config.arguments(scaled) == {"FACTOR": 3}
    x = np.arange(50, dtype=np.float32)
    z = tw.zeros((50,), f32, device="cpu")
    cut = config.walk(z.partition(config["BN"]))
    assert (cut.max_blocks, cut.group) == (3, (1,))
    kernel(cut, tw.from_numpy(x, device="cpu"), **config.arguments(scaled)).sync()
    np.testing.assert_array_equal(z.numpy(), 3 * x)


def test_a_walk_without_a_schedule_is_left_to_the_device():
    cut = Config.of(BN=8).walk(tw.zeros((50,), f16, device="cpu").partition(8))
    assert (cut.max_blocks, cut.group) == (None, (1,))
