"""Launches of external kernels, which were compiled elsewhere.

An external kernel has no source, so its arguments are bound and checked by its declaration. The
image is loaded on a device at the first launch there, and the parameters of the loaded function
must agree with the declaration.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any

from tilewright.errors import LaunchError
from tilewright.frontend.signature.signature import ScalarParam, Signature
from tilewright.jit.bind.binding import Binding, bind_arguments
from tilewright.jit.bind.launch import check_devices
from tilewright.jit.loader import cuda_external
from tilewright.runtime.devices.context import require_watchable
from tilewright.runtime.devices.device import Device
from tilewright.runtime.devices.function import LaunchShape, Memory
from tilewright.runtime.devices.stream import Stream
from tilewright.runtime.ops.launch import LaunchOp, make_operation
from tilewright.runtime.order.access import Access, Mode

if TYPE_CHECKING:
    from tilewright.backends.cuda.external import CudaExternalFunction

__all__ = ["ExternalEntry", "bind_external", "build_external"]


@dataclass(frozen=True, eq=False)
class ExternalEntry:
    """A kernel of an image: its signature, and its access to each tensor."""

    code: bytes
    signature: Signature
    modes: Mapping[str, Mode]
    strided: frozenset[str]  # tensors that need not be contiguous
    _functions: dict[str, CudaExternalFunction] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def name(self) -> str:
        """The name of the kernel in the image."""
        return self.signature.kernel

    def function(self, device: Device) -> CudaExternalFunction:
        """The kernel on one GPU, loaded at first use and checked against its declaration."""
        with self._lock:
            if device.name not in self._functions:
                kinds = tuple(  # None stands for an address
                    param.dtype.element if isinstance(param, ScalarParam) else None
                    for param in self.signature.params
                )
                function = cuda_external.load_function(device, self.code, self.name, kinds)
                _check_parameters(self.signature, function)
                self._functions[device.name] = function
            return self._functions[device.name]


def bind_external(entry: ExternalEntry, call: inspect.BoundArguments) -> Binding:
    """Bind the arguments of a call; raises `LaunchError` with the argument's name."""
    binding = Binding(entry.signature)
    bind_arguments(binding, entry.signature.params, call)
    check_devices(binding)
    for name, tensor in binding.tensors.items():
        if not tensor.is_contiguous and name not in entry.strided:
            raise binding.refused(
                name,
                f"is passed as an address, and its elements do not lie in one piece (strides "
                f"{tensor.strides}): pass a `.clone()`, or declare it with strided=True and pass "
                "the strides that the kernel needs",
            )
    if binding.device.kind != "cuda":
        raise LaunchError(
            f"external kernel `{entry.name}` is code for NVIDIA GPUs, and this launch would run on "
            f"{binding.device.name}: make its tensors on a GPU, `with tw.device('cuda'):`"
        )
    require_watchable(binding.device.kind, entry.name)
    return binding


def build_external(
    entry: ExternalEntry, binding: Binding, shape: LaunchShape, result: tuple[Any, ...]
) -> LaunchOp[tuple[Any, ...]]:
    """Build the operation of a call, which borrows its tensors."""
    device = binding.device
    function = entry.function(device)
    _check_shape(entry.name, shape, function)
    with device.lock:
        function.prepare(shape)
    accesses = tuple(
        Access(tensor, entry.modes[name], name) for name, tensor in binding.tensors.items()
    )
    work = _ExternalWork(function, shape, binding)
    return make_operation(entry.name, device, accesses, work, result)


def _check_parameters(signature: Signature, function: CudaExternalFunction) -> None:
    """Check the declared parameters against those that the driver reports, if it does."""
    params, passed, taken = signature.params, function.passed, function.taken
    if len(passed) != len(taken):
        raise LaunchError(
            f"external kernel `{signature.kernel}` takes {len(taken)} parameters, of "
            f"{', '.join(map(str, taken)) or 'no'} bytes, and is declared with {len(passed)}: "
            "declare each of them, in order"
        )
    for param, declared, wanted in zip(params, passed, taken, strict=True):
        if declared != wanted:
            what = "a tensor"
            if isinstance(param, ScalarParam):
                what = f"a scalar of {param.dtype.label}"
            raise LaunchError(
                f"`{param.name}` of external kernel `{signature.kernel}` is declared as {what}, "
                f"which is passed in {declared} bytes, and the code takes {wanted} there: declare "
                "the dtype that its source has"
            )


def _check_shape(name: str, shape: LaunchShape, function: CudaExternalFunction) -> None:
    """Check the shape of a launch against the limits of the kernel on this GPU."""
    threads, most = prod(shape.block), function.limits
    if threads > most.threads:
        raise LaunchError(
            f"external kernel `{name}` can have {most.threads} threads in a block here, and "
            f"block={shape.block} has {threads}"
        )
    if shape.shared_bytes > most.shared_bytes:
        raise LaunchError(
            f"external kernel `{name}` can have {most.shared_bytes} bytes of shared memory here "
            f"beside its declared ones, and shared_bytes={shape.shared_bytes}"
        )


@dataclass(frozen=True, slots=True, eq=False)
class _ExternalWork:
    """The work of one launch."""

    function: CudaExternalFunction
    shape: LaunchShape
    binding: Binding

    def enqueue(self, stream: Stream) -> None:
        """Enqueue the launch; all memory is allocated."""
        self.repeated().enqueue(stream)

    def repeated(self) -> _RepeatedExternal:
        """This launch as the node of a graph; all memory is allocated."""
        binding = self.binding
        arguments = tuple(
            binding.scalars[param.name]
            if param.name in binding.scalars
            else binding.tensors[param.name].address
            for param in binding.signature.params
        )
        storages = tuple(tensor.storage for tensor in binding.tensors.values())
        return _RepeatedExternal(self.function, self.shape, arguments, storages)


@dataclass(frozen=True, slots=True, eq=False)
class _RepeatedExternal:
    """A launch with its addresses resolved; it keeps the storages alive."""

    kind: CudaExternalFunction
    shape: LaunchShape
    arguments: tuple[int | float, ...]
    storages: tuple[Memory, ...]

    def enqueue(self, stream: Stream) -> None:
        """Enqueue the launch, unless it has no blocks."""
        if prod(self.shape.grid):
            self.kind.launch(stream, self.shape, self.arguments)
