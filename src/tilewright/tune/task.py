"""Tuning tasks: one kernel on one set of tensors, with a check of its result.

A `Task` is concrete: it has tensors. A `Tunable` describes a kernel of a library: the keys worth
tuning, and the task of a key. `tune.search` has the search.
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

    `build` returns the operation for a configuration. `error` takes the result of an operation that
    has run, and returns its error relative to the reference; above `limit` it is wrong.
    """

    kernel: str  # the name in its record
    key: Key
    configs: tuple[Config, ...]  # candidates; the first one stays unless another is faster
    build: Callable[[Config], DeviceOp[Any]]
    error: Callable[[Any], float]
    limit: float
    device: Device
    source: str  # digest of its kernels and default (`Tunable.source`)
    prepare: Callable[[], None] = field(default=lambda: None)  # called before a run that is checked
    flush: bool = False  # whether every timed run starts with a cold cache
    untuned: Callable[[], DeviceOp[Any]] | None = None  # the default, which runs without a record
    machine: str = ""  # of the timings: those of another machine do not count


@dataclass(frozen=True, eq=False)
class Trial:
    """The tensors of one key, as the tuner uses them.

    `build` returns the operation as a user would write it: its configuration is forced from
    outside. `error` and `limit` are those of a task.
    """

    build: Callable[[], DeviceOp[Any]]
    error: Callable[[Any], float]
    limit: float
    prepare: Callable[[], None] = field(default=lambda: None)


@dataclass(frozen=True, eq=False)
class Tunable:
    """A kernel of a library that looks its configuration up by `chosen(name, …)`."""

    name: str
    kernels: tuple[Kernel, ...]  # launched kernels: a change of them makes records stale
    rule: Callable[[Key, str], Config]  # the default on a target: so does a change of it
    space: Callable[[Key], Space]
    keys: tuple[Key, ...]  # keys worth tuning
    trial: Callable[[Key, Device], Trial]
    flush: bool = False

    def source(self, key: Key, target: str) -> str:
        """Return a digest of a key's kernels and default.

        Both kinds of records compare a configuration with the default. If the default changes,
        neither is valid any longer.
        """
        return digest(_source_digest(self.kernels), str(self.rule(key, target)))[:16]


@lru_cache(maxsize=64)
def _source_digest(kernels: tuple[Kernel, ...]) -> str:
    return source_digest(*kernels)


def poison(tensor: Tensor) -> None:
    """Fill a tensor with values that no kernel writes, so that unwritten elements show."""
    element = tensor.dtype.element
    value = float("nan") if element.is_float else limits(tensor.dtype)[1]
    with suppress(ValueError, OverflowError):  # a dtype without NaN keeps its contents
        fill(tensor, value).submit()


def relative_error(found: npt.ArrayLike, expected: npt.ArrayLike) -> float:
    """Return the norm of the difference over that of `expected`; NaN if only one has a NaN."""
    ours, theirs = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    if ours.shape != theirs.shape:
        return float("inf")
    same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
    with np.errstate(invalid="ignore"):
        distance = np.linalg.norm(np.where(same, 0.0, ours - theirs))
    size = np.linalg.norm(np.where(np.isfinite(theirs), theirs, 0.0))
    return float(distance / size) if size else float(distance)


def task_of(tunable: Tunable, key: Key, device: Device) -> Task:
    """Return the task of one key, with its tensors on a device."""
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
