"""Print a constraint for each lower bound of pyproject.toml: the oldest release that it allows.

`make bounds` installs by them, so that the bounds which are declared are releases that work.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

EXTRAS = ("cuda",)
_BOUND = re.compile(r"([\w.-]+)(?:\[[^\]]*\])?\s*>=\s*([\w.]+)")


def lowest_versions(project: Path, extras: tuple[str, ...] = EXTRAS) -> Iterator[str]:
    """The constraints for the dependencies of a project and of some of its extras."""
    declared = tomllib.loads(project.read_text(encoding="utf-8"))["project"]
    optional = declared["optional-dependencies"]
    for text in (
        *declared["dependencies"],
        *(text for extra in extras for text in optional[extra]),
    ):
        if bound := _BOUND.match(text):  # one release line, as `~=13.4.0` is, has no range to try
            yield "{}=={}".format(*bound.groups())


if __name__ == "__main__":
    root = Path(__file__).parents[1]
    sys.stdout.writelines(f"{line}\n" for line in lowest_versions(root / "pyproject.toml"))
