"""The function cache: a call finds an entry only if it came to the very same launches.

Every function here notes when its body runs. Calls are made until they are found, and then with one
thing changed.
"""

from __future__ import annotations

import threading

import numpy as np
import pytest
from launch_ways import way

import tilewright as tw
from tilewright import Mut, Ref, f16, f32, i32
from tilewright.dims import B, N, T
from tilewright.jit.plans.config_override import CONFIG_CACHES
from tilewright.tune import forcing

SIZE, TILE = 40, 16
EXTRA = 0.0
KNOWN = 3  # calls after which one like them is found
ran: list[str] = []


@tw.kernel
def added(z: Mut[T, B], x: Ref[T, N], y: Ref[T, N]) -> None:
    z.store(x.load_like(z) + y.load_like(z))


@tw.kernel
def scaled(z: Mut[f32, B], x: Ref[f32, N], by: f32) -> None:
    z.store(x.load_like(z) * by + EXTRA)


@tw.kernel
def grown(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    z.store(z.load() + x.load_like(z))


@tw.kernel
def counted(z: Mut[i32, B], x: Ref[i32, N]) -> None:
    z.store(z.load() + x.load_like(z))


@tw.kernel
def divided(z: Mut[i32, B], x: Ref[i32, N]) -> None:
    z.store(100 // x.load_like(z))


@tw.function
def add(x: tw.Tensor, y: tw.Tensor, *, out: tw.Tensor | None = None) -> tw.DeviceOp[tw.Tensor]:
    ran.append("add")
    z = tw.empty(x.shape, x.dtype, device=x.device) if out is None else out
    return added(z.partition(TILE), x, y).giving(z)


@tw.function
def twice(x: tw.Tensor, y: tw.Tensor, *, out: tw.Tensor | None = None) -> tw.DeviceOp[tw.Tensor]:
    """`x + y + y`, with a tensor in between."""
    ran.append("twice")
    z = tw.empty(x.shape, x.dtype, device=x.device) if out is None else out
    between = tw.empty(x.shape, x.dtype, device=x.device)
    first = added(between.partition(TILE), x, y)
    return first.then(lambda _: added(z.partition(TILE), between, y)).giving(z)


@tw.function
def grow(z: tw.Tensor, x: tw.Tensor) -> tw.DeviceOp[tw.Tensor]:
    """`z += x`, in place."""
    ran.append("grow")
    return grown(z.partition(TILE), x).giving(z)


@tw.function
def scale(x: tw.Tensor, by: tw.Tensor | float) -> tw.DeviceOp[tw.Tensor]:
    ran.append("scale")
    z = tw.empty(x.shape, f32, device=x.device)
    if isinstance(by, tw.Tensor):
        return added(z.partition(TILE), x, by).giving(z)
    return scaled(z.partition(TILE), x, by).giving(z)


@tw.function
def add_pair(pair: tuple[tw.Tensor, tw.Tensor]) -> tw.DeviceOp[tw.Tensor]:
    ran.append("add_pair")
    z = tw.empty(pair[0].shape, f32, device=pair[0].device)
    return added(z.partition(TILE), *pair).giving(z)


@tw.function
def add_halves(x: tw.Tensor, y: tw.Tensor) -> tw.DeviceOp[tw.Tensor]:
    """The first half of `x` and the last of `y`."""
    ran.append("add_halves")
    z, half = tw.empty(x.shape[0] // 2, f32, device=x.device), x.shape[0] // 2
    return added(z.partition(TILE), x[:half], y[half:]).giving(z)


@tw.function
def sum_from_zero(x: tw.Tensor) -> tw.DeviceOp[tw.Tensor]:
    """`0 + x`, with the zeros filled in by a launch of its own."""
    ran.append("sum_from_zero")
    z = tw.empty(x.shape, f32, device=x.device)
    return tw.fill(z, 0).then(lambda _: grown(z.partition(TILE), x)).giving(z)


@tw.function
def add_both(
    x: tw.Tensor, y: tw.Tensor, *, out: tuple[tw.Tensor, tw.Tensor]
) -> tw.DeviceOp[tuple[tw.Tensor, tw.Tensor]]:
    """`x + y` and `y + y`."""
    ran.append("add_both")
    first = added(out[0].partition(TILE), x, y)
    return first.then(lambda _: added(out[1].partition(TILE), y, y)).giving(out)


def drawn(seed, size=SIZE, dtype="f4"):
    return np.random.default_rng(seed).standard_normal(size).astype(dtype)


def tensors(*seeds, size=SIZE):
    return tuple(tw.from_numpy(drawn(seed, size)) for seed in seeds)


def learn(function, *args, **kwargs):
    """Call a function until the same call is found."""
    for _ in range(KNOWN):
        function(*args, **kwargs).sync()
    ran.clear()
    function(*args, **kwargs).sync()
    assert ran == []


@pytest.fixture(autouse=True)
def nothing_is_known(on_the_device):
    CONFIG_CACHES.invalidate()
    ran.clear()


# --- what is found --------------------------------------------------------------------------------


@pytest.mark.parametrize("function", [add, twice])
@pytest.mark.parametrize("is_made", [True, False])
def test_tensors_of_equal_specs(function, is_made):
    x, y, z = tensors(0, 1, 2)
    given = {} if is_made else {"out": z}
    learn(function, x, y, **given)
    for seed in range(5, 9):
        x, y, z = tensors(seed, seed + 1, seed + 2)
        result = function(x, y, **({} if is_made else {"out": z})).sync()
        assert is_made or result is z
        wanted = x.numpy() + y.numpy()
        wanted = wanted if function is add else wanted + y.numpy()
        np.testing.assert_array_equal(result.numpy(), wanted)
    assert ran == []


@pytest.mark.parametrize("function", [add, twice])
@pytest.mark.parametrize("is_made", [True, False])
def test_torch_tensors(function, is_made, on_the_cpu):
    torch = pytest.importorskip("torch")

    def made(seed):
        return torch.from_numpy(drawn(seed))

    learn(function, made(0), made(1), **({} if is_made else {"out": made(2)}))
    for seed in range(5, 9):
        x, y, z = made(seed), made(seed + 1), made(seed + 2)
        version = z._version
        result = function(x, y, **({} if is_made else {"out": z})).sync()
        wanted = x.numpy() + y.numpy()
        wanted = wanted if function is add else wanted + y.numpy()
        if is_made:
            assert isinstance(result, tw.Tensor)
        else:
            assert result is z
            assert z._version == version + 1
        np.testing.assert_array_equal(result.numpy(), wanted)
    assert ran == []


def test_a_fill_among_the_launches():
    (x,) = tensors(0)
    learn(sum_from_zero, x)
    kept = []
    for seed in range(5, 9):
        (x,) = tensors(seed)
        kept.append(sum_from_zero(x).sync())
        np.testing.assert_array_equal(kept[-1].numpy(), x.numpy())
    kept.clear()  # memory with other contents is filled
    np.testing.assert_array_equal(sum_from_zero(x).sync().numpy(), x.numpy())
    assert ran == []


def test_a_fill_hides_the_failure_of_old_contents():
    """A launch that reads them is told of it; one behind a fill reads the fill's."""
    x, divisors, z = (tw.full((SIZE,), n, i32) for n in (5, 0, 1))

    @tw.function
    def from_zero(x: tw.Tensor, *, out: tw.Tensor) -> tw.DeviceOp[tw.Tensor]:
        ran.append("from_zero")
        return tw.fill(out, 0).then(lambda _: counted(out.partition(TILE), x)).giving(out)

    learn(from_zero, x, out=z)
    with pytest.raises(tw.KernelFailure):
        divided(z.partition(TILE), divisors).sync()
    with pytest.raises(tw.KernelFailure):
        counted(z.partition(TILE), x).sync()
    assert from_zero(x, out=z).sync().numpy().tolist() == [5] * SIZE
    assert ran == []


def test_a_tuple_of_torch_tensors(on_the_cpu):
    torch = pytest.importorskip("torch")

    def made(seed):
        return torch.from_numpy(drawn(seed))

    learn(add_both, made(0), made(1), out=(made(2), made(3)))
    for seed in range(5, 9):
        x, y, outs = made(seed), made(seed + 1), (made(seed + 2), made(seed + 3))
        versions = [one._version for one in outs]
        result = add_both(x, y, out=outs).sync()
        assert [one is z for one, z in zip(result, outs, strict=True)] == [True, True]
        np.testing.assert_array_equal(outs[0].numpy(), x.numpy() + y.numpy())
        np.testing.assert_array_equal(outs[1].numpy(), y.numpy() + y.numpy())
        assert all(one._version > old for one, old in zip(outs, versions, strict=True))
    assert ran == []


def test_a_tuple_of_a_torch_tensor_and_a_tensor(on_the_cpu):
    torch = pytest.importorskip("torch")
    x, y, z = tensors(0, 1, 2)
    there = torch.from_numpy(drawn(3))
    learn(add_both, x, y, out=(there, z))
    result = add_both(x, y, out=(there, z)).sync()
    assert result[0] is there
    assert result[1] is z
    np.testing.assert_array_equal(there.numpy(), x.numpy() + y.numpy())
    assert ran == []


def test_torch_tensors_and_tensors_have_entries_of_their_own(on_the_cpu):
    torch = pytest.importorskip("torch")
    x, y = tensors(0, 1)
    learn(add, x, y)
    mixed = torch.from_numpy(drawn(2))
    for _ in range(5):
        result = add(x, mixed).sync()
        np.testing.assert_array_equal(result.numpy(), x.numpy() + mixed.numpy())
        result = add(x, y).sync()
        np.testing.assert_array_equal(result.numpy(), x.numpy() + y.numpy())
    assert len(ran) <= KNOWN


def test_an_update_in_place():
    z, x = tensors(0, 1)
    learn(grow, z, x)
    z, x = tensors(2, 3)
    wanted = z.numpy()
    for _ in range(4):
        assert grow(z, x).sync() is z
        wanted = wanted + x.numpy()
        np.testing.assert_array_equal(z.numpy(), wanted)
    assert ran == []


def test_slices_of_one_tensor_that_share_no_byte():
    whole = tw.from_numpy(drawn(0, 3 * SIZE))
    x, y, z = (whole[at : at + SIZE] for at in (0, SIZE, 2 * SIZE))
    learn(add, x, y, out=z)
    np.testing.assert_array_equal(z.numpy(), x.numpy() + y.numpy())
    add(y, z, out=x).sync()
    np.testing.assert_array_equal(x.numpy(), y.numpy() + z.numpy())
    assert ran == []


def test_slices_of_an_equal_spec_after_thousands_of_others():
    whole = tw.from_numpy(drawn(0, 6 * SIZE))
    x, y, z = (whole[at : at + SIZE] for at in range(0, 3 * SIZE, SIZE))
    learn(add, x, y, out=z)
    for size in range(1, 5000):
        assert tw.empty((size, 1), f32).T.spec.shape == (1, size)
    x, y, z = (whole[at : at + SIZE] for at in range(3 * SIZE, 6 * SIZE, SIZE))
    add(x, y, out=z).sync()
    np.testing.assert_array_equal(z.numpy(), x.numpy() + y.numpy())
    assert ran == []


def test_tuples_of_tensors_and_tensors_or_numbers():
    x, y = tensors(0, 1)
    learn(add_pair, (x, y))
    x, y = tensors(2, 3)
    np.testing.assert_array_equal(add_pair((x, y)).sync().numpy(), x.numpy() + y.numpy())
    assert ran == []
    for by in (2.0, y, 3.0, 2, y):
        learn(scale, x, by)
        wanted = x.numpy() + y.numpy() if by is y else x.numpy() * np.float32(by)
        np.testing.assert_array_equal(scale(x, by).sync().numpy(), wanted)


def test_launches_at_addresses_that_come_again_are_bound():
    x, y, z = tensors(0, 1, 2)
    learn(add, x, y, out=z)
    add(x, y, out=z).sync()
    operation = add(x, y, out=z)
    assert way(operation) == "bound"
    operation.sync()
    operation = add(x, y, out=tw.zeros(SIZE, f32))
    assert way(operation) == "plan"
    operation.sync()


# --- what is not ----------------------------------------------------------------------------------


def test_another_dtype_shape_or_alignment():
    learn(add, *tensors(0, 1))
    for size in (SIZE + 1, SIZE - 8, 2 * SIZE):
        x, y = tensors(2, 3, size=size)
        ran.clear()
        result = add(x, y).sync()
        assert ran == ["add"]
        np.testing.assert_array_equal(result.numpy(), x.numpy() + y.numpy())
    x, y = (tw.from_numpy(drawn(seed, dtype="f2")) for seed in (0, 1))
    assert add(x, y).sync().dtype is f16
    shifted = tw.from_numpy(drawn(4, SIZE + 1))[1:]
    np.testing.assert_array_equal(
        add(shifted, shifted).sync().numpy(), shifted.numpy() + shifted.numpy()
    )
    assert ran == ["add"] * 3


@pytest.mark.parametrize("is_first", [True, False])
def test_equal_arguments_are_another_call(is_first):
    x, y = tensors(0, 1)
    for function in (add, twice):
        for pair in ((x, x), (x, y)) if is_first else ((x, y), (x, x)):
            learn(function, *pair)
        for one, other in ((x, x), (y, y), (x, y), (y, x), (y, y)):
            wanted = one.numpy() + other.numpy()
            wanted = wanted if function is add else wanted + other.numpy()
            np.testing.assert_array_equal(function(one, other).sync().numpy(), wanted)


def test_a_body_that_asks_which_arguments_are_equal():
    """That is no good style; an entry holds for equal aliasing, so it is right all the same."""

    @tw.function
    def distance(x: tw.Tensor, y: tw.Tensor) -> tw.DeviceOp[tw.Tensor]:
        z = tw.empty(x.shape, f32, device=x.device)
        if x is y:
            return scaled(z.partition(TILE), x, 0.0).giving(z)
        return added(z.partition(TILE), x, y).giving(z)

    x, y = tensors(0, 1)
    for _ in range(3):
        learn(distance, x, y)
        learn(distance, x, x)
        assert not distance(y, y).sync().numpy().any()
        np.testing.assert_array_equal(distance(y, x).sync().numpy(), x.numpy() + y.numpy())


@pytest.mark.parametrize("is_torch", [False, True])
def test_an_output_that_overlaps_an_input_is_refused(is_torch, on_the_cpu):
    whole = drawn(0, 3 * SIZE)
    whole = pytest.importorskip("torch").from_numpy(whole) if is_torch else tw.from_numpy(whole)
    x, y, z = (whole[at : at + SIZE] for at in (0, SIZE, 2 * SIZE))
    learn(add, x, y, out=z)
    for out in (x, y, whole[8 : 8 + SIZE], whole[2 * SIZE - 8 : 3 * SIZE - 8]):
        for _ in range(KNOWN):
            with pytest.raises(tw.BorrowError, match="is written by this launch and also read"):
                add(x, y, out=out)
    add(x, y, out=z).sync()
    assert set(ran) == {"add"}


@pytest.mark.parametrize("is_function", [False, True])
def test_torch_inputs_that_overlap_are_both_held(is_function, on_the_cpu):
    """The second one comes to the range of the first, whose launches are over, in the same call."""
    torch = pytest.importorskip("torch")
    whole, y, z = torch.from_numpy(drawn(0, 5 * SIZE)), *(torch.zeros(SIZE) for _ in range(2))

    def call(x, y):
        return add(x, y, out=z) if is_function else added(tw.partition(z, TILE), x, y)

    first = whole[:SIZE]
    for _ in range(KNOWN + 1):
        call(first, y).sync()
    for at in range(8, 24, 4):
        operation = call(first, whole[at : at + SIZE])
        for low, high in ((0, 4), (at + SIZE - 4, at + SIZE)):
            with pytest.raises(tw.BorrowError, match=r"holds [xy] for reading"):
                tw.fill(tw.from_dlpack(whole[low:high]), 1.0)
        operation.sync()
        np.testing.assert_array_equal(z.numpy(), (first + whole[at : at + SIZE]).numpy())


def test_inputs_that_overlap_run_the_body():
    whole = tw.from_numpy(drawn(0, 2 * SIZE))
    learn(add, *tensors(0, 1))
    x, y = whole[:SIZE], whole[16 : 16 + SIZE]
    for _ in range(KNOWN):
        np.testing.assert_array_equal(add(x, y).sync().numpy(), x.numpy() + y.numpy())
    assert ran == ["add"] * KNOWN


def test_an_output_that_only_an_earlier_launch_reads():
    x, y = tensors(0, 1)
    learn(twice, x, y, out=tw.zeros(SIZE, f32))
    for seed in range(4):
        x, y = tensors(seed, seed + 1)
        wanted = x.numpy() + y.numpy() + y.numpy()
        np.testing.assert_array_equal(twice(x, y, out=x).sync().numpy(), wanted)
    with pytest.raises(tw.BorrowError, match="also read"):
        twice(x, y, out=y).sync()


def test_parts_belong_to_their_own_argument():
    """Learnt with slices of one tensor, found with tensors that have nothing in common."""
    whole = tw.from_numpy(drawn(0, 4 * SIZE))
    learn(add_halves, whole[: 2 * SIZE], whole[2 * SIZE :])
    for seed in range(3):
        x, y = tensors(seed, seed + 1, size=2 * SIZE)
        wanted = x.numpy()[:SIZE] + y.numpy()[SIZE:]
        np.testing.assert_array_equal(add_halves(x, y).sync().numpy(), wanted)
        wanted = whole.numpy()[2 * SIZE : 3 * SIZE] + whole.numpy()[SIZE : 2 * SIZE]
        found = add_halves(whole[2 * SIZE :], whole[: 2 * SIZE]).sync().numpy()
        np.testing.assert_array_equal(found, wanted)
    assert ran == []
    even, odd = whole[::2], whole[1::2]
    for _ in range(KNOWN + 1):
        found = add_halves(odd, even).sync().numpy()
        np.testing.assert_array_equal(found, odd.numpy()[:SIZE] + even.numpy()[SIZE:])


def test_an_optional_output_that_is_no_tensor_is_used(on_the_cpu):
    """It is neither left out nor taken for one that was: each stands for itself."""
    x, y = tensors(0, 1)
    learn(add, x, y)
    for _ in range(KNOWN):
        out = np.zeros(SIZE, np.float32)
        assert add(x, y, out=out).sync() is out
        np.testing.assert_array_equal(out, x.numpy() + y.numpy())
        z = tw.zeros(SIZE, f32)
        assert add(x, y, out=tw.fill(z, 1.0)).sync() is z
        np.testing.assert_array_equal(z.numpy(), out)
        with pytest.raises(AttributeError, match="partition"):
            add(x, y, out=3)
    assert add(x, y).sync().numpy().any()


def test_a_global_of_the_kernel_that_changes(monkeypatch):
    (x,) = tensors(0)
    learn(scale, x, 2.0)
    for extra in (1.0, 5.0):
        monkeypatch.setitem(globals(), "EXTRA", extra)
        for _ in range(KNOWN + 1):
            found = scale(x, 2.0).sync().numpy()
            np.testing.assert_array_equal(found, x.numpy() * np.float32(2) + np.float32(extra))


@pytest.mark.parametrize("function", [add, twice])
def test_records_that_change_and_configurations_that_are_forced(function):
    x, y = tensors(0, 1)
    learn(function, x, y)
    CONFIG_CACHES.invalidate()
    function(x, y).sync()
    assert len(ran) == 1
    learn(function, x, y)
    with forcing("anything", None):
        for count in range(1, KNOWN + 1):
            function(x, y).sync()
            assert len(ran) == count
    ran.clear()
    function(x, y).sync()
    assert ran == [], "an entry of before holds again"


@pytest.mark.parametrize("function", [add, twice])
def test_watched_launches_and_graphs_run_the_body(function, on_the_cpu):
    x, y, z = tensors(0, 1, 2)
    learn(function, x, y, out=z)
    with tw.race_check():
        function(x, y, out=z).sync()
    assert len(ran) == 1
    with tw.graph() as graph:
        graph.record(function(x, y, out=z))
    assert len(ran) == 2
    wanted = z.numpy()
    tw.fill(z, 0).sync()
    graph.launch().sync()
    np.testing.assert_array_equal(z.numpy(), wanted)
    ran.clear()
    function(x, y, out=z).sync()
    assert ran == []


def test_what_a_body_raises_is_raised_every_time_and_nothing_is_kept():
    @tw.function
    def picky(x: tw.Tensor, limit: int) -> tw.DeviceOp[tw.Tensor]:
        ran.append("picky")
        if x.size > limit:
            raise ValueError(f"more than {limit}")
        z = tw.empty(x.shape, f32, device=x.device)
        return scaled(z.partition(TILE), x, 1.0).giving(z)

    (x,) = tensors(0)
    for _ in range(KNOWN):
        with pytest.raises(ValueError, match="more than 8"):
            picky(x, 8)
    assert len(ran) == KNOWN
    learn(picky, x, SIZE)
    with pytest.raises(ValueError, match="more than 8"):
        picky(x, 8)


def test_an_input_that_a_built_operation_holds_is_refused_as_ever():
    x, y, z = tensors(0, 1, 2)
    learn(twice, x, y, out=z)
    built = tw.fill(x, 1.0)
    for _ in range(2):
        with pytest.raises(tw.BorrowError, match=r"fill, built at .*, holds .* for writing"):
            twice(x, y, out=z)
    built.close()
    twice(x, y, out=z).sync()
    assert ran == []


# --- many calls -----------------------------------------------------------------------------------


def test_outputs_that_are_dropped_and_kept_in_turns():
    x, y = tensors(0, 1)
    learn(twice, x, y)
    wanted, kept = x.numpy() + y.numpy() + y.numpy(), []
    for number in range(40):
        result = twice(x, y).sync()
        np.testing.assert_array_equal(result.numpy(), wanted)
        if number % 3 == 0:
            kept.append(result)
        del result
    for one in kept:
        np.testing.assert_array_equal(one.numpy(), wanted)
    assert ran == []


def test_threads_call_one_function_with_tensors_of_their_own():
    wrong, device = [], tw.zeros(1).device

    def call(number):
        with tw.device(device):
            x, y = tensors(number, number + 100)
            out = tw.zeros(SIZE, f32)
            wanted = x.numpy() + y.numpy() + y.numpy()
            for at in range(30):
                found = twice(x, y).sync() if at % 2 else twice(x, y, out=out).sync()
                if not np.array_equal(found.numpy(), wanted):
                    wrong.append((number, at))
                if number == 0 and at % 10 == 9:
                    CONFIG_CACHES.invalidate()

    threads = [threading.Thread(target=call, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
