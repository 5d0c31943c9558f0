"""What is to be tuned: one kernel on one set of tensors, and how to tell whether it is right.

A `Task` is concrete: it has tensors. A `Tunable` describes a kernel of a library: for which keys
it is worth tuning, and how to make the task of a key. Neither searches: `tune.search` does.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.dtypes import limits
from tilewright.jit.cache.fingerprints import digest
from tilewright.kernel import Kernel
from tilewright.runtime.devices.device import Device
from tilewright.runtime.memory.tensor import Tensor
from tilewright.runtime.ops.copies import fill
from tilewright.runtime.ops.operation import DeviceOp
from tilewright.tune.config import Config
from tilewright.tune.keys import Key
from tilewright.tune.records import chosen, forcing
from tilewright.tune.sources import source_digest
from tilewright.tune.space import Space

__all__ = ["Task", "Trial", "Tunable", "poison", "relative_error", "task_of"]


@dataclass(frozen=True, eq=False)
class Task:
    """One kernel on one set of tensors.

    `build` gives the operation for a configuration. `error` looks at the result of one that has
    run, and says how far it is from the reference, relative to it; above `limit` it is wrong.
    """

    kernel: str  # the name that its record gets
    key: Key
    configs: tuple[Config, ...]  # what to try; the first one stays unless another is faster
    build: Callable[[Config], DeviceOp[Any]]
    error: Callable[[Any], float]
    limit: float
    device: Device
    source: str  # digest of what its record is about (`Tunable.source`)
    prepare: Callable[[], None] = field(default=lambda: None)  # before a run whose result counts
    flush: bool = False  # whether every timed run starts with a cold cache
    untuned: Callable[[], DeviceOp[Any]] | None = None  # what runs if nothing was measured
    machine: str = ""  # on which times are taken: those of another one do not count


@dataclass(frozen=True, eq=False)
class Trial:
    """The tensors of one key, as the tuner sees them.

    `build` gives the operation as a user would write it: which configuration it runs with is forced
    from outside. `error` and `limit` are those of a task.
    """

    build: Callable[[], DeviceOp[Any]]
    error: Callable[[Any], float]
    limit: float
    prepare: Callable[[], None] = field(default=lambda: None)


@dataclass(frozen=True, eq=False)
class Tunable:
    """A kernel of a library that looks its configuration up by `chosen(name, …)`."""

    name: str
    kernels: tuple[Kernel, ...]  # what it launches: a change of them makes records stale
    rule: Callable[[Key, str], Config]  # what runs without a record, on a target: such a change too
    space: Callable[[Key], Space]
    keys: tuple[Key, ...]  # for which it is worth tuning
    trial: Callable[[Key, Device], Trial]
    flush: bool = False

    def source(self, key: Key, target: str) -> str:
        """A digest of what a record of a key is about: its kernels, and what it was compared with.

        Both kinds of records say how a configuration compares with what runs without one. Where
        that is another one now, neither holds any longer.
        """
        return digest(_source_digest(self.kernels), str(self.rule(key, target)))[:16]


@lru_cache(maxsize=64)
def _source_digest(kernels: tuple[Kernel, ...]) -> str:
    return source_digest(*kernels)


def poison(tensor: Tensor) -> None:
    """Fill a tensor with what no kernel leaves there, so that whatever is not written shows."""
    element = tensor.dtype.element
    value = float("nan") if element.is_float else limits(tensor.dtype)[1]
    with suppress(ValueError, OverflowError):  # a dtype without NaN keeps what it has
        fill(tensor, value).submit()


def relative_error(found: npt.ArrayLike, expected: npt.ArrayLike) -> float:
    """The norm of the difference over that of the expected values; NaN where only one has it."""
    ours, theirs = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    if ours.shape != theirs.shape:
        return float("inf")
    same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
    with np.errstate(invalid="ignore"):
        distance = np.linalg.norm(np.where(same, 0.0, ours - theirs))
    size = np.linalg.norm(np.where(np.isfinite(theirs), theirs, 0.0))
    return float(distance / size) if size else float(distance)


def task_of(tunable: Tunable, key: Key, device: Device) -> Task:
    """The task of one key, with its tensors on a device."""
    trial = tunable.trial(key, device)
    now = chosen(tunable.name, key, device.target)
    known = () if now is None else (now,)

    def forced(config: Config | None) -> DeviceOp[Any]:
        with forcing(tunable.name, config):
            return trial.build()

    return Task(
        kernel=tunable.name,
        key=key,
        configs=tuple(dict.fromkeys((*known, *tunable.space(key)))),
        build=forced,
        error=trial.error,
        limit=trial.limit,
        device=device,
        source=tunable.source(key, device.target),
        prepare=trial.prepare,
        flush=tunable.flush,
        untuned=partial(forced, None),
    )
