"""Devices, the current device and the default one.

There is one `Device` object for each device of the process. It owns the lock that makes a
submission atomic, the deferred queue, and the streams. The context (`with tw.device("cuda:1"):`)
only decides where new tensors are made.

A forked child has none of our threads: the CPU device starts its workers anew, CUDA work is
refused. At exit the streams are waited for, the threads that watch them end, and failures that no
call has raised are reported. If Ctrl-C ends the process, kernels that can be stopped are stopped.
"""

from __future__ import annotations

import atexit
import gc
import logging
import sys
import threading
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self, cast
from weakref import ref

from tilewright.errors import DriverError, LaunchError
from tilewright.given import shown
from tilewright.native import slots_in_c
from tilewright.runtime.devices.backend import Backend, load_backend
from tilewright.runtime.devices.context import ContextFlag, Setting
from tilewright.runtime.devices.process import ForkedLock, in_children
from tilewright.runtime.devices.stream import (
    RoundRobin,
    SchedulingPolicy,
    Stream,
    find_unused,
    sync_all,
)
from tilewright.runtime.memory.pool import Pool
from tilewright.runtime.order.critical import check_idle
from tilewright.runtime.order.deferred import DeferredQueue
from tilewright.runtime.order.failure import FailureRecord, Outcome, report_unseen

if TYPE_CHECKING:
    from tilewright.runtime.memory.storage import Storage

__all__ = [
    "CHOSEN_DEVICE",
    "LEGACY_STREAM",
    "PER_THREAD_STREAM",
    "Device",
    "current_device",
    "device",
    "find_device",
    "open_devices",
    "synchronize",
]

# Stream numbers that the driver reserves.
LEGACY_STREAM, PER_THREAD_STREAM = 1, 2

_log = logging.getLogger("tilewright")


