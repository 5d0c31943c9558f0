"""Tensors: host handles on device memory.

A handle has a dtype, a shape and strides in elements. It holds no borrow: borrows and uses belong
to its storage's timeline. Slices and reshapes are handles on the same storage. This module computes
nothing; beyond copies of contiguous bytes, every method of a tensor is a library kernel.
"""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.dtypes import DType, bool_, numpy_dtype
from tilewright.errors import BorrowError, LaunchError, MovedError
from tilewright.native import in_c, know_objects, slots_in_c
from tilewright.runtime.devices.device import Device
from tilewright.runtime.devices.stream import Stream
from tilewright.runtime.graphs.recording import refuse_move
from tilewright.runtime.interop.export import Exporting
from tilewright.runtime.memory.dtypes import memory_dtype
from tilewright.runtime.memory.layout import Layout, Place, one_by_one
from tilewright.runtime.memory.layout_templates import (
    HandleTemplate,
    TensorSpec,
    TensorTemplate,
    find_handle_template,
    find_tensor_template,
)
from tilewright.runtime.memory.partition import Cuttings
from tilewright.runtime.memory.regions import Region
from tilewright.runtime.memory.storage import FROM_USERS, Initialiser, Storage
from tilewright.runtime.ops.awaiting import completed
from tilewright.runtime.ops.call_site import CallSite, user_site
from tilewright.runtime.ops.copies import convert, copy, download
from tilewright.runtime.ops.inside_chains import refuse_waiting
from tilewright.runtime.ops.refusals import NotAnArray
from tilewright.runtime.order.borrow import Holder
from tilewright.runtime.order.critical import critical
from tilewright.runtime.order.failure import Fence
from tilewright.runtime.order.timeline import Use

__all__ = ["Tensor", "make_output", "make_use", "move", "new_tensor", "tensor_of"]

_serials = itertools.count(1)
_SERIALS = 1 << 16  # entries by address and spec; a full table is cleared
_known: dict[tuple[int, TensorSpec], int] = {}
_set = object.__setattr__
_NEAR = 4  # last uses of a timeline that are searched for a handle's
_NO_PARTS: dict[Any, Any] = {}  # of a handle without views made by `part`


