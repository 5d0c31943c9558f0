"""Refusals of a language with ownership at compile time, one test for each rule.

A view holds nothing, an operation on it does: from when it is built until it is submitted. After
that conflicts are ordered instead of refused. Rules of lifetimes need no refusal
here, because an operation keeps its tensors.
"""

from __future__ import annotations

import copy
import gc
import threading
import weakref

import pytest

import tilewright as tw
from tilewright import BorrowError, LaunchError, MovedError, Mut, Ptr, Ref, f32, i32
from tilewright.dims import B, N

pytestmark = pytest.mark.usefixtures("device")


@tw.kernel
def add(z: Mut[f32, B], x: Ref[f32, N], y: Ref[f32, N]) -> None:
    z.store(x.load_like(z) + y.load_like(z))


@tw.kernel
def swap(a: Mut[f32, B], b: Mut[f32, B]) -> None:
    left, right = a.load(), b.load()
    a.store(right)
    b.store(left)


def line(value: float = 1.0) -> tw.Tensor:
    return tw.full((64,), value, f32)


def test_output_and_input_of_one_launch():
    z, y = line(), line()
    with pytest.raises(BorrowError, match=r"z is written by this launch and also read by it as x"):
        add(z.partition(16), z, y)


def test_two_outputs_of_one_launch():
    z = line()
    with pytest.raises(BorrowError, match=r"a is written by this launch and also written .* as b"):
        swap(z.partition(16), z.partition(16))


def test_second_operation_on_an_output_while_the_first_is_built():
    z, x = line(), line()
    first = add(z.partition(16), x, x)
    with pytest.raises(BorrowError, match=r"add, built at .*holds z for writing and has not been"):
        add(z.partition(32), x, x)
    first.submit()
    add(z.partition(32), x, x).submit()  # the order is fixed now
    assert z.numpy().tolist() == [2.0] * 64


@pytest.mark.parametrize(
    "look",
    [
        lambda z: z.numpy(),
        lambda z: z[3].item(),
        lambda z: z.clone(),
        lambda z: z.astype(i32),
        lambda z: add(line().partition(16), z, z),
        lambda z: tw.copy(line(), z),
    ],
)
def test_reading_an_output_while_an_operation_on_it_is_built(look):
    z = line()
    op = add(z.partition(16), line(), line())
    with pytest.raises(BorrowError, match="holds z for writing"):
        look(z)
    # Attributes of a handle stay open, and so does another way to cut it.
    assert (z.shape, z.dtype, z.partition(32).grid) == ((64,), f32, (2,))
    assert "f32[64]" in repr(z)
    op.sync()
    assert z.numpy().tolist() == [2.0] * 64


def test_dropping_a_tensor_that_an_operation_uses():
    x, z = line(3.0), line()
    op = add(z.partition(16), x, x)
    alive = weakref.ref(x.storage)
    del x
    gc.collect()
    assert alive() is not None  # the operation keeps it
    op.sync()
    assert z.numpy().tolist() == [6.0] * 64


def test_moving_a_tensor_that_an_operation_holds():
    x, z = line(), line()
    op = add(z.partition(16), x, x)
    for tensor in (x, z):
        with pytest.raises(BorrowError, match="holds this tensor and has not been run"):
            tw.move(tensor)
    op.submit()
    assert tw.move(z).numpy().tolist() == [2.0] * 64


def test_using_a_tensor_that_was_moved():
    x, z = line(), line()
    new = tw.move(x)
    for use in (
        lambda: add(z.partition(16), x, x),
        lambda: x.partition(16),
        lambda: x.numpy(),
        lambda: x[1:],
        lambda: x.T,
        lambda: x.shape,
        lambda: tw.move(x),
    ):
        with pytest.raises(MovedError, match=r"moved away at .*test_order_host_rules\.py:"):
            use()
    add(z.partition(16), new, new).sync()


def test_running_an_operation_twice():
    z, x = line(), line()
    op = add(z.partition(16), x, x)
    op.sync()
    for again in (op.submit, op.sync, lambda: op.then(lambda _: op), op.shared):
        with pytest.raises(LaunchError, match=r"runs once|handed its result over"):
            again()
    shared = add(z.partition(16), x, x).shared()
    assert shared.sync() is shared.sync()


def test_duplicating_a_handle():
    z, x = line(), line()
    for duplicate in (copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match=r"`\.clone\(\)` for new memory"):
            duplicate(z)
    assert z.clone().storage is not z.storage
    # A partition holds nothing, so a second one changes nothing: the launch sees one storage.
    with pytest.raises(BorrowError, match="also written by it"):
        swap(z.partition(16), copy.copy(z.partition(16)))
    add(copy.copy(z.partition(16)), x, x).sync()


