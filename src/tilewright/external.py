"""Precompiled kernels as operations like any other: PTX, cubins, fat binaries.

    saxpy = tw.external.load("saxpy.ptx").kernel(
        "saxpy", "z[i] = a * x[i] + z[i] for i < n, and nothing else",
        z=tw.external.InOut(f32), x=tw.external.In(f32), a=f32, n=i32,
    )
    saxpy.grid(32, block=128).unsafe(z, x, 2.0, 4096).sync()

The code of such a kernel is unchecked, so its accesses are declared, with a reason, and it is
launched by the word `unsafe`. Borrows, order and graphs rely on the declaration: a kernel that
touches more than it declares races, or accesses memory that it does not own. Not for tile kernels:
`@tw.kernel` compiles and checks those.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, ClassVar, NoReturn

from tilewright.dtypes import AnyDType, DType
from tilewright.errors import LaunchError
from tilewright.frontend.signature.signature import PointerParam, ScalarParam, Signature
from tilewright.given import as_int, as_ints, shown
from tilewright.jit.loader import cuda_external
from tilewright.jit.plans.external_launch import ExternalEntry, bind_external, build_external
from tilewright.runtime.devices.function import LaunchShape
from tilewright.runtime.memory.dtypes import memory_dtype
from tilewright.runtime.ops.call_site import CallSite, user_site
from tilewright.runtime.ops.deferring import defer, has_operations
from tilewright.runtime.ops.operation import DeviceOp
from tilewright.runtime.order.access import Mode

__all__ = ["ExternalKernel", "ExternalLaunch", "ExternalModule", "In", "InOut", "Out", "load"]

_MOST_BLOCKS = (2**31 - 1, 65_535, 65_535)  # CUDA's limits along x, y and z
_MOST_THREADS = (1024, 1024, 64)


@dataclass(frozen=True)
class _TensorParameter:
    """A tensor, passed as the address of its first element; dtype None takes any.

    Its elements are contiguous, unless it is declared with `strided=True`.
    """

    dtype: type[DType] | None = None
    strided: bool = False
    mode: ClassVar[Mode]


class In(_TensorParameter):
    """A tensor that the kernel only reads."""

    mode = Mode.READ


class Out(_TensorParameter):
    """A tensor of which the kernel writes every element and reads none."""

    mode = Mode.WRITE


class InOut(_TensorParameter):
    """A tensor that the kernel reads and writes, or of which it writes only some elements."""

    mode = Mode.UPDATE


def load(code: str | Path | bytes) -> ExternalModule:
    """Code from a file, or as bytes: PTX, a cubin or a fat binary.

    A cubin runs on its own architecture; the driver compiles PTX for any later one. The code is
    loaded on a GPU by the first launch.
    """
    if isinstance(code, bytes):
        return ExternalModule(code, "bytes")
    try:
        path = Path(code)
    except TypeError:
        raise LaunchError(
            f"tw.external.load takes a path or bytes, not {type(code).__name__}"
        ) from None
    try:
        return ExternalModule(path.read_bytes(), str(path))
    except OSError as error:
        raise LaunchError(
            f"tw.external.load({str(path)!r}): {error.strerror}; a path is expected, or the code"
            " itself as bytes"
        ) from None


class ExternalModule:
    """Code with kernels in it. Made by `tw.external.load`."""

    def __init__(self, code: bytes, origin: str) -> None:
        self.code = code
        self.origin = origin
        self._names = cuda_external.kernel_names(code)

    def kernel(
        self, name: str, reason: str, /, **parameters: In | Out | InOut | type[DType]
    ) -> ExternalKernel:
        """A kernel of this module, with the reason why it is sound and its parameters in order.

        A tensor is declared as `In`, `Out` or `InOut`, a scalar by its dtype. The names of the
        parameters are free. The reason states the memory that the kernel touches, for readers and
        for `tilewright check`, which lists it.
        """
        if self._names is not None and name not in self._names:
            has = ", ".join(f"`{one}`" for one in self._names) or "none"
            raise LaunchError(
                f"there is no kernel `{name}` in this code, which has {has}: C++ mangles names"
                ' unless they are declared `extern "C"`'
            )
        if not isinstance(reason, str) or not reason.strip():
            raise LaunchError(
                f"external kernel `{name}` is declared with a reason, a string that says what it "
                "reads and writes: tilewright cannot check it"
            )
        return ExternalKernel(_entry(self.code, name, parameters), reason, self.origin)

    def __repr__(self) -> str:
        return f"<external code from {self.origin}>"


class ExternalKernel:
    """A precompiled kernel: `k.grid(blocks, block=threads).unsafe(…)` launches it."""

    def __init__(self, entry: ExternalEntry, reason: str, origin: str) -> None:
        self.__name__ = entry.name
        self.entry = entry
        self.reason = reason
        self.origin = origin
        self.site: CallSite = user_site()

    def grid(
        self, *extents: int, block: int | tuple[int, ...], shared_bytes: int = 0
    ) -> ExternalLaunch:
        """Blocks along x, y and z, threads of a block along each, and dynamic shared memory."""
        grid = _extents(self.__name__, "grid", extents, _MOST_BLOCKS, least=0)
        threads = block if isinstance(block, tuple) else (block,)
        checked = _extents(self.__name__, "block", threads, _MOST_THREADS, least=1)
        if prod(checked) > _MOST_THREADS[0]:
            raise LaunchError(
                f"external kernel `{self.__name__}`: block={threads} has {prod(checked)} threads, "
                f"and a block has at most {_MOST_THREADS[0]}"
            )
        shared = _shared(self.__name__, shared_bytes)
        return ExternalLaunch(self, LaunchShape(_three(grid), _three(checked), shared))

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse a launch without blocks, threads and the word `unsafe`."""
        raise _refused_call(self.__name__)

    def __repr__(self) -> str:
        return f"<external kernel {self.__name__} from {self.origin}>"


