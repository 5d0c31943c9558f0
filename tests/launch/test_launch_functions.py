"""Functions of tensors: called again they do not run, and nothing that matters is overlooked."""

import gc
import weakref

import numpy as np
import pytest

import tilewright as tw
from tilewright import Mut, Ref, f16, f32, kernels
from tilewright.dims import B, N
from tilewright.jit.plans import function_cache
from tilewright.jit.plans.config_override import CONFIG_CACHES
from tilewright.tune import Config, forcing

LENGTH, TILE = 40, 16
EXTRA = -0.0  # which changes nothing
ran: list[str] = []
tile = TILE  # what a configuration would say


@tw.kernel
def scaled(z: Mut[f32, B], x: Ref[f32, N], y: Ref[f32, N], factor: f32) -> None:
    z.store(x.load_like(z) * factor + y.load_like(z) + EXTRA)


@tw.kernel
def both_ways(up: Mut[f32, B], down: Mut[f32, B], x: Ref[f32, N], y: Ref[f32, N]) -> None:
    up.store(x.load_like(up) + y.load_like(up))
    down.store(x.load_like(down) - y.load_like(down))


@tw.function
def combined(
    x: tw.Tensor, y: tw.Tensor, *, by: float = 2.0, out: tw.Tensor | None = None
) -> tw.DeviceOp[tw.Tensor]:
    """`by * x + y`."""
    ran.append("combined")
    z = tw.empty(x.shape, x.dtype, device=x.device) if out is None else out
    if z.shape != x.shape:
        raise tw.LaunchError("another shape")
    rows = [one.reshape(one.size) if one.is_contiguous else one for one in (z, x, y)]
    return scaled(rows[0].partition(tile), *rows[1:], by).giving(z)


def drawn(seed, shape=(LENGTH,), **how):
    return tw.from_numpy(np.random.default_rng(seed).standard_normal(shape, "f4"), **how)


def check(z, x, y, by=2.0):
    np.testing.assert_allclose(
        z.numpy(), np.float32(by) * x.numpy() + y.numpy(), rtol=1e-6, atol=1e-6
    )


@pytest.fixture(autouse=True)
def two_calls_are_known(on_the_device):
    """Every test begins with a function that was called with vectors, and an output or none."""
    CONFIG_CACHES.invalidate()
    x, y = drawn(0), drawn(1)
    for _ in range(3):  # compiled, planned, remembered
        combined(x, y, out=tw.zeros((LENGTH,), f32)).sync()
        combined(x, y).sync()
    ran.clear()


def test_the_same_handles():
    x, y, z = drawn(2), drawn(3), tw.zeros((LENGTH,), f32)
    for seed in range(5):
        tw.copy(x, drawn(seed)).sync()
        assert combined(x, y, out=z).sync() is z
        check(z, x, y)
    assert ran == []


def test_other_handles_that_are_alike():
    for seed in range(3):
        x, y = drawn(seed), drawn(seed + 10)
        check(combined(x, y).sync(), x, y)
        z = tw.zeros((LENGTH,), f32)
        assert combined(x, y, out=z).sync() is z
        check(z, x, y)
    assert ran == []


def test_every_output_that_is_made_has_memory_of_its_own():
    x, y = drawn(0), drawn(1)
    made = [combined(x, y, by=2.0).sync() for _ in range(3)]
    tw.fill(made[1], 7).sync()
    check(made[0], x, y)
    check(made[2], x, y)
    assert len({one.storage for one in made}) == 3
    assert [one.shape for one in made] == [(LENGTH,)] * 3


@pytest.mark.parametrize("shape", [(LENGTH, 3), (LENGTH + 1,), (0,)])
def test_what_is_not_alike_is_looked_at(shape):
    x, y = drawn(0, shape), drawn(1, shape)
    check(combined(x, y).sync(), x, y) if shape[-1] else combined(x, y).sync()
    assert ran == ["combined"]
    with pytest.raises(tw.LaunchError, match="another shape"):
        combined(x, y, out=tw.zeros((LENGTH, 2), f32))
    with pytest.raises(tw.LaunchError, match="f16"):
        combined(x, y, out=tw.zeros(shape, f16)).close()


