"""Runs kernel calls once more on copies with every check forced into the kernel, and compares.

What the proofs do must not be seen from outside: a launch that works gives the same bytes, an index
that leaves its axis is reported at the same line and axis, and a launch that is refused for an
index would have failed at that very index. A folder asks for it in its `conftest.py`, with an
autouse fixture that uses `checked_twice`.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import (
    CompileError,
    KernelFailure,
    LaunchError,
    OutOfBoundsError,
    TilewrightError,
)
from tilewright.jit.compile.compiled import force_checks
from tilewright.kernel import Kernel
from tilewright.runtime.memory.layout import Layout
from tilewright.runtime.memory.partition import HostPartition
from tilewright.runtime.memory.storage import Storage
from tilewright.runtime.memory.tensor import Tensor
from tilewright.runtime.ops.operation import DeviceOp

# How a launch check names the index that it refuses: `file.py:7:12: `x`, axis 0: index 4, …`.
REFUSED_INDEX = re.compile(r":(?P<line>\d+):\d+: `\w+`, axis (?P<axis>\d+): ")
EMPTY = "axis is empty"
DENIED = "would need one"
ENOUGH = 25  # calls of one kernel in one test


class Copies:
    """The arguments of one call with bytes of their own; what shared memory still does."""

    def __init__(self) -> None:
        self.storages: dict[int, Storage] = {}
        self.tensors: list[Tensor] = []

    def of(self, argument: Any) -> Any:
        """A copy of an argument: tensors, also inside partitions and tuples."""
        if isinstance(argument, Tensor):
            copied = Tensor(self._storage(argument.storage), argument.dtype, argument.layout)
            self.tensors.append(copied)
            return copied
        if isinstance(argument, tuple):
            return tuple(map(self.of, argument))
        if isinstance(argument, HostPartition):
            cut = argument
            tensor, segments = self.of(cut.tensor), self.of(cut.segments)
            return tensor.partition(
                *cut.tile, order=cut.order, prefix=cut.is_prefix, segments=segments
            )
        if dataclasses.is_dataclass(argument) and not isinstance(argument, type):
            names = [field.name for field in dataclasses.fields(argument) if field.init]
            parts = {name: self.of(getattr(argument, name)) for name in names}
            return dataclasses.replace(argument, **parts)
        return argument

    def _storage(self, storage: Storage) -> Storage:
        found = self.storages.get(id(storage))
        if found is None:
            flat = Tensor(storage, tw.u8, Layout((storage.nbytes,), (1,)))
            with tw.device(storage.device.name):
                found = tw.from_numpy(flat.numpy()).storage
            self.storages[id(storage)] = found
        return found


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What one run of a kernel did."""

    outputs: tuple[np.ndarray, ...] = ()
    error: TilewrightError | None = None


@dataclasses.dataclass(frozen=True)
class Call:
    """A call of a kernel: the grid, if it gives one, its arguments, and whether it is unsafe."""

    kernel: Kernel
    grid: tuple[int, ...] | None
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    unsafe: bool

    def on(self, copies: Copies) -> DeviceOp[Any]:
        """The operation on copies of the arguments."""
        args = copies.of(self.args)
        kwargs = {name: copies.of(value) for name, value in self.kwargs.items()}
        return REAL_LAUNCH(self.kernel, self.grid, args, kwargs, unsafe=self.unsafe)

    def outcome(self) -> Outcome:
        """Run it on copies, watched, which also keeps sums in their order."""
        copies = Copies()
        try:
            with tw.race_check():
                self.on(copies).sync()
            assert len(copies.tensors) >= len(self.kernel.signature.tensors), "all are copies"
            return Outcome(tuple(tensor.numpy() for tensor in copies.tensors))
        except TilewrightError as error:
            return Outcome(error=error)


def difference(proved: Outcome, forced: Outcome) -> str | None:
    """What can be told from outside between the two runs, or None."""
    one, other = proved.error, forced.error
    if one is None and other is None:
        same = [
            a.tobytes() == b.tobytes() for a, b in zip(proved.outputs, forced.outputs, strict=True)
        ]
        return None if all(same) else "the outputs differ"
    if isinstance(one, CompileError) or (isinstance(other, LaunchError) and EMPTY in str(other)):
        return None  # what is certainly wrong never runs; a forced check needs a place to clamp to
    if isinstance(one, LaunchError):
        return _refusal_differs(one, other)
    if type(one) is not type(other):
        return "only one of them fails, or they fail differently"
    if isinstance(one, OutOfBoundsError) and isinstance(other, OutOfBoundsError):
        places = [(e.line, e.axis) + ((e.index, e.extent),) * same_block(one, other)
                  for e in (one, other)]  # fmt: skip
        return None if places[0] == places[1] else "they fail at different places"
    return None


def same_block(one: OutOfBoundsError, other: OutOfBoundsError) -> bool:
    """Whether the same block reported; which of several does is not defined."""
    return one.block == other.block


def _refusal_differs(refused: LaunchError, other: TilewrightError | None) -> str | None:
    """A launch refused for an index or a divisor is one that would have failed there."""
    if DENIED in str(refused) or isinstance(other, LaunchError):
        return None
    if not isinstance(other, KernelFailure):
        return "the launch is refused, and would have worked"
    found = REFUSED_INDEX.search(str(refused))
    if found is None or not isinstance(other, OutOfBoundsError):
        return None
    refused_at = int(found["line"]), int(found["axis"])
    at = other.line, other.axis
    return None if refused_at == at else f"refused at {refused_at}, and would have failed at {at}"


REAL_LAUNCH = Kernel.launch


def _compare(call: Call) -> None:
    """Run a call with and without proofs."""
    proved = call.outcome()
    with force_checks():
        forced = call.outcome()
    differs = difference(proved, forced)
    assert differs is None, (
        f"kernel `{call.kernel.__qualname__}` with and without proofs: {differs}\n"
        f"with:    {proved.error or 'works'}\nwithout: {forced.error or 'works'}"
    )


@pytest.fixture
def checked_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare kernel calls of a test with ones that make all checks in the kernel."""
    compared: Counter[Kernel] = Counter()

    def launch(kernel: Kernel, grid: Any, args: Any, kwargs: Any, *, unsafe: bool = False) -> Any:
        compared[kernel] += 1
        if compared[kernel] <= ENOUGH:
            _compare(Call(kernel, grid, args, kwargs, unsafe))
        return REAL_LAUNCH(kernel, grid, args, kwargs, unsafe=unsafe)

    monkeypatch.setattr(Kernel, "launch", launch)