def test_a_view_outlives_its_base():
    base = tw.arange(64, f32)
    view = base[8:16]
    del base
    gc.collect()
    assert view.numpy().tolist() == list(range(8, 16))


def test_the_base_is_written_while_a_view_exists():
    base, x = line(), line(5.0)
    view = base[8:16]
    add(base.partition(16), x, x).submit()  # the view holds nothing
    assert view.numpy().tolist() == [10.0] * 8
    reader = add(tw.zeros(8).partition(8), view, view)
    with pytest.raises(BorrowError, match="holds x for reading"):  # an operation on it does
        add(base.partition(16), x, x)
    add(base[16:].partition(16), x[16:], x[16:]).sync()
    reader.close()


def test_writing_a_tensor_while_reading_a_slice_of_it():
    x = line()
    with pytest.raises(BorrowError, match="slices that do not overlap"):
        add(x[:32].partition(16), x[16:48], x[:32])
    add(x[:32].partition(16), x[32:], x[32:]).sync()
    assert x.numpy().tolist() == [2.0] * 32 + [1.0] * 32
    add(x[::2].partition(16), x[1::2], x[1::2]).sync()
    assert x.numpy().tolist() == [4.0, 2.0] * 16 + [2.0, 1.0] * 16


def test_an_operation_leaves_the_function_that_made_its_tensors():
    def build():
        z, x = line(), line(4.0)
        return add(z.partition(16), x, x)

    op = build()
    gc.collect()
    found = []
    thread = threading.Thread(target=lambda: found.append(op.sync()))
    thread.start()
    thread.join()
    assert found[0][0].tensor.numpy().tolist() == [8.0] * 64


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: add(line().partition(16), line(), tw.zeros(64, i32)), "holds f32.*holds i32"),
        (lambda: add(line(), line(), line()), r"has to be cut .*pass z\.partition\(B\)"),
        (lambda: add(line().partition(16), line().partition(16), line()), "pass the tensor itself"),
        (lambda: add(line().partition(16).persistent(), line(), line()), "without .persistent"),
        (lambda: add(line().partition(16), [1.0] * 64, line()), r"must be a tensor, not .* list"),
    ],
)
def test_arguments_of_the_wrong_kind(build, message):
    with pytest.raises(LaunchError, match=message):
        build()


def test_pointers_need_an_unsafe_kernel_and_an_unsafe_launch():
    with pytest.raises(tw.CompileError, match=r"raw pointer.*which only an unsafe kernel takes"):

        @tw.kernel
        def safe(p: Ptr[f32]) -> None: ...

    @tw.kernel(unsafe=True)
    def through(p: Ptr[f32], z: Mut[f32, B]) -> None:
        with tw.unsafe("the tensor has an element"):
            z.store(tw.full((B,), tw.load(p), f32))

    with pytest.raises(LaunchError, match=r"Launch it as `through\.unsafe\(…\)`"):
        through(line(), line().partition(16))
    z = line()
    through.unsafe(line(9.0), z.partition(16)).sync()
    assert z.numpy().tolist() == [9.0] * 64


def test_operations_are_built_on_one_thread_and_run_on_another():
    z, x = line(), line()
    built = []
    thread = threading.Thread(target=lambda: built.append(add(z.partition(16), x, x)))
    thread.start()
    thread.join()
    with pytest.raises(BorrowError, match="holds z for writing"):
        z.numpy()
    built[0].sync()
    assert z.numpy().tolist() == [2.0] * 64


def test_recording_what_no_graph_repeats_or_for_another_thread():
    z, x = line(), line()
    shared = add(z.partition(16), x, x).shared()
    refused = []

    def elsewhere(graph, op):
        try:
            graph.record(op)
        except LaunchError as error:
            refused.append(str(error))
        op.close()

    with tw.graph() as g:
        with pytest.raises(LaunchError, match="a graph consists of operations, and this is Tensor"):
            g.record(z)
        with pytest.raises(LaunchError, match="is shared and runs once, for all its users"):
            g.record(shared)
        op = add(line().partition(16), x, x)
        thread = threading.Thread(target=elsewhere, args=(g, op))
        thread.start()
        thread.join()
        g.record(add(line().partition(16), x, x).then(lambda r: add(line().partition(16), x, x)))
    assert refused == [
        "a graph records operations of its block's thread and task, and this is another"
    ]
    assert len(g) == 2
    g.launch().sync()
    shared.sync()


def test_bad_parameters_are_refused_where_the_kernel_is_made():
    with pytest.raises(tw.CompileError, match="z"):

        @tw.kernel
        def tensor(z: tw.Tensor) -> None: ...

    with pytest.raises(tw.CompileError, match="z"):

        @tw.kernel
        def bare(z) -> None: ...
