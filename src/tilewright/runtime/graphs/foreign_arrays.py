"""Arrays of other libraries among the storages of a graph, checked and updated in every replay.

Each array may have been moved or shrunk since it was recorded, and written ones get a new version.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tilewright.runtime.graphs.recording import RecordedUse
from tilewright.runtime.interop.foreign import ForeignStorage
from tilewright.runtime.interop.streams import find_speakers
from tilewright.runtime.interop.torch_functions import TORCH
from tilewright.runtime.interop.torch_tensors import TorchLibrary

__all__ = ["ForeignArrays"]


class ForeignArrays:
    """The arrays of other libraries that the nodes of a graph use."""

    __slots__ = ("_all", "_told", "_versions", "speakers")

    def __init__(self, uses: Iterable[RecordedUse]) -> None:
        written: dict[ForeignStorage, bool] = {}
        for use in uses:
            if isinstance(use.storage, ForeignStorage):
                written[use.storage] = use.mode.writes or written.get(use.storage, False)
        self._all = tuple(written)
        told = [storage for storage, is_written in written.items() if is_written]
        # torch raises the versions of many tensors in one call; several nodes may write one tensor.
        torchs = [one.producer.array for one in told if isinstance(one.producer, TorchLibrary)]
        versions = {id(array): array for array in torchs if not array.is_inference()}
        self._versions: tuple[Any, ...] = tuple(versions.values())
        self._told = tuple(one for one in told if not isinstance(one.producer, TorchLibrary))
        self.speakers = find_speakers(self._all)  # they name the streams of all libraries

    def __len__(self) -> int:
        return len(self._all)

    def check_places(self) -> None:
        """Refuse a replay if an array has been moved, or its memory has shrunk."""
        for storage in self._all:
            storage.check_there()

    def note_writes(self) -> None:
        """Tell the libraries that contents have changed."""
        if self._versions:
            TORCH.raise_versions(self._versions)
        for storage in self._told:
            storage.note_write()
