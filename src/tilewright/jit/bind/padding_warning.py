"""The warning about padding that takes part in a reduction of a launch."""

from __future__ import annotations

import warnings

from tilewright.errors import PaddingWarning
from tilewright.jit.bind.binding import Binding
from tilewright.jit.bind.environment import LaunchEnvironment
from tilewright.jit.compile.compiled import LaunchFacts

__all__ = ["warn_of_padding"]


def warn_of_padding(facts: LaunchFacts, binding: Binding) -> bool:
    """Warn about every reduction over padding, at its line; return whether there is one.

    A launch that warns gets no plan, so the next call with its key warns as well.
    """
    if not facts.padded or binding.blocks == 0:
        return False
    environment = LaunchEnvironment(binding)
    noticed = [note for note in facts.padded if note.is_noticed(environment)]
    for note in noticed:
        span = note.location.span
        text = f"kernel `{facts.name}`: {note.describe(environment)}"
        warnings.warn_explicit(text, PaddingWarning, span.file.path, span.line)
    return bool(noticed)
