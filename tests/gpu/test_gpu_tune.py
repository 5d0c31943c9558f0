"""Tuning on a GPU: what wins is right, what spills is not run, and the next launch uses it."""

import math
import time

import numpy as np
import pytest

import tilewright as tw
from tilewright import Const, Mapped, Ref, f16, f32
from tilewright.dims import BM, BN, K, M, N
from tilewright.settings import Settings
from tilewright.tune import Config, Space, own_files
from tilewright.tune.attempts import Verdict
from tilewright.tune.journal import Journal
from tilewright.tune.plans import SearchPlan
from tilewright.tune.records import forget_tables, records_for
from tilewright.tune.search import Search, search
from tilewright.tune.searches import search_all

pytestmark = pytest.mark.gpu

PLAN = SearchPlan(hopeless=math.inf)


@tw.autotune(
    Space(BM=(128, 64), BN=(128,), BK=(64,), num_worker_warps=(4,), group=((8, 1),))
    | Space(BM=(256,), BN=(256,), BK=(64,), num_ctas=(1,), num_worker_warps=(8,)),
    key=("M", "N", "K"),
)
@tw.kernel(deny_checks=True)
def gemm(
    z: Mapped[f16, BM, BN], x: Ref[f16, M, K], y: Ref[f16, K, N], *, BK: Const[int] = 64
) -> None:
    xs, ys = x.partition(BM, BK), y.partition(BK, BN)
    for at in z.indices():
        i, j = at
        acc = tw.zeros((BM, BN), f32)
        for k in range(xs.num_tiles(1)):
            acc = tw.mma(xs[i, k], ys[k, j], acc)
        z.store(acc.astype(z.dtype), at)


@pytest.fixture
def own_records(monkeypatch, tmp_path):
    monkeypatch.setattr(own_files, "current_settings", lambda: Settings(tuned=str(tmp_path)))
    forget_tables()
    yield
    forget_tables()


def operands(size):
    x, y = (tw.randn((size, size), f16, seed=seed, device="cuda:0") for seed in (1, 2))
    return tw.zeros((size, size), f16, device="cuda:0"), x, y


def test_a_search(own_records):
    found = search(gemm.task(*operands(512)), PLAN)
    assert found.counts == {Verdict.TIMED: 2, Verdict.PRUNED: 1}
    assert found.attempts[-1].config["BM"] == 256
    assert found.attempts[-1].usage.spilled > 512
    assert all(one.error < 1e-3 for one in found.attempts if one.verdict is Verdict.TIMED)
    assert 0 < found.seconds < 1e-3


def test_many_searches_at_once(own_records):
    def searching(size):
        return lambda: Search(gemm.task(*operands(size)), PLAN, Journal())

    searches = [(str(size), searching(size)) for size in (384, 512)]
    concluded = {one.name: one.found for one in search_all(searches, time.monotonic() + 120)}
    assert concluded.keys() == {"384", "512"}
    for one in concluded.values():
        assert one.counts == {Verdict.TIMED: 2, Verdict.PRUNED: 1}
        assert one.winner.usage.at_once >= 1
        assert one.winner.error < 1e-3


def test_the_first_launch_tunes_and_its_result_is_right(own_records):
    z, x, y = operands(300)
    gemm(z, x, y).sync()
    exact = x.numpy().astype(np.float64) @ y.numpy().astype(np.float64)
    assert np.linalg.norm(z.numpy() - exact) < 1e-3 * np.linalg.norm(exact)
    (record,) = [one for one in records_for(z.device.target) if one.kernel == gemm.name]
    assert record.config == gemm.choose(z, x, y)
    assert record.provenance.gpu.startswith("NVIDIA")
    assert record.provenance.tileiras[0].isdigit()


def test_while_a_graph_is_recorded_nothing_is_measured(own_records):
    z, x, y = operands(128)
    with tw.graph() as graph:
        graph.record(gemm(z, x, y))
    graph.launch().sync()
    assert not [one for one in records_for(z.device.target) if one.kernel == gemm.name]
    assert gemm.default == Config.of(BM=128, BN=128, BK=64, num_worker_warps=4, group=(8, 1))
