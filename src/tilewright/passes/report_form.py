"""The form of a kernel's failure report. A module of its own, so that importing it is cheap."""

from __future__ import annotations

from enum import Enum, auto

__all__ = ["ReportForm"]


class ReportForm(Enum):
    """How a kernel reports a check that fails while it runs."""

    NONE = auto()  # not at all: to measure the cost of reports
    IN_PLACE = auto()  # at the check itself
    AT_END = auto()  # once, at the end; the first failure of each block is carried there
    AUDIT = auto()  # by a second kernel that computes only the checked indices
