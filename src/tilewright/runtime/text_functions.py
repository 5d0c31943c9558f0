"""Functions made of Python text: what depends on a kernel is spelled out in them, line by line.

They run in every launch, where a loop or a call more would count.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

__all__ = ["define"]


def define(text: str, title: str, names: dict[str, Any]) -> dict[str, Any]:
    """What a text defines, and the names in it.

    The title is where it is said to stand, in this package: whoever is shown where something was
    built is not shown this.
    """
    known = dict(names)
    exec(compile(text, str(Path(__file__).with_name(f"<{title}>")), "exec"), known)
    return known
