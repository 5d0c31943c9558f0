"""The version, in the one place that the package, its metadata and its bytecode read."""

from __future__ import annotations

__all__ = ["VERSION"]

VERSION = "0.1.0"  # also read by the build, from this line
