"""Refusals of handles, operations and places, and the way out that each names."""

from __future__ import annotations

import copy
import gc
import pickle
import warnings

import numpy as np
import pytest
from refusing import refuse
from runtime_doubles import put

import tilewright as tw
from tilewright import BorrowError, LaunchError, RoundRobin, SingleStream

pytestmark = pytest.mark.usefixtures("device")


# --- the only one of its kind ---

KINDS = {
    "tensor": (lambda: tw.zeros(4), "`.clone()` for new memory", "send `x.numpy()`"),
    "partition": (lambda: tw.zeros(4).partition(2), None, "send `x.numpy()`"),
    "operation": (lambda: put(tw.zeros(4), 1), "runs once and is not copied", "where it runs"),
    "chain": (lambda: tw.value(1).map(str), "or `.shared()` it", "build it where it runs"),
    "shared": (lambda: tw.value(1).shared(), "or `.shared()` it", "build it where it runs"),
    "zip": (lambda: tw.zip(1, 2), "or `.shared()` it", "build it where it runs"),
    "graph": (tw.graph, "record another", "record it where it runs"),
    "replay": (lambda: put(tw.zeros(4), 1).graph().launch(), "build another", "where it runs"),
    "stream": (lambda: tw.zeros(4).device.stream, "`device.new_stream()`", "new_stream()` there"),
    "pool": (lambda: tw.zeros(4).device.pool, "make another, `tw.Pool(…)`", "make another there"),
    "export": (lambda: tw.zeros(4).export(), "make another, `t.export(…)`", "send `t.numpy()`"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_stands_for_something_of_this_process_is_not_copied(kind):
    make, not_copied, not_pickled = KINDS[kind]
    made = make()
    for duplicate in (copy.copy, copy.deepcopy) if not_copied else ():
        with refuse(not_copied, TypeError):
            duplicate(made)
    with refuse(not_pickled, TypeError):
        pickle.dumps(made)
    if isinstance(made, tw.DeviceOp):
        made.sync()  # as without the attempts


def test_an_operation_that_was_to_be_copied_runs_once():
    z = tw.zeros(4)
    op = put(z, 1)
    with refuse("an operation runs once", TypeError):
        copy.copy(op)
    with refuse("holds z for writing", BorrowError):
        z.numpy()
    op.sync()
    with refuse("handed its result over"):
        op.sync()


# --- operations are not their results ---


@pytest.mark.parametrize("use", [list, tuple, lambda op: op[0], lambda op: (*op,)])
def test_an_operation_has_no_items(use):
    op = put(tw.zeros(4), 1)
    with refuse("`.unzip()` makes an operation of each item", TypeError):
        use(op)
    op.close()


def test_what_an_operation_gives_is_asked_of_its_result():
    z = tw.zeros((2, 3))
    op = put(z, 1).first()
    for name in ("numpy", "shape", "reshape"):
        with refuse(f"an operation has no `{name}`: if its result has, `.sync()", AttributeError):
            getattr(op, name)
    assert not hasattr(op, "__array_interface__")
    assert op.map(lambda result: result.shape).sync() == (2, 3)


@pytest.mark.parametrize("word", ["then", "map", "inspect"])
def test_a_step_is_a_function(word):
    op = put(tw.zeros(4), 1)
    with refuse(f"`{word}` takes a function of the result, and int is none"):
        getattr(op, word)(3)
    op.sync()  # it was not taken


def test_items_that_a_result_does_not_have():
    z = tw.zeros(4)
    for count in (-1, True, 1.5, "2"):
        with refuse(f"unzip({count!r}): it is the number of results"):
            tw.value((1, 2)).unzip(count)
    both = tw.zip(put(z, 1), 7)
    with refuse("has 2 results, not 3"):
        both.unzip(3)
    assert both.unzip(2)[1].sync() == 7
    *_, third = tw.value((1, 2)).unzip(3)
    with refuse("item 2 is wanted of a result that has 2"):
        third.sync()
    for word, wanted in (("first", "item 0"), ("last", "an item")):
        with refuse(f"{wanted} is wanted of a result that has 0"):
            getattr(tw.value(()), word)().sync()
        with refuse("give items of a tuple, and the result is an object of type Tensor"):
            getattr(tw.value(z), word)().sync()
    assert tw.value([5, 6]).last().sync() == 6


# --- tensors are no arrays ---


def test_a_tensor_of_rank_0_is_no_sequence():
    with refuse("a tensor of rank 0 has no length", TypeError):
        list(tw.zeros(()))
    assert [row.shape for row in tw.zeros((2, 3))] == [(3,), (3,)]
    assert list(tw.zeros(0)) == []


@pytest.mark.parametrize("use", [np.sum, np.exp, lambda z: np.add(z, 1), lambda z: np.dot(z, z)])
def test_functions_of_numpy_are_told_where_the_contents_are(use):
    with pytest.raises(TypeError, match=r"`\.numpy\(\)`"):
        use(tw.zeros(4))


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("cpu", "go through the host, `tw.from_numpy(x.numpy(), device=…)`"),
        ("to", "go through the host, `tw.from_numpy(x.numpy(), device=…)`"),
        ("copy", "`.clone()` has memory of its own"),
        ("copy_", "`tw.copy(z, x)` is the operation"),
        ("fill_", "`tw.fill(z, 0)` is the operation"),
        ("ravel", "`.reshape(-1)` is a view"),
        ("sum", "a kernel computes it, and `tilewright.kernels` has some"),
        ("tolist", "`.numpy().tolist()`"),
        ("transpose", "`.permute(…)` or `.T`"),
        ("slice", "`x[a:b]` is a view of a part"),
        ("expand", "kernels repeat tiles that they load"),
    ],
)
def test_names_that_other_arrays_have_lead_to_ours(name, way):
    with refuse(f"a tensor has no `{name}`: {way}", AttributeError):
        getattr(tw.zeros(4), name)
    with refuse("object has no attribute 'nonsense'", AttributeError):
        tw.zeros(4).nonsense  # noqa: B018
    assert not hasattr(tw.zeros(4), "__cuda_array_interface__")


