"""What launches of new tensors do to each of them, spelled out: a loop takes three times as long.

And while nothing is called, nothing is made and nothing is done again, no finaliser runs: what one
line has seen is still so in the next.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from tilewright.runtime.order.access import Handle
from tilewright.runtime.text_functions import define

if TYPE_CHECKING:
    from tilewright.runtime.devices.device import Device
    from tilewright.runtime.devices.stream import Stream
    from tilewright.runtime.ops.newcomers import NewcomerOp

__all__ = ["PerTensor", "spell_out"]

_Tensors = tuple[Handle, ...]


class PerTensor(NamedTuple):
    """For so many tensors, of which the launch writes some. The device's lock is held."""

    # Whether nobody holds any of them and all have one home, but for those that are fresh; that is
    # noted in the operation.
    look: Callable[[NewcomerOp[Any], _Tensors], bool]
    # Leaves its region and a count on every storage. False if a finaliser has done something
    # meanwhile, so that the device may not be in the epoch that is given: then some have none.
    leave: Callable[[_Tensors, int, Device, int, Stream], bool]


_LOOK = """
    storage = tensors[{number}].storage
    if storage.borrows:
        return False
    if storage.is_fresh:
        has_fresh = True
    elif home is None:
        home = storage.home
        if home is None:
            return False
    elif storage.home is not home:
        return False"""

# The count first: without a region it counts for nothing.
_LEAVE = """
    tensor = tensors[{number}]
    left = tensor.storage.{kind}_at_home
    region = tensor.region
    if left.region is not region and left.region is not None:
        left.set_aside(home)
        if device.epoch != epoch or left.region is not None:
            return False
    left.count = count
    left.region = region"""

_TEXT = """
def look(operation, tensors):
    home, has_fresh = None, False{looks}
    operation.home, operation.has_fresh = home, has_fresh
    return True

def leave(tensors, count, device, epoch, home):
    if device.epoch != epoch:
        return False{leaves}
    return True
"""


@cache
def spell_out(writes: tuple[bool, ...]) -> PerTensor:
    """The functions for tensors of which a launch writes these and reads the others."""
    looks = "".join(_LOOK.format(number=number) for number in range(len(writes)))
    leaves = "".join(
        _LEAVE.format(number=number, kind="written" if is_written else "read")
        for number, is_written in enumerate(writes)
    )
    made = define(_TEXT.format(looks=looks, leaves=leaves), "each tensor", {})
    return PerTensor(made["look"], made["leave"])
