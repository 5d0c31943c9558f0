"""Tells of outputs whose extents tie to nothing, once for each kernel."""

from __future__ import annotations

import warnings

from tilewright.errors import ExtentWarning
from tilewright.frontend.source.capture import SourceFunction

__all__ = ["ExtentTeller"]


class ExtentTeller:
    """What is told of one kernel, whatever it is compiled for; those with other hints share it."""

    __slots__ = ("_has_told",)

    def __init__(self) -> None:
        self._has_told = False

    def tell(self, source: SourceFunction, untied: tuple[tuple[str, str], ...]) -> None:
        """Warn of the outputs, at the line of the first of them."""
        if not untied or self._has_told:
            return
        names = ", ".join(f"`{name}`" for name, _ in untied)
        text = (
            f"kernel `{source.name}`: nothing ties the extents of {names} to those of its inputs, "
            f"so a launch may leave out the end of an input, or write beyond what it gives, and "
            f"nothing tells; write {'; '.join(way_out for _, way_out in untied)}"
        )
        line = _line_of(source, untied[0][0])
        warnings.warn_explicit(text, ExtentWarning, source.file.path, line)
        self._has_told = True  # if it was raised, it is raised again


def _line_of(source: SourceFunction, name: str) -> int:
    arguments = source.node.args
    everything = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    return next(argument.lineno for argument in everything if argument.arg == name)
