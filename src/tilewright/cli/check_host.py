"""The host code of a file, as `tilewright check` reviews it; the file is read and not run."""

from __future__ import annotations

import tokenize
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.cli.loading import check_file
from tilewright.cli.screen import BadInput, os_reason
from tilewright.diagnostics import render
from tilewright.lint.findings import HostFinding
from tilewright.lint.host_code import check_host_code

__all__ = ["HostReview", "review_host_code"]


@dataclass(frozen=True)
class HostReview:
    """The mistakes in the host code of one file."""

    path: Path
    findings: tuple[HostFinding, ...]

    @property
    def text(self) -> str:
        """All findings with their source lines."""
        return "\n\n".join(render([one]) for one in self.findings)

    @property
    def faults(self) -> list[str]:
        """The findings, one line for each."""
        return [f"{self.path}:{one.span.line}: {one.title}" for one in self.findings]

    def to_json(self) -> list[dict[str, Any]]:
        """The findings as plain data."""
        return [
            {
                "file": str(self.path),
                "line": one.span.line,
                "kind": one.code,
                "message": one.title,
                "other_line": one.other.line,
                "help": list(one.helps),
            }
            for one in self.findings
        ]


def review_host_code(path: Path) -> HostReview:
    """Review the host code of one file."""
    check_file(path)
    try:
        with tokenize.open(path) as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        reason = os_reason(error) if isinstance(error, OSError) else str(error)
        raise BadInput(f"{path} cannot be read: {reason}") from None
    except SyntaxError as error:  # an unknown encoding
        raise BadInput(f"{path}: {error.msg}") from None
    try:
        return HostReview(path, check_host_code(text, path))
    except SyntaxError as error:
        raise BadInput(f"{path}:{error.lineno}: {error.msg}") from None
    except ValueError as error:  # null bytes, before Python 3.12
        raise BadInput(f"{path}: {error}") from None
    except (RecursionError, MemoryError):  # the parser raises both
        reason = "an expression or a block nests deeper than this Python can parse"
        raise BadInput(f"{path}: {reason}; split it into several statements") from None
