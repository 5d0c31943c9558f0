"""How a kernel reports a failed check. A file of its own, so that naming a form costs nothing."""

from __future__ import annotations

from enum import Enum, auto

__all__ = ["ReportForm"]


class ReportForm(Enum):
    """How a kernel reports a check that fails while it runs."""

    NONE = auto()  # not at all: to measure what reporting costs
    IN_PLACE = auto()  # where the check stands
    AT_END = auto()  # once, at the end; the first failure of each block is carried there
    AUDIT = auto()  # by a second kernel that computes nothing but the checked indices
