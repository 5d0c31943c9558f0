"""How a kernel that is running on the CPU is told to end.

A run looks at its `Stop` before every block and at every turn of a loop of the kernel. Any thread
may ask, at any time; the first reason is raised by the run. A kernel that is stopped leaves memory
as its last statement did, so what it writes is not whole.
"""

from __future__ import annotations

__all__ = ["Stop"]


class Stop:
    """Asks one run of a kernel to end, and says why."""

    __slots__ = ("reasons",)

    def __init__(self) -> None:
        # The generated code looks at the list itself: whether one is empty costs no call.
        self.reasons: list[BaseException] = []

    def ask(self, reason: BaseException) -> None:
        """End the run, which raises the reason, unless it has ended or another one was given."""
        self.reasons.append(reason)
