"""Compiled kernels on a GPU: load a cubin, pack parameters, launch.

Parameters are passed as an array of addresses into one packed buffer. The driver copies them during
the call and launches happen under the device's lock, so one buffer serves all launches of a
function. A finaliser that launches between packing and the call gets another buffer.
"""

from __future__ import annotations

import ctypes
import functools
import struct
from collections.abc import Callable
from typing import cast

import numpy as np

from tilewright.backends.cuda.driver import Driver
from tilewright.backends.cuda.stream import CudaQueue
from tilewright.dtypes import Element
from tilewright.errors import InternalError
from tilewright.runtime.devices.function import Filled, Memory, ReadyCall
from tilewright.runtime.devices.stream import Stream
from tilewright.runtime.order.access import Handle
from tilewright.runtime.text_functions import define

__all__ = ["POINTER", "CudaFunction", "Kind", "Packer", "Packers"]

POINTER = None  # the kind of a parameter that is an address
# Kind of a parameter: an element, or an address.
Kind = Element | None

_SLOT = 8  # bytes of each parameter's slot, whatever its size
_CODES: dict[Kind, str] = {
    POINTER: "Q",
    Element.I1: "?",
    Element.I8: "b",
    Element.I16: "h",
    Element.I32: "i",
    Element.I64: "q",
    Element.F16: "e",
    Element.F32: "f",
    Element.TF32: "f",
    Element.F64: "d",
}
_NARROW = frozenset({Element.BF16, Element.F8E4M3FN, Element.F8E5M2, Element.F8E8M0FNU})
_BITS = {1: "B", 2: "H"}  # floats that `struct` lacks are passed as their bits


