"""Launches with torch tensors that were made before, where torch's current stream has changed."""

from __future__ import annotations

import pytest
from torch_doubles import SIZE

import tilewright as tw
from tilewright.runtime.devices.device import PER_THREAD_STREAM
from tilewright.runtime.interop import torch_functions
from tilewright.runtime.ops.lifecycle import State


def test_a_launch_gets_another_home_with_its_tensors(lib, cuda):
    z, x, y = lib.bound()
    lib.launch(z, x, y).submit()
    lib.stream = lib.driver.create_stream()
    operation = lib.launch(z, x, y).submit()
    assert not operation._count  # what works elsewhere has to be looked at
    tw.synchronize()
    for _ in range(3):
        operation = lib.launch(z, x, y).submit()
    assert operation._count  # it was put there and nothing else was looked at
    assert operation._ready.stream is cuda.adopt_stream(lib.number(0))


def test_at_home_while_their_library_works_elsewhere(lib, cuda):
    """What it has done there meanwhile nobody tells: it is waited for."""
    z, x, y = lib.bound()
    home = cuda.adopt_stream(lib.number(0))
    here, lib.stream = lib.stream, lib.driver.create_stream()
    lib.launch(z, x, y).submit(home)
    assert lib.order() == [
        ("record", lib.stream), ("wait", here, lib.stream),
        ("launch", here, "plain_add"),
        ("record", here), ("wait", lib.stream, here),
    ]  # fmt: skip


def test_at_home_by_name(lib, cuda):
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
        patch.setattr(torch_functions.TORCH, "current_number", lambda _: PER_THREAD_STREAM)
        with pytest.raises(tw.LaunchError, match="the per-thread default stream of CUDA"):
            operation.submit()
    assert operation._state is State.BUILT
    operation.submit()
    lib.finish()
    assert tensors[0].tolist() == [7.0] * SIZE


@pytest.mark.parametrize("way", ["bound", "plan"])
def test_what_has_run_is_not_submitted_again(lib, way):
    operation = lib.launch(*find_tensors(lib, way))
    operation.sync()
    with pytest.raises(tw.LaunchError, match="runs once"):
        operation.submit()
