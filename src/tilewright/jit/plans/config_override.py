"""Configurations of library kernels: overrides by the context, and caches that depend on them.

A library function looks up its configuration, and the function cache keeps the launches that follow
from it. Every change of the records invalidates all registered caches, so that an entry never
outlives the configuration it was made with.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from weakref import WeakSet

from tilewright.runtime.devices.context import ContextFlag
from tilewright.runtime.devices.process import ForkedLock

__all__ = ["CONFIG_CACHES", "CONFIG_OVERRIDE"]


class ConfigCaches:
    """The live caches that depend on configurations, and the version of the configurations.

    A cache reads the version before it looks up a configuration, and keeps the entry under the lock
    if the version is still the same.
    """

    __slots__ = ("_all", "lock", "version")

    def __init__(self) -> None:
        self.version = 0
        self.lock = ForkedLock()
        self._all: WeakSet[Any] = WeakSet()

    def register(self, cache: Any) -> None:
        """Call `forget` of a cache at every invalidation, as long as the cache lives."""
        with self.lock:
            self._all.add(cache)

    def invalidate(self) -> None:
        """Clear all caches, because configurations have changed."""
        with self.lock:
            for cache in self._all:
                cache.forget()
            self.version += 1  # last: with an older version no entry is kept


# The caches of this process.
CONFIG_CACHES = ConfigCaches()
# Configurations by kernel name, which take precedence over the records.
CONFIG_OVERRIDE: ContextFlag[Mapping[str, Any]] = ContextFlag("config_override")
