"""A thread may begin with any call of ours: then there is no caller whose line could be named.

`threading` and executors put frames of their own below what they run; `_thread` and `atexit` do
not. A method in C (`deque.extend`) takes the result, so that the call itself is the first frame.
"""

from __future__ import annotations

import _thread
import operator
import subprocess
import sys
import time
from collections import deque

import numpy as np
import pytest

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import B, N

AT_EXIT = """
import atexit
import tilewright as tw
z, x = (tw.zeros(16, tw.f32, device="cpu") for _ in range(2))
with tw.graph() as graph:
    graph.record(tw.copy(z, x))
atexit.register(tw.copy, x, z)
atexit.register(graph.launch)
atexit.register(tw.copy(x, z).then, print)
"""


@tw.kernel
def add(z: Mut[f32, B], x: Ref[f32, N], y: Ref[f32, N]) -> None:
    z.store(x.load_like(z) + y.load_like(z))


def negate(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    z.store(-x.load_like(z))


def first(function, *arguments):
    """The result of a call that a new thread begins with."""
    made, raised = deque(), []
    hook, sys.unraisablehook = sys.unraisablehook, lambda error: raised.append(error.exc_value)
    try:
        call = map(operator.call, [function], *([one] for one in arguments))
        _thread.start_new_thread(made.extend, (call,))
        deadline = time.monotonic() + 30
        while not made and not raised and time.monotonic() < deadline:
            time.sleep(0.001)
    finally:
        sys.unraisablehook = hook
    if raised:
        raise raised[0]
    return made.pop()


@pytest.fixture
def trio(device):
    z, x = tw.zeros(32, f32, device=device), tw.full((32,), 3.0, f32, device=device)
    return z, x, tw.ones(32, f32, device=device)


@pytest.mark.parametrize("before", range(4), ids=["cold", "plan", "seen", "bound"])
def test_a_launch(trio, before):
    z, x, y = trio
    for _ in range(before):
        add(z.partition(16), x, y).sync()
    operation = first(add, z.partition(16), x, y)
    assert "built at" in repr(operation)
    first(operation.submit)
    assert (z.numpy() == 4.0).all()


def test_where_a_launch_was_built_is_its_own_line(trio):
    z, x, y = trio
    for _ in range(3):
        add(z.partition(16), x, y).sync()

    def here():
        return add(z.partition(16), x, y)

    def there():
        return add(z.partition(16), x, y)

    for build in (here, here, there, here):
        operation = build()
        assert operation.site.code is build.__code__
        assert operation.site.line == build.__code__.co_firstlineno + 1
        operation.close()


def test_a_replay(trio):
    z, x, y = trio
    with tw.graph() as graph:
        graph.record(add(z.partition(16), x, y))
    for _ in range(3):
        replay = first(graph.launch)
        assert "built at" in repr(replay)
        first(replay.submit)
    assert (z.numpy() == 4.0).all()


@pytest.mark.parametrize(
    "combine",
    [
        pytest.param(lambda op: (op.then, lambda all_: tw.fill(all_[0].tensor, 4.0)), id="then"),
        pytest.param(lambda op: (op.map, lambda all_: all_), id="map"),
        pytest.param(lambda op: (op.inspect, lambda all_: None), id="inspect"),
        pytest.param(lambda op: (op.first,), id="first"),
        pytest.param(lambda op: (op.shared,), id="shared"),
        pytest.param(lambda op: (tw.zip, op), id="zip"),
        pytest.param(lambda op: (op.giving, 1), id="giving"),
    ],
)
def test_what_is_made_of_an_operation(trio, combine):
    z, x, y = trio
    made = first(*combine(add(z.partition(16), x, y)))
    assert "built at" in repr(made)
    first(made.sync)
    assert (z.numpy() == 4.0).all()


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda x, z: (tw.copy, z, x), id="copy"),
        pytest.param(lambda x, z: (x.clone,), id="clone"),
        pytest.param(lambda x, z: (tw.fill, z, 3.0), id="fill"),
        pytest.param(lambda x, z: (x.astype, tw.f64), id="astype"),
        pytest.param(lambda x, z: (x.numpy,), id="numpy"),
        pytest.param(lambda x, z: (x.export,), id="export"),
        pytest.param(lambda x, z: (tw.move, x), id="move"),
        pytest.param(lambda x, z: (tw.partition, x, 16), id="partition"),
    ],
)
def test_what_a_tensor_can_do(trio, make):
    z, x, _ = trio
    made = first(*make(x, z))
    if isinstance(made, tw.DeviceOp):
        assert "built at" in repr(made)
        first(made.sync)


@pytest.mark.parametrize("make", [tw.zeros, tw.ones, tw.empty, tw.from_numpy, tw.from_dlpack])
def test_new_tensors(make):
    made = first(make, np.ones(8, np.float32) if "from" in make.__name__ else (8,))
    assert made.shape == (8,)


def test_a_kernel_and_its_annotations():
    assert first(tw.kernel, negate).__name__ == "negate"


def test_the_end_of_a_process():
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", AT_EXIT], capture_output=True, text=True, check=False
    )
    assert "ValueError" not in ended.stderr
    assert ended.returncode == 0, ended.stderr
