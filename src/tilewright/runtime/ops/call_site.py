"""Call sites: the user's line that built an object, stored without keeping a frame alive.

A site is a code object and an instruction; the line is looked up when a message needs it. Frames of
this package are skipped, so a message names the user's call. Lines of kernel source belong to
`tilewright.source`.
"""

from __future__ import annotations

import os
from pathlib import Path
from sys import _getframe  # importing `inspect` costs more than this package
from types import CodeType, FrameType, TracebackType
from typing import TypeVar

__all__ = [
    "USER_FILES",
    "CallSite",
    "site_outside",
    "user_frame",
    "user_frame_above",
    "user_site",
    "with_user_frames",
]

E = TypeVar("E", bound=BaseException)

_OURS = str(Path(__file__).parents[2]) + os.sep  # as code objects name it, links and all
_TOUR = f"{_OURS}cli{os.sep}tour"  # treated as a user's code


class CallSite:
    """One instruction of one code object."""

    __slots__ = ("code", "instruction")

    def __init__(self, code: CodeType, instruction: int) -> None:
        self.code = code
        self.instruction = instruction

    @property
    def path(self) -> str:
        """The file, relative to the working directory if it lies there."""
        name = self.code.co_filename
        return name.removeprefix(f"{Path.cwd()}{os.sep}")

    @property
    def line(self) -> int:
        """The line in that file."""
        for start, end, line in self.code.co_lines():
            if start <= self.instruction < end and line is not None:
                return line
        return self.code.co_firstlineno

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


# Files known to be outside this package.
USER_FILES: set[str] = set()


def user_site(depth: int = 1) -> CallSite:
    """The innermost call outside this package, or the outermost frame if all are inside.

    The search starts `depth` frames up.
    """
    frame = user_frame(depth + 1)
    return CallSite(frame.f_code, frame.f_lasti)


def site_outside(packages: frozenset[str]) -> CallSite:
    """The innermost call outside this package and outside packages that call it for the user."""
    frame = user_frame(2)
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] in packages:
        frame = frame.f_back
    return CallSite(frame.f_code, frame.f_lasti)


def user_frame(depth: int = 1) -> FrameType:
    """The same as a frame, which callers must not keep."""
    try:
        frame = _getframe(depth)
    except ValueError:  # a thread, or the end of the process, began inside this package
        frame = _getframe(0)
    return frame if frame.f_code.co_filename in USER_FILES else user_frame_above(frame)


def user_frame_above(frame: FrameType) -> FrameType:
    """The same, starting at a frame."""
    file = frame.f_code.co_filename
    while file not in USER_FILES and (file in _our_files or _is_ours(file)):
        above = frame.f_back
        if above is None:
            break
        frame, file = above, above.f_code.co_filename
    return frame


def with_user_frames(error: E) -> E:
    """A refusal with the user's frames alone in its traceback: ours say nothing about it."""
    entries: list[TracebackType] = []
    entry = error.__traceback__
    while entry is not None:
        entries.append(entry)
        entry = entry.tb_next
    kept: TracebackType | None = None
    for one in reversed(entries):
        file = one.tb_frame.f_code.co_filename
        if file in USER_FILES or not _is_ours(file):
            kept = TracebackType(kept, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return error.with_traceback(kept)


_our_files: set[str] = set()


def _is_ours(file: str) -> bool:
    is_ours = file.startswith(_OURS) and not file.startswith(_TOUR)
    (_our_files if is_ours else USER_FILES).add(file)
    return is_ours
