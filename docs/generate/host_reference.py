"""The page about the host: public objects outside kernels, documented by mkdocstrings."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from page_text import page, sentence, table

import tilewright as tw
from tilewright.lang.builtin import Builtin

__all__ = ["host_page"]

CLASSES = ("Tensor", "HostPartition", "PersistentPartition", "DeviceOp", "Kernel", "Graph",
           "Device", "Stream", "RoundRobin", "SingleStream", "Pool", "CompileProgress")  # fmt: skip


def host_page() -> str:
    """Functions in a table, and every class in full."""
    rows = [(f"`tw.{name}`", sentence(found)) for name, found in _functions()]
    directives = []
    for name in CLASSES:
        kind = getattr(tw, name)
        directives.append(f"### {name}\n\n{sentence(kind)}")
        directives.append(
            f"::: {kind.__module__}.{kind.__qualname__}\n    options:\n"
            "      show_root_heading: false\n      show_root_toc_entry: false\n"
            "      heading_level: 4"
        )
    return page(
        "The host",
        "You use these names outside kernels. In Python, `help(tw.Tensor)` shows the same texts.",
        "## Functions",
        table(("function", "meaning"), rows),
        "## Classes",
        "The members of each class are listed in the book; in a checkout the lines that begin with "
        "`:::` stand for them.",
        *directives,
    )


def _functions() -> Iterator[tuple[str, Any]]:
    for name in sorted(tw.__all__, key=str.lower):
        found = getattr(tw, name)
        is_language = isinstance(found, Builtin) and found.on_host is None
        if inspect.isclass(found) or isinstance(found, ModuleType) or is_language:
            continue
        if callable(found) and found.__doc__:
            yield name, found
