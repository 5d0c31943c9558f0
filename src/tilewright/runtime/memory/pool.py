"""Memory pools: the source of tensors' bytes, with their statistics and limits.

Each device has a pool of its own, so that its statistics count our memory alone; `with tw.pool(p):`
makes new tensors in another one. If a pool has no room, all work in flight is waited for, dropped
storages are freed, and the allocation is tried once more.
"""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

from tilewright.errors import LaunchError, OutOfMemoryError
from tilewright.given import int_or, shown
from tilewright.runtime.devices.backend import BackendPool, PoolStatistics
from tilewright.runtime.devices.context import Setting
from tilewright.runtime.devices.stream import Stream, check_device
from tilewright.runtime.ops.refusals import OnlyOne
from tilewright.runtime.order.failure import Allocation

if TYPE_CHECKING:
    from tilewright.runtime.devices.device import Device
    from tilewright.runtime.memory.storage import Storage

__all__ = ["Pool", "allocate", "in_units", "pool"]

_LARGEST = 5  # storages that a message names
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


class Pool(OnlyOne):
    """Memory of one device, taken from the system as needed and kept for the next tensor.

    `release_threshold` bytes are kept when nothing is in use; `limit` is the most it may hold.
    """

    not_copied = "a pool is memory of its device and is not copied: make another, `tw.Pool(…)`"
    not_pickled = "a pool belongs to this process and is not pickled: make another there"

    def __init__(
        self, device: Device, *, release_threshold: int | None = None, limit: int | None = None
    ) -> None:
        release_threshold = _number_of_bytes("release_threshold", release_threshold)
        limit = _number_of_bytes("limit", limit)
        self.device = check_device(device)
        with device.lock:
            device.check_usable()
            self.backend: BackendPool = device.backend.new_pool(release_threshold, limit)

    def statistics(self) -> PoolStatistics:
        """Bytes in use and taken from the system, now and at most.

        The most in use may count memory on free lists.
        """
        with self.device.lock:
            self.device.empty_free_lists()
            return self.backend.statistics()

    def trim(self, keep: int = 0) -> None:
        """Give unused memory back to the system, all but `keep` bytes of it."""
        kept = _number_of_bytes("keep", keep) or 0
        with self.device.lock:
            self.device.empty_free_lists()
            self.backend.trim(kept)

    def reset_highest(self) -> None:
        """Restart the highest numbers of the statistics at the bytes in use now."""
        with self.device.lock:
            self.device.empty_free_lists()
            self.backend.reset_highest()

    def __repr__(self) -> str:
        return f"<pool of {self.device.name}: {self.statistics()}>"


def pool(chosen: Pool) -> Setting[Pool]:
    """Make new tensors of its device in a pool: `with tw.pool(p): …`."""
    if not isinstance(chosen, Pool):
        raise LaunchError(
            f"tensors are made in a pool, and {type(chosen).__name__} is none: `tw.Pool(device)`"
        )
    return Setting(chosen, (chosen.device.pools, chosen))


def allocate(storage: Storage, stream: Stream) -> Allocation:
    """Bytes for a storage, on the stream of its first user. The device's lock is held."""
    take = stream.queue.allocate
    source = storage.pool.backend
    try:
        allocation: Allocation = take(storage.nbytes, source)
    except OutOfMemoryError:
        _make_room(storage.device, source)
        try:
            allocation = take(storage.nbytes, source)
        except OutOfMemoryError as error:
            raise _refusal(storage, error) from None
    return allocation


def _make_room(device: Device, source: BackendPool) -> None:
    """Wait for all work in flight, and free all dropped storages."""
    gc.collect()  # finalisers only append to the deferred queue, which is settled below
    device.empty_free_lists()
    for _ in range(2):  # a free takes effect when its stream reaches it
        device.settle_deferred()
        for stream in device.streams:
            stream.queue.wait(stream.advance())
            stream.settle()
    source.trim(0)


def _refusal(storage: Storage, error: OutOfMemoryError) -> OutOfMemoryError:
    held = (one() for one in storage.device.storages.values())
    holders = sorted(filter(None, held), key=lambda one: one.nbytes, reverse=True)
    lines = [
        f"{error}: it was for {storage.label} ({in_units(storage.nbytes)}), made at {storage.site}"
    ]
    if holders:
        total = in_units(sum(holder.nbytes for holder in holders))
        lines.append(f"{len(holders)} tensors hold {total} of {storage.device.name}; the largest:")
        for holder in holders[:_LARGEST]:
            lines.append(f"  {in_units(holder.nbytes)}  {holder.label}, made at {holder.site}")
        lines.append("drop tensors that are not needed any more, or use smaller tensors")
    return OutOfMemoryError("\n".join(lines))


def in_units(nbytes: int) -> str:
    """A number of bytes in a readable unit."""
    number, unit = float(nbytes), 0
    while number >= 1024 and unit + 1 < len(_UNITS):
        number, unit = number / 1024, unit + 1
    return f"{number:.1f} {_UNITS[unit]}" if unit else f"{nbytes} bytes"


def _number_of_bytes(name: str, given: Any) -> int | None:
    """A number of bytes, or none."""
    number = None if given is None else int_or(given, -1)
    if number is not None and number < 0:
        raise LaunchError(f"{name}={shown(given)}: it is a number of bytes")
    return number
