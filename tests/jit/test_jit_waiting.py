"""Waits that would never end, interrupts of a thread that compiles, tables that stay small."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import tilewright as tw
from tilewright import Const, Mut, Ref, f32
from tilewright.dims import B, N
from tilewright.errors import CompileError, LaunchError
from tilewright.jit import loader
from tilewright.jit.cache import memory as cache
from tilewright.jit.cache.memory import SingleFlight, in_background
from tilewright.runtime.devices.process import usable_cores

PATIENCE = 20


def test_a_thread_that_would_wait_for_itself_makes_a_copy():
    table, made = SingleFlight(), []

    def make():
        made.append(None)
        if len(made) == 1:  # as a finaliser does in the middle
            assert table.get("key", make) == "copy 2"
        return f"copy {len(made)}"

    assert table.get("key", make) == "copy 2"
    assert (len(made), len(table)) == (2, 1)
    assert table.get("key", make) == "copy 2"


def test_threads_that_would_wait_for_each_other_make_copies():
    """Each makes one and asks for the other's in the middle; without a circle they wait."""
    first, second = SingleFlight(), SingleFlight()
    meet = threading.Barrier(2)
    copies = []

    def make_first():
        meet.wait(PATIENCE)
        return ("first", second.get("key", lambda: copies.append(None) or "copy"))

    def make_second():
        meet.wait(PATIENCE)
        return ("second", first.get("key", lambda: copies.append(None) or "copy"))

    with ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(first.get, "key", make_first)]
        asked.append(pool.submit(second.get, "key", make_second))
        found = [one.result(PATIENCE) for one in asked]
    assert 1 <= len(copies) <= 2  # the last one to ask sees the circle, perhaps both do
    assert ("first", "copy") in found or ("second", "copy") in found
    assert (len(first), len(second)) == (1, 1)


def test_a_worker_that_asks_for_its_own_work_does_it_again():
    tasks, runs = [], []
    begun = threading.Event()

    def work():
        runs.append(None)
        begun.wait(PATIENCE)
        if len(runs) == 1:
            assert tasks[0].result() == "again"
        return "again" if len(runs) == 2 else "first"

    tasks.append(in_background(work))
    begun.set()
    assert tasks[0].result() == "again"
    assert len(runs) == 2


def test_a_worker_does_what_no_other_worker_is_left_for():
    """All threads of the pool wait for work that is queued behind them."""
    count = usable_cores()
    gates = [threading.Event() for _ in range(count)]
    later = []

    def wait_for_later(number):
        gates[number].wait(PATIENCE)
        return later[number].result()

    first = [in_background(lambda n=n: wait_for_later(n)) for n in range(count)]
    later += [in_background(lambda n=n: n) for n in range(count)]
    for gate in gates:
        gate.set()
    assert [task.result(PATIENCE) for task in first] == list(range(count))


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, MemoryError, TimeoutError])
def test_what_is_about_one_thread_is_not_raised_in_others(error):
    table, begun, asked = SingleFlight(), threading.Event(), threading.Event()

    def interrupted():
        begun.set()
        asked.wait(PATIENCE)
        raise error

    def ask():
        begun.wait(PATIENCE)
        threading.Timer(0.05, asked.set).start()  # when this thread waits
        return table.get("key", lambda: "made by a waiter")

    with ThreadPoolExecutor(2) as pool:
        others = [pool.submit(ask) for _ in range(2)]
        with pytest.raises(error):
            table.get("key", interrupted)
        assert [other.result(PATIENCE) for other in others] == ["made by a waiter"] * 2
    assert len(table) == 1


def test_what_the_compiler_refuses_is_told_to_all():
    table, begun, asked, times = SingleFlight(), threading.Event(), threading.Event(), []

    def refused():
        times.append(None)
        begun.set()
        asked.wait(PATIENCE)
        raise CompileError("refused")

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(table.get, "key", refused)
        begun.wait(PATIENCE)
        threading.Timer(0.05, asked.set).start()
        with pytest.raises(CompileError, match="refused"):
            table.get("key", refused)
        assert isinstance(first.exception(PATIENCE), CompileError)
    assert (len(times), len(table)) == (1, 0)


class Interrupt(BaseException):
    pass


def _raising_at(number, act):
    """Whether an exception at the given bytecode of our modules was reached."""
    seen = 0

    def trace(frame, event, _):
        nonlocal seen
        if not frame.f_code.co_filename.endswith("jit/cache/memory.py"):
            return None
        frame.f_trace = trace  # or 3.13 would not trace this call
        frame.f_trace_opcodes = True
        if event == "opcode":
            seen += 1
            if seen == number:
                raise Interrupt
        return trace

    def traced():
        sys._getframe().f_trace_opcodes = True  # or 3.12 would not begin with the first call
        sys.settrace(trace)
        try:
            act()
        except (Interrupt, CompileError):
            pass
        finally:
            sys.settrace(None)

    # An exception between two bytecodes can leave Python's record of the one being handled behind:
    # it ends with the thread.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(traced).result(PATIENCE)
    return seen >= number