@slots_in_c
class Device:
    """A device by name: `cpu`, `cpu:1`, `cuda`, `cuda:0`. The same name gives the same object."""

    __slots__ = (
        "_policy", "adopted", "backend", "busy", "current", "default", "deferred", "forked",
        "kind", "lock", "name", "ordinal", "pools", "recorded", "storages", "stream_owners",
        "streams", "target", "unseen", "usual_pool",
    )  # fmt: skip

    def __new__(cls, name: str = "cpu") -> Self:
        """Find the device, opening it on first use."""
        if not isinstance(name, str):
            raise LaunchError(f"a device has a name, 'cpu' or 'cuda:1', and {shown(name)} is none")
        kind, ordinal = _parse(name)
        known = _devices.get((kind, ordinal))
        if known is not None:
            return cast("Self", known)
        with _opening:
            found = _devices.get((kind, ordinal))
            if found is None:
                backend = load_backend(kind).open_device(ordinal)
                found = super().__new__(cls)
                found.attach(kind, ordinal, backend)
                _devices[kind, ordinal] = found  # visible to other threads from here on
            return cast("Self", found)

    def attach(self, kind: str, ordinal: int, backend: Backend) -> None:
        """Set up a new device object on an opened backend."""
        self.backend = backend
        self.kind, self.ordinal = kind, ordinal
        self.name = kind if (kind, ordinal) == ("cpu", 0) else f"{kind}:{ordinal}"
        self.target: str = self.backend.target
        self.lock = threading.RLock()
        self.deferred = DeferredQueue()
        self.busy: str | None = None  # the label of the current critical section
        self.forked = False
        self.unseen: set[Outcome] = set()
        self.storages: dict[int, ref[Storage]] = {}  # those with bytes, by ids of allocations
        self.recorded: list[Storage] = []  # storages in graphs of other libraries, never freed
        self.streams: list[Stream] = []
        self.adopted: dict[int, Stream] = {}  # those of other libraries, by the driver's number
        self.stream_owners: dict[Stream, Any] = {}
        self.current: ContextFlag[Stream] = ContextFlag(f"stream of {self.name}")
        self.default: Stream | None = None  # outside such contexts; None before its first use
        self._policy: SchedulingPolicy | None = None
        self.pools: ContextFlag[Pool] = ContextFlag(f"pool of {self.name}")
        self.usual_pool: Pool | None = None  # outside such contexts; None before its first use

    @property
    def policy(self) -> SchedulingPolicy:
        """The streams of awaited operations: by default four in turn."""
        if self._policy is None:
            with self.lock:
                self._policy = self._policy or RoundRobin(self)
        return self._policy

    @policy.setter
    def policy(self, chosen: SchedulingPolicy) -> None:
        self._policy = chosen

    @property
    def stream(self) -> Stream:
        """The current stream of this device."""
        chosen = self.current.get()
        if chosen is not None:
            return chosen
        if self.default is None:
            with self.lock:
                self.default = self.default or Stream(self, "default stream")
        return self.default

    def new_stream(self) -> Stream:
        """A stream that is ordered with others only where operations conflict.

        An idle stream without references is reused.
        """
        with self.lock:
            self.check_usable()
            return find_unused(self.streams) or Stream(self)

    def adopt(self, stream: Any) -> Stream:
        """A stream of another library, to be used like one of ours; `op.submit(…)` also takes it.

        It is any object with `__cuda_stream__`, or a stream of torch. It is kept forever.
        """
        if isinstance(stream, Stream):
            return stream
        protocol = getattr(stream, "__cuda_stream__", None)
        number = getattr(stream, "cuda_stream", None) if protocol is None else protocol()[1]
        if not isinstance(number, int):
            raise LaunchError(
                f"a stream has `__cuda_stream__`, and {type(stream).__name__} has not: give one of"
                " ours, or the stream object of the other library and not its number"
            )
        with self.lock:
            found = self.adopt_stream(number)
            self.stream_owners[found] = stream  # a destroyed stream cannot be waited for
        return found

    def adopt_stream(self, number: int) -> Stream:
        """A stream of another library, by the driver's number."""
        number = number or LEGACY_STREAM
        if number == PER_THREAD_STREAM:
            raise LaunchError(
                "the per-thread default stream of CUDA is another stream in every thread, so work"
                " on it cannot be ordered: use a stream of its own there"
            )
        found = self.adopted.get(number)
        if found is None:
            with self.lock:
                known = (one for one in self.streams if one.queue.number == number)
                found = next(known, None)
                if found is None:
                    queue = self.backend.adopt_queue(number)
                    found = Stream(self, f"another library's stream {number:#x}", queue)
                self.adopted[number] = found
        return found

    def using(self, chosen: Stream) -> Setting[Stream]:
        """Make a stream the current one of this device."""
        return Setting(chosen, (self.current, chosen))

    @property
    def pool(self) -> Pool:
        """The pool of new tensors."""
        chosen = self.pools.get()
        if chosen is not None:
            return chosen
        if self.usual_pool is None:
            with self.lock:
                self.usual_pool = self.usual_pool or Pool(self)
        return self.usual_pool

    def new_record(self) -> FailureRecord:
        """A failure record for one operation."""
        with self.lock:
            self.check_usable()
            return self.backend.take_record()

    def check_open(self) -> None:
        """Refuse a call in a forked child, or inside a critical section."""
        self.check_usable()
        check_idle(self)

    def check_usable(self) -> None:
        """Refuse work in a child process that shares its parent's CUDA context."""
        if self.forked:
            raise DriverError(
                f"{self.name} was opened before this process was forked, and CUDA does not survive"
                " a fork: start the process with the `spawn` method instead"
            )

    def restart(self) -> None:
        """Restart in a forked child, if the device can."""
        self.lock = threading.RLock()
        self.busy = None
        self.forked = not self.backend.survives_fork
        if self.forked:
            return
        for one in self.streams:
            one.queue.restart()

    def settle_deferred(self) -> None:
        """Settle the deferred work of finalisers. The lock is held."""
        if self.deferred:
            self.deferred.settle(self)

    def collect_dropped(self) -> bool:
        """Collect garbage cycles and settle their deferred work; False if none. The lock is held.

        A traceback refers to the frames that refer to the operation that keeps the exception. Such
        cycles are usually young, so the old generation is not collected.
        """
        busy = self.busy
        try:
            self.busy = None  # nothing has changed yet: finalisers may launch
            gc.collect(1)
            found = bool(self.deferred)
            self.settle_deferred()
        finally:
            self.busy = busy
        return found

    def empty_free_lists(self) -> None:
        """Free the memory of all free lists to its pool. The lock is held."""
        self.settle_deferred()
        for one in self.streams:
            one.free_list.empty(one)

    def synchronize(self) -> None:
        """Wait for every stream of this device; then raise the first failure not raised yet."""
        self.check_usable()
        with self.lock:
            if self.deferred:
                # This frees memory behind the streams, which are waited for as well.
                self.settle_deferred()
                for one in self.streams:
                    one.advance()
        sync_all(tuple(self.streams))
        with self.lock:
            self.settle_deferred()

    def __repr__(self) -> str:
        return f"Device({self.name!r})"

    def __reduce__(self) -> tuple[type[Device], tuple[str]]:
        return (Device, (self.name,))


