"""Calls from finalisers and signal handlers in the middle of others.

Before every instruction of a call another one is made, by a finaliser or by a handler: it runs as a
whole, or is refused by the error that names the operation in whose middle it came. Either way the
result of the interrupted call and the state of the device are right. `REENTRY_ROUNDS=0 pytest …`
makes each nested call at each instruction.
"""

from __future__ import annotations

import os
import random
import re
import signal
from contextlib import contextmanager

import numpy as np
import pytest
from collector_points import Ended, EveryPoint
from interrupted_worlds import SIZE, World, bump, check, sequence

import tilewright as tw
from tilewright import i32

ROUNDS = int(os.environ.get("REENTRY_ROUNDS", "1"))
MIDDLE = re.compile(
    r"cpu is in the middle of (.+?), which this call has interrupted, as a finaliser or a signal"
    r" handler does, and nothing is built, submitted or read there meanwhile"
)
# Rules of blocks that record a graph, which hold for finalisers that run inside as well.
RULES = ("a graph is being recorded already", "would run now, and uses", "uses this tensor")


class Nesting(World):
    """A world with tensors, an array and a graph for nested calls alone."""

    def __init__(self, device):
        super().__init__(device)
        self.y, self.held = tw.zeros((SIZE,), i32), tw.zeros((SIZE,), i32)
        self.y_array = np.zeros(SIZE, np.int32)
        for _ in range(3):
            bump(tw.partition(self.y_array, SIZE), 0).sync()
            bump(self.y.partition(SIZE), 0).sync()
            bump(self.held.partition(SIZE), 0).sync()
        with tw.graph() as self.y_graph:
            self.y_graph.record(self.bump_y())
        self.new = self.contents = None  # a tensor in its first use
        self.left = 0  # calls until it is read
        self.open = None  # an operation that a nested call has built
        self.added = dict.fromkeys("yza", 0)  # by nested calls
        self.whole = self.refused = 0
        self.first = self.z.numpy()[0]
        self.interrupted = set()  # operations in whose middle a call came

    def bump_y(self):
        return bump(self.y.partition(SIZE), 1)


# --- nested calls: the name of what each adds one to ----------------------------------------------


def build_or_close(w):
    if w.open is None:
        w.open = bump(w.held.partition(SIZE), 1)
    else:
        w.open.close()
        w.open = None


def submit_one(w):
    w.bump_y().submit()
    return "y"


def submit_the_same(w):
    """On a tensor of the interrupted call, whose borrow may stand against it."""
    w.bump_z().submit()
    return "z"


def read_own(w):
    assert w.y.numpy().tolist() == [w.added["y"]] * SIZE


def read_the_same(w):
    values = w.z.numpy()
    assert (values == values[0]).all()


def read_the_new(w):
    """A tensor in its first use has its contents whenever it is read."""
    w.left -= 1
    if w.new is not None and w.left < 0:  # or each would be used by the first nested call
        assert set((w.new.numpy() - w.contents).tolist()) in ({0}, {1})


def wait_for_own(w):
    assert w.y.wait() is w.y


def pass_an_array(w):
    bump(tw.partition(w.y_array, SIZE), 1).sync()
    return "a"


def build_a_graph(w):
    with tw.graph() as graph:
        graph.record(w.bump_y())
    graph.launch().submit()
    return "y"


def replay_own(w):
    w.y_graph.launch().submit()
    return "y"


NESTED = (
    build_or_close, submit_one, submit_the_same, read_own, read_the_same, read_the_new,
    wait_for_own, pass_an_array, build_a_graph, replay_own,
)  # fmt: skip


ON_THE_SAME = (submit_the_same, read_the_same, read_the_new)


def nest(w, call):
    """Make a nested call, which runs as a whole or is refused."""
    try:
        added = call(w)
    except tw.BorrowError as error:
        if call not in ON_THE_SAME or "has not been run" not in str(error):
            raise
    except tw.LaunchError as error:
        found = MIDDLE.match(str(error))
        if found is not None:
            w.refused += 1
            w.interrupted.add(found[1])
        elif not any(rule in str(error) for rule in RULES):
            raise
    else:
        w.whole += 1
        if added is not None:
            w.added[added] += 1


# --- interrupted calls: their additions to z, and the operations in whose middle others come ------


def build(w):
    w.built.append(w.bump_z())
    return 0, {"bump"}


def submit(w):
    w.bump_z().submit()
    return 1, {"bump"}


def close(w):
    w.bump_z().close()
    return 0, {"bump"}