def test_an_output_that_overlaps_an_input_is_refused_every_time():
    x, y = drawn(0), drawn(1)
    for _ in range(3):
        with pytest.raises(tw.BorrowError, match="also read"):
            combined(x, y, out=x)
    whole = drawn(2, (2 * LENGTH,))
    low, high, middle = whole[:LENGTH], whole[LENGTH:], whole[16 : 16 + LENGTH]
    for _ in range(3):
        with pytest.raises(tw.BorrowError, match="also read"):
            combined(low, y, out=middle)
        combined(low, y, out=high).sync()  # apart, though it is the same memory
        check(high, low, y)


def test_tensors_given_twice_are_not_taken_for_each_other():
    CONFIG_CACHES.invalidate()
    x, y, z = drawn(0), drawn(1), tw.zeros((LENGTH,), f32)
    for _ in range(4):
        check(combined(x, x, out=z).sync(), x, x)
        check(combined(x, x).sync(), x, x)
    for _ in range(4):
        check(combined(x, y, out=z).sync(), x, y)
        check(combined(y, x).sync(), y, x)
    check(combined(x, x).sync(), x, x)


def test_views_at_other_places_of_one_memory():
    whole, y = drawn(0, (4 * LENGTH,)), drawn(1)
    out = tw.zeros((4 * LENGTH,), f32)
    for _ in range(3):
        for place in range(0, 4 * LENGTH, LENGTH):
            x, z = whole[place : place + LENGTH], out[place : place + LENGTH]
            check(combined(x, y, out=z).sync(), x, y)


def test_elements_that_lie_apart():
    x, y = drawn(0, (2 * LENGTH,))[::2], drawn(1, (2 * LENGTH,))[1::2]
    z = tw.zeros((2 * LENGTH,), f32)
    for _ in range(4):
        check(combined(x, y).sync(), x, y)
        check(combined(x, y, out=z[::2]).sync(), x, y)
    assert not z.numpy()[1::2].any()


def test_values_that_compare_equal_are_told_apart():
    x, y = drawn(0), drawn(1)
    for by in (1.5, 1, 1.0, 0, 0.0, -0.0, 2.0):
        for _ in range(4):
            check(combined(x, y, by=by).sync(), x, y, by)
    with pytest.raises(tw.LaunchError, match="scalar of f32, not True"):
        combined(x, y, by=True)
    ones = tw.from_numpy(np.ones(LENGTH, "f4"))
    zeros = tw.from_numpy(np.full(LENGTH, -0.0, "f4"))
    for by, sign in ((0.0, False), (-0.0, True), (0.0, False)):
        for _ in range(4):
            assert np.signbit(combined(ones, zeros, by=by).sync().numpy()).all() == sign


def test_lazy_inputs_and_operations_that_hold_them():
    x, y, z = tw.ones((LENGTH,), f32), tw.zeros((LENGTH,), f32), tw.empty((LENGTH,), f32)
    held = combined(x, y, out=z)
    with pytest.raises(tw.BorrowError, match=r"test_launch_functions.py:\d+, holds z for writing"):
        combined(y, x, out=z)
    with pytest.raises(tw.BorrowError):
        combined(z, x)
    held.sync()
    check(z, x, y)
    assert ran == []


def test_where_an_operation_was_built_is_the_users_line():
    x, y, z = drawn(0), drawn(1), tw.zeros((LENGTH,), f32)
    for _ in range(4):
        operation = combined(x, y, out=z)
        assert str(operation.site).startswith("tests")
        assert operation.site.code.co_name == "test_where_an_operation_was_built_is_the_users_line"
        operation.close()


