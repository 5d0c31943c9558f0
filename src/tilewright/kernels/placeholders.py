"""Placeholders of dtypes that the signatures of several library kernels name, beside `dims.T`.

As a dim does, each ties together the places of one signature; the docstrings give its use.
"""

from __future__ import annotations

import tilewright as tw

__all__ = ["ACC", "FROM", "ID"]


class ACC(tw.AnyDType):
    """dtype of the sums."""


class FROM(tw.AnyDType):
    """dtype of the input."""


class ID(tw.AnyDType):
    """Integer dtype of row indices."""
