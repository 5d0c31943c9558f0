"""`with tw.race_check():` around real launches: safe kernels are quiet, and only launches inside
are watched.
"""

import threading
from typing import Any

import numpy as np
import pytest
from race_programs import permute_heads

import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.backends.cpu.device import CpuFunction
from tilewright.cli.tour import TOUR, ComparedResult, Runs
from tilewright.dims import B, M, N
from tilewright.errors import LaunchError, UndefinedBehaviourError
from tilewright.runtime.devices.context import is_watching, require_watchable
from tilewright.runtime.ops.launch import make_operation
from tilewright.runtime.order.access import Access, Mode

RUNS = [step for chapter in TOUR for step in chapter.steps if isinstance(step, Runs)]


@pytest.fixture(autouse=True)
def _on_the_cpu():
    with tw.device("cpu"):
        yield


@pytest.mark.parametrize("step", RUNS, ids=lambda step: step.what)
def test_the_kernels_of_the_tour_are_clean(step):
    with tw.race_check():
        outcome = step.take()
    assert isinstance(outcome, ComparedResult)
    assert outcome.is_right, outcome


@tw.kernel
def twice(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    """Reads its own piece after writing it, and writes it again."""
    z.store(x.load_like(z))
    z.store(z.load() + z.load())


@tw.kernel
def halves(z: Mut[f32, B, M], x: Ref[f32, N, N]) -> None:
    """Goes through its piece part by part, in a loop, twice."""
    i, j = z.index
    parts = z.partition(1, M)
    for _ in range(2):
        for row in range(parts.num_tiles(0)):
            parts.store(parts[row, 0] + x.partition(1, M)[i * B + row, j], row, 0)


def test_a_block_that_reads_what_it_wrote():
    x = tw.from_numpy(np.arange(100, dtype=np.float32))
    z = tw.zeros((100,), f32)
    with tw.race_check():
        twice(z.partition(16), x).sync()
    np.testing.assert_array_equal(z.numpy(), 2 * np.arange(100))


def test_a_block_that_walks_its_piece():
    data = np.random.default_rng(0).standard_normal((16, 16)).astype(np.float32)
    x, z = tw.from_numpy(data), tw.zeros((16, 16), f32)
    with tw.race_check():
        halves(z.partition(4, 8), x).sync()
    np.testing.assert_array_equal(z.numpy(), 2 * data)


class Work:
    """Launches a kernel that was built by hand."""

    def __init__(self, function: CpuFunction, z: Any, x: Any) -> None:
        self.function, self.z, self.x = function, z, x

    def enqueue(self, stream: Any) -> None:
        arguments: list[int] = []
        for tensor in (self.z, self.x):
            arguments += [tensor.address, *tensor.shape, *tensor.strides]
        memories = (self.z.storage, self.x.storage)
        self.function.launch(stream, 8, tuple(arguments), memories)


def racing() -> tw.DeviceOp[Any]:
    x, z = tw.ones((8, 1, 4, 8), f32), tw.zeros((8, 1, 4, 8), f32)
    function = CpuFunction(permute_heads(lambda b, h, m: (h, h, m)))
    accesses = (Access(z, Mode.WRITE, "z"), Access(x, Mode.READ, "x"))
    return make_operation("permute_heads", z.device, accesses, Work(function, z, x), z)


def test_a_race_is_raised_by_who_waits():
    racing().sync()  # nobody watches
    with tw.race_check():
        operation = racing()
        operation.submit()
    with pytest.raises(UndefinedBehaviourError) as caught:
        operation.sync()
    text = str(caught.value)
    assert "block (0, 0, 0) writes element (0, 0, 0, 0) of `z`" in text
    assert "block (1, 0, 0) writes it too" in text
    assert text.count("racy.py:42:1") == 2


def test_what_is_submitted_inside_is_watched():
    built = racing()
    with tw.race_check():
        built.submit()
    with pytest.raises(UndefinedBehaviourError, match="race in kernel"):
        built.sync()
    with tw.race_check():
        later = racing()
    later.sync()


def test_contexts_nest_and_end():
    assert not is_watching()
    with tw.race_check():
        assert is_watching()
        with tw.race_check(False):
            assert not is_watching()
            racing().sync()
        assert is_watching()
    assert not is_watching()
    with pytest.raises(ZeroDivisionError), tw.race_check():
        raise ZeroDivisionError
    assert not is_watching()


def test_other_threads_have_a_context_of_their_own():
    seen = []
    with tw.race_check():
        thread = threading.Thread(target=lambda: seen.append(is_watching()))
        thread.start()
        thread.join()
    assert seen == [False]


def test_a_device_that_cannot_watch_refuses():
    require_watchable("cuda", "add")
    with tw.race_check():
        require_watchable("cpu", "add")
        with pytest.raises(LaunchError, match="race_check watches launches on the CPU"):
            require_watchable("cuda", "add")