class ExternalLaunch:
    """An external kernel with its blocks and threads; `.unsafe(…)` builds an operation."""

    __slots__ = ("kernel", "shape")

    def __init__(self, kernel: ExternalKernel, shape: LaunchShape) -> None:
        self.kernel = kernel
        self.shape = shape

    def unsafe(self, *args: Any, **kwargs: Any) -> DeviceOp[tuple[Any, ...]]:
        """Build the operation that runs the kernel: the caller vouches for it.

        Each tensor is borrowed as declared. Arguments may be operations, as for any kernel.
        """
        entry = self.kernel.entry
        call = _match(entry, args, kwargs)
        values = tuple(call.arguments.values())
        if has_operations(values):
            count = len(values)
            return defer(entry.name, call.arguments, lambda given: self.unsafe(*given), count=count)
        return build_external(entry, bind_external(entry, call), self.shape, values)

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse a launch without the word `unsafe`."""
        raise _refused_call(self.kernel.__name__)

    def __repr__(self) -> str:
        return f"{self.kernel!r} on {self.shape.grid} blocks of {self.shape.block} threads"


def _refused_call(name: str) -> LaunchError:
    return LaunchError(
        f"external kernel `{name}` is unsafe: its memory accesses are not checked. Launch it as "
        f"`{name}.grid(blocks, block=threads).unsafe(…)`"
    )


def _entry(code: bytes, name: str, parameters: dict[str, Any]) -> ExternalEntry:
    """The entry point of a declaration."""
    params = tuple(_parameter(name, one, said) for one, said in parameters.items())
    tensors = {one: said for one, said in parameters.items() if isinstance(said, _TensorParameter)}
    return ExternalEntry(
        code,
        Signature(name, params),
        {one: said.mode for one, said in tensors.items()},
        frozenset(one for one, said in tensors.items() if said.strided),
    )


def _parameter(kernel: str, name: str, declared: Any) -> PointerParam | ScalarParam:
    """A parameter in the form that the binders of arguments take."""
    try:
        if isinstance(declared, _TensorParameter):
            if declared.dtype is None:
                return PointerParam(name, type("AnyOf", (AnyDType,), {}))
            return PointerParam(name, memory_dtype(declared.dtype))
        return ScalarParam(name, memory_dtype(declared))
    except LaunchError as error:
        raise LaunchError(
            f"`{name}` of external kernel `{kernel}`: {error}. A tensor is declared as In(dtype), "
            "Out(dtype) or InOut(dtype), a scalar by its dtype"
        ) from None


def _match(
    entry: ExternalEntry, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> inspect.BoundArguments:
    names = [param.name for param in entry.signature.params]
    either = inspect.Parameter.POSITIONAL_OR_KEYWORD
    signature = inspect.Signature([inspect.Parameter(name, either) for name in names])
    try:
        return signature.bind(*args, **kwargs)
    except TypeError as error:
        raise LaunchError(f"{entry.name}({', '.join(names)}): {error}") from None


def _extents(
    kernel: str, what: str, given: tuple[Any, ...], most: tuple[int, ...], *, least: int
) -> tuple[int, ...]:
    """Extents along x, y and z, each in its range."""
    try:
        checked = as_ints(given)
    except TypeError:
        checked = ()
    in_range = all(least <= n <= top for n, top in zip(checked, most, strict=False))
    is_number = not any(isinstance(extent, bool) for extent in given)
    if not 1 <= len(checked) <= len(most) or not in_range or not is_number:
        listed = ", ".join(map(shown, given))
        raise LaunchError(
            f"external kernel `{kernel}`: {what} is 1 to 3 integers, along x, y and z, from {least}"
            f" to {' and '.join(map(str, dict.fromkeys(most)))}, not ({listed})"
        )
    return checked


def _shared(kernel: str, given: Any) -> int:
    """Bytes of dynamic shared memory."""
    try:
        checked = -1 if isinstance(given, bool) else as_int(given)
    except TypeError:
        checked = -1
    if checked < 0:
        raise LaunchError(
            f"external kernel `{kernel}`: shared_bytes is a number of bytes, not {shown(given)}"
        )
    return checked


def _three(extents: tuple[int, ...]) -> tuple[int, int, int]:
    x, y, z = (*extents, 1, 1)[:3]
    return x, y, z
