"""Lazy import of the engine on the first tuning: lookups of configurations do not pay for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, cast

from tilewright.runtime.loading import load_module

if TYPE_CHECKING:
    from tilewright.tune.plans import SearchResult
    from tilewright.tune.records import Record
    from tilewright.tune.task import Task

__all__ = ["Engine", "load_engine"]


class Engine(Protocol):
    """Interface of `tilewright.tune.engine`."""

    def tune(self, task: Task, *, tool: str) -> tuple[Record, SearchResult]:
        """Search, and return the record of the winner."""


def load_engine() -> Engine:
    """Import the engine, which compiles, times and compares."""
    return cast("Engine", load_module("tilewright.tune.engine"))
