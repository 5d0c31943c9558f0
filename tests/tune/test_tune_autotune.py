"""`@tw.autotune`: one search for each key, on copies, and none where nothing can be measured."""

import logging
import math
import pickle
import threading
from dataclasses import replace

import numpy as np
import pytest

import tilewright as tw
from tilewright import Const, LaunchError, Mapped, Mut, Ref, ReportForm, TuneError, f16, f32, i32
from tilewright.bench import Effort
from tilewright.dims import BM, BN, B, K, M, N
from tilewright.settings import Settings
from tilewright.tune import Config, Space, chosen, key_of, own_files
from tilewright.tune import autotune as module
from tilewright.tune.attempts import Verdict
from tilewright.tune.engine import tune
from tilewright.tune.plans import SearchPlan
from tilewright.tune.records import forget_tables, records_for

PLAN = SearchPlan(
    hopeless=math.inf,  # by a real clock, on a machine that does other things as well
    first=Effort(repetitions=1, warmup=0.0, rounds=1),
    last=Effort(repetitions=1, warmup=0.0, rounds=1),
)


def product(z, x, y, ADD=0):
    return x.numpy().astype(np.float64) @ y.numpy() + ADD


@tw.autotune(
    Space(BM=(8, 16), BN=(8,), BK=(4, 8), group=((2, 1),)), key=("M", "N", "K"), reference=product
)
@tw.kernel
def gemm(
    z: Mapped[f32, BM, BN],
    x: Ref[f32, M, K],
    y: Ref[f32, K, N],
    *,
    BK: Const[int],
    ADD: Const[int] = 0,
) -> None:
    """A product, and something on top."""
    xs, ys = x.partition(BM, BK), y.partition(BK, BN)
    for at in z.indices():
        i, j = at
        acc = tw.zeros((BM, BN), f32)
        for k in range(xs.num_tiles(1)):
            acc = tw.mma(xs[i, k], ys[k, j], acc)
        z.store(acc + float(ADD), at)