@slots_in_c
class Tensor(NotAnArray, Exporting, Cuttings):
    """A handle on device memory. Made by `tw.zeros`, `tw.from_numpy` and the like."""

    __slots__ = (
        "__weakref__",
        "_moved",
        "_parts",
        "_reading",
        "_writing",
        "byte_offset",
        "dtype",
        "itemsize",
        "layout",
        "region",
        "serial",
        "shape",
        "spec",
        "storage",
        "strides",
    )

    storage: Storage
    dtype: type[DType]
    serial: int  # of the address and the spec, never reused: the key of bound launches
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int
    byte_offset: int
    region: Region
    layout: Layout
    spec: TensorSpec  # independent of the address: the key of plans
    _moved: CallSite | None
    _parts: dict[Place, Tensor]
    _reading: Use | None  # by operations that read it; None before the first
    _writing: Use | None

    def __init__(
        self,
        storage: Storage,
        dtype: type[DType],
        layout: Layout,
        template: HandleTemplate | None = None,
    ) -> None:
        shape, strides, device = layout.shape, layout.strides, storage.device
        if template is None:
            template = find_handle_template(
                dtype, shape, strides, layout.offset, device, storage.owns_bytes
            )
        itemsize, begin, region, spec = template
        _set(self, "__class__", _Unsealed)  # six times faster than `_set` for each attribute
        self.storage = storage
        self.dtype = dtype
        # A storage without bytes has address 0, and no entry.
        self.serial = _known.get((storage.address + begin, spec)) or _serial_of(
            storage, spec, begin
        )
        self.shape = shape
        self.strides = strides
        self.itemsize = itemsize
        self.byte_offset = begin
        self.region = region
        self.layout = layout
        self.spec = spec
        self._moved = None
        self._parts = _NO_PARTS
        self._reading = self._writing = None
        self._tiling = None
        self.__class__ = Tensor  # pyright: ignore[reportAttributeAccessIssue] sealed again

    def use(self, *, writes: bool) -> Use:
        """The use of its region by operations that write it, or read it; made once."""
        use = self._writing if writes else self._reading
        return make_use(self, writes) if use is None else use

    def kept(self, array: Any) -> Tensor:
        """The same handle, keeping the array of another library that it wraps."""
        return Tensor(self.storage.kept(array), self.dtype, self.layout)

    def __setattr__(self, name: str, value: object) -> None:
        # Launches are checked by the attributes of a handle, so these are immutable.
        raise AttributeError(
            f"`{name}` of a tensor cannot be set: `.reshape(…)` and slices give new handles"
        )

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"`{name}` of a tensor cannot be taken away")

    @property
    def device(self) -> Device:
        """The device of its storage."""
        return self.storage.device

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.layout.size

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.itemsize

    @property
    def offset(self) -> int:
        """Elements of the storage before the first one."""
        return self.layout.offset

    @property
    def address(self) -> int:
        """Address of the first element; known from the first submission on."""
        return self.storage.address + self.byte_offset

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements are contiguous in row-major order."""
        return self.layout.is_contiguous

    def numpy(self) -> npt.NDArray[Any]:
        """A copy on the host, after all submitted writers; raises the failure of one of them."""
        data = download(self, "numpy()")
        strides = tuple(stride * self.itemsize for stride in self.strides)
        start = self.byte_offset - self.region.low
        kind = numpy_dtype(self.dtype)
        if not self.size:
            return np.empty(self.shape, kind)
        # The buffer of a contiguous tensor is the copy; a strided view is packed.
        view = np.ndarray(self.shape, kind, data, start, strides)
        return np.ascontiguousarray(view).reshape(self.shape)

    def item(self) -> Any:
        """The single element as a Python number, after all submitted writers."""
        if self.size != 1:
            raise LaunchError(f"item() is for one element, and shape {self.shape} has {self.size}")
        return self.numpy().item()

    def wait(self) -> Tensor:
        """Block until every submitted writer has completed; raises the failure of one of them."""
        refuse_waiting("tensor.wait()")
        for fence in self._writers():
            fence.stream.wait(fence.count)
        return self._told()

    def __await__(self) -> Generator[Any, None, Tensor]:
        """As `wait`, without blocking the event loop."""
        for fence in self._writers():
            yield from completed(fence).__await__()
        return self._told()

    def _writers(self) -> tuple[Fence, ...]:
        timeline = self.storage.timeline
        return tuple(critical(self.device, "wait()", timeline.points, self.region, writes=False))

    def _told(self) -> Tensor:
        critical(self.device, "wait()", self.storage.timeline.upstream, self.region)
        return self

    def handle(self, layout: Layout, dtype: type[DType]) -> Tensor:
        """Another handle on elements of this one; internal, the layout is not checked."""
        made = Tensor(self.storage, dtype, layout)
        inside = self.region.low <= made.region.low and made.region.high <= self.region.high
        assert inside, "a handle reaches no further than the one it was made of"
        return made

    def part(self, place: Place) -> Tensor:
        """A view, made once and cached for the life of this handle; internal, not checked."""
        found = self._parts.get(place)
        if found is None:
            if self._parts is _NO_PARTS:
                _set(self, "_parts", {})
            found = self._parts[place] = self.handle(place.within(self.layout), self.dtype)
        return found

    def _view(self, layout: Layout) -> Tensor:
        return Tensor(self.storage, self.dtype, layout)

    def clone(self) -> Tensor:
        """New memory with a copy of the current elements; the copy is submitted here."""
        made = new_tensor(self.device, self.shape, self.dtype, None)
        copy(made, self).submit()
        return made

    def astype(self, dtype: Any) -> Tensor:
        """New memory with the elements in another dtype; the conversion is submitted here.

        Floats are rounded to the nearest, floats to integers saturate (NaN gives 0), integers keep
        their low bits, and nonzero numbers are true: as `astype` does in a kernel.
        """
        kind = memory_dtype(dtype)
        if kind is self.dtype:
            return self.clone()
        made = new_tensor(self.device, self.shape, kind, None)
        convert(made, self).submit()
        return made

    def reshape(self, *shape: int | tuple[int, ...]) -> Tensor:
        """Another handle on the same elements, never a copy; one extent may be -1.

        Refused if no strides describe the new shape, as for a transposed matrix reshaped to a line.
        """
        return self._view(self.layout.reshape(one_by_one(shape)))

    def view(self, *shape: int | tuple[int, ...]) -> Tensor:
        """`reshape` under PyTorch's name for a shape change that never copies."""
        if len(shape) == 1 and isinstance(shape[0], type):
            raise LaunchError(
                f"`view` gives another shape, not {shape[0].__name__}: `.reinterpret(…)` reads the"
                " same bytes as another dtype, `.astype(…)` converts numbers"
            )
        return self.reshape(*shape)

    def permute(self, *axes: int | tuple[int, ...]) -> Tensor:
        """A view with the axes in another order; negative ones count from the end."""
        return self._view(self.layout.permute(one_by_one(axes)))

    @property
    def T(self) -> Tensor:  # noqa: N802 (as NumPy and PyTorch call it)
        """A view with the axes in reverse order."""
        return self._view(self.layout.permute(tuple(reversed(range(self.ndim)))))

    def squeeze(self, axis: int | None = None) -> Tensor:
        """A view without an axis of one element; without all of those, if none is named."""
        return self._view(self.layout.squeeze(axis))

    def unsqueeze(self, axis: int) -> Tensor:
        """A view with one more axis, of one element, at this position."""
        return self._view(self.layout.unsqueeze(axis))

    def reinterpret(self, dtype: Any, shape: int | tuple[int, ...] | None = None) -> Tensor:
        """A view of the same bytes as another dtype; without a shape the last axis changes.

        Elements of another size need contiguous bytes that begin at a multiple of that size.
        `.astype` converts numbers instead.
        """
        kind = memory_dtype(dtype)
        if (kind is bool_) != (self.dtype is bool_):
            raise LaunchError(
                "a truth value is a byte that is 0 or 1, and the bytes of other dtypes are not:"
                f" convert, `.astype({kind.__name__})`"
            )
        size, wanted = numpy_dtype(kind).itemsize, (shape,) if isinstance(shape, int) else shape
        return Tensor(self.storage, kind, self.layout.reinterpret(self.itemsize, size, wanted))

    def hand_over(self) -> Tensor:
        """A new handle; this one is refused from now on. Called by `tw.move`."""
        with self.device.lock:
            self.device.check_open()
            self.device.settle_deferred()
            held = self._holder()
            if held is not None:
                raise BorrowError(
                    f"{held.label}, built at {held.site}, holds this tensor and {held.state},"
                    " before the tensor is moved"
                )
            refuse_move(self.storage, self.region)
            moved, site = Tensor(self.storage, self.dtype, self.layout), user_site()
        kind = self.__class__
        try:  # outside the lock, where a signal handler may raise: then the new handle is lost
            _set(self, "_moved", site)
            # The class is swapped, so that the check costs nothing before a move.
            _set(self, "__class__", _MovedTensor)
        except BaseException:
            _set(self, "__class__", kind)
            raise
        return moved

    def _holder(self) -> Holder | None:
        """A built operation that holds this region; an empty region counts."""
        timeline = self.storage.timeline
        held = timeline.conflict(self.region, writes=True)
        if held is not None and self.device.collect_dropped():
            held = timeline.conflict(self.region, writes=True)
        if held is not None:
            return held.holder
        return next((one for one in timeline.borrows() if one.holds(self.region)), None)

    def __getitem__(self, index: Any) -> Tensor:
        """A view of a part, as NumPy slices: slices with positive steps, integers, None and `...`.

        An integer drops its axis, None makes a new one. Slices of one tensor that do not overlap
        can be written at the same time.
        """
        return self._view(self.layout.select(index))

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a tensor of rank 0 has no length")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        return map(self.__getitem__, range(len(self)))

    def __repr__(self) -> str:
        extents = ", ".join(map(str, self.shape))
        lazy = ", no bytes yet" if self.storage.is_lazy else ""
        return f"<tensor {self.dtype.label}[{extents}] on {self.device.name}{lazy}>"


