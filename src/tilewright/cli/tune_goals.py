"""The goals of `tilewright tune`: library kernels by name, or FILE::kernel.

A library kernel has a list of shapes. A user's kernel is an autotuned kernel, whose tensors the
command line describes: `--arg x=f16:4096,1024`.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tilewright.cli.loading import SEPARATOR, load_autotuned
from tilewright.cli.screen import BadInput
from tilewright.dtypes import DTYPES, IN_TILES_ONLY
from tilewright.kernels.tunables import TUNABLES
from tilewright.runtime.devices.device import Device
from tilewright.runtime.memory.creation import from_numpy
from tilewright.runtime.memory.tensor import Tensor
from tilewright.tune import Autotuned, Key, Records, Task, Tunable
from tilewright.tune.task import task_of
from tilewright.tune.turns import Urgency, by_need, in_turns

__all__ = ["Goal", "find_goals"]

_DTYPES = {dtype.label: dtype for dtype in DTYPES if dtype not in IN_TILES_ONLY}


@dataclass(frozen=True)
class Goal:
    """One search to run."""

    name: str  # as given
    what: str  # one of its keys, or the arguments
    candidates: int
    make: Callable[[Device], Task]
    need: Urgency = Urgency.MISSING

    @property
    def label(self) -> str:
        """For people."""
        return f"{self.name} {self.what}"


def find_goals(
    names: Sequence[str], only: str, arguments: Sequence[str], records: Records, target: str
) -> list[Goal]:
    """The searches that the command line asks for; those of the library sorted by need.

    `records` are those of the target. `only` selects keys of the library: the key with this text,
    or all keys that contain it.
    """
    files = [name for name in names if _is_file(name)]
    tunables = [_tunable(name, arguments) for name in names if not _is_file(name)]
    found = [
        *(_of_file(name, arguments) for name in files),
        *(_of_library(*one) for one in by_need(in_turns(tunables), records, target)),
    ]
    chosen = [goal for goal in found if only == goal.what]
    chosen = chosen or [goal for goal in found if only in goal.what]
    if not chosen:
        known = ", ".join(goal.what for goal in found[:6])
        raise BadInput(f"--only {only!r}: no key has that in it; there are {known}, …")
    return chosen


def _is_file(name: str) -> bool:
    return SEPARATOR in name or name.endswith(".py")


def _of_file(name: str, arguments: Sequence[str]) -> Goal:
    kernel = load_autotuned(name)
    make = partial(_task, kernel, tuple(arguments))
    return Goal(name, " ".join(arguments), len(kernel.space), make)


def _tunable(name: str, arguments: Sequence[str]) -> Tunable:
    if arguments:
        raise BadInput(f"--arg is for a kernel in a file: the shapes of {name} are listed")
    if name not in TUNABLES:
        close = difflib.get_close_matches(name, TUNABLES, n=1)
        hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(TUNABLES)}"
        raise BadInput(f"the library has no tunable kernel {name}; {hint}")
    return TUNABLES[name]


def _of_library(need: Urgency, tunable: Tunable, key: Key) -> Goal:
    make = partial(task_of, tunable, key)
    return Goal(tunable.name, str(key), len(tunable.space(key)), make, need)


def _task(kernel: Autotuned, arguments: Sequence[str], device: Device) -> Task:
    known = {param.name for param in kernel.kernel.signature.params}
    given: dict[str, Any] = {}
    for number, argument in enumerate(arguments):
        name, equals, text = argument.partition("=")
        if not equals or name not in known:
            raise BadInput(
                f"--arg {argument}: write NAME=DTYPE:EXTENTS or NAME=NUMBER, where NAME is one of "
                f"{', '.join(known)}"
            )
        given[name] = _value(argument, text, number, device)
    return kernel.task(**given)


def _value(argument: str, text: str, seed: int, device: Device) -> Tensor | float:
    label, colon, extents = text.partition(":")
    if not colon:
        try:
            return float(text) if "." in text or "e" in text else int(text)
        except ValueError:
            raise BadInput(f"--arg {argument}: a number, or a tensor as f16:4096,1024") from None
    shape = extents.split(",")
    if label not in _DTYPES or not all(one.isascii() and one.isdecimal() for one in shape):
        raise BadInput(f"--arg {argument}: a tensor is written as its dtype and extents, f16:64,32")
    return _random(label, tuple(map(int, shape)), seed, device)


def _random(label: str, shape: tuple[int, ...], seed: int, device: Device) -> Tensor:
    """Distinct numbers near one, whose products stay finite."""
    random, dtype = np.random.default_rng(seed), _DTYPES[label]
    if dtype.element.is_float:
        return from_numpy(random.standard_normal(shape, np.float32), device=device).astype(dtype)
    return from_numpy(random.integers(0, 2, shape, np.int32), device=device).astype(dtype)