def read(w):
    before = w.added["z"]
    value = w.z.numpy()[0] - w.first
    assert before <= value <= w.added["z"]
    return 0, {"numpy()"}


def wait(w):
    assert w.z.wait() is w.z
    return 0, {"wait()"}


def pass_array(w):
    before = w.array[0]
    bump(tw.partition(w.array, SIZE), 1).sync()
    assert w.array.tolist() == [before + 1] * SIZE
    return 0, {"bump", "passing an array"}


def pass_another_array(w):
    array = np.zeros(SIZE, np.int32)
    bump(tw.partition(array, SIZE), 1).sync()
    assert array.tolist() == [1] * SIZE
    return 0, {"passing an array", "bump"}


def pass_tensor(w):
    before = w.tensor[0].item()
    bump(tw.partition(w.tensor, SIZE), 1).sync()
    assert w.tensor.tolist() == [before + 1] * SIZE
    return 0, {"bump"}


def first_use(w):
    """Of a tensor that has no bytes yet."""
    w.new, w.contents = tw.ones((SIZE,), i32), np.ones(SIZE, np.int32)
    bump(w.new.partition(SIZE), 1).sync()
    assert w.new.numpy().tolist() == [2] * SIZE
    return 0, {"bump", "numpy()"}


def first_use_of_made(w):
    """Of a tensor whose contents a kernel makes."""
    w.new, w.contents = tw.arange(SIZE, dtype=i32), np.arange(SIZE, dtype=np.int32)
    bump(w.new.partition(SIZE), 1).sync()
    assert w.new.numpy().tolist() == [*range(1, SIZE + 1)]
    return 0, {"bump", "numpy()"}


def record(w):
    with tw.graph() as graph:
        graph.record(w.bump_z())
        graph.record(bump(w.x.partition(SIZE), 1))
    graph.launch().submit()
    return 1, {"bump", "building a graph", "graph replay"}


def replay(w):
    w.graph.launch().submit()
    return 1, {"graph replay"}


def several(w):
    sequence(w)
    return 1, {"bump", "twice"}


OUTER = (
    build, submit, close, read, wait, pass_array, pass_another_array, pass_tensor, first_use,
    first_use_of_made, record, replay, several,
)  # fmt: skip


# Parts of several calls.
OTHERS = {"deferred work", "bump", "graph replay", "count", "an allocation", "first contents"}


@contextmanager
def by_finaliser(act):
    """Call a function by the finaliser of an object that nothing refers to."""
    yield lambda: Ended(act) and None


@contextmanager
def by_handler(act):
    """Call a function by the handler of a signal."""
    before = signal.signal(signal.SIGUSR1, lambda *_: act())
    try:
        yield lambda: signal.raise_signal(signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.fixture
def device(fresh_cpu):
    return fresh_cpu


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="no signal for users here")
@pytest.mark.parametrize("way", [by_finaliser, by_handler])
@pytest.mark.parametrize("outer", OUTER, ids=lambda outer: outer.__name__)
def test_a_nested_call_runs_as_a_whole_or_is_refused(outer, way, device):
    if outer is pass_tensor:
        pytest.importorskip("torch", reason="needs torch")
    w = Nesting(device)
    for _ in range(4):
        outer(w)
        while w.built:
            w.built.pop().close()
    draw = random.Random(outer.__name__)
    for number in range(ROUNDS or len(NESTED)):
        w.first, w.added["z"], w.left = w.z.numpy()[0], 0, draw.randrange(200)
        calls, failed = [*NESTED[number:], *NESTED[:number]], []

        def act(calls=calls, failed=failed):
            calls.append(calls.pop(0))
            try:
                nest(w, calls[-1])
            except BaseException as error:  # noqa: BLE001 (the outer call might catch it)
                failed.append(error)

        with way(act) as come, EveryPoint(come) as points:
            added, labels = outer(w)
        assert points.seen > 50
        assert not failed, (points.where, failed[0])
        assert labels <= w.interrupted <= labels | OTHERS
        settle(w, added)
    assert w.whole > 0
    assert w.refused > 0


def settle(w, added):
    """Everything adds up, and everything is usable."""
    assert w.device.busy is None
    while w.built:
        w.built.pop().close()
    assert w.z.numpy().tolist() == [w.first + added + w.added["z"]] * SIZE
    assert w.y.numpy().tolist() == [w.added["y"]] * SIZE
    assert w.y_array.tolist() == [w.added["a"]] * SIZE
    if w.open is not None:
        build_or_close(w)
    for tensor in (w.z, w.x, w.y, w.held):
        assert tensor.storage.timeline.borrows() == ()
    check(w)