def test_a_moved_tensor_is_refused():
    x, y, z = drawn(0), drawn(1), tw.zeros((LENGTH,), f32)
    for _ in range(3):
        combined(x, y, out=z).sync()
    moved = tw.move(x)
    with pytest.raises(tw.MovedError):
        combined(x, y, out=z)
    check(combined(moved, y, out=z).sync(), moved, y)


def test_another_pool():
    x, y = drawn(0), drawn(1)
    pool = tw.Pool(x.device)
    with tw.pool(pool):
        inside = combined(x, y).sync()
    outside = combined(x, y).sync()
    assert inside.storage.pool is pool
    assert outside.storage.pool is not pool
    assert pool.statistics().used >= inside.nbytes
    assert ran == []


def test_recorded_in_a_graph():
    x, y, z = drawn(0), drawn(1), tw.zeros((LENGTH,), f32)
    combined(x, y, out=z).sync()
    with tw.graph() as graph:
        graph.record(combined(x, y, out=z))
    tw.fill(z, 0).sync()
    graph.launch().sync()
    check(z, x, y)
    check(combined(x, y, out=z).sync(), x, y)


def test_another_context_runs_the_function():
    x, y = drawn(0), drawn(1)
    if x.device.kind == "cpu":
        with tw.race_check():
            combined(x, y).sync()
        assert ran == ["combined"]
    with forcing("anything", None):
        combined(x, y).sync()
    assert ran[-1:] == ["combined"]
    count = len(ran)
    combined(x, y).sync()
    assert len(ran) == count, "and nothing is remembered of it"


