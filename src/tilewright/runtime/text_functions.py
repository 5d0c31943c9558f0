"""Functions made of Python text, with the parameters of a kernel unrolled line by line.

They run in every launch, where a loop or another call would be measurable.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from types import CodeType
from typing import Any

__all__ = ["define"]


def define(text: str, title: str, names: dict[str, Any]) -> dict[str, Any]:
    """The names that a text defines, with the given ones.

    The title is its file name, inside this package, so that searches for a user's frame skip it.
    """
    known = dict(names)
    exec(_compiled(text, title), known)
    return known


@lru_cache(maxsize=1024)
def _compiled(text: str, title: str) -> CodeType:
    """Kernels with the same parameters have the same text."""
    return compile(text, str(Path(__file__).with_name(f"<{title}>")), "exec")
