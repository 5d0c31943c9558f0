"""tileiras's remarks on each line, read from the YAML that it writes.

The form of that file is fixed, one document for each remark, so a few patterns suffice in place of
a YAML parser. tileiras repeats a remark for every copy of an op it tried; duplicates are dropped.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["Remark", "parse_remarks"]

_PLACE = re.compile(r"\{ File: '?(?P<file>.*?)'?, Line: (?P<line>\d+), Column: (?P<column>\d+) \}")
_ITEM = re.compile(r"^(?:  - )?(?P<key>\w+):[ \t]+(?P<value>.*)$", re.MULTILINE)
_STATED_AGAIN = re.compile(r'^loc\(".*?":\d+:\d+\): ')  # a reason repeats the remark's own location
_MESSAGE_PARTS = ("Remark", "Instruction", "Reason")


@dataclass(frozen=True)
class Remark:
    """One decision. `line` is 0 if the module has no debug information."""

    line: int
    message: str
    passed: bool  # false: an optimisation failed; the message has the reason
    function: str = ""
    file: str = ""
    category: str = ""  # "Memory", "Tensor-core"


def parse_remarks(text: str) -> tuple[Remark, ...]:
    """Return the distinct remarks of a report, in the order of their first occurrence."""
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
