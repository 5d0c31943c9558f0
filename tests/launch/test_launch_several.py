"""Functions that launch more than once: called again they do not run, and do what they did."""

import gc
import weakref

import numpy as np
import pytest

import tilewright as tw
from tilewright import Mut, Ref, f32, kernels
from tilewright.dims import B, N
from tilewright.jit.plans.config_override import CONFIG_CACHES
from tilewright.tune import forcing

LENGTH, TILE = 40, 16
ran: list[str] = []


@tw.kernel
def added(z: Mut[f32, B], x: Ref[f32, N], y: Ref[f32, N]) -> None:
    z.store(x.load_like(z) + y.load_like(z))


@tw.kernel
def multiplied(z: Mut[f32, B], x: Ref[f32, N], y: Ref[f32, N]) -> None:
    z.store(x.load_like(z) * y.load_like(z))


@tw.function
def product_of_sum(
    x: tw.Tensor, y: tw.Tensor, *, out: tw.Tensor | None = None
) -> tw.DeviceOp[tw.Tensor]:
    """`(x + y) * y`."""
    ran.append("product_of_sum")
    between, z = tw.empty(x.shape, f32), tw.empty(x.shape, f32) if out is None else out
    first = added(between.partition(TILE), x, y)
    return first.then(lambda _: multiplied(z.partition(TILE), between, y)).giving(z)


@tw.function
def both(x: tw.Tensor, y: tw.Tensor) -> tw.DeviceOp[tuple[tw.Tensor, tw.Tensor]]:
    """`(x + y) * y` and `(x + y) * x`, at the same time."""
    ran.append("both")
    between, one, other = (tw.empty(x.shape, f32) for _ in range(3))

    def finish(_: object) -> tw.DeviceOp[tuple[object, ...]]:
        return tw.zip(
            multiplied(one.partition(TILE), between, y),
            multiplied(other.partition(TILE), between, x),
        )

    return added(between.partition(TILE), x, y).then(finish).giving((one, other))


def drawn(seed, shape=(LENGTH,)):
    return tw.from_numpy(np.random.default_rng(seed).standard_normal(shape, "f4"))


def check(z, x, y):
    np.testing.assert_array_equal(z.numpy(), (x.numpy() + y.numpy()) * y.numpy())


@pytest.fixture(autouse=True)
def they_are_known(on_the_device):
    CONFIG_CACHES.invalidate()
    x, y = drawn(0), drawn(1)
    for _ in range(3):  # compiled, planned and noted, found
        product_of_sum(x, y, out=tw.zeros((LENGTH,), f32)).sync()
        product_of_sum(x, y).sync()
        both(x, y).sync()
    ran.clear()


def test_calls_like_those_before():
    given = tw.zeros((LENGTH,), f32)
    for seed in range(4):
        x, y = drawn(seed), drawn(seed + 10)
        assert product_of_sum(x, y, out=given).sync() is given
        check(given, x, y)
        made = product_of_sum(x, y).sync()
        check(made, x, y)
        one, other = both(x, y).sync()
        check(one, x, y)
        check(other, y, x)
    assert ran == []


def test_submitted_in_a_row():
    x, y = drawn(0), drawn(1)
    operations = [product_of_sum(x, y).submit() for _ in range(20)]
    made = [operation.sync() for operation in operations]
    assert len({one.storage for one in made}) == 20
    for one in made:
        check(one, x, y)
    assert ran == []


def test_an_output_that_the_last_launch_reads_is_refused():
    x, y = drawn(0), drawn(1)
    for _ in range(3):
        with pytest.raises(tw.BorrowError, match="also read"):
            product_of_sum(x, y, out=y).sync()
    for _ in range(3):  # the first launch alone reads it, and that comes before
        x = drawn(0)
        expected = (x.numpy() + y.numpy()) * y.numpy()
        product_of_sum(x, y, out=x).sync()
        np.testing.assert_array_equal(x.numpy(), expected)


