"""The engine by name, on the first tuning: looking configurations up must not cost its import."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, cast

from tilewright.runtime.loading import load_module

if TYPE_CHECKING:
    from tilewright.tune.plans import Found
    from tilewright.tune.records import Record
    from tilewright.tune.task import Task

__all__ = ["Engine", "load_engine"]


class Engine(Protocol):
    """What `tilewright.tune.engine` provides."""

    def tune(self, task: Task, *, tool: str) -> tuple[Record, Found]:
        """Search, and make the record of what was found."""


def load_engine() -> Engine:
    """The part that compiles, measures and compares."""
    return cast("Engine", load_module("tilewright.tune.engine"))
