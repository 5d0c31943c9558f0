"""Explanations of a refused module: the tools' messages, sorted and mapped to the user's lines.

tileirdisasm verifies its input and names the op, with its location where the module has debug
information; an unreadable module is reported by the offset inside a function's body.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from signal import Signals

from tilewright.backends.cuda.large_tiles import LargeTile, largest_tile, memory_of
from tilewright.bytecode import Encoded
from tilewright.errors import ToolchainError

__all__ = ["AssemblyError", "Explanation", "Reason", "explain", "memory_of"]

_ERROR = re.compile(r"^(?P<where>.*?)error: (?P<text>.+)$", re.MULTILINE)
_PLACE = re.compile(r'loc\("(?P<file>[^"]+)":(?P<line>\d+):(?P<column>\d+)\)')
_OFFSET = re.compile(r"error at offset (?P<offset>\d+): (?P<text>.+)")
_BODY = re.compile(r"function body for function '(?P<name>[^']+)'")
_NO_NEWS = (
    "verification failed for",
    "failed to read provided",
    "failed to parse function body",
    "failed to create function",
    "input does not correspond",
)
_NO_REASON = "failed to compile Tile IR program"  # tileiras's only message, for every cause


@dataclass(frozen=True)
class Reason:
    """One message, with its location in the user's source, if known."""

    text: str
    place: str = ""

    def __str__(self) -> str:
        return f"{self.place}: {self.text}" if self.place else self.text


_FROM_OUTSIDE = frozenset({"SIGINT", "SIGKILL", "SIGTERM"})  # not every system has them


@dataclass(frozen=True)
class Explanation:
    """All messages about one module."""

    reasons: tuple[Reason, ...]
    large_tile: LargeTile | None = None  # the likely cause, if there is no reason


class AssemblyError(ToolchainError):
    """tileiras or tileirdisasm refused a module."""

    def __init__(self, explanation: Explanation, *, target: str = "", status: int = 0) -> None:
        title = (
            f"tileiras did not compile the module for {target}" if target else "unreadable module"
        )
        told = [str(reason) for reason in explanation.reasons] or ["it gave no reason"]
        told += _advice(explanation.large_tile if target else None, target, status)
        super().__init__("\n  ".join((title + _ending(status), *told)))
        self.reasons = explanation.reasons
        self.large_tile = explanation.large_tile


def explain(bytecode: Encoded | bytes, said: str) -> Explanation:
    """Sort the messages of a tool about a module."""
    encoded = bytecode if isinstance(bytecode, Encoded) else None
    body = _BODY.search(said)
    function = body["name"] if body else ""
    found = [_reason(match, encoded, function) for match in _ERROR.finditer(said)]
    told = [reason for reason in found if not reason.text.startswith(_NO_NEWS)]
    reasons = tuple(dict.fromkeys(told or found))
    is_explained = any(reason.text.strip() != _NO_REASON for reason in reasons)
    return Explanation(reasons, None if is_explained else largest_tile(bytecode))


def _reason(match: re.Match[str], encoded: Encoded | None, function: str) -> Reason:
    place = _PLACE.search(match["where"])
    if place is not None:
        return Reason(match["text"], f"{place['file']}:{place['line']}:{place['column']}")
    offset = _OFFSET.match(match["text"])
    text = match["text"] if offset is None else offset["text"]
    if offset is None or encoded is None or function not in encoded.bodies:
        return Reason(text)
    op = encoded.op_at(encoded.bodies[function] + int(offset["offset"]) - 1)
    if op is None or text.startswith(_NO_NEWS):
        return Reason(text)
    return Reason(f"`{op.mnemonic}`: {text}", str(op.loc or ""))


def _advice(large_tile: LargeTile | None, target: str, status: int) -> tuple[str, ...]:
    if _signal_of(status) in _FROM_OUTSIDE:
        return ("something else ended it, perhaps because memory ran out: try again",)
    if large_tile is None:
        return ("please report this with the kernel: tilewright should not have let it pass",)
    reason = Reason(large_tile.beside(target), str(large_tile.location or ""))
    return str(reason), "choose smaller tiles, or work on this one in parts, in a loop"


def _ending(status: int) -> str:
    if status == 0:
        return ""
    if status < 0:
        return f" (it ended with {_signal_of(status)})"
    return f" (exit status {status})"


def _signal_of(status: int) -> str:
    """Return the name of the signal of an exit status, if it is one that is known."""
    return next((known.name for known in Signals if known == -status), "")
