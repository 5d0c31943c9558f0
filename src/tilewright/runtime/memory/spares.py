"""Memory that was made for launches and that nobody has any more, for the next launch like them.

An output that is made for every call of a function costs two calls of the driver, and to know a
place anew. So a stream keeps the last few storages it has seen, by what they were made for, and
hands one out again when nobody else has it: no tensor or view, no operation, no graph, no export.
Python counts references, so that is a question of one number, and whoever we do not know of counts
as well. The storage then is what one would be that the driver had given the same memory: its last
use was on this stream, which is its home, so the next one here comes behind it.

What is kept is bounded, and goes back to its pool when there is too little memory, when somebody
asks how much is in use, and when a pool is trimmed. Only streams that run what is put on them, with
nobody recording it, keep anything.
"""

from __future__ import annotations

from sys import getrefcount
from typing import TYPE_CHECKING

from tilewright.runtime.memory.moulds import Mould
from tilewright.runtime.memory.reference_counts import ALONE, COUNTS
from tilewright.runtime.memory.storage import Storage
from tilewright.runtime.memory.tensor import Tensor, cast_tensor
from tilewright.runtime.memory.tensor_spec import Facet
from tilewright.runtime.ops.call_site import user_frame

if TYPE_CHECKING:
    from tilewright.runtime.devices.stream import Stream

__all__ = ["Spares", "have_tensor"]

_ALIKE = 8  # storages that are kept for one shape and dtype
_SHAPES = 128
_BYTES = 256 << 20  # of all that is kept
_LARGEST = 32 << 20  # to use so many bytes takes much longer than to get them


class _Shelf(list[Storage]):
    """Storages that were made for the same."""

    __slots__ = ("nbytes",)

    nbytes: int  # of each


class Spares:
    """What one stream keeps. Everything happens under the device's lock."""

    __slots__ = ("shelves",)

    def __init__(self) -> None:
        self.shelves: dict[Facet, _Shelf] = {}

    def put(self, facet: Facet, storage: Storage) -> None:
        """Keep a storage that was just made, in place of the one that is kept for longest."""
        shelf = self.shelves.get(facet)
        if shelf is None:
            shelf = self.shelves[facet] = _Shelf()
            shelf.nbytes = storage.nbytes
        shelf.append(storage)
        if len(shelf) > _ALIKE:
            del shelf[0]
            return
        shelves = [*self.shelves.items()]  # others may come in between, by way of a finaliser
        nbytes = sum([len(one) * one.nbytes for _, one in shelves])
        for oldest, one in shelves[:-1]:
            if nbytes <= _BYTES and len(self.shelves) <= _SHAPES:
                break
            nbytes -= len(one) * one.nbytes
            self.shelves.pop(oldest, None)

    def take(self, facet: Facet, stream: Stream) -> Storage | None:
        """One that nobody has any more; the first, so that calls in a loop find theirs again."""
        shelf = self.shelves.get(facet)
        if shelf is None:
            return None
        try:
            for number in range(len(shelf)):  # to enumerate them would count as one who has it
                storage = shelf[number]
                if getrefcount(storage) == ALONE and not storage.borrows:
                    if storage.home is stream:
                        return storage
                    del shelf[number]  # it is not to be had here any more
                    break
        except IndexError:  # a finaliser that ran meanwhile has taken some off
            pass
        return None


def have_tensor(mould: Mould) -> Tensor:
    """A tensor for a launch to write: on memory that nobody has any more, or else on new one."""
    device, dtype, nbytes, _, layout, look = mould
    stream = device.stream if device.current.said else device.default
    if stream is None or not stream.is_plain or not stream.may_be_home:
        return cast_tensor(mould)
    if device.pool is not device.usual_pool or not COUNTS:  # another pool has an end
        return cast_tensor(mould)
    facet, lock = look.facet, device.lock
    with lock:
        spares = stream.spares
        found = None if spares is None else spares.take(facet, stream)
        if found is not None:
            frame = user_frame(2)
            found.sign(frame.f_code, frame.f_lasti)
            return Tensor(found, dtype, layout, look)
        made = cast_tensor(mould)
        if nbytes <= _LARGEST:
            if spares is None:
                spares = stream.spares = Spares()
            spares.put(facet, made.storage)
        return made
