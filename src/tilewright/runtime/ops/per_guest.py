"""What launches ask of arrays of other libraries, and tell those: spelled out, as in `per_tensor`.

Beyond that, one that is made over and over with such arrays does what it does with tensors of ours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from tilewright.runtime.devices.device import LEGACY_STREAM, Device
from tilewright.runtime.devices.stream import Stream
from tilewright.runtime.interop.torch_functions import TORCH
from tilewright.runtime.order.access import Handle
from tilewright.runtime.text_functions import define

__all__ = ["Guests", "find_guests"]

_Tensors = tuple[Handle, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Guests:
    """Which tensors of an operation are arrays of other libraries, by their numbers."""

    all: tuple[int, ...]
    written: tuple[int, ...]
    # Whether the libraries let those be written that are; it may say no though they do.
    may_write: Callable[[_Tensors], bool]
    # Whether a launch may go to their home at once: all of them are torch's, which works on that
    # stream now and records nothing there, and has moved or shrunk none. Then those that are
    # written count as
    # that from here on. It may say no though it may.
    may_follow: Callable[[Stream, Device, _Tensors], bool]


_MAY_WRITE = """
        if tensors[{number}].storage.producer().requires_grad:
            return False"""
# Only what was passed as it is gives an array that lies anywhere, and that is torch's. The memory
# that the handle keeps is looked at as well: it is that which has to be there and reach far enough.
_IS_THERE = """
        storage = tensors[{number}].storage
        producer, first = storage.producer, storage.first
        if (
            producer().data_ptr() != first
            or producer.array.data_ptr() != first
            or producer.memory.nbytes() < producer.needed
        ):
            return False"""
_WRITTEN = """
    producer = tensors[{number}].storage.producer
    if producer.written:
        torch.raise_versions(producer.written)
    else:
        producer.note_write()"""
# An array that is gone has no attributes.
_TEXT = """
def may_write(tensors):
    try:{may_write}
    except AttributeError:
        return False
    return True

def may_follow(stream, device, tensors):
    try:{are_there}
    except AttributeError:
        return False
    queue = stream.queue
    if (torch.current_number(device.ordinal) or legacy) != queue.number:
        return False
    if not stream.is_plain and queue.is_capturing():
        return False{written}
    return True
"""


@cache
def find_guests(numbers: tuple[int, ...], written: tuple[int, ...]) -> Guests | None:
    """Those with these numbers, of which an operation writes some; None if there are none."""
    if not numbers:
        return None
    text = _TEXT.format(
        may_write=_for_each(written, _MAY_WRITE) or " pass",
        are_there=_for_each(numbers, _IS_THERE),
        written=_for_each(written, _WRITTEN),
    )
    made = define(text, "each array", {"torch": TORCH, "legacy": LEGACY_STREAM})
    return Guests(numbers, written, made["may_write"], made["may_follow"])


def _for_each(numbers: tuple[int, ...], text: str) -> str:
    return "".join(text.format(number=number) for number in numbers)
