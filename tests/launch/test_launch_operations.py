"""Arguments may be operations: they run first, once, on the same stream, and give their results."""

import asyncio
import gc
import re
import warnings

import numpy as np
import pytest

import tilewright as tw
from tilewright import Const, Mapped, Mut, Ptr, Ref, f32, i32
from tilewright.dims import B, N, T


@tw.kernel
def add(z: Mut[f32, B], x: Ref[f32, N], y: Ref[f32, N]) -> None:
    z.store(x.load_like(z) + y.load_like(z))


@tw.kernel
def shift(z: Mut[T, B], x: Ref[T, N], by: T, *, twice: Const[bool] = False) -> None:
    z.store(x.load_like(z) + by)
    if twice:
        z.store(z.load() + by)


@tw.kernel
def walk(z: Mapped[f32, B], x: Ref[f32, N]) -> None:
    for at in z.indices():
        z.store(x.partition(B)[at] + 1, at)


@tw.kernel
def weigh(z: Mut[f32, B], weights: tuple[f32, f32]) -> None:
    z.store(z.load() * weights[0] + weights[1])


@tw.kernel(unsafe=True)
def negate(p: Ptr[f32]) -> None:
    with tw.unsafe("one element, which every tensor here has"):
        tw.store(p, -tw.load(p))


@tw.kernel
def reads_outside(z: Mut[f32, B], x: Ref[f32, N], at: Ref[i32, 1]) -> None:
    z.store(x.partition(B)[at.partition(1)[0].item()])


def ones(n: int = 64) -> tw.Tensor:
    return tw.ones((n,), f32)


def filled(value: float, n: int = 64) -> tw.DeviceOp[tw.Tensor]:
    """An operation that gives a tensor."""
    return tw.fill(tw.empty((n,), f32), value)


def refuse(text: str):
    return pytest.raises(tw.LaunchError, match=re.escape(text))


# --- what it means --------------------------------------------------------------------------------


def test_inputs_and_outputs_from_operations():
    z, x, y = add(filled(0).partition(16), filled(2), ones()).sync()
    assert isinstance(z, tw.HostPartition)
    assert (z.tensor.numpy() == 3).all()
    assert (x.numpy() == 2).all()
    assert (y.numpy() == 1).all()


def test_it_is_lazy_and_runs_once_on_one_stream():
    x, ran = tw.zeros((64,), f32), []
    given = tw.fill(x, 5).inspect(lambda _: ran.append("x"))
    z = tw.zeros((64,), f32)
    stream = z.device.new_stream()
    operation = add(z.partition(16), given, ones())
    assert ran == []
    assert "built" in repr(operation)
    with pytest.raises(tw.BorrowError, match=r"fill, built at .*holds dst for writing"):
        x.numpy()
    before = stream.issued
    operation.submit(stream)
    assert stream.issued > before + 1
    operation.sync()
    assert ran == ["x"]
    assert (z.numpy() == 6).all()
    with refuse("runs once and was submitted already"):
        operation.submit()


def test_calls_nest():
    inner = add(filled(0).partition(16), ones(), ones()).first().unpartition()
    outer = add(filled(0).partition(16), inner, ones())
    z, x, _ = outer.sync()
    assert (z.tensor.numpy() == 3).all()
    assert (x.numpy() == 2).all()


def test_a_partition_that_was_written_is_written_again():
    first = add(tw.zeros((64,), f32).partition(16), ones(), ones()).first()
    z, *_ = shift(first, ones(), 7.0, twice=True).sync()
    assert (z.tensor.numpy() == 15).all()


def test_scalars_constants_tuples_and_walks():
    z, *_ = shift(filled(0).partition(16), ones(), tw.value(2.5), twice=tw.value(True)).sync()
    assert (z.tensor.numpy() == 6).all()
    walked, _ = walk(filled(0).partition(16).persistent(blocks=2), ones()).sync()
    assert (walked.tensor.numpy() == 2).all()
    tall, _ = weigh(filled(3).partition(16), tw.value((2.0, 1.0))).sync()
    assert (tall.tensor.numpy() == 7).all()


def test_unsafe_calls_and_given_grids():
    (x,) = negate.grid(1).unsafe(filled(4, 1)).sync()
    assert x.item() == -4


