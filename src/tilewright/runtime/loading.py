"""Heavy modules, loaded by name on first use: backends, the compiler, the kernels, the tuner.

A module that is still being loaded cannot be used: a finaliser or a signal handler that interrupts
the import is refused.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

from tilewright.errors import LaunchError

__all__ = ["LazyModule", "load_module"]


def load_module(name: str) -> Any:
    """A module of ours, loaded completely."""
    module = sys.modules.get(name)
    if module is None:
        return importlib.import_module(name)
    if _is_half_loaded(module):
        # Waits for the import in another thread; one in this thread cannot end.
        module = importlib.import_module(name)
        if _is_half_loaded(module):
            raise LaunchError(
                f"{name} is being loaded by a call that this one has interrupted, as a signal"
                " handler does, and cannot be used yet: have the handler note the work, and do it"
                " when that call is over"
            )
    return module


class LazyModule:
    """A module that is loaded when one of its names is used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(load_module(self._name), name)


def _is_half_loaded(module: Any) -> bool:
    return bool(getattr(module.__spec__, "_initializing", False))
