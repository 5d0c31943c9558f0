"""Steps of chains: functions in which no call may wait for the device.

A step sees handles: their work has been put on the stream and may not have started. A wait would
block the chain in the middle of its submission. Plain calls in a step use the stream of the chain.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol

from tilewright.errors import LaunchError

if TYPE_CHECKING:
    from tilewright.runtime.devices.device import Device
    from tilewright.runtime.devices.stream import Stream

__all__ = ["Inside", "is_inside_chain", "refuse_waiting"]


class Named(Protocol):
    """A chain, by name and device."""

    @property
    def name(self) -> str:
        """The name in messages."""

    @property
    def device(self) -> Device:
        """The device that it runs on."""


_chain: ContextVar[Named | None] = ContextVar("chain", default=None)


class Inside:
    """The context in which the steps of a chain run."""

    __slots__ = ("_chain", "_current", "_value")

    def __init__(self, chain: Named, stream: Stream) -> None:
        self._chain = chain
        self._current = chain.device.current
        self._value = chain.device.current.new_value(stream)

    def call(self, step: Callable[[Any], Any], result: Any) -> Any:
        """Call a step with a result."""
        chain, before = _chain.get(), self._current.find()
        stream = self._current.variable
        # Each `finally` has one call, of C, so a signal handler raises after it.
        try:
            try:
                _chain.set(self._chain)
                stream.set(self._value)
                return step(result)
            finally:
                stream.set(before)
        finally:
            _chain.set(chain)


def is_inside_chain() -> bool:
    """Whether the caller runs as a step of a chain."""
    return _chain.get() is not None


def refuse_waiting(what: str) -> None:
    """Refuse a call that waits for the device, while a chain is being submitted."""
    chain = _chain.get()
    if chain is not None:
        raise LaunchError(
            f"{what} waits for the device, and this is a step of {chain.name} which is being"
            " submitted: a step sees handles, not values; return the operation, and read when the"
            " chain has been synced"
        )
