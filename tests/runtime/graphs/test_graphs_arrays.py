"""Graphs on arrays of other libraries: streams, versions and places at every replay."""

from __future__ import annotations

import gc
from types import SimpleNamespace

import pytest
from torch_doubles import SIZE

import tilewright as tw
from tilewright.runtime.graphs.built_graph import ForeignArrays
from tilewright.runtime.interop import torch_tensors
from tilewright.runtime.interop.foreign import ForeignStorage, Producer

torch = pytest.importorskip("torch", reason="needs torch")


def recorded(lib, *launches):
    with tw.graph() as graph:
        for tensors in launches:
            graph.record(lib.launch(*tensors))
    lib.finish()
    lib.driver.log.clear()
    return graph


def replay(lib, graph):
    graph.launch().submit()
    lib.finish()


def test_versions_are_raised_once_by_each_replay(lib):
    (z, x, y), (w, *_) = lib.trio(), lib.trio()
    with torch.inference_mode():
        untold = torch.zeros(SIZE)
    graph = recorded(lib, (z, x, y), (w, z, y), (w, x, y), (untold, x, y))
    before = [one._version for one in (z, w, x, y)]
    for number in range(1, 5):
        replay(lib, graph)
        raised = [one._version - old for one, old in zip((z, w, x, y), before, strict=True)]
        assert raised == [number, number, 0, 0]
    assert z.tolist() == w.tolist() == untold.tolist() == [7.0] * SIZE


@pytest.mark.parametrize("at", [0, 1])
def test_an_array_that_was_moved(lib, at):
    tensors = z, x, _ = lib.trio()
    graph = recorded(lib, tensors)
    replay(lib, graph)
    kept, before = (z, x)[at].data, z._version
    (z, x)[at].data = torch.zeros(SIZE)
    with pytest.raises(tw.BorrowError, match="has been moved or resized since"):
        graph.launch().submit()
    assert z._version == before
    (z, x)[at].data = kept
    replay(lib, graph)
    assert z.tolist() == [7.0] * SIZE


def test_an_array_that_is_gone_has_left_its_memory(lib):
    z, x, y = lib.trio()
    view = z[:]
    graph = recorded(lib, (z, x, y))
    del z, x
    gc.collect()
    replay(lib, graph)
    assert view.tolist() == [7.0] * SIZE


def test_a_library_with_one_stream_is_asked_for_it_not_for_each_array(lib, monkeypatch):
    graph = recorded(lib, *(lib.trio() for _ in range(20)))
    asked = []

    def number(ordinal):
        asked.append(ordinal)
        return lib.number(ordinal)

    monkeypatch.setattr(torch_tensors.TORCH, "current_number", number)
    replay(lib, graph)
    assert 1 <= len(asked) <= 2
    launches = lib.driver.calls("launch_graph")
    assert [entry[1] for entry in launches] == [lib.stream]


def a_use(producer, *, writes=False):
    storage = object.__new__(ForeignStorage)
    storage.producer, storage.first, storage.nbytes = producer, 64, 0
    return SimpleNamespace(storage=storage, mode=SimpleNamespace(writes=writes))


class Other(Producer):
    def note_write(self):
        self.array.append("told")


def test_a_library_other_than_torch_is_told_once_of_each_written_array():
    written, read = [], []
    uses = [a_use(Other(written), writes=True), a_use(Other(read))]
    arrays = ForeignArrays([uses[0], uses[0], uses[1]])
    for number in range(1, 4):
        arrays.note_writes()
        assert (written, read) == (["told"] * number, [])