def test_tensors_given_twice():
    CONFIG_CACHES.invalidate()
    x, y = drawn(0), drawn(1)
    for _ in range(3):
        check(product_of_sum(x, x).sync(), x, x)
    for _ in range(3):
        check(product_of_sum(x, y).sync(), x, y)
    check(product_of_sum(x, x).sync(), x, x)


def test_what_is_held_until_it_runs():
    x, y, z = drawn(0), drawn(1), tw.zeros((LENGTH,), f32)
    operation = product_of_sum(x, y, out=z)
    with pytest.raises(tw.BorrowError, match=r"added, built at tests.*test_launch_several.py:\d+"):
        tw.fill(x, 0)
    operation.close()
    tw.fill(z, 0).sync()
    assert not z.numpy().any(), "a chain that is closed has done nothing"
    assert ran == []


def test_recorded_in_a_graph():
    x, y, z = drawn(0), drawn(1), tw.zeros((LENGTH,), f32)
    between = [product_of_sum(x, y, out=z)]
    between.pop().close()
    with tw.graph() as graph:
        graph.record(added(z.partition(TILE), x, y))
    graph.launch().sync()
    np.testing.assert_array_equal(z.numpy(), x.numpy() + y.numpy())
    check(product_of_sum(x, y, out=z).sync(), x, y)


def test_what_runs_while_something_is_forced_is_not_noted():
    CONFIG_CACHES.invalidate()
    x, y = drawn(0), drawn(1)
    for _ in range(4):
        operation = product_of_sum(x, y)
        with forcing("anything", None):
            check(operation.sync(), x, y)
    assert len(ran) == 4
    for _ in range(4):
        check(product_of_sum(x, y).sync(), x, y)
    assert len(ran) == 5


def test_records_that_change_while_it_is_noted():
    CONFIG_CACHES.invalidate()
    x, y = drawn(0), drawn(1)
    for _ in range(4):
        operation = product_of_sum(x, y)
        CONFIG_CACHES.invalidate()
        check(operation.sync(), x, y)
    assert len(ran) == 4


def test_nothing_outlives_the_handles():
    x, y = drawn(0), drawn(1)
    for _ in range(3):
        z = product_of_sum(x, y).sync()
    gone, pool = [weakref.ref(one.storage) for one in (x, y, z)], x.device.pool
    del x, y, z
    gc.collect()
    pool.statistics()  # what is kept for launches to come goes, too
    assert [one() for one in gone] == [None] * 3
    tw.synchronize()
    used = drawn(0).device.pool.statistics().used
    for _ in range(5):
        both(drawn(0), drawn(1)).sync()
    gc.collect()
    tw.synchronize()
    assert drawn(0).device.pool.statistics().used <= used


def test_operations_as_arguments():
    x, y = drawn(0), drawn(1)
    found = product_of_sum(product_of_sum(x, y), y).sync()
    first = (x.numpy() + y.numpy()) * y.numpy()
    np.testing.assert_array_equal(found.numpy(), (first + y.numpy()) * y.numpy())


def test_functions_of_the_library_that_launch_more_than_once(monkeypatch):
    x = drawn(0, (3, 1 << 12))
    for _ in range(4):
        found = kernels.sum(x).sync().numpy()
        np.testing.assert_allclose(found, x.numpy().astype("f8").sum(), atol=1e-2)
        values, places = kernels.top_k(x, 3).sync()
        np.testing.assert_array_equal(values.numpy(), np.sort(x.numpy(), axis=1)[:, :-4:-1])
        np.testing.assert_array_equal(places.numpy(), np.argsort(x.numpy(), axis=1)[:, :-4:-1])
    y = drawn(1, (3, 1 << 12))
    monkeypatch.setitem(kernels.top_k.__wrapped__.__globals__, "check_tensor", None)
    values, places = kernels.top_k(y, 3).sync()
    np.testing.assert_array_equal(values.numpy(), np.sort(y.numpy(), axis=1)[:, :-4:-1])


def test_an_output_was_made_where_the_function_was_called():
    z = product_of_sum(drawn(2), drawn(3)).sync()
    assert ran == []
    assert z.storage.site.code.co_name == "test_an_output_was_made_where_the_function_was_called"
