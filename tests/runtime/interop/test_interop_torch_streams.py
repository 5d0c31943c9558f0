"""Launches with torch tensors that were made before, where torch's current stream has changed."""

from __future__ import annotations

import pytest
from torch_doubles import SIZE

import tilewright as tw
from tilewright.runtime.devices.device import PER_THREAD_STREAM
from tilewright.runtime.interop import torch_tensors
from tilewright.runtime.ops.lifecycle import State


def test_the_sole_stream_follows_the_current_one(lib, cuda):
    tensors = lib.bound()
    lib.launch(*tensors).submit()
    first, lib.stream = lib.stream, lib.driver.create_stream()
    lib.launch(*tensors).submit()
    assert ("wait", lib.stream, first) in lib.order()
    tw.synchronize()
    lib.driver.log.clear()
    for _ in range(3):
        lib.launch(*tensors).submit()
    assert lib.order() == [("launch", lib.stream, "plain_add")] * 3


def test_on_the_sole_stream_while_their_library_works_elsewhere(lib, cuda):
    """Work of the library there is not seen, so its stream is waited for."""
    z, x, y = lib.bound()
    home = cuda.adopt_stream(lib.number(0))
    here, lib.stream = lib.stream, lib.driver.create_stream()
    lib.launch(z, x, y).submit(home)
    assert lib.order() == [
        ("record", lib.stream), ("wait", here, lib.stream),
        ("launch", here, "plain_add"),
        ("record", here), ("wait", lib.stream, here),
    ]  # fmt: skip


def test_the_current_stream_by_name(lib, cuda):
    z, x, y = lib.bound()
    before = z._version
    lib.launch(z, x, y).submit(cuda.adopt_stream(lib.number(0)))
    assert lib.order() == [("launch", lib.stream, "plain_add")]
    assert z._version == before + 1


def find_tensors(lib, way):
    """Those of a launch that was made before, or new ones like them."""
    tensors = lib.bound()
    return tensors if way == "bound" else lib.trio()


@pytest.mark.parametrize("way", ["bound", "plan"])
def test_a_stream_that_is_refused_leaves_the_operation_as_it_was(lib, monkeypatch, way):
    tensors = find_tensors(lib, way)
    operation = lib.launch(*tensors)
    with monkeypatch.context() as patch:
        patch.setattr(torch_tensors.TORCH, "current_number", lambda _: PER_THREAD_STREAM)
        with pytest.raises(tw.LaunchError, match="the per-thread default stream of CUDA"):
            operation.submit()
    assert operation.state is State.BUILT
    operation.submit()
    lib.finish()
    assert tensors[0].tolist() == [7.0] * SIZE


@pytest.mark.parametrize("way", ["bound", "plan"])
def test_what_has_run_is_not_submitted_again(lib, way):
    operation = lib.launch(*find_tensors(lib, way))
    operation.sync()
    with pytest.raises(tw.LaunchError, match="runs once"):
        operation.submit()


def test_a_new_output_of_a_function_is_on_the_current_stream(lib, cuda):
    """Its bytes come from the free list of torch's stream, so nothing is waited for."""
    _, x, y = lib.bound()

    @tw.function
    def total(x: tw.Tensor, y: tw.Tensor) -> tw.DeviceOp[tw.Tensor]:
        z = tw.empty(x.shape, x.dtype, device=x.device)
        return lib.add(z.partition(SIZE), x, y).giving(z)

    for _ in range(5):
        total(x, y).sync()
    lib.driver.log.clear()
    for _ in range(3):
        total(x, y).submit()
    assert lib.order() == [("launch", lib.stream, "plain_add")] * 3
