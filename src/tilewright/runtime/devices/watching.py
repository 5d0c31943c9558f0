"""Race checks of launches: the context that `with tw.race_check():` makes.

Only the CPU device can watch: it records the reads and writes of every block, and the order that
tokens give them. The backend calls `is_watching` when a launch is put on a stream.
"""

from __future__ import annotations

from tilewright.errors import LaunchError
from tilewright.runtime.devices.context import INTERCEPTED, ContextFlag, Setting

__all__ = ["is_watching", "race_check", "require_watchable"]

_watching: ContextFlag[bool] = ContextFlag("race_check")


def race_check(watch: bool = True) -> Setting[None]:
    """Watch the launches inside for races; on the CPU only.

    Two accesses of one element race if nothing orders them, one of them writes and one is not
    atomic: of two blocks, which have no order, or of one block, where only tokens order them. A
    race is raised as `UndefinedBehaviourError` by the call that waits for the operation: it names
    both blocks, the element and both lines of the kernel. Outputs are written nevertheless. A graph
    is watched at every replay if its block ends inside.
    """
    return Setting(None, (_watching, watch), (INTERCEPTED, True))


def is_watching() -> bool:
    """Whether a launch put on a stream now is watched."""
    return bool(_watching.get())


def require_watchable(kind: str, kernel: str) -> None:
    """Refuse a watched launch on a device that cannot watch."""
    if is_watching() and kind != "cpu":
        raise LaunchError(
            f"kernel `{kernel}`: race_check watches launches on the CPU, and these tensors are on "
            f"a {kind} device: make them with `with tw.device('cpu'):`"
        )
