"""Releases large arrays after their last use.

A local variable keeps its array until its function returns, and a block has dozens of them. A line
`v7 = None` after the last statement that names an array lets NumPy reuse its memory while a cache
still holds it. The input is text of the emitter, in which a statement is one line and a block
begins with `def`, `if`, `else`, `for` or `while`; Python in general is not supported.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

__all__ = ["release"]

_INDENT = "    "
_NAME = re.compile(r"\bv\d+\b")
_LEAVES = ("return", "continue", "break", "raise")  # nothing after them in a block runs


@dataclass
class _Block:
    """A block of statements: the first line of each, and the blocks inside them by first line."""

    first: int
    end: int
    starts: list[int] = field(default_factory=list)
    inner: list[_Block] = field(default_factory=list)


def release(lines: Sequence[str], names: AbstractSet[str]) -> list[str]:
    """Return the lines of a function, in which these variables are released after their last use.

    Every one is assigned in the function before it is read. Variables that a nested function names
    are left alone: when it runs is not known.
    """
    uses = _uses(lines, names)
    if not uses:
        return list(lines)
    whole = _blocks(lines)
    before: dict[int, list[tuple[int, str]]] = {}
    for name, (first, last) in uses.items():
        depth, end = _place(whole, first, last)
        if not _ends(lines, depth, end):
            before.setdefault(end, []).append((depth, name))
    released: list[str] = []
    for number, line in enumerate(lines):
        ended = sorted(before.get(number, ()), reverse=True)  # inner blocks end first
        released += [f"{_INDENT * depth}{name} = None" for depth, name in ended]
        released.append(line)
    return released


def _ends(lines: Sequence[str], depth: int, end: int) -> bool:
    """Whether a release before line `end` would not run, or the function returns there anyway."""
    if end == len(lines) or lines[end - 1].lstrip().startswith(_LEAVES):
        return True
    return _depth(lines[end]) == depth and lines[end].lstrip().startswith("return")


def _depth(line: str) -> int:
    return (len(line) - len(line.lstrip(" "))) // len(_INDENT)


def _uses(lines: Sequence[str], names: AbstractSet[str]) -> dict[str, tuple[int, int]]:
    """The first and the last line that names each variable, if no nested function does."""
    uses: dict[str, tuple[int, int]] = {}
    hidden: set[str] = set()
    function: int | None = None  # the depth of the nested function that lines are in
    for number, line in enumerate(lines):
        depth = _depth(line)
        if function is not None and depth <= function:
            function = None
        if function is None and line.lstrip().startswith("def "):
            function = depth
        for name in names & set(_NAME.findall(line)):
            uses[name] = (uses.get(name, (number, 0))[0], number)
            if function is not None:
                hidden.add(name)
    return {name: use for name, use in uses.items() if name not in hidden}


def _blocks(lines: Sequence[str]) -> _Block:
    """The tree of blocks."""
    whole = _Block(0, len(lines))
    path = [whole]
    for number, line in enumerate(lines):
        depth = _depth(line)
        if depth >= len(path):
            block = _Block(number, number)
            path[-1].inner.append(block)
            path.append(block)
        for closed in path[depth + 1 :]:
            closed.end = number
        del path[depth + 1 :]
        if line.lstrip() != "else:":
            path[depth].starts.append(number)
    for block in path:
        block.end = len(lines)
    return whole


def _place(block: _Block, first: int, last: int) -> tuple[int, int]:
    """The depth and the line before which a variable is released, used from `first` to `last`."""
    depth = 0
    while True:
        at = bisect_right(block.inner, last, key=lambda inner: inner.first) - 1
        if at < 0 or not (block.inner[at].first <= first and last < block.inner[at].end):
            break
        block, depth = block.inner[at], depth + 1
    at = bisect_right(block.starts, last)
    return depth, block.starts[at] if at < len(block.starts) else block.end