def test_records_that_change_are_looked_at(monkeypatch):
    x, y, z = drawn(0), drawn(1), tw.zeros((LENGTH,), f32)
    for size in (8, 32):
        monkeypatch.setattr(f"{__name__}.tile", size)
        CONFIG_CACHES.invalidate()
        for _ in range(4):
            combined(x, y, out=z).sync()
        operation = combined(x, y, out=z)
        assert operation.work.plan.grid == (-(-LENGTH // size),)
        operation.sync()
        check(z, x, y)
        assert len(ran) < 4
        ran.clear()


def test_records_that_change_while_a_launch_is_bound(monkeypatch):
    x, y, z = drawn(0), drawn(1), tw.zeros((LENGTH,), f32)
    changes = []

    class Changing(function_cache.BoundLaunch):
        def __init__(self, *given):
            CONFIG_CACHES.invalidate()  # by another thread, say
            changes.append(given)
            super().__init__(*given)

    monkeypatch.setattr(function_cache, "BoundLaunch", Changing)
    for _ in range(6):  # until addresses come again
        combined(x, y, out=z).sync()
        if changes:
            break
    monkeypatch.undo()
    assert changes
    ran.clear()
    combined(x, y, out=z).sync()
    assert ran == ["combined"]


def test_what_was_chosen_while_records_changed_is_not_kept():
    x, y = drawn(0), drawn(1)

    @tw.function
    def changing(x: tw.Tensor, y: tw.Tensor) -> tw.DeviceOp[tw.Tensor]:
        ran.append("changing")
        z = tw.empty(x.shape, x.dtype)
        operation = scaled(z.partition(TILE), x, y, 2.0).giving(z)
        if changes:
            changes.pop()()  # by another thread, say
        return operation

    changes = [CONFIG_CACHES.invalidate] * 5
    for count in range(5):
        check(changing(x, y).sync(), x, y)
        assert len(ran) == count + 1
    for _ in range(5):
        check(changing(x, y).sync(), x, y)
    assert len(ran) < 10


def test_a_changed_global_of_the_kernel_is_seen(monkeypatch):
    x, y, z = drawn(0), drawn(1), tw.zeros((LENGTH,), f32)
    for extra in (1.0, 2.0):
        monkeypatch.setitem(globals(), "EXTRA", extra)
        for _ in range(4):
            found = combined(x, y, out=z).sync().numpy()
            np.testing.assert_allclose(found, 2 * x.numpy() + y.numpy() + extra, rtol=1e-6)
            found = combined(x, y).sync().numpy()
            np.testing.assert_allclose(found, 2 * x.numpy() + y.numpy() + extra, rtol=1e-6)


def test_nothing_outlives_the_handles():
    x, y, z = drawn(0), drawn(1), tw.zeros((LENGTH,), f32)
    for _ in range(4):
        combined(x, y, out=z).sync()
        made = combined(x, y).sync()
    gone, pool = [weakref.ref(one.storage) for one in (x, y, z, made)], x.device.pool
    del x, y, z, made
    gc.collect()
    pool.statistics()  # what is kept for launches to come goes, too
    assert [one() for one in gone] == [None] * 4


def test_a_result_that_is_a_view_is_made_by_the_function_every_time():
    @tw.function
    def doubled(x: tw.Tensor, y: tw.Tensor) -> tw.DeviceOp[tw.Tensor]:
        ran.append("doubled")
        z = tw.zeros((LENGTH,), f32)
        return scaled(z.partition(TILE), x, y, 2.0).giving(z[::2])

    x, y = drawn(0), drawn(1)
    for _ in range(4):
        assert doubled(x, y).sync().shape == (LENGTH // 2,)
    assert ran == ["doubled"] * 4


@pytest.mark.parametrize("shape", [(8, 32), (2, 4, 32)])
def test_functions_of_the_library_are_remembered(shape, monkeypatch):
    x, w = drawn(0, shape), drawn(1, (32,))
    expected = None
    for _ in range(4):
        found = kernels.rms_norm(x, w).sync().numpy()
        expected = found if expected is None else expected
        np.testing.assert_array_equal(found, expected)
    monkeypatch.setitem(kernels.rms_norm.__wrapped__.__globals__, "check_normed", None)
    np.testing.assert_array_equal(kernels.rms_norm(x, w).sync().numpy(), expected)
    with forcing("rms_norm", Config.of(BM=1, PART=32)), pytest.raises(TypeError):
        kernels.rms_norm(x, w)


def test_parts_of_tensors_are_found_again():
    @tw.function
    def halves(x: tw.Tensor, *, out: tw.Tensor | None = None) -> tw.DeviceOp[tw.Tensor]:
        ran.append("halves")
        z = tw.empty((x.shape[0] // 2,), x.dtype) if out is None else out
        low, high = x[: x.shape[0] // 2], x[x.shape[0] // 2 :]
        return scaled(z.partition(TILE), low, high, 3.0).giving(z)

    whole = drawn(2, (8 * LENGTH,))
    for count in range(1, 9):
        x = drawn(count, (2 * LENGTH,)) if count % 2 else whole[: 2 * LENGTH]
        z = halves(x).sync()
        check(z, x[:LENGTH], x[LENGTH:], 3.0)
        x = whole[4 * LENGTH : 6 * LENGTH]
        check(halves(x, out=z).sync(), x[:LENGTH], x[LENGTH:], 3.0)
    assert len(ran) <= 6
    with pytest.raises(tw.BorrowError, match="also read"):
        halves(x, out=x[LENGTH:])


def test_two_parts_of_one_output_are_written():
    @tw.function
    def sums(x: tw.Tensor, y: tw.Tensor, *, out: tw.Tensor | None = None) -> tw.DeviceOp[tw.Tensor]:
        ran.append("sums")
        z = tw.empty((2, LENGTH), f32) if out is None else out
        return both_ways(z[0].partition(TILE), z[1].partition(TILE), x, y).giving(z)

    given = tw.zeros((2, LENGTH), f32)
    for seed in range(6):
        x, y = drawn(seed), drawn(seed + 10)
        for z in (sums(x, y).sync(), sums(x, y, out=given).sync()):
            np.testing.assert_array_equal(z.numpy()[0], x.numpy() + y.numpy())
            np.testing.assert_array_equal(z.numpy()[1], x.numpy() - y.numpy())
    assert len(ran) <= 6
    with pytest.raises(tw.BorrowError, match="also read"):
        sums(given[0], y, out=given)
