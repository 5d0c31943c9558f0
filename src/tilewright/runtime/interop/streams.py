"""Stream interop: an operation on arrays of other libraries runs in the order of their streams.

By default it runs on the library's own current stream. On another stream, that stream waits for
theirs before, and theirs waits for it after. While a library captures a CUDA graph on its stream,
an operation is captured into that graph: it allocates nothing, waits for nothing and records no
use, since the library decides when and how often it runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from tilewright.errors import LaunchError
from tilewright.runtime.devices.stream import Stream
from tilewright.runtime.interop.foreign import ForeignStorage
from tilewright.runtime.memory.storage import Storage
from tilewright.runtime.order.access import Access
from tilewright.runtime.order.failure import Check

__all__ = [
    "check_recordable",
    "find_speakers",
    "in_their_order",
    "keep_recorded",
    "library_streams",
]


def library_streams(storages: Iterable[Storage]) -> tuple[Stream, ...]:
    """The current streams of the libraries whose arrays are used."""
    asked = (one.producer.current_stream(one.device) for one in find_speakers(storages))
    return tuple(dict.fromkeys(stream for stream in asked if stream is not None))


def find_speakers(storages: Iterable[Storage]) -> tuple[ForeignStorage, ...]:
    """Storages whose producers name all streams: one per library with a single current stream."""
    found: dict[object, ForeignStorage] = {}
    for storage in storages:
        if isinstance(storage, ForeignStorage):
            producer = storage.producer
            found.setdefault(producer.library if producer.has_one_stream else storage, storage)
    return tuple(found.values())


def in_their_order(
    stream: Stream, theirs: tuple[Stream, ...]
) -> AbstractContextManager[None, bool | None]:
    """Put work on a stream between the libraries' earlier work and their later work."""
    others = [one for one in theirs if one is not stream]
    return _between(stream, others) if others else nullcontext()


@contextmanager
def _between(stream: Stream, others: list[Stream]) -> Iterator[None]:
    for other in others:
        if other.queue.is_capturing():
            raise LaunchError(
                f"{other.label} is being recorded into a CUDA graph, and an operation on its arrays"
                " is recorded there: submit it without naming a stream, and do not await it"
            )
        stream.follow(other)
    try:
        yield
    finally:
        for other in others:
            other.follow(stream)


def check_recordable(
    label: str, accesses: tuple[Access, ...], check: Check | None, stream: Stream
) -> None:
    """Refuse an operation that a graph of another library cannot repeat."""
    if check is not None:
        raise LaunchError(
            f"{label} has a check inside, and its failure would be lost when another library"
            " repeats it: see `tilewright explain` for the check, or record it with"
            " tw.graph()"
        )
    for access in accesses:
        storage = access.tensor.storage
        if storage.is_lazy:
            raise LaunchError(
                f"{access.describe()} has no memory yet, and none can be allocated while another"
                " library records a graph: use the tensor once before"
            )
        uses = storage.timeline.fences(access.tensor.region, writes=access.mode.writes)
        for fence in uses:
            if fence.stream is not stream and fence.count > fence.stream.queue.known:
                raise LaunchError(
                    f"{access.describe()} is still in use on {fence.stream.label}, and nothing can"
                    " be waited for while another library records a graph: call tw.synchronize()"
                    " before that"
                )


def keep_recorded(accesses: tuple[Access, ...], stream: Stream) -> None:
    """Keep our memory forever: the end of another library's graph is not observable."""
    ours = (access.tensor.storage for access in accesses)
    kept = [storage for storage in ours if storage.owns_bytes]
    stream.device.recorded += kept
    for storage in kept:
        storage.lend()
