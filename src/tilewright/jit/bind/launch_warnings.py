"""Warnings of launches: parameters with untied extents, and reductions over padding."""

from __future__ import annotations

import warnings

from tilewright.errors import ExtentWarning, PaddingWarning
from tilewright.frontend.signature.signature import Signature
from tilewright.frontend.source.capture import SourceFunction
from tilewright.jit.bind.binding import Binding
from tilewright.jit.compile.compiled import LaunchFacts

__all__ = ["ExtentTeller", "warn_of_padding"]


class ExtentTeller:
    """The warning of one kernel; its specialisations and its copies with other hints share it."""

    __slots__ = ("_has_told",)

    def __init__(self) -> None:
        self._has_told = False

    def tell(
        self, source: SourceFunction, signature: Signature, untied: tuple[tuple[str, str], ...]
    ) -> None:
        """Warn about untied outputs, and about untied inputs next to tied outputs."""
        if not untied or self._has_told:
            return
        written = {param.name for param in signature.cut_outputs}
        outputs = [(name, way_out) for name, way_out in untied if name in written]
        inputs = [(name, way_out) for name, way_out in untied if name not in written]
        texts = []
        if outputs:
            loss = "leave out the end of an input, or write more elements than it gives"
            texts.append(_told(outputs, "inputs", loss))
        if inputs:
            loss = "leave out the end of an input, or read padding behind it"
            texts.append(_told(inputs, "outputs", loss))
        text = f"kernel `{source.name}`: {'; '.join(texts)}"
        line = source.parameter(untied[0][0]).lineno
        warnings.warn_explicit(text, ExtentWarning, source.file.path, line)
        # Set last: a filter may raise the warning, and then the next launch raises it again.
        self._has_told = True


def _told(untied: list[tuple[str, str]], others: str, loss: str) -> str:
    names = ", ".join(f"`{name}`" for name, _ in untied)
    return (
        f"nothing ties the extents of {names} to those of its {others}, so a launch may {loss}, "
        f"and nothing tells; write {'; '.join(way_out for _, way_out in untied)}"
    )


def warn_of_padding(facts: LaunchFacts, binding: Binding) -> bool:
    """Warn about every reduction over padding, at its line; return whether there is one.

    A launch that warns gets no plan, so the next call with its key warns as well.
    """
    if not facts.padded or binding.blocks == 0:
        return False
    environment = binding.environment
    noticed = [note for note in facts.padded if not note.holds(environment)]
    for note in {(note.location, note.param, note.axis): note for note in noticed}.values():
        assert note.location is not None, "a warning has a line"
        span = note.location.span
        text = f"kernel `{facts.name}`: {note.describe(environment)}"
        warnings.warn_explicit(text, PaddingWarning, span.file.path, span.line)
    return bool(noticed)
