"""The findings of one file, gathered while its functions are followed.

Code whose exceptions may be caught, and a second look at a loop, are followed in silence.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager

from tilewright.lint.findings import HostFinding
from tilewright.source import SourceFile, Span

__all__ = ["Reporter"]


class Reporter:
    """Takes findings, each once."""

    def __init__(self, file: SourceFile) -> None:
        self.file = file
        self._found: dict[tuple[str, Span], HostFinding] = {}
        self._silences = 0

    def span(self, node: ast.AST) -> Span:
        """The place of a node."""
        return Span.of(self.file, node)

    def report(self, finding: HostFinding) -> None:
        """Keep a finding; the first one about a place stays."""
        if not self._silences:
            self._found.setdefault((finding.code, finding.span), finding)

    @contextmanager
    def silence(self, wanted: bool = True) -> Iterator[None]:
        """Keep no findings inside."""
        self._silences += wanted
        try:
            yield
        finally:
            self._silences -= wanted

    def findings(self) -> tuple[HostFinding, ...]:
        """All findings, in the order of their lines."""
        order = sorted(self._found.values(), key=lambda one: (one.span.line, one.span.column))
        return tuple(order)
