"""The deferred queue: work of finalisers, done by the next call.

The collector may run a finaliser anywhere, so it takes no lock and calls no driver. It appends to
the queue of its device, which the next build, submission or wait settles.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from operator import call
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from tilewright.runtime.devices.device import Device

__all__ = ["DeferredCall", "DeferredQueue", "DeferredWork", "Postponed"]


class DeferredWork(Protocol):
    """One piece of deferred work."""

    @property
    def may_be_repeated(self) -> bool:
        """Whether it is repeated from the start after a signal handler has raised in it."""

    def settle(self) -> None:
        """Do the work; the device's lock is held."""


class DeferredCall(NamedTuple):
    """Deferred work that is a call of a function, which keeps all that it needs."""

    act: Callable[[], object]
    may_be_repeated: bool = True

    def settle(self) -> None:
        """Call the function."""
        self.act()


class DeferredQueue(deque[DeferredWork]):
    """Deferred work of one device. Any thread may append at any time."""

    __slots__ = ("_interrupted",)

    def __init__(self) -> None:
        super().__init__()
        self._interrupted: DeferredWork | None = None  # the last work that an exception broke off

    def settle(self, device: Device) -> None:
        """Settle all work, each as a critical section; a no-op in another. The lock is held."""
        while self and device.busy is None:
            taken: list[DeferredWork] = []
            try:
                # One call of C: a signal handler raises while the work is queued, or when it is in
                # `taken`.
                taken.extend(map(call, (self.popleft,)))
                device.busy = "deferred work"
                taken[0].settle()
            except BaseException as error:
                if not taken and isinstance(error, IndexError):
                    return  # a finaliser has settled the rest
                self._put_back(taken, error)
                raise
            finally:
                device.busy = None
            del taken  # its finalisers may append more work, or launch

    def _put_back(self, taken: list[DeferredWork], error: BaseException) -> None:
        """Queue interrupted work again; work that fails twice by itself is dropped."""
        fails = isinstance(error, Exception) and bool(taken) and taken[0] is self._interrupted
        self._interrupted = taken[0] if taken else None
        self.extendleft([one for one in taken if one.may_be_repeated and not fails])


class Postponed:
    """Queues deferred work when a stream drops it: `stream.keep(Postponed(device, work))`."""

    __slots__ = ("_device", "_work")

    def __init__(self, device: Device, work: DeferredWork) -> None:
        self._device = device
        self._work = work

    def __del__(self) -> None:
        # No lock and no driver call: a stream may be dropped at any point.
        self._device.deferred.append(self._work)
