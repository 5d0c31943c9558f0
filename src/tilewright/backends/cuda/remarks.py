"""What tileiras chose for each line: its remarks, read from the YAML that it writes.

The shape of that file is fixed, one document a remark, so a few patterns read it; this is no YAML
parser. tileiras repeats a remark for every copy of an op it tried, so equal ones are given once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["Remark", "parse_remarks"]

_PLACE = re.compile(r"\{ File: '?(?P<file>.*?)'?, Line: (?P<line>\d+), Column: (?P<column>\d+) \}")
_ITEM = re.compile(r"^(?:  - )?(?P<key>\w+):[ \t]+(?P<value>.*)$", re.MULTILINE)
_STATED_AGAIN = re.compile(r'^loc\(".*?":\d+:\d+\): ')  # a reason repeats the remark's own place
_MESSAGE_PARTS = ("Remark", "Instruction", "Reason")


@dataclass(frozen=True)
class Remark:
    """One decision. `line` is 0 where the module has no debug information."""

    line: int
    message: str
    passed: bool  # false: an optimisation was tried and is not possible; the message says why
    function: str = ""
    file: str = ""
    category: str = ""  # "Memory", "Tensor-core"


def parse_remarks(text: str) -> tuple[Remark, ...]:
    """The distinct remarks of a report, in the order in which they first appear."""
    documents = re.split(r"^--- !", text, flags=re.MULTILINE)[1:]
    return tuple(dict.fromkeys(_parse(document) for document in documents))


def _parse(document: str) -> Remark:
    values: dict[str, list[str]] = {}
    for item in _ITEM.finditer(document):
        values.setdefault(item["key"], []).append(_unquoted(item["value"]))
    place = _PLACE.search("".join(values.get("DebugLoc", ())))
    known = place is not None and place["line"] != "0"
    parts = [_STATED_AGAIN.sub("", part) for key in _MESSAGE_PARTS for part in values.get(key, ())]
    return Remark(
        line=int(place["line"]) if place is not None else 0,
        message=": ".join(dict.fromkeys(parts)),
        passed=document.startswith("Passed"),
        function="".join(values.get("Function", ())),
        file=place["file"] if place is not None and known else "",
        category="".join(values.get("Pass", ())),
    )


def _unquoted(value: str) -> str:
    if len(value) >= 2 and value[0] == value[-1] == "'":
        return value[1:-1].replace("''", "'")
    return value
