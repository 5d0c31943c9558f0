"""Many compilations at once: side by side, each once, and a failure costs nothing but itself.

Everything is compiled for GPUs with tensors that have no memory; tileiras is a double.
"""

import re
import threading
import time
from concurrent.futures import Future
from functools import partial

import pytest
from background_work import finish_background_work

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.backends.cuda import program as assembler
from tilewright.dims import B, N
from tilewright.errors import ToolchainError
from tilewright.jit.cache import memory as cache
from tilewright.jit.compile.compile_all import each_finished


@tw.kernel
def shift(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    z.store(x.load_like(z) + 1)


@tw.kernel
def refused(z: Mut[f32, B]) -> None:
    z.store(tw.zeros((B,), f32) + missing)  # noqa: F821 (that is what is wrong with it)


def call(tile: int, target: str = "sm_90", n: int = 1024) -> tw.DeviceOp:
    z, x = (tw.meta((n,), f32, target=target) for _ in range(2))
    return shift(z.partition(tile), x)


class Assembler:
    """Stands for tileiras, and can wait until several have been started."""

    def __init__(self) -> None:
        self.runs: list[tuple[str, str]] = []
        self.together = threading.Barrier(1)

    def __call__(self, module, target, opt_level) -> bytes:
        self.runs.append((module.functions[0].name, target))
        self.together.wait(timeout=30)
        if target == "sm_80":
            raise ToolchainError("tileiras was killed")
        return b"cubin"


@pytest.fixture
def tileiras(monkeypatch):
    double = Assembler()
    finish_background_work()
    monkeypatch.setattr(cache, "usable_cores", lambda: 4)
    monkeypatch.setattr(assembler, "assemble", double)
    monkeypatch.setattr(shift, "_executables", cache.SingleFlight())
    yield double
    finish_background_work()


def test_assemblers_run_side_by_side(tileiras):
    tileiras.together = threading.Barrier(4)  # breaks unless four are under way at once
    tw.compile_all([partial(call, tile) for tile in (32, 64, 128, 256)])
    assert tileiras.runs == [("shift", "sm_90")] * 4
    call(64).compile().close()
    assert len(tileiras.runs) == 4, "what was compiled is used"


def test_what_is_the_same_is_compiled_once(tileiras):
    tw.compile_all([partial(call, 64, n=n) for n in (1024, 2048, 4096)])
    assert len(tileiras.runs) == 1


def test_everybody_is_told_how_far_it_is(tileiras):
    told: list[tw.CompileProgress] = []
    calls = {
        f"{target} {tile}": partial(call, tile, target)
        for target in ("sm_90", "sm_100")
        for tile in (32, 64)
    }
    tw.compile_all(calls, report=told.append)
    assert [(one.done, one.total) for one in told] == [(n, 4) for n in (1, 2, 3, 4)]
    assert {one.latest.name for one in told} == set(calls)
    assert all(one.latest.error is None and one.latest.seconds >= 0 for one in told)


def test_each_failure_is_named_and_costs_no_other(tileiras):
    def no_operation() -> int:
        return 3

    calls = {
        "good": partial(call, 32),
        "refused": lambda: refused(tw.meta((64,), f32, target="sm_90").partition(32)),
        "wrong": lambda: call(0),
        "killed": partial(call, 64, "sm_80"),
        "none": no_operation,
        "good, too": partial(call, 128),
    }
    with pytest.raises(tw.CompileErrors) as caught:
        tw.compile_all(calls)
    group = caught.value
    assert isinstance(group, tw.TilewrightError)
    assert str(group).startswith("4 of 6 could not be compiled: refused, wrong, killed, none")
    kinds = {error.__notes__[-1]: type(error) for error in group.exceptions}
    assert kinds == {
        "while compiling refused": tw.CompileError,
        "while compiling wrong": tw.LaunchError,
        "while compiling killed": tw.ToolchainError,
        "while compiling none": tw.LaunchError,
    }
    assert group.subgroup(tw.ToolchainError).exceptions[0].args == ("tileiras was killed",)
    assert ("shift", "sm_90") in tileiras.runs
    call(32).compile().close()
    call(128).compile().close()
    again = call(64, "sm_80")  # somebody has been told, so it is tried again
    with pytest.raises(tw.ToolchainError):
        again.compile()
    again.close()


def test_operations_that_are_there_stay_as_they_are(tileiras):
    operation = call(64)
    tw.compile_all([operation])
    assert operation.state.value == "built"
    operation.close()
    with pytest.raises(tw.CompileErrors, match=re.escape("could not be compiled: shift at ")):
        tw.compile_all([failing := call(64, "sm_80")])
    failing.close()


def test_calls_may_share_their_tensors(tileiras):
    z, x = (tw.meta((1024,), f32, target="sm_90") for _ in range(2))
    tw.compile_all([lambda: shift(z.partition(32), x), lambda: shift(z.partition(64), x)])
    assert len(tileiras.runs) == 2


def test_chains_and_zips_are_compiled_by_their_parts(tileiras):
    tw.compile_all([lambda: tw.zip(call(32), call(64)), lambda: call(128).map(len)])
    assert len(tileiras.runs) == 3


def test_nothing_to_do_and_the_cpu(tileiras):
    tw.compile_all([])
    z, x = (tw.zeros((64,), f32, device="cpu") for _ in range(2))
    tw.compile_all([lambda: shift(z.partition(32), x), lambda: tw.fill(z, 1)])
    assert tileiras.runs == []
    assert (z.numpy() == 0).all()


def begun(futures, order, name):
    order.append(name)
    return (futures[name],)


def test_only_so_many_are_under_way_and_finished_ones_are_told_between():
    futures = {name: Future() for name in "abcd"}
    order: list[str] = []
    each = each_finished(((n, partial(begun, futures, order, n)) for n in futures), at_once=2)
    futures["b"].set_result(None)
    assert next(each).name == "b"
    assert order == ["a", "b"]
    futures["a"].set_exception(ToolchainError("killed"))
    finished = next(each)
    assert (finished.name, str(finished.error)) == ("a", "killed")
    futures["c"].set_result(None)
    futures["d"].set_result(None)
    assert sorted(one.name for one in each) == ["c", "d"]


@pytest.mark.parametrize("at_once", [None, 1])
def test_when_the_time_is_up_nothing_more_is_waited_for_or_begun(at_once):
    order: list[str] = []
    futures = {name: Future() for name in "ab"}
    starts = [(name, partial(begun, futures, order, name)) for name in futures]
    assert list(each_finished(starts, at_once=at_once, until=time.monotonic() + 0.1)) == []
    assert order == (["a", "b"] if at_once is None else ["a"])
    assert list(each_finished(starts, until=time.monotonic() - 1)) == []
