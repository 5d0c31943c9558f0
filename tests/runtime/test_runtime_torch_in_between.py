"""Torch tensors that are passed, and what finalisers and signal handlers do with them meanwhile."""

from __future__ import annotations

import itertools

import pytest
from collector_points import Points
from torch_doubles import SIZE

import tilewright as tw
from tilewright.errors import BorrowError, LaunchError
from tilewright.runtime.interop.passed_arrays import PASSED
from tilewright.runtime.order.alone import alone

torch = pytest.importorskip("torch", reason="needs torch")


def at_every_point(run, step=1):
    """Run something with an interruption at each of its points, of which some are let in."""
    let_in = 0
    for at in itertools.count(0, step):
        points, done = run(at)
        let_in += bool(done)
        if points.where is None:
            break
    assert at > 10
    assert let_in > 0


def attempt(act):
    """What is done in between; whether it was let, and what came of it."""
    done = []

    def once():
        try:
            done.append(act())
        except (BorrowError, LaunchError):
            return

    return once, done


def known(cuda, array):
    """The fences that somebody who writes an array has to wait for."""
    handle = PASSED[id(array)][0]
    with cuda.lock:
        return alone(cuda, handle.storage.fences, handle.region, writes=True)


@pytest.mark.parametrize("of_signals", [False, True])
def test_memory_that_is_passed_twice_at_once_is_at_home_where_all_uses_are(lib, cuda, of_signals):
    elsewhere = cuda.new_stream()
    _, x, y = lib.trio()
    kept = []

    def run(at):
        lib.finish()
        cuda.synchronize()
        array = torch.zeros(SIZE)
        same = array.view(SIZE)
        act, done = attempt(lambda: lib.launch(same, x, y).submit(elsewhere))
        with Points(at, act, of_signals=of_signals) as points:
            kept.append((array, tw.partition(array, SIZE)))
        home = PASSED[id(array)][0].storage.home
        fences = known(cuda, array)
        assert not done or any(fence.stream is elsewhere for fence in fences), points.where
        assert home is None or all(fence.stream is home for fence in fences), points.where
        return points, done

    at_every_point(run)


def test_a_handler_launches_on_a_part_while_the_whole_is_passed(lib, cuda):
    elsewhere = cuda.new_stream()
    _, x, y = lib.trio()
    kept = []

    def run(at):
        lib.finish()
        cuda.synchronize()
        whole = torch.zeros(2 * SIZE)
        parts = whole[:SIZE], whole[SIZE:]
        for part in parts:
            lib.launch(part, x, y).submit()
        lib.finish()
        cuda.synchronize()
        act, done = attempt(lambda: lib.launch(parts[1], x, y).submit(elsewhere))
        with Points(at, act, of_signals=True) as points:
            kept.append((whole, *parts, tw.partition(whole, SIZE)))
        if done:
            end = done[0].fence
            fences = known(cuda, whole)
            assert any(one.stream is end.stream and one.count >= end.count for one in fences), (
                points.where
            )
        return points, done

    at_every_point(run)


def test_a_handler_passes_the_whole_while_a_part_is_launched_on(lib, cuda):
    elsewhere, third = cuda.new_stream(), cuda.new_stream()
    _, x, y = lib.trio()
    kept = []

    def run(at):
        lib.finish()
        cuda.synchronize()
        lib.driver.patient = True
        whole = torch.zeros(2 * SIZE)
        parts = whole[:SIZE], whole[SIZE:]
        for part in parts:
            lib.launch(part, x, y).submit(elsewhere)
        act, done = attempt(lambda: kept.append(tw.partition(whole, SIZE)))
        with Points(at, act, of_signals=True) as points:
            end = lib.launch(parts[1], x, y).submit(third).fence
        kept.append((whole, *parts))
        assert any(fence.stream is elsewhere for fence in known(cuda, parts[0])), points.where
        fences = known(cuda, parts[1])
        assert any(one.stream is third and one.count >= end.count for one in fences), points.where
        lib.driver.patient = False
        return points, done

    at_every_point(run, step=5)
