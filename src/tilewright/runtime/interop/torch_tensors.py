"""torch tensors as tensors of ours, read by their own attributes, which is faster than DLPack.

torch is not imported: a call that passes a torch tensor has imported it. A write raises the
tensor's version, so that autograd notices; a tensor that requires grad is written only where torch
itself would allow it, under `no_grad`.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, NoReturn
from weakref import ref

from tilewright.dtypes import (
    DType,
    bf16,
    bool_,
    f8e4m3fn,
    f8e5m2,
    f8e8m0fnu,
    f16,
    f32,
    f64,
    i8,
    i16,
    i32,
    i64,
    numpy_dtype,
    u8,
    u16,
    u32,
    u64,
)
from tilewright.native import slots_in_c
from tilewright.runtime.devices.device import LEGACY_STREAM, Device
from tilewright.runtime.devices.stream import Stream
from tilewright.runtime.interop.array import ForeignArray, Form, Reader, find_form, refuse
from tilewright.runtime.interop.foreign import MOVED, Producer

__all__ = [
    "TORCH",
    "TORCH_DTYPES",
    "TorchLibrary",
    "find_memory",
    "find_torch",
    "find_torch_form",
    "find_torch_reader",
    "hand_back",
    "is_torchs_own",
    "locate",
    "why_not_written",
    "why_too_small",
]

# Allocators that keep memory from reuse until the streams recorded for it have passed.
_TOLD_OF_STREAMS = frozenset({"native", "cudaMallocAsync"})

# torch's names of our dtypes.
TORCH_DTYPES: dict[str, type[DType]] = {
    "bool": bool_,
    "int8": i8,
    "int16": i16,
    "int32": i32,
    "int64": i64,
    "uint8": u8,
    "uint16": u16,
    "uint32": u32,
    "uint64": u64,
    "float16": f16,
    "bfloat16": bf16,
    "float32": f32,
    "float64": f64,
    "float8_e4m3fn": f8e4m3fn,
    "float8_e5m2": f8e5m2,
    "float8_e8m0fnu": f8e8m0fnu,
    "float4_e2m1fn_x2": u8,  # pairs of f4e2m1fn
}


def find_torch() -> Any:
    """The module, if it has been imported: a call that passes a torch tensor has done so."""
    return sys.modules.get("torch")


@slots_in_c
class _Torch:
    """Functions of torch that launches call: each is at first a lookup, which replaces itself."""

    __slots__ = ("current_number", "raise_versions")

    current_number: Callable[[int], int]  # the driver's number of a GPU's current stream
    raise_versions: Callable[[tuple[Any, ...]], None]  # marks tensors as written

    def __init__(self) -> None:
        self.current_number = self._find_current_number
        self.raise_versions = self._find_raise_versions

    def _find_current_number(self, ordinal: int) -> int:
        torch = find_torch()
        inside = getattr(torch, "_C", None)
        found: Callable[[int], int] | None = getattr(inside, "_cuda_getCurrentRawStream", None)
        if found is None:
            found = lambda ordinal: int(torch.cuda.current_stream(ordinal).cuda_stream)  # noqa: E731
        self.current_number = found  # it makes no stream object
        return found(ordinal)

    def _find_raise_versions(self, tensors: tuple[Any, ...]) -> None:
        inside: Any = getattr(find_torch(), "_C", None)
        try:
            # Called by torch's public function, in a third of its time.
            inside._increment_version(())  # noqa: SLF001
        except (AttributeError, TypeError):  # older versions take one tensor at a time
            self.raise_versions = _raise_one_by_one
        else:
            self.raise_versions = inside._increment_version  # noqa: SLF001
        self.raise_versions(tensors)


def _raise_one_by_one(tensors: tuple[Any, ...]) -> None:
    for tensor in tensors:
        find_torch().autograd.graph.increment_version(tensor)


# The functions of the process's torch.
TORCH = _Torch()


class TorchLibrary(Producer):
    """torch as the owner of one tensor's memory, or of any tensor's."""

    library = "torch"
    has_one_stream = comes_back = True
    array: Any

    def why_not_there(self, first: int, end: int) -> str | None:
        """`resize_`, `set_` and `.data = …` can move the tensor; its storage can be shrunk."""
        if self.array.data_ptr() != first:
            return MOVED
        return why_too_small(self.array, first, end)

    def why_not_written(self) -> str | None:
        """The reason why autograd forbids the write."""
        return why_not_written(self.array)

    def current_stream(self, device: Device) -> Stream | None:
        """The stream that is current in this thread."""
        if device.kind != "cuda":
            return None
        number = TORCH.current_number(device.ordinal)
        found = device.adopted.get(number or LEGACY_STREAM)
        return device.adopt_stream(number) if found is None else found

    def note_write(self) -> None:
        """Raise the tensor's version."""
        if not self.array.is_inference():
            TORCH.raise_versions((self.array,))

    def find_memory(self) -> ref[Any] | None:
        """The storage, which all views of the tensor share."""
        return ref(self.array.untyped_storage())

    def hand_back(self, streams: tuple[Stream, ...]) -> bool:
        """Tell torch's allocator which streams still use the memory, if torch allocated it."""
        return hand_back(self.array, streams)


def why_not_written(tensor: Any) -> str | None:
    """The reason why a tensor may not be written now; None if it may."""
    if tensor.requires_grad and find_torch().is_grad_enabled():
        return (
            "the torch tensor requires grad, and autograd would not see the write: launch"
            " under torch.no_grad(), or write to t.detach()"
        )
    return None


