"""`tw.torch_op`: a kernel as an operator of torch, so that `torch.compile` sees a single call.

The operator has a schema derived from the kernel's signature, an implementation that launches on
torch's current stream, and a fake implementation, which gives the compiler the shapes. A gradient
is registered with the operator's `register_autograd`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import Enum
from inspect import Parameter
from inspect import signature as call_signature
from typing import Any, Protocol

from tilewright.dtypes import DType, bool_
from tilewright.errors import LaunchError
from tilewright.frontend.signature.signature import (
    AccumParam,
    ConstParam,
    MappedParam,
    MutParam,
    RefParam,
    ScalarParam,
    Signature,
)
from tilewright.given import shown
from tilewright.jit.bind.binding import inferable
from tilewright.jit.loader import load_torch
from tilewright.runtime.interop.imports import partition
from tilewright.runtime.ops.operation import DeviceOp

__all__ = ["Cut", "Launchable", "torch_op"]

# Kinds of parameters that have a keyword.
_BY_NAME = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
_NAME = re.compile(r"[A-Za-z_]\w*::[A-Za-z_]\w*")

# The tiling of an output: its tile, or a function from the tensor to the partition.
Cut = int | tuple[int | None, ...] | Callable[[Any], Any]


class Launchable(Protocol):
    """The interface of a kernel for an operator."""

    __name__: str
    signature: Signature

    def __call__(self, *args: Any, **kwargs: Any) -> DeviceOp[tuple[Any, ...]]:
        """Build the launch."""


def torch_op(
    kernel: Launchable,
    name: str,
    *,
    tiles: Mapping[str, Cut],
    outputs: Callable[..., Any] | None = None,
) -> Any:
    """An operator of torch that runs a kernel: `add_op = tw.torch_op(add, "mine::add", …)`.

    `tiles` says how each output is cut: `{"z": 128}`, `{"c": (64, 64)}`, or a function of the
    tensor, `{"c": lambda c: tw.partition(c, 64, 64).persistent()}`.

    The operator takes the kernel's parameters in order and writes the outputs it is given. With
    `outputs`, a function of all other parameters that makes the outputs as torch tensors
    (`lambda x, y: torch.empty_like(x)`), the operator makes and returns them instead. The function
    gets every parameter in every call, defaults filled in: by name, where it has the kernel's
    names, and otherwise by position. Keyword-only parameters, as constants are, come by name, and
    it may leave them out.

    On the CPU the call raises a failure of the kernel. On a GPU the call does not wait: the next
    launch that uses the tensors raises the failure, or `tw.synchronize()`.
    """
    if not isinstance(getattr(kernel, "signature", None), Signature):
        raise LaunchError(
            f"torch_op takes a kernel, made by @tw.kernel, and {type(kernel).__name__} is none"
        )
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise _refused(
            kernel,
            f'an operator of torch has a namespace and a name, "mine::{kernel.__name__}", not'
            f" {shown(name)}",
        )
    if not isinstance(tiles, Mapping):
        raise _refused(
            kernel,
            f'tiles= says by name how each output is cut, {{"z": 128}}, and {shown(tiles)} has no'
            " names",
        )
    operator = _Operator(kernel, dict(tiles), outputs)
    library = load_torch().library
    if outputs is None:
        made = library.custom_op(
            name, operator.write, mutates_args=operator.written, schema=operator.schema()
        )
        made.register_fake(_nothing)
    else:
        made = library.custom_op(name, operator.make, mutates_args=(), schema=operator.schema())
        made.register_fake(operator.new_outputs)
    return made


class _Operator:
    """The launch of a kernel in the form that torch calls; its arguments can all be passed."""

    def __init__(
        self, kernel: Launchable, tiles: dict[str, Cut], outputs: Callable[..., Any] | None
    ) -> None:
        self.kernel = kernel
        self.tiles = tiles
        self.outputs = outputs
        self._check()
        self.parameters = call_signature(kernel).parameters
        params = kernel.signature.params
        self.written = tuple(param.name for param in kernel.signature.outputs)
        self.given = [p for p in params if outputs is None or p.name not in self.written]
        self.others = [param.name for param in params if param.name not in self.written]
        self.defaults = {
            p.name: p.default for p in self.parameters.values() if p.default is not Parameter.empty
        }
        self._extents = self._find_extents()
        if outputs is not None:
            self._passing = self._match_outputs(outputs)

    def _check(self) -> None:
        """Check that every output has a tile, and that torch can pass every other argument."""
        kernel, tiles = self.kernel, self.tiles.keys()
        cut = {param.name for param in kernel.signature.cut_outputs}
        if cut != tiles:
            raise _refused(
                kernel,
                f"tiles= says how each output is cut, so it has {_listed(cut)}, not"
                f" {_listed(tiles)}",
            )
        for param in kernel.signature.params:
            if type(param) not in _TYPES:
                raise _refused(
                    kernel,
                    f"`{param.name}` is a {_KINDS.get(type(param).__name__, 'parameter')}, which"
                    " torch has no type for: give it a default by wrapping the kernel, or pass its"
                    " parts",
                )
        if self.outputs is not None and not callable(self.outputs):
            text = f"outputs= is a function that makes the outputs, not {shown(self.outputs)}"
            raise _refused(kernel, text)

    def schema(self) -> str:
        """The operator's schema."""
        parts: list[str] = []
        has_default = False
        for param in self.given:
            mark = f"({chr(97 + len(parts))}!)" if param.name in self.written else ""
            named = self._named(param.name)
            if has_default and "=" not in named and "*" not in parts:
                parts.append("*")  # torch has only keyword parameters behind a default
            has_default |= "=" in named
            parts.append(f"{_TYPES[type(param)](param)}{mark}{named}")
        made = ["Tensor"] * (0 if self.outputs is None else len(self.written))
        results = "Tensor" if len(made) == 1 else f"({', '.join(made)})"
        return f"({', '.join(parts)}) -> {results}"

    def _named(self, name: str) -> str:
        """A parameter of the schema with its default; None replaces a default of another type."""
        if name not in self.defaults:
            return f"? {name}=None" if name in self._extents else f" {name}"
        value = self.defaults[name]
        is_number = type(value) in (bool, int, float)
        return f" {name}={value}" if is_number and abs(value) < 2**63 else f"? {name}=None"

    def _find_extents(self) -> dict[str, tuple[str, int]]:
        """The inferable constants, each with the parameter and axis of its extent."""
        signature = self.kernel.signature
        known = inferable(signature, call_signature(self.kernel))
        given = {param.name for param in self.given}
        return {
            dim: (param.name, axis)
            for param, axis, dim in signature.named_axes()
            if isinstance(dim, str) and dim in known and param.name in given
        }

    def write(self, *args: Any, **kwargs: Any) -> None:
        """Run the kernel on given outputs."""
        names = [param.name for param in self.given]
        self._launch(self._complete(names, args, kwargs))

    def make(self, *args: Any, **kwargs: Any) -> Any:
        """Make the outputs, run the kernel, and return them."""
        made = self.new_outputs(*args, **kwargs)
        outputs = made if isinstance(made, tuple) else (made,)
        given = self._complete(self.others, args, kwargs)
        self._launch({**given, **dict(zip(self.written, outputs, strict=True))})
        return made

    def _complete(
        self, names: list[str], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> dict[str, Any]:
        """All arguments by name; torch omits those with their default."""
        passed = {**dict(zip(names, args, strict=False)), **kwargs}
        given = self.defaults | {k: value for k, value in passed.items() if value is not None}
        for name, (tensor, axis) in self._extents.items():
            if name not in given:
                shape = given[tensor].shape
                if axis >= len(shape):
                    raise _refused(
                        self.kernel,
                        f"`{name}` is left out, which makes it the extent of `{tensor}` along axis"
                        f" {axis}, but that has shape {tuple(shape)}",
                    )
                given[name] = shape[axis]
        return {name: given[name] for name in names if name in given}

    def new_outputs(self, *args: Any, **kwargs: Any) -> Any:
        """The result of `outputs=`: a tensor, or a tuple of several."""
        assert self.outputs is not None, "an operator that makes its outputs knows how"
        by_position, by_name = self._passing
        values = self._complete(self.others, args, kwargs)
        made = self.outputs(
            *(values[name] for name in by_position), **{name: values[name] for name in by_name}
        )
        several = tuple(made) if isinstance(made, (tuple, list)) else (made,)
        tensor = load_torch().Tensor
        if len(several) != len(self.written) or not all(isinstance(o, tensor) for o in several):
            kinds = [type(one) for one in several]
            given = ", ".join(f"{k.__module__.partition('.')[0]}.{k.__name__}" for k in kinds)
            raise _refused(
                self.kernel,
                f"outputs= gives {', '.join(self.written)} as tensors of torch, and gave {given}",
            )
        return several[0] if len(self.written) == 1 else several

    def _match_outputs(self, outputs: Callable[..., Any]) -> tuple[list[str], list[str]]:
        """The positional and the keyword parameters of `outputs=`."""
        keyword_only = Parameter.KEYWORD_ONLY
        keywords = [n for n in self.others if self.parameters[n].kind is keyword_only]
        places = [name for name in self.others if name not in keywords]
        try:
            signature = call_signature(outputs)
        except (TypeError, ValueError):  # a C function without a signature
            return places, []
        kinds = {p.name: p.kind for p in signature.parameters.values()}
        if Parameter.VAR_KEYWORD not in kinds.values():
            keywords = [name for name in keywords if kinds.get(name) in _BY_NAME]
        refusal = ""
        for by_position, by_name in (([], [*places, *keywords]), (places, keywords)):
            try:
                signature.bind(*by_position, **dict.fromkeys(by_name))
            except TypeError as error:
                refusal = str(error)
            else:
                return by_position, by_name
        names = ", ".join(f"`{name}`" for name in self.others) or "no parameters"
        raise _refused(
            self.kernel,
            f"outputs= is a function of {names}, and the one given has the parameters {signature}:"
            f" {refusal}",
        )

    def _launch(self, arguments: dict[str, Any]) -> None:
        torch = load_torch()
        with torch.no_grad():  # autograd is above this level of dispatch
            for name, cut in self.tiles.items():
                if callable(cut):
                    arguments[name] = cut(arguments[name])
                else:
                    sizes = cut if isinstance(cut, tuple) else (cut,)
                    arguments[name] = partition(arguments[name], *sizes)
            operation = self.kernel(**arguments)
            operation.submit()
            if operation.device.kind == "cpu":
                operation.sync()  # torch runs CPU operators synchronously


def _refused(kernel: Launchable, text: str) -> LaunchError:
    return LaunchError(f"torch_op({kernel.__name__}): {text}")


def _nothing(*_: Any, **__: Any) -> None:
    """The fake implementation of an operator without results."""


def _scalar_type(param: ScalarParam) -> str:
    if param.dtype is bool_:
        return "bool"
    is_integer = hasattr(param.dtype, "element") and param.dtype.element.is_integer
    return "SymInt" if is_integer else "float"


def _const_type(param: ConstParam) -> str:
    known = {int: "SymInt", bool: "bool", float: "float", str: "str"}
    if param.type not in known:
        what = "an enum" if issubclass(param.type, Enum) else "a function"
        what = "a dtype" if param.type is DType else what
        raise LaunchError(f"`{param.name}` is {what}, which torch has no type of ours for")
    return known[param.type]


_TYPES: dict[type, Callable[[Any], str]] = {
    RefParam: lambda _: "Tensor",
    MutParam: lambda _: "Tensor",
    MappedParam: lambda _: "Tensor",
    AccumParam: lambda _: "Tensor",
    ScalarParam: _scalar_type,
    ConstParam: _const_type,
}
_KINDS = {"GroupParam": "tuple of numbers", "PointerParam": "raw pointer"}


def _listed(names: Any) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names)) or "nothing"
