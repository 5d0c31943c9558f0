"""A finaliser launches at the home of a tensor while that is looked at, or taken away.

What the launch has left must be known behind it, on the stream that it ran on, wherever in our own
code the collector ran. The launches are of new tensors, on a GPU on paper.
"""

from __future__ import annotations

import sys

import pytest
from collector_points import Points
from ready_bench import Bench, Launch, Newcomers, Ready
from runtime_doubles import reads, updates

from tilewright import runtime as tw
from tilewright.dtypes import f32
from tilewright.errors import BorrowError
from tilewright.runtime.interop.export import _Returned
from tilewright.runtime.ops.call_site import Site
from tilewright.runtime.ops.newcomers import NewcomerOp
from tilewright.runtime.order.access import Mode
from tilewright.runtime.order.alone import alone
from tilewright.runtime.order.tickets import Role, Ticket


def launch(bench, z, x, stream):
    work = Newcomers(bench.device, bench.function, None)
    NewcomerOp().build(work, (z, x), None, depth=1).submit(stream)


def elsewhere(bench, z, x, stream):
    accesses, work = (updates(z), reads(x)), Launch(bench.function, (z, x))
    tw.WorkOp("mix", bench.device, accesses, work, None).submit(stream)


class Scene:
    """A tensor at home on the first of three streams, where it was launched just now."""

    def __init__(self, *, writes):
        self.bench = Bench(0, Newcomers)
        self.z, self.x, other, self.out = self.bench.tensors
        self.home, self.second, _ = self.bench.streams
        self.writes = writes
        self.other = other
        self.bench.device.synchronize()
        self.launch()

    def launch(self):
        pair = (self.z, self.x) if self.writes else (self.out, self.z)
        launch(self.bench, *pair, self.home)

    def at_point(self, at, act, step):
        """Run a step of ours, in the middle of which something else happens."""

        def once():
            sys.settrace(None)
            act()

        with Points(at, once) as points:
            step(self)
        return points

    def known(self):
        """The streams and counts that whoever comes next is told of."""
        storage = self.z.storage
        with self.bench.device.lock:
            alone(self.bench.device, storage.catch_up)
            uses = storage._writes if self.writes else (*storage._reads, *storage._writes)
            return [(use.fence.stream, use.fence.count) for use in uses]


def an_export_ends(mode):
    def step(scene):
        ticket = Ticket("an export", Site(step.__code__, 0), (Role(mode, ""),), (scene.z,))
        with scene.bench.device.lock:
            _Returned(ticket, (scene.second,)).settle()

    return step


def another_reads(scene):
    elsewhere(scene.bench, scene.other, scene.z, scene.second)


STEPS = {
    "an export ends": (an_export_ends(Mode.UPDATE), True),
    "an export that was read ends, behind a reader": (an_export_ends(Mode.READ), False),
    "an export that was read ends, behind a writer": (an_export_ends(Mode.READ), True),
    "another reads it elsewhere": (another_reads, False),
}


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("is_over", [False, True])
def test_a_launch_while_the_home_is_taken_away_is_known(name, is_over):
    step, writes = STEPS[name]

    def run(at):
        scene = Scene(writes=writes)
        if is_over:
            scene.bench.device.synchronize()
        counts = []

        def act():
            try:
                scene.launch()
            except BorrowError:
                return
            counts.append(scene.home.issued)

        points = scene.at_point(at, act, step)
        for count in counts:
            known = scene.known()
            assert any(stream is scene.home and last >= count for stream, last in known), (
                f"at point {at}, {points.where}"
            )
        return points, bool(counts)

    points, _ = run(None)
    assert sum(run(at)[1] for at in range(points.seen)) > 5


@pytest.mark.parametrize("has_equal_counts", [True, False])
def test_a_launch_at_another_home_is_not_taken_for_one_at_the_first(has_equal_counts):
    """Counts are a stream's own: an equal one says nothing on another."""

    def run(at):
        scene = Scene(writes=True)
        bench, second = scene.bench, scene.second
        beside = tw.full(8, 1, f32, device=bench.device)
        with bench.device.lock:
            alone(bench.device, beside.storage.materialise, second)
        bench.device.synchronize()
        while has_equal_counts and scene.home.issued < 40:
            scene.home.advance()
        scene.launch()
        counts = []

        def act():
            elsewhere(bench, scene.z, beside, second)
            while has_equal_counts and second.issued < scene.home.issued - 1:
                second.advance()
            launch(bench, scene.z, beside, second)
            counts.append(second.issued)

        points = scene.at_point(at, act, lambda scene: scene.z._writers())
        for count in counts:
            known = scene.known()
            assert any(stream is second and last >= count for stream, last in known), (
                f"at point {at}, {points.where}"
            )
            assert all(last <= stream.issued for stream, last in known)
        return points

    for at in range(run(None).seen):
        run(at)


@pytest.mark.filterwarnings("ignore:operation mix, built at:RuntimeWarning")
def test_a_signal_behind_the_first_bytes_leaves_no_count_that_never_comes(monkeypatch):
    scene = Scene(writes=True)
    bench, z = scene.bench, tw.empty(8, f32, device=scene.bench.device)

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(NewcomerOp, "launch_at", interrupted)
        with pytest.raises(KeyboardInterrupt):
            launch(bench, z, scene.x, scene.home)
    assert not z.storage.is_fresh
    elsewhere(bench, z, scene.other, scene.second)
    bench.device.synchronize()


def test_a_launch_at_the_old_home_while_it_gets_another_is_none_that_settles():
    """The next one like it looks again: its fence stands nowhere any more."""

    def run(at):
        made = Bench(0, Ready)
        z, _, other, _ = made.tensors
        home, second, _ = made.streams
        for _ in range(4):
            made.build(3, 0).submit(home)
        made.device.synchronize()
        launched = []

        def launch():
            sys.settrace(None)
            try:
                made.build(3, 0).submit(home)
            except BorrowError:  # of what is being built
                return
            launched.append(home.wait(home.issued))  # so that it is known to be over

        roles = (updates(other), reads(z))
        with Points(at, launch) as points:
            tw.WorkOp("mix", made.device, roles, Launch(made.function, (other, z)), None).submit(
                second
            )
        if launched:
            made.build(3, 0).submit(home)
            with made.device.lock:
                alone(made.device, z.storage.catch_up)
                fences = [use.fence for use in z.storage._reads]
            assert any((one.stream, one.count) == (home, home.issued) for one in fences), (
                points.where
            )
        return points.seen, bool(launched)

    count, _ = run(None)
    assert sum(run(at)[1] for at in range(count)) > count // 4, "or nothing was tried"


@pytest.mark.parametrize("is_over", [True, False])
def test_what_was_read_elsewhere_once_gets_a_home_if_nobody_asks_for_that(is_over):
    """Where the first stream has nothing to do any more: it is asked now and then."""
    made = Bench(0, None)
    z, x, other, _ = made.tensors
    home, second, _ = made.streams
    made.device.synchronize()
    hold = None if is_over else home.hold()
    elsewhere(made, other, x, home)
    while is_over and made.driver.step(home.queue.handle):
        pass
    for _ in range(40):
        elsewhere(made, z, x, second)
    assert (x.storage.home is second) == is_over
    if hold is not None:
        assert home.queue.known < home.issued
        hold.release()