def test_its_results_are_counted_before_it_runs():
    z, x, _ = add(filled(0).partition(16), filled(2), ones()).unzip()
    total = add(z.unpartition().partition(16), x, tw.value(ones()))
    assert (total.sync()[0].tensor.numpy() == 3).all()


def test_copies_and_fills_of_results():
    x, z = tw.zeros((64,), f32), tw.zeros((64,), f32)
    assert tw.copy(tw.fill(z, 1), tw.fill(x, tw.value(4))).sync() is z
    assert (z.numpy() == 4).all()
    with refuse("given for `src` of copy, has 3 results: choose one"):
        tw.copy(z, launch := add(ones().partition(16), ones(), ones()))
    launch.close()
    with refuse("the operation given for `dst` of fill has 2 results"):
        tw.fill(tw.value((z, x)), 3).submit()


def test_an_operation_given_twice_runs_once():
    ran = []
    given = filled(4).inspect(lambda _: ran.append(1))
    z, x, y = add(filled(0).partition(16), given, given).sync()
    assert ran == [1]
    assert x is y
    assert (z.tensor.numpy() == 8).all()


def test_one_that_is_written_and_read_is_refused_as_ever():
    shared = filled(4).shared()
    refused = add(shared.partition(16), shared, ones())
    with pytest.raises(tw.BorrowError, match="z is written by this launch and also read"):
        refused.submit()


def test_shared_operations_serve_several_calls():
    x = filled(4).shared()
    first, second = (add(filled(0).partition(16), x, ones()) for _ in range(2))
    assert (first.sync()[0].tensor.numpy() == 5).all()
    assert (second.sync()[0].tensor.numpy() == 5).all()
    assert first.done


def test_an_operation_belongs_to_one_call():
    given = filled(4)
    one = add(filled(0).partition(16), given, ones())
    other = filled(0).partition(16)
    with refuse("is part of another operation: run that one"):
        add(other, given, ones())
    other.close()  # what was taken with it is free again
    one.sync()


def test_in_a_loop_of_asyncio():
    async def run() -> list[float]:
        made = [add(filled(0).partition(16), filled(k), ones()) for k in range(4)]
        return [float(z.tensor.numpy()[0]) for z, *_ in await asyncio.gather(*made)]

    assert asyncio.run(run()) == [1, 2, 3, 4]


def test_in_a_graph():
    x, z = tw.zeros((64,), f32), tw.zeros((64,), f32)
    with tw.graph() as graph:
        graph.record(add(z.partition(16), tw.fill(x, 3), ones()))
    tw.fill(x, 9).sync()
    graph.launch().sync()
    assert (z.numpy() == 4).all()


@pytest.mark.usefixtures("on_the_cpu")
def test_arrays_of_numpy_among_the_results():
    x = np.full(64, 2, np.float32)
    z = tw.value(np.zeros(64, np.float32)).partition(16)
    cut, *_ = add(z, tw.value(x), ones()).sync()
    assert (cut.tensor.numpy() == 3).all()


# --- what is refused, and when --------------------------------------------------------------------


def test_several_results_are_no_argument():
    launch = add(ones().partition(16), ones(), ones())
    with refuse("given for `x` of add, has 3 results: choose one, `.first()`, `.last()`"):
        add(ones().partition(16), launch, ones())
    with refuse("has 3 results: choose one"):
        launch.partition(16)
    launch.sync()  # nobody has taken it
    pair = tw.value((ones(), ones()))  # how many is known when it runs
    z = tw.zeros((64,), f32)
    with refuse("the operation given for `x` of add has 2 results: choose one"):
        add(z.partition(16), pair, ones()).submit()
    with refuse("the operation has 2 results: choose one"):
        tw.value((ones(), ones())).partition(16).submit()
    assert (z.numpy() == 0).all()


