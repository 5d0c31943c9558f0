"""A GPU that does nothing; all code above the driver and the assembler is real.

Its times are those of the host alone. Results are undefined, since no kernel runs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import tilewright as tw
from tilewright.backends.cuda import device as cuda_device
from tilewright.backends.cuda import program as cuda_program
from tilewright.jit.cache import disk as disk_cache
from tilewright.runtime.interop import torch_tensors

__all__ = ["NullDriver", "null_gpu"]


class _AnySizes(tuple[int, ...]):
    """Placeholder sizes of parameters."""

    __slots__ = ()

    def __ne__(self, other: object) -> bool:
        return False


class NullDriver:
    """A GPU that does nothing."""

    target = "sm_90"
    multiprocessors = 132

    def __init__(self) -> None:
        self._addresses = itertools.count(0x7F00_0000_0000, 1 << 20)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *_: name

    def adopt_stream(self, number: int) -> int:
        return number

    def stream_number(self, stream: Any) -> int:
        return stream if isinstance(stream, int) else id(stream)

    def query_stream(self, stream: Any) -> bool:
        return True

    def is_capturing(self, stream: Any) -> bool:
        return False

    def allocate(self, nbytes: int, pool: Any, stream: Any) -> int:
        return next(self._addresses)

    def parameter_sizes(self, kernel: Any) -> _AnySizes:
        return _AnySizes()

    def launch(self, kernel: Any, blocks: int, parameters: int, stream: Any) -> None:
        pass

    def prepare_launch(self, *_: Any) -> Callable[[Any, Any], None]:
        return lambda stream, tensors: None


class _OnTheGpu(dict[Any, tw.Device]):
    """The place of a tensor, by torch's device type."""

    def __missing__(self, place: object) -> tw.Device:
        return self.setdefault(place, tw.Device("cuda"))

    def get(self, place: object, default: object = None) -> tw.Device:  # type: ignore[override]
        return self[place]


def _default_stream(_: int) -> int:
    return 0


def _always(_: object) -> bool:
    return True


def _tell_nobody(_: object, __: object) -> None:
    """Leave torch's allocator alone: streams are mere numbers, and the memory is the CPU's."""


@contextmanager
def null_gpu() -> Iterator[None]:
    """Replace the driver and the assembler; torch's memory counts as the GPU's."""
    with (
        mock.patch.object(torch_tensors, "_devices", _OnTheGpu()),
        mock.patch.object(torch_tensors.TORCH, "current_number", _default_stream),
        mock.patch.object(torch_tensors, "_is_allocated_by_torch", _always),
        mock.patch.object(torch_tensors, "_tell_allocator", _tell_nobody),
        mock.patch.object(cuda_device, "open_driver", return_value=NullDriver()),
        mock.patch.object(cuda_program, "assemble", return_value=b""),
        mock.patch.object(disk_cache, "open_cache", return_value=None),
    ):
        yield
