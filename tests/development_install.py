"""A pytest plugin that hides every module which the development install does not bring.

`pytest -p development_install --collect-only` shows how the suite looks in an environment that has
the package with the extras `cuda` and `dev`, whatever else is installed beside them.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from importlib import metadata
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec

EXTRAS = ("cuda", "dev")
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_EXTRA = re.compile(r"""extra\s*==\s*['"]([\w-]+)['"]""")


def normalised(name: str) -> str:
    """The name of a distribution as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def installed_with(name: str, extras: Sequence[str]) -> set[str]:
    """The distributions that an install of `name` with these extras brings, itself included."""
    found: set[str] = set()
    waiting = [(normalised(name), frozenset(extras))]
    seen = set(waiting)
    while waiting:
        distribution, wanted = waiting.pop()
        found.add(distribution)
        for needed in _requirements(distribution, wanted) - seen:
            seen.add(needed)
            waiting.append(needed)
    return found


def _requirements(name: str, extras: frozenset[str]) -> set[tuple[str, frozenset[str]]]:
    try:
        required = metadata.requires(name) or []
    except metadata.PackageNotFoundError:  # a requirement of another platform or Python
        return set()
    found = set()
    for text in required:
        extra = _EXTRA.search(text)
        if extra is None or extra[1] in extras:
            match = _NAME.match(text)
            assert match is not None, text
            asked = re.match(r"\s*\[([^\]]*)\]", text[match.end() :])
            wanted = frozenset(part.strip() for part in asked[1].split(",")) if asked else ()
            found.add((normalised(match[0]), frozenset(wanted)))
    return found


class Hidden(MetaPathFinder):
    """Answers for modules of other distributions that there is no such module."""

    def __init__(self) -> None:
        kept = installed_with("tilewright", EXTRAS) | {"pip", "setuptools"}
        self.names = {
            module
            for module, distributions in metadata.packages_distributions().items()
            if not kept.intersection(map(normalised, distributions))
        }

    def find_spec(
        self, fullname: str, path: object = None, target: object = None
    ) -> ModuleSpec | None:
        """Refuse a hidden module; leave every other to the finders behind."""
        if fullname.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
        return None


def pytest_configure() -> None:
    """Hide the modules in the process that names this file as a plugin, and in no other."""
    sys.meta_path.insert(0, Hidden())
