"""Changes in several steps, in the middle of which nothing else of ours happens.

What operations have left on storages, the leases of graphs, and how far streams have waited for
others change in more than one step. Other threads wait for the device's lock meanwhile. In the same
thread the collector may run a finaliser that launches something: so it is stopped. A signal handler
cannot be stopped: if it builds or submits something, that is refused.

What has to be quick goes without: launches at home, and replays that need not look. It makes sure
behind its steps that the device is still in the epoch that it was in before: whoever has changed
something since has begun another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from tilewright.errors import LaunchError
from tilewright.runtime.order.collector import uncollected

if TYPE_CHECKING:
    from tilewright.runtime.devices.device import Device

__all__ = ["alone", "among_others", "check_alone"]

P = ParamSpec("P")
T = TypeVar("T")


# Added to the epoch in a change: nothing was ever looked at in such a one, so nothing is calm.
_APART = 1 << 50


def alone(device: Device, act: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call something in the middle of which nothing else happens. The lock is held."""
    return uncollected(_barred, device, act, args, kwargs)


def _barred(
    device: Device, act: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> T:
    changes = device.changes
    try:
        # Nothing is called before the last of these: what a signal raises finds all or none.
        device.epoch += _APART
        device.is_barred = True
        device.changes = changes + 1
        return act(*args, **kwargs)
    finally:
        device.epoch -= _APART
        device.changes = changes
        device.is_barred = changes > 0 or device.forked


def among_others(device: Device, act: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call something that others may do things in, at a point where all is as it should be."""
    changes = device.changes
    try:
        device.epoch -= changes * _APART
        device.is_barred = device.forked
        device.changes = 0
        return act(*args, **kwargs)
    finally:
        device.epoch += changes * _APART
        device.changes = changes
        device.is_barred = changes > 0 or device.forked


def check_alone(device: Device) -> None:
    """Refuse what begins in the middle of a change. The lock is held, so it is one's own."""
    if device.changes:
        raise LaunchError(
            f"{device.name} is in the middle of another call, which this one has interrupted, as a"
            " signal handler does, and nothing can be built or submitted there: have the handler"
            " note what there is to do, and do it when that call is over"
        )
