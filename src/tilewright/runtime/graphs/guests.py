"""Arrays of other libraries among the storages of a graph: what is asked and told in every replay.

Each may have been moved or shrunk since, and those that are written get another version. That is
Python for each of them, so it is no more than that; a library with one stream is asked for it once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tilewright.runtime.devices.stream import Stream
from tilewright.runtime.graphs.recording import Use
from tilewright.runtime.interop.foreign import ForeignStorage
from tilewright.runtime.interop.streams import find_speakers
from tilewright.runtime.interop.torch_functions import TORCH

__all__ = ["GraphGuests"]


class GraphGuests:
    """The arrays of other libraries that the nodes of a graph use."""

    __slots__ = ("_all", "_told", "_versions", "speakers")

    def __init__(self, uses: Iterable[Use]) -> None:
        written: dict[ForeignStorage, bool] = {}
        for use in uses:
            if isinstance(use.storage, ForeignStorage):
                written[use.storage] = use.mode.writes or written.get(use.storage, False)
        self._all = tuple(written)
        # Those that are told one by one; torch takes versions of many tensors at once.
        self._told = tuple(storage for storage, is_written in written.items() if is_written)
        self._versions: tuple[Any, ...] | None = None  # None until all were told once
        self.speakers = find_speakers(self._all)  # who say on which streams the libraries work

    def __len__(self) -> int:
        return len(self._all)

    def check_places(self, stream: Stream) -> None:
        """Refuse a replay if an array is not where it was, or its memory is smaller now."""
        for storage in self._all:
            producer: Any = storage.producer
            array, first = producer(), storage.first
            if (
                array is None
                or array.data_ptr() != first
                or producer.array.data_ptr() != first
                or producer.memory.nbytes() < producer.needed
            ):
                storage.materialise(stream)  # which looks closer

    def note_writes(self) -> None:
        """Tell the libraries that contents have changed."""
        if self._versions:
            TORCH.raise_versions(self._versions)
        for storage in self._told:
            storage.note_write()
        if self._versions is None:
            self._tell_apart()

    def _tell_apart(self) -> None:
        """Find those that have told their versions: a tuple of tensors, or nothing to raise."""
        known = {one: getattr(one.producer, "written", None) for one in self._told}
        others = tuple(storage for storage, found in known.items() if found is None)
        versions = tuple(one for found in known.values() for one in found or ())
        if self._versions is None:  # or a finaliser has replayed the graph meanwhile
            self._told, self._versions = others, versions
