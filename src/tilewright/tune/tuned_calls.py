"""One call of an autotuned kernel: its key, its operation for a configuration, its task.

The call has whole tensors; a configuration determines the partition of outputs. During tuning,
candidates write copies of the outputs, so the caller's tensors stay unchanged: an output that is
written completely is poisoned before each checked run, any other is copied anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from inspect import BoundArguments
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.dtypes import DType
from tilewright.errors import LaunchError, TuneError
from tilewright.frontend.signature.signature import MappedParam, Signature, TensorParam, WholeParam
from tilewright.kernel import Kernel
from tilewright.runtime.devices.device import Device
from tilewright.runtime.interop.imports import as_tensor
from tilewright.runtime.memory.tensor import Tensor
from tilewright.runtime.ops.copies import copy
from tilewright.runtime.ops.operation import DeviceOp
from tilewright.runtime.order.access import Mode
from tilewright.tune.config import Config
from tilewright.tune.keys import Key
from tilewright.tune.task import poison, relative_error

__all__ = ["KeyMaker", "Oracle", "TunedCall", "check_axes", "check_key", "usual_limit"]

# The facts that select a configuration: names of dims, a function, or None: every extent.
KeyMaker = Sequence[str] | Callable[..., Key] | None

_LIMITS = {64: 1e-9, 32: 1e-4, 16: 1e-2, 8: 1e-1}  # relative errors, by bits of a float


def check_key(kernel: Kernel, key: KeyMaker) -> KeyMaker:
    """Refuse names that no tensor of the signature has."""
    if key is None or callable(key):
        return key
    known = _dims(kernel.signature)
    for name in key:
        if name not in known:
            raise TuneError(
                f"key= of kernel `{kernel.__name__}` names `{name}`, which is no dim of a tensor "
                f"that it reads; there are: {', '.join(known) or 'none'}"
            )
    return tuple(key)


def check_axes(kernel: Kernel, default: Config) -> None:
    """Refuse a kernel for whose outputs a configuration does not determine a partition."""
    cut = kernel.signature.cut_outputs
    if not cut:
        raise TuneError(
            f"kernel `{kernel.__name__}` has no output that is cut into pieces, so no "
            "configuration says how many blocks run: give it a Mut or a Mapped"
        )
    known = {name for name, _ in default.constants}
    known |= {param.name for param in kernel.signature.constants}
    for param in cut:
        for dim in param.dims:
            if isinstance(dim, str) and dim not in known:
                raise TuneError(
                    f"`{param.name}` of kernel `{kernel.__name__}` is cut by `{dim}`, and the "
                    f"space has no such axis: add `{dim}=(…)`"
                )


def usual_limit(dtypes: Sequence[type[DType]]) -> float:
    """Return the tolerated relative error for outputs of these dtypes."""
    floats = [dtype.element.bits for dtype in dtypes if dtype.element.is_float]
    return max((_LIMITS[bits] for bits in floats), default=0.0)


def _dims(signature: Signature) -> dict[str, tuple[str, int]]:
    """Return the first occurrence of each dim of whole tensors: parameter and axis, by name."""
    found: dict[str, tuple[str, int]] = {}
    for param in signature.tensors:
        if isinstance(param, WholeParam):
            for axis, dim in enumerate(param.dims):
                if isinstance(dim, str):
                    found.setdefault(dim, (param.name, axis))
    return found


class TunedCall:
    """The arguments of one call, by name and as given."""

    def __init__(self, kernel: Kernel, bound: BoundArguments) -> None:
        self.kernel = kernel
        self.bound = bound
        self.arguments = arguments = bound.arguments
        self.tensors = {
            param.name: _whole_tensor(kernel, param, arguments.get(param.name))
            for param in kernel.signature.tensors
        }

    @property
    def device(self) -> Device:
        """Device of the call."""
        return next(iter(self.tensors.values())).device

    def pass_to(self, function: Callable[..., Any]) -> Any:
        """Call a function with the same arguments."""
        return function(*self.bound.args, **self.bound.kwargs)

    def key(self, names: Sequence[str] | None) -> Key:
        """Return the key by the names of dims, or by every extent, with the given constants."""
        dtypes = tuple(tensor.dtype.label for tensor in self.tensors.values())
        if names is None:
            shape = tuple(extent for tensor in self.tensors.values() for extent in tensor.shape)
        else:
            places = _dims(self.kernel.signature)
            where = (places[name] for name in names)
            shape = tuple(self.tensors[param].shape[axis] for param, axis in where)
        given = (param.name for param in self.kernel.signature.constants)
        options = {name: self.arguments[name] for name in given if name in self.arguments}
        return Key(dtypes, shape, tuple(sorted((n, _plain(v)) for n, v in options.items())))

    def build(self, config: Config, outputs: Mapping[str, Tensor] | None = None) -> DeviceOp[Any]:
        """Return the operation for a configuration, with some outputs replaced."""
        given = {**self.arguments, **config.arguments(self.kernel)}
        given.update(self.tensors if outputs is None else {**self.tensors, **outputs})
        for param in self.kernel.signature.cut_outputs:
            given[param.name] = _cut(param, given, config)
        return config.applied_to(self.kernel)(**given)


def _whole_tensor(kernel: Kernel, param: TensorParam, value: Any) -> Tensor:
    where = f"`{param.name}` of kernel `{kernel.__name__}`"
    if isinstance(value, DeviceOp):
        raise LaunchError(
            f"{where} is an operation that has not run, and an autotuned kernel looks at shapes: "
            f"launch it from a step, `op.then(lambda {param.name}: …)`"
        )
    tensor = None if value is None else as_tensor(value)
    if tensor is None:
        given = "is missing" if value is None else f"is given as {type(value).__name__}"
        raise LaunchError(
            f"{where} {given}: an autotuned kernel takes whole tensors and cuts them itself"
        )
    return tensor


def _cut(param: TensorParam, given: Mapping[str, Any], config: Config) -> Any:
    """Return an output partitioned by a configuration, or by a constant that the caller gave."""
    named = {**given, **dict(config.constants)}
    cut = given[param.name].partition(*(named.get(str(dim), dim) for dim in param.dims))
    return config.walk(cut) if isinstance(param, MappedParam) else cut


def _plain(value: Any) -> Any:
    if isinstance(value, type) and issubclass(value, DType):
        return value.label
    return value if isinstance(value, bool | int | str) else repr(value)


class Oracle:
    """Copies of the outputs of a call, and their expected contents."""

    def __init__(
        self, call: TunedCall, default: Config, reference: Callable[..., Any] | None
    ) -> None:
        self._call = call
        self._default = default
        self._reference = reference
        self._originals = {
            param.name: call.tensors[param.name] for param in call.kernel.signature.outputs
        }
        self._outputs = {name: tensor.clone() for name, tensor in self._originals.items()}
        self._modes: dict[str, Mode] = {}

    def build(self, config: Config) -> DeviceOp[Any]:
        """Return the operation for a configuration, on the copies."""
        operation = self._call.build(config, self._outputs)
        accesses = getattr(operation, "accesses", ())
        self._modes = {access.name: access.mode for access in accesses}
        return operation

    def prepare(self) -> None:
        """Remove all results of earlier runs, before a checked run."""
        for name, output in self._outputs.items():
            if self._modes.get(name) is Mode.WRITE:
                poison(output)
            else:
                copy(output, self._originals[name]).submit()

    def error(self, _: Any) -> float:
        """Return the largest relative error of an output."""
        found = self._contents()  # before the reference is computed, which may run the default
        expected = self._expected
        return max(relative_error(one, other) for one, other in zip(found, expected, strict=True))

    def _contents(self) -> list[npt.NDArray[Any]]:
        return [output.numpy() for output in self._outputs.values()]

    @cached_property
    def _expected(self) -> list[npt.NDArray[Any]]:
        """Return the result of the reference, or, without one, of the default configuration."""
        if self._reference is None:
            self.build(self._default).close()
            self.prepare()
            self.build(self._default).sync()
            return self._contents()
        given = self._call.pass_to(self._reference)
        arrays = [_array(one) for one in (given if isinstance(given, tuple) else (given,))]
        if len(arrays) != len(self._outputs):
            raise TuneError(
                f"reference= of kernel `{self._call.kernel.__name__}` gives {len(arrays)} arrays "
                f"for {len(self._outputs)} outputs: {', '.join(self._outputs)}"
            )
        return arrays


def _array(value: Any) -> npt.NDArray[Any]:
    tensor = as_tensor(value)
    return np.asarray(value) if tensor is None else tensor.numpy()
