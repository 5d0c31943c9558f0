"""`@tw.autotune(space, …)` on top of `@tw.kernel`: a kernel that finds its own configuration.

The caller passes whole tensors: the partition of outputs, the constants, hints and schedule come
from the configuration.

    @tw.autotune(Space(BM=(64, 128), BN=(64, 128), BK=(32, 64)), key=("M", "N", "K"))
    @tw.kernel
    def gemm(z: Mapped[T, BM, BN], x: Ref[T, M, K], y: Ref[T, K, N], *, BK: Const[int]) -> None: …

    gemm(c, a, b).sync()

The first launch with a new key uses the record of an earlier process, or tunes: on copies of the
outputs, in this process, which waits meanwhile; other threads with the same key wait for the first.
A kernel that hangs hangs the process: `tilewright tune` searches in a child. Where timing is
impossible (on the CPU, for `tw.meta`, while a graph is recorded, in a step of a chain) the nearest
record serves, or else the default.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from functools import partial, update_wrapper
from typing import Any

from tilewright.errors import LaunchError, TuneError
from tilewright.jit.cache.memory import SingleFlight
from tilewright.kernel import Kernel
from tilewright.runtime.devices.device import Device
from tilewright.runtime.graphs.recording import block_is_open
from tilewright.runtime.ops.inside_chains import is_inside_chain
from tilewright.runtime.ops.operation import DeviceOp
from tilewright.tune.config import Config
from tilewright.tune.keys import Key
from tilewright.tune.loader import load_engine
from tilewright.tune.records import chosen, keep, records_for
from tilewright.tune.sources import source_digest
from tilewright.tune.space import Space
from tilewright.tune.task import Task
from tilewright.tune.tuned_calls import (
    KeyMaker,
    Oracle,
    TunedCall,
    check_axes,
    check_key,
    usual_limit,
)

__all__ = ["Autotuned", "decorator"]

_log = logging.getLogger("tilewright")


class Autotuned:
    """A kernel with a space of configurations; call it with whole tensors."""

    def __init__(
        self,
        kernel: Kernel,
        space: Space,
        *,
        key: KeyMaker = None,
        reference: Callable[..., Any] | None = None,
        limit: float | None = None,
        default: Config | None = None,
    ) -> None:
        update_wrapper(self, kernel)
        self.__name__: str = kernel.__name__
        self.__qualname__: str = kernel.__qualname__
        self.kernel = kernel
        self.space = space
        self.default = space.first() if default is None else default
        check_axes(kernel, self.default)
        self.name = f"{kernel.__module__}.{kernel.__qualname__}"  # name of its records
        self.source = source_digest(kernel)
        self._reference = reference
        self._limit = limit
        self._key = check_key(kernel, key)
        self._signature = inspect.signature(kernel)
        self._known: dict[tuple[str, Key], Config] = {}
        self._tuning: SingleFlight[Config] = SingleFlight()
        self._has_told = False

    def __call__(self, *args: Any, **kwargs: Any) -> DeviceOp[Any]:
        """Build the operation with the configuration for these arguments; the first time, tune."""
        call = self._call(args, kwargs)
        return call.build(self._choose(call))

    def choose(self, *args: Any, **kwargs: Any) -> Config:
        """Return the configuration for these arguments; the first time, tune."""
        return self._choose(self._call(args, kwargs))

    def task(self, *args: Any, **kwargs: Any) -> Task:
        """Return the tuning task for these arguments."""
        call = self._call(args, kwargs)
        return self._task(call, self._key_of(call))

    def __repr__(self) -> str:
        return f"<autotuned kernel {self.__qualname__}, {len(self.space)} configurations>"

    def __reduce__(self) -> str:
        return self.__qualname__

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> TunedCall:
        try:
            bound = self._signature.bind_partial(*args, **kwargs)
        except TypeError as error:
            shown = ", ".join(self._signature.parameters)
            raise LaunchError(f"{self.__name__}({shown}): {error}") from None
        for name, _ in self.default.constants:
            if name in bound.arguments:
                raise LaunchError(
                    f"`{name}` of kernel `{self.__name__}` is chosen by the tuner: leave it out, "
                    f"or launch the kernel itself, `{self.__name__}.kernel(…)`"
                )
        return TunedCall(self.kernel, bound)

    def _key_of(self, call: TunedCall) -> Key:
        if not callable(self._key):
            return call.key(self._key)
        key = call.pass_to(self._key)
        if not isinstance(key, Key):
            raise TuneError(
                f"key= of kernel `{self.__name__}` gives {key!r}, and a key is made by "
                "`tilewright.tune.key_of(dtypes, shape, …)`"
            )
        return key

    def _choose(self, call: TunedCall) -> Config:
        key, device = self._key_of(call), call.device
        place = (device.target, key)
        known = self._known.get(place)
        if known is not None:
            return known
        if not _can_measure(device):
            return self._untuned(key, device)
        config = self._tuning.get(place, partial(self._tuned, call, key))
        self._known[place] = config
        return config

    def _untuned(self, key: Key, device: Device) -> Config:
        config = chosen(self.name, key, device.target) or self.default
        if device.kind == "cpu" and not self._has_told:
            self._has_told = True
            _log.warning(
                "tilewright: %s is not tuned on the CPU; it runs with %s", self.__name__, config
            )
        return config

    def _tuned(self, call: TunedCall, key: Key) -> Config:
        """Return the record of an earlier process for this kernel and key, or search."""
        target = call.device.target
        record = records_for(target).get(self.name, key)
        if record is not None and record.provenance.source == self.source:
            return record.config
        task = self._task(call, key)
        _log.info("tilewright: tuning %s for %s: %d", self.name, key, len(task.configs))
        record, found = load_engine().tune(task, tool="@tw.autotune")
        _log.info("tilewright: %s for %s: %s, %.3g s", self.name, key, record.config, found.seconds)
        keep(record, target)
        return record.config

    def _task(self, call: TunedCall, key: Key) -> Task:
        oracle = Oracle(call, self.default, self._reference)
        outputs = [call.tensors[param.name].dtype for param in self.kernel.signature.outputs]
        return Task(
            kernel=self.name,
            key=key,
            configs=tuple(dict.fromkeys((self.default, *self.space))),
            build=oracle.build,
            error=oracle.error,
            limit=usual_limit(outputs) if self._limit is None else self._limit,
            device=call.device,
            source=self.source,
            prepare=oracle.prepare,
        )


def _can_measure(device: Device) -> bool:
    """Whether candidates can be run and waited for here and now."""
    if device.kind != "cuda" or block_is_open() or is_inside_chain():
        return False
    return not device.stream.queue.is_capturing()


def decorator(space: Space, **options: Any) -> Callable[[Kernel], Autotuned]:
    """Return the decorator of `tw.autotune`; the options are those of `Autotuned`."""
    if not isinstance(space, Space):
        raise TuneError(f"@tw.autotune takes a tilewright.tune.Space, not {space!r}")

    def decorate(kernel: Kernel) -> Autotuned:
        if not isinstance(kernel, Kernel):
            raise TuneError(f"@tw.autotune stands above @tw.kernel, and {kernel!r} is no kernel")
        return Autotuned(kernel, space, **options)

    return decorate
