"""Zips: several operations as one, on one stream; and values in place of operations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from tilewright.errors import LaunchError
from tilewright.runtime.devices.device import Device, current_device
from tilewright.runtime.devices.stream import Stream
from tilewright.runtime.ops.chain import Compound
from tilewright.runtime.ops.lifecycle import Ends, State, Steps
from tilewright.runtime.ops.operation import DeviceOp

__all__ = ["ValueOp", "Zip", "value", "zip_operations"]

T = TypeVar("T")


class Zip(Compound[tuple[Any, ...]]):
    """Several operations, one after the other on one stream; the result has an item for each."""

    __slots__ = ("_parts",)

    def __init__(
        self, parts: tuple[DeviceOp[Any], ...], device: Device, label: str = "zip"
    ) -> None:
        super().__init__(label, device)
        self._parts = parts

    def parts(self) -> Iterable[DeviceOp[Any]]:
        """The operations, in order."""
        return self._parts

    def run(self, stream: Stream, ends: Ends) -> Steps[tuple[Any, ...]]:
        """Run all operations."""
        results = []
        for part in self._parts:
            results.append((yield part, ends))
        return tuple(results)

    def known_count(self) -> int | None:
        """One result for each operation."""
        return len(self._parts)


def zip_operations(*parts: Any, label: str = "zip") -> Zip:
    """Several operations as one: `tw.zip(a, b)` gives the pair of their results.

    A value among the parts is its own result.
    """
    operations = [part for part in parts if isinstance(part, DeviceOp)]
    if len(operations) < len(parts) and any(map(_has_operations, parts)):
        raise LaunchError(
            "the parts of a zip are given one by one, and this is a list of operations, which would"
            " not run: `tw.zip(*operations)`"
        )
    device = operations[0].device if operations else current_device()
    for other in operations:
        if other.device is not device:
            raise LaunchError(
                f"{other.name} runs on {other.device.name} and {operations[0].name} on"
                f" {device.name}: the parts of a zip run on one stream"
            )
    begun: list[DeviceOp[Any]] = []
    try:
        for operation in operations:
            if operation.state is State.BUILT:
                begun.append(operation)
            operation.take()
        made = tuple(
            part if isinstance(part, DeviceOp) else ValueOp(part, device) for part in parts
        )
        return Zip(made, device, label)
    except BaseException:
        for taken in begun:
            taken.untake()
        raise


def _has_operations(part: Any) -> bool:
    return isinstance(part, (list, tuple)) and any(isinstance(one, DeviceOp) for one in part)


class ValueOp(Compound[T]):
    """An operation whose result exists already."""

    __slots__ = ("_value",)

    def __init__(self, value: T, device: Device) -> None:
        super().__init__("value", device)
        self._value = value

    def parts(self) -> Iterable[DeviceOp[Any]]:
        """None."""
        return ()

    def run(self, stream: Stream, ends: Ends) -> Steps[T]:
        """Run nothing."""
        del stream, ends
        yield from ()
        return self._value


def value(result: T, *, device: Device | None = None) -> DeviceOp[T]:
    """An operation that runs nothing and gives this result."""
    return ValueOp(result, device or current_device())