def test_what_is_known_is_checked_at_the_call():
    given = filled(1)
    for refused, text in [
        (lambda: add(ones(), given, ones()), "`z` of kernel `add` is an output (Mut)"),
        (lambda: add(ones().partition(16), given, ones().partition(16)), "`y` of kernel `add` is"),
        (lambda: add(ones().partition(16), given, tw.ones((4, 4), f32)), "has rank 1"),
        (lambda: add(ones().partition(16), given, tw.ones((64,), i32)), "holds f32"),
        (lambda: shift(ones().partition(16), given, "2"), "`by` of kernel `shift` is a scalar"),
        (lambda: shift(ones().partition(16), given, 2.0, twice=2), "is a constant of type bool"),
        (lambda: add(ones().partition(16), given), "missing a required argument"),
        (lambda: add.unsafe(ones().partition(16), given, ones()), "is not unsafe"),
        (
            lambda: add(ones().partition(16), given, tw.ones((64,), f32, device="cpu:1")),
            "lives on cpu:1",
        ),
        (
            lambda: add(
                tw.zeros((64,), f32, device="cpu:1").partition(16),
                given,
                tw.ones((64,), f32, device="cpu:1"),
            ),
            f"`x` of kernel `add` comes from an operation on {given.device.name}",
        ),
        (lambda: given.partition(0), "axis 0 of the tile must be a positive integer, not 0"),
    ]:
        with refuse(text):
            refused()
    add(ones().partition(16), given, ones()).sync()  # nobody has taken it meanwhile


def test_a_scalar_of_a_placeholder_waits_for_its_tensor():
    with refuse("`by` of kernel `shift` is a scalar of f32, not 'two'"):
        shift(filled(0).partition(16), filled(1), "two").submit()


def test_what_only_the_result_shows_is_refused_when_it_runs_and_says_where_the_call_was():
    given = filled(1, 32)
    refused = add(ones().partition(16), given, ones())
    with pytest.raises(tw.LaunchError, match="has extent 64 along axis 0, but N is 32") as caught:
        refused.submit()
    (note,) = caught.value.__notes__
    assert re.match(r"add was called at .*test_launch_operations\.py:\d+, with operations", note)
    with pytest.raises(tw.LaunchError, match="N is 32"):
        refused.sync()  # every holder is told


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (lambda: tw.value(3).partition(16), "the result to cut must be a tensor, not an object of"),
        (lambda: tw.value(ones().partition(16)).partition(8), "is a partition already"),
        (lambda: tw.value(ones()).persistent(), "the result to walk must be a partition"),
        (lambda: tw.value(ones()).unpartition(), "the result of which the tensor is wanted must"),
        (lambda: filled(1).partition(4, 4), "has 2 extents for a tensor of rank 1"),
        (lambda: filled(1).partition(4, segments=3), "segments= must be a tensor of offsets"),
    ],
)
def test_results_that_cannot_be_cut(made, text):
    with refuse(text):
        made().submit()


def test_a_failure_of_an_argument_is_the_failure_of_the_call():
    x, z = ones(), tw.zeros((16,), f32)
    beyond = tw.from_numpy(np.array([9], np.int32))
    failing = reads_outside(tw.zeros((16,), f32).partition(16), x, beyond).first().unpartition()
    operation = add(z.partition(16), failing, ones(16))
    with pytest.raises(tw.OutOfBoundsError):
        operation.sync()
    with pytest.raises(tw.OutOfBoundsError):
        operation.sync()  # every holder is told


# --- giving up ------------------------------------------------------------------------------------


def test_closing_closes_what_was_taken():
    x = tw.zeros((64,), f32)
    operation = add(tw.zeros((64,), f32).partition(16), tw.fill(x, 1), ones())
    operation.close()
    assert (x.numpy() == 0).all()
    with refuse("was closed and cannot be run"):
        operation.sync()


def test_dropping_warns_once_by_the_name_of_the_kernel():
    x = tw.zeros((64,), f32)
    operation = add(tw.zeros((64,), f32).partition(16), tw.fill(x, 1), ones())
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        del operation
        gc.collect()
    (warning,) = told
    assert re.match(r"operation add, built at .*, was never run", str(warning.message))
    assert (x.numpy() == 0).all()


def test_a_cancelled_task_leaves_what_was_submitted():
    z = tw.zeros((64,), f32)

    async def run() -> None:
        async def work() -> None:
            await add(z.partition(16), filled(2), ones())

        task = asyncio.create_task(work())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run())
    assert set(z.numpy().tolist()) in ({0.0}, {3.0})


def test_compiling_compiles_what_is_known():
    z = tw.zeros((64,), f32)
    inner = add(tw.zeros((64,), f32).partition(16), ones(), ones()).first().unpartition()
    operation = add(z.partition(16), inner, ones()).compile()
    assert operation.state.value == "built"
    operation.sync()
    assert (z.numpy() == 3).all()
