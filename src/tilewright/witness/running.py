"""Runs one proposal on the CPU device with the race checker, and describes its failure.

A kernel that does not terminate is not stopped: callers run the whole search in its own process.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

import tilewright as tw
from tilewright.dtypes import AnyDType, DType, limits
from tilewright.errors import CompileError, KernelFailure, LaunchError
from tilewright.frontend.signature.signature import (
    ConstParam,
    GroupParam,
    MappedParam,
    Param,
    PointerParam,
    ScalarParam,
    TensorParam,
    WholeParam,
)
from tilewright.jit.compile.compiled import force_checks
from tilewright.kernel import Kernel
from tilewright.runtime.memory.tensor import Tensor
from tilewright.witness.proposals import IntegerContents, Proposal

__all__ = ["Chosen", "LaunchOutcome", "run"]

_POINTED_TO = 1 << 16  # elements behind a pointer: far more than a small launch reaches
_BLOCKS = 2  # of a persistent output
_ADDRESS = re.compile(r"the element at 0x([0-9a-f]+)")
_BLOCK = re.compile(r"\bblock \((\d+), 0, 0\)")


@dataclass(frozen=True)
class Chosen:
    """The constants of a specialisation: static dims, constants and dtypes, by name."""

    constants: Mapping[str, Any]
    dtypes: Mapping[str, type[DType]]

    def dtype(self, declared: type[DType]) -> type[DType]:
        """A declared dtype with placeholders replaced."""
        return self.dtypes[declared.__name__] if issubclass(declared, AnyDType) else declared


@dataclass(frozen=True)
class LaunchOutcome:
    """How a launch ended: its arguments as text, and its failure, if it has one."""

    arguments: tuple[str, ...]
    failure: KernelFailure | None
    text: str = ""  # of the failure, with elements and blocks as the launch numbers them


def run(
    kernel: Kernel, chosen: Chosen, proposal: Proposal, *, forced: bool
) -> LaunchOutcome | None:
    """Run a proposal; None if the launch, or the kernel with these tiles, is refused.

    `forced` keeps every check in the kernel.
    """
    with tw.device("cpu"), tw.race_check(), force_checks() if forced else nullcontext():
        call = _Call(kernel, chosen, proposal)
        unsafe = kernel.options.unsafe
        try:
            kernel.launch(call.grid, call.args, call.keywords, unsafe=unsafe).sync()
        except (LaunchError, CompileError):
            return None
        except KernelFailure as failure:
            return LaunchOutcome(tuple(call.shown), failure, call.retold(str(failure)))
        return LaunchOutcome(tuple(call.shown), None)


class _Call:
    """The arguments of one call, and the text of each."""

    def __init__(self, kernel: Kernel, chosen: Chosen, proposal: Proposal) -> None:
        self._chosen = chosen
        self._proposal = proposal
        self.shown: list[str] = []
        self._pointed_to: dict[str, Tensor] = {}
        self._blocks: tuple[int, ...] = proposal.grid
        params = kernel.signature.params
        given = {param.name: self._argument(param) for param in params}
        keywords = {param.name for param in params if isinstance(param, ConstParam)}
        self.args = tuple(value for name, value in given.items() if name not in keywords)
        self.keywords = {name: value for name, value in given.items() if name in keywords}
        has_grid = bool(kernel.signature.cut_outputs)
        self.grid = None if has_grid else proposal.grid
        if not has_grid:
            self.shown.append(f"a grid of {proposal.grid}")

    def _argument(self, param: Param) -> Any:
        if isinstance(param, ConstParam):
            value = self._chosen.constants.get(param.name, param.default)
            self.shown.append(f"{param.name} = {getattr(value, 'label', value)}")
            return value
        if isinstance(param, GroupParam):
            return param.filled([self._argument(member) for member in param.members])
        dtype = self._chosen.dtype(param.dtype)
        if isinstance(param, ScalarParam):
            value = self._proposal.scalars[param.name]
            self.shown.append(f"{param.name} = {value}")
            return value
        if isinstance(param, PointerParam):
            self.shown.append(f"{param.name}: {_POINTED_TO} elements of {dtype.label}")
            tensor = _tensor((_POINTED_TO,), dtype, self._proposal.fill)
            self._pointed_to[param.name] = tensor
            return tensor
        return self._tensor(param, dtype)

    def _tensor(self, param: TensorParam, dtype: type[DType]) -> Any:
        shape = tuple(self._extent(param, axis) for axis in range(param.rank))
        tensor = _tensor(shape, dtype, self._proposal.fill)
        text = f"{param.name}: {dtype.label}{list(shape)}"
        if isinstance(param, WholeParam):
            holds = f" holding {self._proposal.fill}" if dtype.element.is_integer else ""
            self.shown.append(text + holds)
            return tensor
        tile = tuple(self._fixed(dim) for dim in param.dims)
        self.shown.append(f"{text} cut into {tile}")
        partition = tensor.partition(*tile)
        if isinstance(param, MappedParam):
            self._blocks = (_BLOCKS,)
            return partition.persistent(_BLOCKS)
        self._blocks = partition.grid
        return partition

    def retold(self, text: str) -> str:
        """The text of a failure, with addresses as tensor elements and blocks by logical index."""
        text = _ADDRESS.sub(lambda found: self._element(int(found[1], 16), found[0]), text)
        return _BLOCK.sub(lambda found: f"block {self._place(int(found[1]))}", text)

    def _element(self, address: int, otherwise: str) -> str:
        for name, tensor in self._pointed_to.items():
            place, rest = divmod(address - tensor.address, tensor.itemsize)
            if 0 <= place < _POINTED_TO and not rest:
                return f"element {place} of `{name}`"
        return otherwise

    def _place(self, block: int) -> tuple[int, ...]:
        return tuple(int(place) for place in np.unravel_index(block, self._blocks))

    def _extent(self, param: TensorParam, axis: int) -> int:
        dim = param.extents[axis]
        if dim is None:
            return self._proposal.extents[param.name, axis]
        fixed = self._fixed(dim)
        return self._proposal.extents[str(dim)] if fixed is None else fixed

    def _fixed(self, dim: int | str | None) -> int | None:
        return self._chosen.constants.get(dim) if isinstance(dim, str) else dim


def _tensor(shape: tuple[int, ...], dtype: type[DType], fill: IntegerContents) -> Tensor:
    """A tensor of integers that may be indices, or of arbitrary floats."""
    if dtype.element.is_float:
        ones: Tensor = tw.ones(shape, dtype)
        return ones
    count = np.arange(prod(shape)) * fill.counts + fill.start
    low, high = limits(dtype)
    return tw.from_numpy(np.clip(count, low, high).astype(dtype.element.numpy).reshape(shape))