@tw.autotune(Space(B=(4, 8)))
@tw.kernel
def raised(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    z.store(z.load() + x.load_like(z))


class Tuning:
    """The engine with a small plan, and what it was asked to do."""

    def __init__(self):
        self.tasks = []
        self.found = []

    def tune(self, task, *, tool):
        self.tasks.append(task)
        record, found = tune(task, PLAN, tool=tool)
        self.found.append(found)
        return record, found


@pytest.fixture
def tuning(monkeypatch, tmp_path):
    """As on a GPU: candidates can be measured; records go into a folder of the test's own."""
    engine = Tuning()
    monkeypatch.setattr(module, "load_engine", lambda: engine)
    monkeypatch.setattr(module, "_can_measure", lambda device: device.kind == "cpu")
    monkeypatch.setattr(own_files, "current_settings", lambda: Settings(tuned=str(tmp_path)))
    forget_tables()
    for kernel in (gemm, raised):
        kernel._known.clear()
        monkeypatch.setattr(kernel, "_tuning", type(kernel._tuning)())
    yield engine
    forget_tables()


def operands(m=20, n=12, k=9):
    random = np.random.default_rng(7)
    x = tw.from_numpy(random.random((m, k), np.float32), device="cpu")
    y = tw.from_numpy(random.random((k, n), np.float32), device="cpu")
    return tw.zeros((m, n), f32, device="cpu"), x, y


def test_the_first_launch_with_a_key_tunes_and_the_next_ones_do_not(tuning):
    z, x, y = operands()
    gemm(z, x, y).sync()
    np.testing.assert_allclose(z.numpy(), x.numpy() @ y.numpy(), rtol=1e-5)
    (task,) = tuning.tasks
    assert task.key == key_of((f32, f32, f32), (20, 12, 9))
    assert set(task.configs) == set(gemm.space)
    assert tuning.found[0].counts == {Verdict.TIMED: 4}
    assert gemm.choose(*operands()) == tuning.found[0].winner.config
    gemm(*operands()).sync()
    assert len(tuning.tasks) == 1
    gemm(*operands(m=21)).sync()
    assert len(tuning.tasks) == 2
    gemm.choose(*operands(), ADD=1)
    assert tuning.tasks[2].key == key_of((f32, f32, f32), (20, 12, 9), ADD=1)


def test_the_next_process_uses_the_record_unless_the_kernel_has_changed(tuning, monkeypatch):
    config = gemm.choose(*operands())
    forget_tables()
    gemm._known.clear()
    monkeypatch.setattr(gemm, "_tuning", type(gemm._tuning)())
    assert gemm.choose(*operands()) == config
    assert len(tuning.tasks) == 1
    (record,) = records_for("cpu")
    assert record.kernel == "test_tune_autotune.gemm"
    assert record.provenance.source == gemm.source
    gemm._known.clear()
    monkeypatch.setattr(gemm, "_tuning", type(gemm._tuning)())
    monkeypatch.setattr(gemm, "source", "another digest")
    gemm.choose(*operands())
    assert len(tuning.tasks) == 2


@tw.kernel
def picked(z: Mut[f32, B], x: Ref[f32, N], places: Ref[i32, M]) -> None:
    at = places.partition(1)[z.index[0]].item()
    z.store(x.partition(B)[at])


def test_how_a_check_that_is_left_reports_is_an_axis_like_any_other(tuning):
    forms = (ReportForm.AT_END, ReportForm.AUDIT, ReportForm.IN_PLACE)
    tuned = tw.autotune(Space(B=(4,), report=forms))(picked)
    x, places = tw.ones((8,), f32, device="cpu"), tw.zeros((2,), i32, device="cpu")
    config = tuned.choose(tw.zeros((8,), f32, device="cpu"), x, places)
    assert config["report"] in forms
    assert tuning.found[0].counts == {Verdict.TIMED: 3}
    assert config.applied_to(picked).options.report is config["report"]


def test_threads_that_come_with_one_key_wait_for_one_search(tuning):
    found, start = [], threading.Barrier(4)

    def choose():
        start.wait()
        found.append(gemm.choose(*operands()))

    threads = [threading.Thread(target=choose) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(tuning.tasks) == 1
    assert len(set(found)) == 1


def test_tuning_leaves_the_callers_tensors_as_they_are(tuning):
    x = tw.ones((10,), f32, device="cpu")
    z = tw.ones((10,), f32, device="cpu")
    config = raised.choose(z, x)
    np.testing.assert_array_equal(z.numpy(), np.ones(10))
    assert tuning.found[0].counts == {Verdict.TIMED: 2}, "each began with the same contents"
    raised(z, x).sync()
    np.testing.assert_array_equal(z.numpy(), np.full(10, 2.0))
    assert config in raised.space


def test_without_a_reference_what_the_default_computes_is_right(tuning):
    tasks = raised.task(tw.ones((10,), f32, device="cpu"), tw.ones((10,), f32, device="cpu"))
    wrong = replace(tasks, error=lambda result: tasks.error(result) + 1.0)
    with pytest.raises(TuneError, match=r"2 wrong: relative error 1, and 0\.0001 is allowed"):
        tune(wrong, PLAN, tool="a test")


def test_a_reference_that_says_otherwise_leaves_nothing(tuning, monkeypatch):
    monkeypatch.setattr(gemm, "_reference", lambda z, x, y: product(z, x, y) + 1)
    with pytest.raises(TuneError, match="4 wrong"):
        gemm(*operands())
    monkeypatch.setattr(gemm, "_reference", lambda z, x, y: (product(z, x, y),) * 2)
    with pytest.raises(TuneError, match="gives 2 arrays for 1 outputs: z"):
        gemm(*operands())
    monkeypatch.setattr(gemm, "_reference", product)
    gemm(*operands()).sync()


def test_on_the_cpu_the_default_runs_and_that_is_said_once(caplog):
    tuned = tw.autotune(Space(B=(8, 4)))(raised.kernel)
    z, x = tw.zeros((10,), f32, device="cpu"), tw.ones((10,), f32, device="cpu")
    with caplog.at_level(logging.WARNING, "tilewright"):
        tuned(z, x).sync()
        tuned(z, x).sync()
    assert [line.message for line in caplog.records] == [
        "tilewright: raised is not tuned on the CPU; it runs with B=8"
    ]
    np.testing.assert_array_equal(z.numpy(), np.full(10, 2.0))
    assert tw.autotune(Space(B=(8, 4)), default=Config.of(B=4))(raised.kernel).default["B"] == 4


def test_where_nothing_can_be_measured_the_nearest_record_serves(tuning, monkeypatch):
    config = gemm.choose(*operands())
    monkeypatch.setattr(module, "_can_measure", lambda device: False)
    assert gemm.choose(*operands(m=64)) == config == chosen(gemm.name, tuning.tasks[0].key, "cpu")
    assert len(tuning.tasks) == 1


def test_what_can_be_measured():
    device = tw.Device("cpu")
    assert not module._can_measure(device), "the CPU is not worth tuning for"
    assert not module._can_measure(tw.meta((1,), f32, target="sm_90").device)
    x = tw.ones((10,), f32, device="cpu")
    z = tw.zeros((10,), f32, device="cpu")
    with tw.graph() as graph:
        graph.record(raised(z, x))
    graph.launch().sync()
    tw.value(x, device=device).then(lambda x: raised(z, x)).sync()
    np.testing.assert_array_equal(z.numpy(), np.full(10, 2.0))


def test_a_key_of_the_authors_own(tuning):
    space = Space(B=(4, 8))
    tuned = tw.autotune(Space(B=(4, 8)), key=lambda z, x: key_of(f32, (x.size // 8,)))(
        raised.kernel
    )
    tensors = [tw.zeros((10,), f32, device="cpu") for _ in range(2)]
    tuned(*tensors).sync()
    tuned(*(tw.zeros((11,), f32, device="cpu") for _ in range(2))).sync()
    assert [task.key for task in tuning.tasks] == [key_of(f32, (1,))]
    tuned = tw.autotune(space, key=lambda z, x: 3)(raised.kernel)
    with pytest.raises(TuneError) as refusal:
        tuned(*tensors)
    assert str(refusal.value) == (
        "key= of kernel `raised` gives 3, and a key is made by `tilewright.tune.key_of(dtypes, "
        "shape, …)`"
    )


def test_it_is_pickled_by_name_and_says_what_it_is():
    assert pickle.loads(pickle.dumps(gemm)) is gemm
    assert repr(gemm) == "<autotuned kernel gemm, 4 configurations>"
    assert gemm.__doc__ == "A product, and something on top."


@pytest.mark.parametrize(
    ("decorate", "message"),
    [
        (
            lambda: tw.autotune(Space(B=(1,)), key=("Q",))(raised.kernel),
            "key= of kernel `raised` names `Q`, which is no dim of a tensor that it reads; there "
            "are: N",
        ),
        (
            lambda: tw.autotune(Space(C=(1,)))(raised.kernel),
            "`z` of kernel `raised` is cut by `B`, and the space has no such axis: add `B=(…)`",
        ),
        (
            lambda: tw.autotune((1, 2)),
            "@tw.autotune takes a tilewright.tune.Space, not (1, 2)",
        ),
        (
            lambda: tw.autotune(Space(B=(1,)))(raised),
            "@tw.autotune stands above @tw.kernel, and <autotuned kernel raised, 2 configurations>"
            " is no kernel",
        ),
    ],
)
def test_decorations_that_are_refused(decorate, message):
    with pytest.raises(TuneError) as refusal:
        decorate()
    assert str(refusal.value) == message


def test_a_kernel_with_nothing_to_cut_is_refused():
    from tilewright import Accum

    @tw.kernel
    def counted(z: Accum[i32, N]) -> None:
        z.add(tw.ones((4,), i32), 0)

    with pytest.raises(TuneError) as refusal:
        tw.autotune(Space(B=(1,)))(counted)
    assert str(refusal.value) == (
        "kernel `counted` has no output that is cut into pieces, so no configuration says how many "
        "blocks run: give it a Mut or a Mapped"
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda z, x, y: gemm(z, x, y, BK=4),
            "`BK` of kernel `gemm` is chosen by the tuner: leave it out, or launch the kernel "
            "itself, `gemm.kernel(…)`",
        ),
        (lambda z, x, y: gemm(z, x, y, z), "gemm(z, x, y, BK, ADD): too many positional arguments"),
        (
            lambda z, x, y: gemm(z.partition(8, 8), x, y),
            "`z` of kernel `gemm` is given as HostPartition: an autotuned kernel takes whole "
            "tensors and cuts them itself",
        ),
        (
            lambda z, x, y: gemm(z, x),
            "`y` of kernel `gemm` is missing: an autotuned kernel takes whole tensors and cuts "
            "them itself",
        ),
        (
            lambda z, x, y: gemm(z, tw.value(x), y),
            "`x` of kernel `gemm` is an operation that has not run, and an autotuned kernel looks "
            "at shapes: launch it from a step, `op.then(lambda x: …)`",
        ),
    ],
)
def test_calls_that_are_refused(call, message):
    with pytest.raises(LaunchError) as refusal:
        call(*operands())
    assert str(refusal.value) == message


def test_limits_follow_the_outputs():
    assert module.usual_limit([f32, f16]) == 1e-2
    assert module.usual_limit([i32]) == 0