_devices: dict[tuple[str, int], Device] = {}
_opening = ForkedLock()  # held while a device is opened
# The innermost `with tw.device(…)`.
CHOSEN_DEVICE: ContextFlag[Device] = ContextFlag("device")
_default: list[Device] = []


@lru_cache(maxsize=64)
def _parse(name: str) -> tuple[str, int]:
    kind, colon, ordinal = name.partition(":")
    if colon and not (ordinal.isascii() and ordinal.isdecimal()):
        raise LaunchError(f"{name!r} is no device: say 'cpu', 'cuda' or one by number, 'cuda:1'")
    return kind, int(ordinal or 0)


def current_device() -> Device:
    """The device of new tensors: the innermost `with tw.device(…)`, else the default device."""
    chosen = CHOSEN_DEVICE.get()
    if chosen is not None:
        return chosen
    if not _default:
        with _opening:
            if not _default:
                _default.append(_find_default())
    return _default[0]


def _find_default() -> Device:
    reason = load_backend("cuda").missing()
    if reason is None:
        return Device("cuda:0")
    _log.warning("tilewright: %s; tensors are made on the CPU", reason)
    return Device("cpu")


def find_device(given: Device | str) -> Device:
    """A device, given by name or as an object."""
    return given if isinstance(given, Device) else Device(given)


def device(chosen: Device | str) -> Setting[Device]:
    """Make new tensors on a device: `with tw.device("cuda:1"): …`."""
    target = find_device(chosen)
    return Setting(target, (CHOSEN_DEVICE, target))


def open_devices() -> tuple[Device, ...]:
    """Every device that this process has used."""
    return tuple(_devices.values())


def synchronize() -> None:
    """Wait for all submitted work on every device; then raise a failure not raised yet."""
    devices = open_devices()
    sync_all(tuple(stream for one in devices for stream in one.streams))
    for one in devices:
        one.synchronize()


# --- fork and exit of the process -----------------------------------------------------------------


def _start_child() -> None:
    """Renew every lock and worker in a forked child, where no thread releases a held lock."""
    for one in open_devices():
        one.restart()


def _finish() -> None:
    for one in open_devices():
        if not one.forked:
            _finish_device(one)


def _ends_by_interrupt() -> bool:
    """Whether Ctrl-C ends a script: then an endless kernel is not waited for."""
    last = getattr(sys, "last_type", None)
    return last is KeyboardInterrupt and not hasattr(sys, "ps1")


def _finish_device(device: Device) -> None:
    try:
        is_interrupted = _ends_by_interrupt()
        for stream in device.streams:
            if is_interrupted:
                stream.queue.stop_all()
            stream.queue.end_holds()
        for stream in device.streams:
            stream.wait(stream.issued)
        device.backend.end()
    except DriverError:
        return  # the context is lost, and the call that found out has raised
    with device.lock:
        report_unseen(device.unseen)
        device.unseen.clear()


in_children(_start_child)
atexit.register(_finish)
