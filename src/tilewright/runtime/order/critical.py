"""Critical sections: one call at a time changes the order of work on a device.

Uses, borrows and stream clocks change in several steps. Other threads wait for the device's lock
meanwhile. In the same thread Python may run a finaliser or a signal handler between two steps: a
call from there is always refused, and changes nothing. Finalisers of this package only append to
the deferred queue.

A signal handler may also raise between two steps. A change that cannot be undone is called plainly,
in a `try`, and insisted on after an exception, `except BaseException: insist(change); raise`: it is
repeated from the start until it completes, so each of its steps is idempotent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from tilewright.errors import LaunchError

if TYPE_CHECKING:
    from tilewright.runtime.devices.device import Device

__all__ = ["check_idle", "critical", "insist", "reentered"]

P = ParamSpec("P")
T = TypeVar("T")
_TRIES = 16  # of a change that exceptions interrupt


def critical(
    device: Device, label: str, act: Callable[P, T], *args: P.args, **kwargs: P.kwargs
) -> T:
    """Call a function as one critical section, named by `label` in messages."""
    with device.lock:
        check_idle(device)
        try:
            device.busy = label
            return act(*args, **kwargs)
        finally:
            device.busy = None


def check_idle(device: Device) -> None:
    """Refuse a call inside a critical section. The device's lock is held."""
    if device.busy is not None:
        raise reentered(device)


def reentered(device: Device) -> LaunchError:
    """The refusal of a call that interrupts a critical section."""
    return LaunchError(
        f"{device.name} is in the middle of {device.busy}, which this call has interrupted, as a"
        " finaliser or a signal handler does, and nothing is built, submitted or read there"
        " meanwhile: note the work, and do it when that call is over"
    )


def insist(change: Callable[[], object]) -> None:
    """Call a change until it completes, in spite of exceptions of signal handlers."""
    for left in reversed(range(_TRIES)):
        try:
            change()
        except BaseException:
            if not left:
                raise  # not a signal: the change itself fails
        else:
            return
