"""Stop requests to a kernel that runs on the CPU.

A run checks its `Stop` before every block and at every iteration of the kernel's loops. Any thread
may ask, at any time; the run raises the first reason. A stopped kernel leaves memory as its last
statement did, so its outputs are incomplete.
"""

from __future__ import annotations

__all__ = ["Stop"]


class Stop:
    """A request to one run of a kernel to end, with the reason."""

    __slots__ = ("reasons",)

    def __init__(self) -> None:
        # Generated code tests the list itself, which needs no call.
        self.reasons: list[BaseException] = []

    def ask(self, reason: BaseException) -> None:
        """End the run, which raises the reason, unless it has ended or has an earlier reason."""
        self.reasons.append(reason)