_set_reading = Tensor.__dict__["_reading"].__set__  # a handle is sealed
_set_writing = Tensor.__dict__["_writing"].__set__


class _Unsealed(Tensor):
    """A handle under construction: its attributes can be set."""

    __slots__ = ()

    __setattr__ = object.__setattr__  # type: ignore[assignment] # undoes the seal of Tensor
    __delattr__ = object.__delattr__  # pyright: ignore[reportAssignmentType] by position


class _MovedTensor(Tensor):
    """A handle whose tensor has been moved away: every use is refused."""

    __slots__ = ()

    def __getattribute__(self, name: str) -> Any:
        if name == "__class__":
            return _MovedTensor
        raise MovedError(
            f"this tensor was moved away at {object.__getattribute__(self, '_moved')}:"
            " use the handle that `tw.move` gave there"
        )

    def __repr__(self) -> str:
        return f"<tensor moved away at {object.__getattribute__(self, '_moved')}>"


@in_c("make_use")
def make_use(tensor: Tensor, writes: bool) -> Use:
    """The first use of a tensor by operations that write it, or read it.

    Handles of one region may share it: it is then one of the last in the timeline. Those of
    replays, which are recorded late, are not shared.
    """
    timeline, region = tensor.storage.timeline, tensor.region
    for use in () if timeline.graphs else timeline.uses[-_NEAR:]:
        if use.region is region and use.writes is writes:
            break
    else:
        use = Use(timeline, region, writes)
    (_set_writing if writes else _set_reading)(tensor, use)
    return use


