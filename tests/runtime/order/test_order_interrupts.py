"""A call that a signal interrupts has run as a whole or not at all, and everything is usable.

Each point of a program at which CPython runs handlers is tried, or some drawn from all of them:
`INTERRUPT_POINTS=0 pytest …` tries all (`make interrupts`). Behind that, signals are really sent.
"""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from interrupt_points import Interrupt, InterruptPoints
from interrupted_worlds import PROGRAMS, TOLD, World, check, sequence
from launch_bench import Bench, Bound, Planned
from runtime_doubles import writes

import tilewright as tw
from tilewright.errors import LaunchError
from tilewright.runtime.devices.context import ContextFlag, Setting
from tilewright.runtime.devices.process import ForkedLock
from tilewright.runtime.ops.chain import zip_operations

COUNT = int(os.environ.get("INTERRUPT_POINTS", "12"))
SIGNALS = int(os.environ.get("INTERRUPT_SIGNALS", "60"))

pytestmark = [
    pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers that send signals here"),
    pytest.mark.filterwarnings("ignore:operation .* was never run:RuntimeWarning"),
    # A finaliser in which a signal raises has no caller to raise to.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture
def device(fresh_cpu):
    return fresh_cpu


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_an_exception_at_a_point_of_a_program(program, device):
    world = World(device)
    for _ in range(2):  # the second is quicker, on other ways
        program(world)
        check(world)
    with InterruptPoints() as points:
        program(world)
    check(world)
    chosen = range(points.seen)
    if COUNT:
        chosen = sorted(random.Random(0).sample(chosen, min(COUNT, points.seen)))
    for at in chosen:
        points = InterruptPoints(at)
        with suppress(Interrupt), points:
            program(world)
        try:
            check(world)
        except Exception as error:
            raise AssertionError(f"interrupted at {points.where}, point {at}") from error


def _read(world):
    try:
        return world.z.numpy()[0], world.x.numpy()[0]
    except TOLD as error:
        assert "interrupted" in str(error)  # noqa: PT017
        return None


def test_a_sequence_has_run_as_a_whole_or_not_at_all(device):
    """Or its readers are told, also of those that would have been written by a later launch."""
    world, at, told = World(device), 0, 0
    while True:
        for tensor in (world.z, world.x):
            tw.fill(tensor, at).sync()
        points = InterruptPoints(at)
        with suppress(Interrupt), points:
            sequence(world)
        found = _read(world)
        whole = (at + 1, 2 * (at + 1))
        assert found in (None, (at, at), whole), points.where
        told += found is None
        check(world)
        if points.where is None:
            break
        at += 1
    assert found == whole
    assert at > 50
    assert told > 0


# --- one by one -----------------------------------------------------------------------------------


class Late:
    """A lock that a signal follows: it raises in front of the next instruction."""

    def __init__(self, lock):
        self._lock = lock
        self.is_armed = False

    def acquire(self, *args, **kwargs):
        taken = self._lock.acquire(*args, **kwargs)
        if self.is_armed:
            self.is_armed = False
            raise Interrupt
        return taken

    def __getattr__(self, name):
        return getattr(self._lock, name)

    def __enter__(self):
        return self._lock.__enter__()

    def __exit__(self, *error):
        return self._lock.__exit__(*error)


def is_free(lock):
    found = []

    def take():
        if lock.acquire(timeout=20):
            lock.release()
            found.append(lock)

    thread = threading.Thread(target=take)
    thread.start()
    thread.join()
    return bool(found)


def test_no_lock_is_taken_outside_a_with(device):
    world = World(device)
    lock, late = device.lock, Late(device.lock)
    device.lock = late
    for program in PROGRAMS:
        late.is_armed = True
        program(world)
        late.is_armed = False
        check(world)
    device.lock = lock
    assert is_free(lock)


def test_a_lock_for_forks_has_no_python_in_its_with():
    lock = ForkedLock()
    with InterruptPoints() as points, lock:
        assert not is_free_now(lock)
    assert points.seen == 0
    assert is_free(lock)


def is_free_now(lock):
    found = []
    thread = threading.Thread(target=lambda: found.append(lock.acquire(blocking=False)))
    thread.start()
    thread.join()
    return found[0]


@pytest.mark.parametrize("at", range(40))
def test_a_context_holds_as_long_as_its_with_statement(at):
    some, other = ContextFlag("some"), ContextFlag("other")
    points = InterruptPoints(at)
    with suppress(Interrupt), Setting(None, (some, "around")):
        try:
            with points, Setting("given", (some, "inside"), (other, 3)) as given:
                assert given == "given"
                assert (some.get(), other.get()) == ("inside", 3)
        except Interrupt:  # also while its traceback keeps all frames
            assert (some.get(), other.get()) == ("around", None)
            raise
        assert (some.get(), other.get()) == ("around", None)
    assert some.get() is None


def test_a_block_that_was_left_without_its_exit_is_given_up(device):
    world = World(device)
    graphs = []
    for at in range(40):
        with suppress(Interrupt):
            graph = tw.graph()
            graphs.append(graph)
            with InterruptPoints(at) as points, graph:
                pass
        if points.where is not None and "_leave" in points.where:
            with pytest.raises(tw.LaunchError, match="was given up by an exception while it was"):
                graph.launch()
            assert "abandoned" in repr(graph)
        with tw.graph() as another:
            another.record(world.bump_z())
        another.launch().sync()


class Breaking:
    """A note that breaks off so many times."""

    may_be_repeated = True

    def __init__(self, error, times):
        self.error, self.left = error, times

    def settle(self):
        self.left -= 1
        if self.left >= 0:
            raise self.error


@pytest.mark.parametrize(("error", "times", "left"), [(Interrupt(), 3, -1), (KeyError(), 9, 7)])
def test_a_note_that_was_broken_off_is_settled_again(device, error, times, left):
    """But not for ever, if it fails by itself."""
    note, other = Breaking(error, times), Breaking(None, 0)
    with device.lock:
        device.settle_deferred()
        device.deferred.extend((note, other))
        while device.deferred:
            with suppress(type(error)):
                device.settle_deferred()
    assert (note.left, other.left) == (left, -1)


def test_contexts_work_on_an_exit_stack_and_as_decorators(device):
    stream = device.new_stream()
    with ExitStack() as stack:
        stack.enter_context(tw.stream(stream))
        assert device.stream is stream
    assert device.stream is device.default

    @tw.stream(stream)
    def inside():
        return device.stream

    assert inside() is stream
    assert inside() is stream
    assert device.stream is device.default


# --- a GPU on paper -------------------------------------------------------------------------------


def launch(bench):
    bench.build(0, 1).submit()


def launch_two(bench):
    zip_operations(bench.build(0, 1), bench.build(2, 3)).submit()


@pytest.mark.parametrize("act", [launch, launch_two])
@pytest.mark.parametrize("kind", [Bound, Planned, None], ids=["bound", "plan", "once"])
def test_an_exception_at_a_point_of_a_launch(kind, act):
    """Where only the driver knows whether the launch was put, its output is not trusted."""
    for at in itertools.count():
        bench = Bench(0, kind)
        for _ in range(3):
            act(bench)
        bench.device.stream.sync()
        points = InterruptPoints(at * (1 if COUNT == 0 else 7))
        with suppress(Interrupt), points:
            act(bench)
        if points.where is None:
            break
        assert is_free(bench.device.lock)
        assert bench.device.busy is None
        for number, tensor in enumerate(bench.tensors):
            with suppress(LaunchError):
                tensor.numpy()
                continue
            bench.build_once(tensor, bench.tensors[number - 1], writes).submit()
        act(bench)
        act(bench)
        bench.device.synchronize()


# --- signals --------------------------------------------------------------------------------------

SCRIPT = """
import random, signal, sys, warnings
warnings.simplefilter("ignore")
sys.unraisablehook = lambda *_: None
import tilewright as tw
from interrupted_worlds import PROGRAMS, World, check
wanted, seed = int(sys.argv[1]), int(sys.argv[2])
draw = random.Random(seed)
def handle(number, frame):
    raise KeyboardInterrupt
signal.signal(signal.SIGALRM, handle)
device = tw.Device("cpu")
with tw.device(device):
    world, seen = World(device), 0
    for program in PROGRAMS:
        program(world)
        check(world)
    while seen < wanted:
        program = draw.choice(PROGRAMS)
        try:
            try:
                signal.setitimer(signal.ITIMER_REAL, draw.uniform(1e-5, 3e-3))
                program(world)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            seen += 1
        try:
            check(world)
        except BaseException as error:
            error.add_note(f"behind {program.__name__}, interrupt {seen}, seed {seed}")
            raise
print("usable behind", seen, "interrupts")
"""


@pytest.mark.parametrize("seed", range(2))
def test_signals_at_any_time(seed):
    paths = os.pathsep.join((str(Path(__file__).parent), str(Path(tw.__file__).parents[1])))
    ended = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", SCRIPT, str(SIGNALS // 2), str(seed)],
        env={**os.environ, "PYTHONPATH": paths, "TILEWRIGHT_CACHE": "off"},
        capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip
    assert ended.stdout == f"usable behind {SIGNALS // 2} interrupts\n", ended.stderr[-3000:]
