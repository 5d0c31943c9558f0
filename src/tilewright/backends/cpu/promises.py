"""Checks of what a kernel promises: assumptions, loop steps, assertions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np

from tilewright.backends.cpu.faults import AssertionFault, report, report_element

__all__ = [
    "fail_assertion",
    "require_bounded",
    "require_multiple",
    "require_step",
    "unsigned_range",
]


def require_multiple(site: int, value: Any, divisor: int) -> None:
    """A promise that every element is a multiple."""
    wrong = value % divisor != 0
    if np.any(wrong):
        report_element(site, wrong, f"promises a multiple of {divisor}, and has {{}}", value)


def require_bounded(site: int, value: Any, lower: int | None, upper: int | None) -> None:
    """A promise that every element lies between bounds, which belong to the range."""
    below = lower is not None and value < lower
    above = upper is not None and value > upper
    wrong = np.logical_or(below, above)
    if np.any(wrong):
        ends = ("" if end is None else str(end) for end in (lower, upper))
        report_element(site, wrong, f"promises [{', '.join(ends)}], and has {{}}", value)


def require_step(site: int, step: int, unsigned: bool) -> None:
    """A counted loop goes up."""
    if step == 0 or (step < 0 and not unsigned):
        report(site, f"has the step {step}, which is not positive")


def unsigned_range(bits: int, lower: int, upper: int, step: int) -> Iterator[int]:
    """The counter's values, as scalars are held, where the bounds are read as unsigned."""
    mask, half = (1 << bits) - 1, 1 << bits - 1
    for number in range(lower & mask, upper & mask, step & mask):
        yield (number + half & mask) - half


def fail_assertion(site: int, message: str) -> NoReturn:
    """Stop a block whose assertion is false."""
    raise AssertionFault(site, message)