def new_tensor(
    device: Device, shape: tuple[int, ...], dtype: type[DType], initialiser: Initialiser | None
) -> Tensor:
    """A tensor with a storage of its own."""
    return tensor_of(find_tensor_template(device, shape, dtype), initialiser)


def tensor_of(
    template: TensorTemplate, initialiser: Initialiser | None = None, stream: Stream | None = None
) -> Tensor:
    """A tensor with a storage of its own, from a template; `stream` is that of its first use."""
    device, dtype, nbytes, label, layout, handle = template
    storage = Storage(device, nbytes, initialiser, label, FROM_USERS, None, stream)
    return Tensor(storage, dtype, layout, handle)


def make_output(template: TensorTemplate, stream: Stream | None) -> Tensor:
    """The same, called from C by the function that a user calls: there is one frame less."""
    device, dtype, nbytes, label, layout, handle = template
    storage = Storage(device, nbytes, None, label, FROM_USERS - 1, None, stream)
    return Tensor(storage, dtype, layout, handle)


def _serial_of(storage: Storage, spec: TensorSpec, begin: int) -> int:
    """The serial of an address and a spec; without bytes a new one in each call."""
    if storage.is_lazy:
        return next(_serials)
    if len(_known) >= _SERIALS:
        _known.clear()
    return _known.setdefault((storage.address + begin, spec), next(_serials))


def move(tensor: Tensor) -> Tensor:
    """Hand a tensor over: the new handle works, and any later use of the old one is refused."""
    if not isinstance(tensor, Tensor):
        raise LaunchError(f"tw.move takes a tensor, not {type(tensor).__name__}")
    return tensor.hand_over()


know_objects({"make_output": make_output})
