"""Launches made before: whichever way one takes, the rules and the results are the same.

The first call of a kernel is cold, the second is planned, the third at the same addresses is
bound. Everything here is tried on the third call or later, against what the first would do.
"""

import gc
import threading
import weakref

import numpy as np
import pytest
from launch_ways import prepare, way

import tilewright as tw
from tilewright import Accum, Const, Mapped, Mut, Ref, f32, f64, i32
from tilewright.dims import B, N, T

FACTOR = 3.0


def raised(x):
    return x + 1.0


def lowered(x):
    return x - 1.0


@tw.kernel
def add(z: Mut[T, B], x: Ref[T, N], y: Ref[T, N]) -> None:
    z.store(x.load_like(z) + y.load_like(z))


@tw.kernel
def with_globals(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    z.store(raised(x.load_like(z)) * FACTOR)


@tw.kernel
def filled(z: Mut[i32, B], n: i32, *, SIGN: Const[int] = 1) -> None:
    z.store(z.load() * 0 + n * SIGN)


@tw.kernel
def walked(z: Mapped[f32, B], x: Ref[f32, N]) -> None:
    xs = x.partition(B)
    for at in z.indices():
        z.store(xs[at[0]], at)


@tw.kernel
def counted(z: Accum[i32, N]) -> None:
    z.add(tw.full((1,), 1, i32), 0)


def trio(size=32, dtype=f32):
    return tw.zeros(size, dtype), tw.full(size, 2, dtype), tw.full(size, 5, dtype)


def there(tensors):
    """Handles on tensors that have their bytes, so that they are known by their addresses."""
    for tensor in tensors:
        tensor.numpy()
    return [tensor[:] for tensor in tensors]


@pytest.fixture
def unused():
    """A kernel without launches: tensors of other tests may have lain at the same addresses."""
    return tw.kernel(add.__wrapped__)


class TestWays:
    def test_cold_planned_bound(self, unused):
        z, x, y = trio(48)
        found = []
        for _ in range(4):
            operation = unused(z.partition(16), x, y)
            found.append(way(operation))
            operation.sync()
        assert found[1:] == ["plan", "bound", "bound"]
        assert z.numpy().tolist() == [7] * 48

    def test_other_memory_is_planned_and_other_sizes_are_not(self, unused):
        z, x, y = trio(80)
        prepare(unused, z.partition(16), x, y)
        z, x, y = trio(80)
        again = unused(z.partition(16), x, y)
        assert way(again) == "plan"
        again.sync()
        z, x, y = trio(77)
        unused(z.partition(16), x, y).sync()
        assert z.numpy().tolist() == [7] * 77

    def test_handles_that_lie_alike_at_one_place_are_as_good_as_one(self):
        z, x, y = there(trio(80))
        prepare(add, z.partition(16), x, y)
        views = z[:], x.reshape(8, 10).reshape(80), tw.move(y)
        again = add(views[0].partition(16), *views[1:])
        assert way(again) == "bound"
        assert again.sync()[1:] == views[1:]
        with pytest.raises(tw.MovedError):
            add(z.partition(16), x, y)

    def test_handles_at_one_place_that_are_not_alike(self):
        x = tw.from_numpy(np.arange(256, dtype=np.float32))
        z, x, y = there((tw.zeros(64, f32), x, tw.full(64, 1, f32)))
        prepare(add, z.partition(16), x[:64], y)
        for other in (x[64:128], x[:128:2], x.reshape(64, 4)[:, 1], x[:64].reinterpret(f32)):
            again = add(z.partition(16), other, y)
            wanted = other.numpy() + 1
            again.sync()
            assert np.array_equal(z.numpy(), wanted)
        assert way(again) == "bound"
        again.close()

    def test_more_places_than_are_remembered(self):
        z, y = tw.zeros(16, f32), tw.full(16, 1, f32)
        x = tw.from_numpy(np.arange(200, dtype=np.float32))
        for _ in range(3):
            for start in range(0, 184, 2):
                add(z.partition(16), x[start : start + 16], y).sync()
                assert z.numpy()[0] == start + 1

    def test_the_result_is_what_was_given(self):
        z, x, y = trio()
        cut = z.partition(16)
        prepare(add, cut, x, y)
        first, second, third = add(cut, x, y=y).sync()
        assert (first, second, third) == (cut, x, y)

    def test_constants_and_defaults_tell_calls_apart(self):
        z = tw.zeros(32, i32)
        prepare(filled, z.partition(16), 4)
        filled(z.partition(16), 4, SIGN=-1).sync()
        assert z.numpy().tolist() == [-4] * 32
        filled(z.partition(16), n=4).sync()
        assert z.numpy().tolist() == [4] * 32
        with pytest.raises(tw.LaunchError, match="is a constant of type int, not True"):
            filled(z.partition(16), 4, SIGN=True)

    def test_walks_and_given_grids(self):
        z, x, _ = trio(64)
        prepare(walked, z.partition(16).persistent(blocks=2), x)
        assert z.numpy().tolist() == [2] * 64
        count = tw.zeros(4, i32)
        for blocks in (3, 3, 3, 3, 5, 5, 3):
            counted.grid(blocks)(count).sync()
        assert count.numpy().tolist() == [25, 0, 0, 0]

    def test_hints_have_tables_of_their_own(self):
        z, x, y = trio()
        prepare(add, z.partition(16), x, y)
        other = add.with_hints(occupancy=2)
        operation = other(z.partition(16), x, y)
        assert way(operation) == "cold"
        operation.close()

    def test_circumstances_are_looked_at(self):
        z, x, y = trio()
        prepare(add, z.partition(16), x, y)
        if z.device.kind == "cpu":
            with tw.race_check():
                operation = add(z.partition(16), x, y)
            assert way(operation) == "cold"
            operation.sync()

    def test_wrong_calls_are_refused_as_ever(self):
        z, x, y = trio()
        prepare(add, z.partition(16), x, y)
        with pytest.raises(tw.LaunchError, match="missing a required argument: 'y'"):
            add(z.partition(16), x)
        with pytest.raises(tw.LaunchError, match="has to be cut before the launch"):
            add(z, x, y)
        with pytest.raises(tw.LaunchError, match="pass the tensor itself"):
            add(z.partition(16), x.partition(16), y)
        with pytest.raises(tw.LaunchError, match="N is 32"):
            add(z.partition(16), x, y[:16])
        with pytest.raises(tw.LaunchError, match="must be a positive integer, not True"):
            z.partition(True)
        z.partition(1)
        for wrong in (True, 1.0):
            with pytest.raises(tw.LaunchError, match="must be a positive integer"):
                z.partition(wrong)

    def test_an_empty_grid(self):
        z, x, y = trio(0)
        prepare(add, z.partition(16), x, y)
        assert add(z.partition(16), x, y).sync()[1] is x


class TestWhatChanges:
    def test_a_range_is_held_every_time(self):
        z = tw.zeros(16, i32)
        prepare(filled, z.partition(16), 1)
        for wrong in (2**31, -(2**31) - 1):
            with pytest.raises(tw.LaunchError, match="is outside"):
                filled(z.partition(16), wrong)
        filled(z.partition(16), np.int64(-7)).sync()
        assert z.numpy()[0] == -7

    def test_globals_and_helpers(self, monkeypatch):
        z, x, _ = trio(16)
        prepare(with_globals, z.partition(16), x)
        assert z.numpy()[0] == 9
        monkeypatch.setitem(globals(), "FACTOR", 10.0)
        with_globals(z.partition(16), x).sync()
        assert z.numpy()[0] == 30
        monkeypatch.setitem(globals(), "raised", lowered)
        with_globals(z.partition(16), x).sync()
        assert z.numpy()[0] == 10
        monkeypatch.undo()
        with_globals(z.partition(16), x).sync()
        assert z.numpy()[0] == 9

    def test_dtypes(self):
        for dtype in (f32, i32, f32, i32, f64):
            z, x, y = trio(32, dtype)
            prepare(add, z.partition(16), x, y)
            assert z.numpy().tolist() == [7] * 32
            assert z.numpy().dtype == np.dtype(
                dtype.__name__.replace("f", "float").replace("i", "int")
            )

    def test_memory_that_comes_back(self):
        for number in range(5):
            z, x, y = tw.zeros(16, f32), tw.full(16, number, f32), tw.full(16, 1, f32)
            for _ in range(3):
                add(z.partition(16), x, y).sync()
            assert z.numpy().tolist() == [number + 1] * 16
            del z, x, y
            gc.collect()

    def test_a_moved_tensor(self):
        z, x, y = trio()
        cut = z.partition(16)
        prepare(add, cut, x, y)
        moved = tw.move(x)
        with pytest.raises(tw.MovedError):
            add(cut, x, y)
        add(cut, moved, y).sync()
        tw.move(z)
        with pytest.raises(tw.MovedError):
            add(cut, moved, y)

    def test_another_stream(self):
        z, x, y = trio()
        prepare(add, z.partition(16), x, y)
        other = z.device.new_stream()
        for _ in range(4):
            with tw.stream(other):
                add(x.partition(16), z, y).submit()
            add(z.partition(16), x, y).submit()
        want_z, want_x = 7, 2
        for _ in range(4):
            want_x = want_z + 5
            want_z = want_x + 5
        assert (z.numpy()[0], x.numpy()[0]) == (want_z, want_x)

    def test_no_tensor_is_kept_alive(self):
        z, x, y = trio()
        prepare(add, z.partition(16), x, y)
        add(z[:].partition(16), x, y).sync()
        refs = [weakref.ref(thing) for t in (z, x, y) for thing in (t, t.storage)]
        del z, x, y
        tw.synchronize()
        gc.collect()
        assert [ref() for ref in refs] == [None] * 6


class TestBorrows:
    def test_a_built_one_holds(self):
        z, x, y = trio()
        prepare(add, z.partition(16), x, y)
        operation = add(z.partition(16), x, y)
        assert way(operation) == "bound"
        with pytest.raises(
            tw.BorrowError, match=r"add, built at .*test_launch_again.py:\d+, holds z"
        ):
            z.numpy()
        for again in (lambda: add(z.partition(16), x, y), lambda: add(x.partition(16), z, y)):
            with pytest.raises(tw.BorrowError, match="their order is not stated"):
                again()
        with pytest.raises(tw.BorrowError, match="before the tensor is moved"):
            tw.move(x)
        assert x.numpy()[0] == 2  # two readers do not mind each other
        operation.sync()
        assert z.numpy()[0] == 7

    def test_two_that_do_not_conflict_are_both_built(self):
        z, x, y = trio()
        w = tw.zeros(32, f32)
        prepare(add, z.partition(16), x, y)
        prepare(add, w.partition(16), x, y)
        first, second = add(z.partition(16), x, y), add(w.partition(16), x, y)
        second.sync()
        first.sync()
        assert (z.numpy()[0], w.numpy()[0]) == (7, 7)

    def test_closed_and_dropped(self):
        z, x, y = trio()
        prepare(add, z.partition(16), x, y)
        add(z.partition(16), x, y).close()
        assert z.numpy()[0] == 7
        operation = add(z.partition(16), x, y)
        with pytest.warns(RuntimeWarning, match="was never run"):
            del operation
        assert z.numpy()[0] == 7
        operation = add(z.partition(16), x, y)
        with pytest.raises(tw.BorrowError):
            z.numpy()
        with pytest.warns(RuntimeWarning, match="was never run"):
            del operation
        assert z.numpy()[0] == 7

    def test_one_runs_once(self):
        z, x, y = trio()
        prepare(add, z.partition(16), x, y)
        operation = add(z.partition(16), x, y).submit()
        with pytest.raises(tw.LaunchError, match="runs once and was submitted already"):
            operation.submit()
        assert operation.sync()[0].tensor is z
        with pytest.raises(tw.LaunchError, match="has handed its result over already"):
            operation.sync()

    def test_an_output_that_is_also_read_is_refused_by_a_plan(self):
        z, x, y = trio()
        prepare(add, z.partition(16), x, y)
        for x_too, y_too in ((z, y), (z[:], y), (x, z)):
            with pytest.raises(tw.BorrowError, match="is written by this launch and also read"):
                add(z.partition(16), x_too, y_too)
        wide = tw.zeros(64, f32)
        add(wide[:32].partition(16), wide[32:], y).sync()
        assert wide.numpy().tolist() == [5] * 32 + [0] * 32

    def test_chains_zips_and_graphs(self):
        z, x, y = trio()
        w = tw.zeros(32, f32)
        prepare(add, z.partition(16), x, y)
        prepare(add, w.partition(16), z, y)
        add(z.partition(16), x, y).then(lambda _: add(w.partition(16), z, y)).sync()
        assert w.numpy()[0] == 12
        second = tw.zeros(32, f32)
        prepare(add, second.partition(16), x, y)
        tw.zip(add(z.partition(16), x, y), add(second.partition(16), x, y)).sync()
        with tw.graph() as g:
            g.record(add(z.partition(16), x, y))
            g.record(add(w.partition(16), z, y))
        tw.fill(x, 10).sync()
        g.launch().sync()
        assert w.numpy()[0] == 20
        g.update(add(z.partition(16), y, y), node=0)
        g.launch().sync()
        assert w.numpy()[0] == 15
        add(z.partition(16), x, y).sync()
        assert z.numpy()[0] == 15

    def test_a_step_may_not_give_what_is_taken(self):
        z, x, y = trio()
        prepare(add, z.partition(16), x, y)
        w = tw.zeros(32, f32)
        taken = add(w.partition(16), x, y)
        whole = tw.zip(taken)
        with pytest.raises(tw.LaunchError, match="is part of another operation"):
            add(z.partition(16), x, y).then(lambda _: taken).submit()
        whole.sync()


def test_threads_launch_one_kernel_at_once():
    wrong = []

    def run(number):
        z, x, y = tw.zeros(32, f32), tw.full(32, number, f32), tw.full(32, 1, f32)
        for _ in range(60):
            add(z.partition(16), x, y).submit()
            add(x.partition(16), z, y).submit()
        if x.numpy().tolist() != [number + 120] * 32:
            wrong.append(number)

    def worker(number, device):
        with tw.device(device):
            run(number)

    device = tw.zeros(1).device
    threads = [threading.Thread(target=worker, args=(n, device)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