def hand_back(tensor: Any, streams: tuple[Stream, ...]) -> bool:
    """Have torch keep memory from reuse until streams have passed; False if it is not torch's."""
    if not _is_allocated_by_torch(tensor):
        return False
    for stream in streams:
        _tell_allocator(tensor, stream)
    return True


def find_torch_reader(kind: type) -> Reader | None:
    """The reader for tensors of a type; None if it is not one of torch's."""
    torch = find_torch()
    if torch is None or not issubclass(kind, torch.Tensor):
        return None
    dispatch = getattr(kind, "__torch_dispatch__", None)
    if dispatch is not None and dispatch is not getattr(torch.Tensor, "__torch_dispatch__", None):
        return _read_wrapper
    return _read_tensor


def is_torchs_own(kind: type) -> bool:
    """Whether launches wrap tensors of this type."""
    torch = find_torch()
    return torch is not None and kind in (torch.Tensor, torch.nn.Parameter)


def _read_tensor(tensor: Any) -> ForeignArray:
    """Read a tensor, which the result keeps."""
    device, form, address = locate(tensor)
    find_memory(tensor, form)
    return ForeignArray(TorchLibrary(tensor), device, form, address)


def find_memory(tensor: Any, form: Form) -> tuple[Any, int]:
    """The storage of a tensor in torch, and the bytes of it that a form needs."""
    memory = tensor.untyped_storage()
    needed: int = tensor.storage_offset() * form.itemsize + form.reach
    if form.reach and memory.nbytes() < needed:
        raise _refused(tensor, _too_small(memory.nbytes(), needed))
    return memory, needed


def why_too_small(tensor: Any, first: int, end: int) -> str | None:
    """The reason why a tensor's memory, from an address, ends before another one."""
    memory = tensor.untyped_storage()
    begin, nbytes = memory.data_ptr(), memory.nbytes()
    if first < end and begin + nbytes < end:
        return _too_small(nbytes, end - begin)
    return None


def _too_small(nbytes: int, needed: int) -> str:
    return (
        f"reaches over {needed} bytes of its storage, which has {nbytes}: the storage was resized"
        " by `untyped_storage().resize_`, as FSDP does with parameters that it has not gathered, so"
        " launch while it is whole"
    )


def locate(tensor: Any) -> tuple[Device, Form, int]:
    """The device, form and address of a tensor."""
    device = _device(tensor)
    form = find_torch_form(tensor.dtype, tensor.shape, tensor.stride())
    if form is None:
        raise _refused(tensor, f"holds {tensor.dtype}, for which there is no dtype")
    if tensor.is_neg():
        raise _refused(tensor, "is a negation that torch has not computed: pass t.resolve_neg()")
    try:
        address = tensor.data_ptr()
    except RuntimeError as error:
        raise _refused(tensor, f"has no memory of its own: {error}") from None
    return device, form, address


@functools.lru_cache(maxsize=1024)
def find_torch_form(dtype: Any, shape: Any, strides: tuple[int, ...]) -> Form | None:
    """The form of tensors with torch's dtype, shape and strides; None if there is no such dtype."""
    ours = _dtypes().get(dtype)
    if ours is None:
        return None
    itemsize = numpy_dtype(ours).itemsize
    return find_form("torch", ours, tuple(shape), tuple(stride * itemsize for stride in strides))


def _read_wrapper(tensor: Any) -> NoReturn:
    raise _refused(
        tensor,
        f"is a {type(tensor).__name__}, which stands for other tensors: pass those, and under"
        " torch.compile make the kernel an operator with tw.torch_op",
    )


def _device(tensor: Any) -> Device:
    if tensor.layout is not _strided():
        raise _refused(tensor, f"is laid out as {tensor.layout}: pass t.to_dense()")
    found = _devices.get(tensor.device)
    return _find_device(tensor) if found is None else found


_devices: dict[Any, Device] = {}  # by torch's device


@functools.cache
def _strided() -> Any:
    return find_torch().strided


def _find_device(tensor: Any) -> Device:
    place = tensor.device
    if place.type == "cpu":
        return _devices.setdefault(place, Device("cpu"))
    if place.type == "cuda":
        return _devices.setdefault(place, Device(f"cuda:{place.index or 0}"))
    raise _refused(tensor, f"lives on {place}, where kernels do not run: move it to cpu or cuda")


def _refused(tensor: Any, text: str) -> Exception:
    return refuse("torch", tuple(tensor.shape), text)


def _is_allocated_by_torch(tensor: Any) -> bool:
    """Whether torch allocated the memory; torch cannot resize foreign memory."""
    if not tensor.is_cuda or not tensor.untyped_storage().resizable():
        return False
    return _is_told_of_streams()


@functools.cache
def _is_told_of_streams() -> bool:
    """Whether the allocator records streams: torch has one allocator per process."""
    return find_torch().cuda.get_allocator_backend() in _TOLD_OF_STREAMS


def _tell_allocator(tensor: Any, stream: Stream) -> None:
    """Have torch keep the memory from reuse until a stream has passed its current work."""
    tensor.record_stream(_as_torch_stream(stream))


@functools.cache
def _as_torch_stream(stream: Stream) -> Any:
    """A stream as a torch object; there are few, and they are cached forever."""
    cuda, ordinal = find_torch().cuda, stream.device.ordinal
    if stream.queue.number == LEGACY_STREAM:
        return cuda.default_stream(ordinal)
    return cuda.ExternalStream(stream.queue.number, device=ordinal)


@functools.cache
def _dtypes() -> dict[Any, type[DType]]:
    torch = find_torch()
    pairs = ((getattr(torch, name, None), dtype) for name, dtype in TORCH_DTYPES.items())
    return {theirs: ours for theirs, ours in pairs if theirs is not None}