class Packer:
    """Packs arguments into the buffer that the driver reads."""

    def __init__(self, kinds: tuple[Kind, ...], *, may_change: bool = False) -> None:
        self._kinds = kinds
        self.may_change = may_change  # between launches that were prepared with it
        self._struct = struct.Struct("<" + "".join(_slot_code(kind) for kind in kinds))
        self._buffer = ctypes.create_string_buffer(max(len(kinds), 1) * _SLOT)
        start = ctypes.addressof(self._buffer)
        addresses = (start + _SLOT * position for position in range(len(kinds)))
        self._pointers = (ctypes.c_void_p * max(len(kinds), 1))(*addresses)
        self.address = ctypes.addressof(self._pointers)
        self.slots = memoryview(self._buffer).cast("B").cast("Q")  # for addresses alone
        self._converted = any(kind in _NARROW for kind in kinds)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Size in bytes of each parameter."""
        return tuple(struct.calcsize(_code(kind)) for kind in self._kinds)

    def pack(self, arguments: tuple[int | float, ...]) -> int:
        """Write the arguments; return the address of the array of their addresses."""
        if self._converted:
            arguments = self._convert(arguments)
        try:
            self._struct.pack_into(self._buffer, 0, *arguments)
        except struct.error:
            # An unsigned value above the signed range has the same bits as a negative one.
            self._struct.pack_into(self._buffer, 0, *self._wrap(arguments))
        return self.address

    def packed(self, position: int) -> bytes:
        """Return the current bytes of one parameter."""
        return self._buffer.raw[position * _SLOT :][: self.sizes[position]]

    def _convert(self, arguments: tuple[int | float, ...]) -> tuple[int | float, ...]:
        pairs = zip(self._kinds, arguments, strict=True)
        return tuple(_bits(kind, value) if kind in _NARROW else value for kind, value in pairs)

    def _wrap(self, arguments: tuple[int | float, ...]) -> tuple[int | float, ...]:
        if len(arguments) != len(self._kinds):
            raise InternalError(f"{len(arguments)} arguments for {len(self._kinds)} parameters")
        pairs = zip(self._kinds, arguments, strict=True)
        return tuple(_signed(kind, value) for kind, value in pairs)


class Packers:
    """The packer of a function's launches, one at a time. The device's lock is held."""

    def __init__(self, kinds: tuple[Kind, ...]) -> None:
        self._kinds = kinds
        self._free: Packer | None = Packer(kinds)
        self.sizes: tuple[int, ...] = self._free.sizes  # size in bytes of each parameter

    def take(self) -> Packer:
        """Return the packer, or another one if a launch in progress still needs it."""
        packer, self._free = self._free or Packer(self._kinds), None
        return packer

    def put_back(self, packer: Packer) -> None:
        """Return a packer whose bytes the driver has copied."""
        self._free = packer


class CudaFunction:
    """A kernel of a cubin, ready to launch."""

    def __init__(
        self,
        driver: Driver,
        cubin: bytes,
        name: str,
        kinds: tuple[Kind, ...],
        *,
        waits: bool = False,
    ) -> None:
        self._driver = driver
        self._kernel = driver.load_kernel(cubin, name, waits)
        self._kinds = kinds
        self._packers = Packers(kinds)
        expected, passed = driver.parameter_sizes(self._kernel), self._packers.sizes
        if expected != passed:
            raise InternalError(
                f"kernel {name} takes parameters of {expected} bytes, and the host would pass"
                f" {passed}"
            )

    def launch(
        self,
        stream: Stream,
        blocks: int,
        arguments: tuple[int | float, ...],
        memories: tuple[Memory, ...],
    ) -> None:
        """Enqueue a launch of `blocks` blocks; without blocks it does nothing."""
        if blocks:
            queue = cast("CudaQueue", stream.queue)
            packer = self._packers.take()
            queue.launch(self._kernel, blocks, packer.pack(arguments))
            self._packers.put_back(packer)

    def prepare(self, blocks: int, arguments: tuple[int | float, ...]) -> ReadyCall:
        """Return the same launch with parameters of its own, which never change."""
        if not blocks:
            return _nothing
        packer = Packer(self._kinds)
        packer.pack(arguments)
        return self._driver.prepare_launch(self._kernel, blocks, packer)

    def prepare_for(
        self, blocks: int, arguments: tuple[int | float, ...], addresses: tuple[Filled, ...]
    ) -> ReadyCall:
        """Return the same launch for any tensors: as in `launch`, one buffer is enough."""
        if not blocks:
            return _nothing

        def make() -> _Fillable:
            packer = Packer(self._kinds, may_change=True)
            packer.pack(arguments)
            return self._driver.prepare_launch(self._kernel, blocks, packer), packer.slots

        return _filling(addresses)(make)


# A call, and the slots of its addresses.
_Fillable = tuple[ReadyCall, memoryview]


@functools.cache
def _filling(addresses: tuple[Filled, ...]) -> Callable[[Callable[[], _Fillable]], ReadyCall]:
    """Generate a function that makes a call which fills addresses in, with the loop unrolled.

    def launch(stream, tensors):
        mine, free = free or make(), None
        call, slots = mine
        slots[0] = tensors[0].storage.address + tensors[0].byte_offset
        call(stream, tensors)
        free = mine
    """
    lines = "".join(
        f"\n  tensor = tensors[{number}]"
        f"\n  slots[{position}] = tensor.storage.address + tensor.byte_offset"
        for position, number in addresses
    )
    text = (
        "def fill(make):\n free = make()\n def launch(stream, tensors):\n  nonlocal free"
        "\n  mine, free = free or make(), None\n  call, slots = mine"
        f"{lines}\n  call(stream, tensors)\n  free = mine\n return launch"
    )
    made: Callable[[Callable[[], _Fillable]], ReadyCall]
    made = define(text, "how addresses are filled in", {})["fill"]
    return made


def _nothing(stream: Stream, tensors: tuple[Handle, ...]) -> None:
    """Do nothing, as a launch of no blocks."""


def _code(kind: Kind) -> str:
    if kind in _NARROW:
        assert kind is not None
        return _BITS[kind.bits // 8]
    return _CODES[kind]


def _slot_code(kind: Kind) -> str:
    code = _code(kind)
    return f"{code}{_SLOT - struct.calcsize(code)}x"


def _bits(kind: Kind, value: float) -> int:
    assert kind is not None
    return int.from_bytes(np.asarray(value).astype(kind.numpy).tobytes(), "little")


def _signed(kind: Kind, value: float) -> int | float:
    if kind is None or not kind.is_integer or not isinstance(value, int):
        return value
    half = 1 << (kind.bits - 1)
    return (value + half) % (2 * half) - half