def test_without_memory_there_is_nothing_to_export():
    for take in (np.from_dlpack, tw.Tensor.export, tw.Tensor.__dlpack_device__):
        with refuse("a tensor without memory (tw.meta) cannot be exported"):
            take(tw.meta((4,)))


# --- places ---


def test_what_is_no_device_stream_pool_or_policy(device):
    with refuse("a device has a name, 'cpu' or 'cuda:1', and 3 is none"), tw.device(3):
        pass
    with refuse("a device has a name"):
        tw.zeros(4, device=3)
    for given in (3, device):
        with refuse("a stream is made by `device.new_stream()`"), tw.stream(given):
            pass
        with refuse("a stream is made by `device.new_stream()`"):
            SingleStream(given)
    with refuse("tensors are made in a pool, and int is none: `tw.Pool(device)`"), tw.pool(3):
        pass
    for make in (tw.Pool, RoundRobin):
        with refuse("a device is `tw.Device('cpu')` or the like, and str is none"):
            make("cpu")
    for wrong in ({"limit": "1 GiB"}, {"release_threshold": 1.5}, {"limit": -1}):
        with refuse("it is a number of bytes"):
            tw.Pool(device, **wrong)
    with refuse("keep=-1: it is a number of bytes"):
        device.pool.trim(-1)
    op = put(tw.zeros(4), 1)
    with refuse("a policy gives streams by `next_stream()`, and int has none"):
        op.schedule(3)
    with refuse("a policy needs a stream at least, not 'two'"):
        RoundRobin(device, "two")
    op.schedule(SingleStream(device.new_stream())).sync()


# --- garbage holds nothing ---


def test_what_a_refused_step_built_is_given_back_though_a_traceback_has_it():
    z = tw.zeros(4)
    gc.disable()  # or it might come by itself
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # the one that was not synced
            try:
                tw.value(1).map(lambda _: put(z, 1).sync()).submit()
            except LaunchError as error:
                assert "waits for the device" in str(error)  # noqa: PT017
            put(z, 2).sync()
    finally:
        gc.enable()
    assert z.numpy()[0] == 2


def test_a_replay_in_garbage_holds_no_access():
    g = put(tw.zeros(4), 1).graph()

    def drop_in_a_cycle():
        cycle = [g.launch()]
        cycle.append(cycle)

    gc.disable()
    try:
        drop_in_a_cycle()
        with pytest.warns(RuntimeWarning, match=r"graph replay, built at .* was never run"):
            g.launch().sync()
    finally:
        gc.enable()
    held = g.launch()  # and a replay with a reference holds as ever
    with refuse("graph replay", BorrowError):
        g.launch()
    held.close()