@pytest.mark.parametrize("result", ["made", CompileError("refused")], ids=["made", "refused"])
def test_an_exception_at_any_bytecode_leaves_the_table_usable(result):
    def make():
        if isinstance(result, Exception):
            raise result
        return result

    number = 1
    while True:
        table = SingleFlight()
        if not _raising_at(number, lambda table=table: table.get("key", make)):
            break
        with ThreadPoolExecutor(1) as pool:  # another thread must not wait for ever
            assert pool.submit(table.get, "key", lambda: "made").result(PATIENCE) == "made"
        number += 1
    assert number > 30


def test_a_table_is_bounded_and_the_least_recently_used_go():
    table, times = SingleFlight(most=16), []

    def ask(key):
        return table.get(key, lambda: times.append(key) or object())

    favourite = ask("favourite")
    sizes = set()
    for number in range(1000):
        ask(number)
        assert ask("favourite") is favourite
        sizes.add(len(table))
    assert max(sizes) <= 17
    assert times.count("favourite") == 1
    assert ask(999) is ask(999)
    assert times.count(999) == 1
    ask(0)
    assert times.count(0) == 2


def test_nothing_under_way_is_dropped():
    table, gate, begun = SingleFlight(most=4), threading.Event(), threading.Event()

    def slow():
        begun.set()
        gate.wait(PATIENCE)
        return "slow"

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(table.get, "slow", slow)
        begun.wait(PATIENCE)
        for number in range(100):
            table.get(number, object)
        second = pool.submit(table.get, "slow", lambda: "again")
        gate.set()
        assert (first.result(PATIENCE), second.result(PATIENCE)) == ("slow", "slow")


@tw.kernel
def shifted(z: Mut[f32, B], x: Ref[f32, N], by: Const[int]) -> None:
    z.store(x.load_like(z) + by)


def test_many_constants_keep_few_kernels_and_none_that_is_used_is_lost(monkeypatch):
    monkeypatch.setattr(shifted, "_executables", SingleFlight(most=8))
    monkeypatch.setattr(shifted, "_compiled", SingleFlight(most=8))
    with tw.device("cpu"):
        x, z = tw.ones((16,), f32), tw.zeros((16,), f32)
        kept = shifted(z.partition(16), x, by=1000)  # built, and not yet run
        for number in range(40):
            op = shifted(tw.zeros((16,), f32).partition(16), x, by=number)
            assert op.sync()[0].tensor.numpy()[0] == 1 + number
        assert len(shifted._executables) <= 9
        assert len(shifted._compiled) <= 9
        kept.sync()
        assert z.numpy()[0] == 1001


def test_a_finaliser_launches_the_kernel_that_its_thread_compiles():
    """At every allocation of the compilation, one after the other, the collector runs."""
    with tw.device("cpu"):
        x, z, w = (tw.zeros((64,), f32) for _ in range(3))

        class Last:
            def __init__(self, by):
                self.me, self.by = self, by

            def __del__(self):
                shifted(w.partition(64), x, by=self.by).submit()
                launched.append(self.by)

        launched = []
        thresholds = gc.get_threshold()
        try:
            for number, threshold in enumerate((5, 50, 200, 700, 2000)):
                gc.collect()
                gc.set_threshold(threshold)
                Last(number)
                shifted(z.partition(64), x, by=number).sync()
                gc.set_threshold(*thresholds)
                gc.collect()
                assert z.numpy()[0] == number
                assert w.numpy()[0] == number
        finally:
            gc.set_threshold(*thresholds)
        assert launched == [0, 1, 2, 3, 4]


def test_a_part_that_is_half_loaded_is_refused(monkeypatch):
    compile_kernel = loader.compiler.compile_kernel
    monkeypatch.setattr(loader.compiler.__spec__, "_initializing", True, raising=False)
    being = r"^tilewright\.jit\.compile\.compiler is being loaded by a call that this one has"
    with pytest.raises(LaunchError, match=being):
        _ = loader.compiler.compile_kernel
    monkeypatch.undo()
    assert loader.compiler.compile_kernel is compile_kernel


FIRST = """
import gc
import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import B, N

@tw.kernel
def add(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    z.store(x.load_like(z) + 1.0)

class Last:
    def __init__(self): self.me = self
    def __del__(self):
        try:
            add(w.partition(64), x).submit()
        except tw.LaunchError as error:
            print("by a call that this one has interrupted" in str(error))

with tw.device("cpu"):
    x, z, w = tw.ones((64,), f32), tw.zeros((64,), f32), tw.zeros((64,), f32)
    gc.collect()
    gc.set_threshold(700)
    Last()
    add(z.partition(64), x).sync()
    gc.collect()
    print(z.numpy()[0], w.numpy()[0])
    add(w.partition(64), x).sync()
    print(w.numpy()[0])
"""


def test_a_finaliser_that_launches_while_the_compiler_is_loaded_is_refused(tmp_path):
    (tmp_path / "first.py").write_text(FIRST)
    command = [sys.executable, str(tmp_path / "first.py")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "True\n2.0 0.0\n2.0\n"
    assert "Traceback" not in done.stderr


def test_work_is_done_at_once_where_no_thread_can_be_started(monkeypatch):
    def refuse(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(cache, "_background", cache._Background())
    monkeypatch.setattr(threading.Thread, "start", refuse)
    made = cache.in_background(threading.get_ident)
    assert made.done()
    assert made.result() == threading.get_ident()
