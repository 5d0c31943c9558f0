"""Checks of a kernel's promises: assumptions, loop steps, assertions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np

from tilewright.backends.cpu.faults import AssertionFault, report, report_element
from tilewright.backends.cpu.memory import NibbleTensor, TensorView

__all__ = [
    "fail_assertion",
    "require_alike",
    "require_bounded",
    "require_countable",
    "require_counting",
    "require_multiple",
    "require_step",
    "require_tensor_base",
    "unsigned_range",
]


def require_multiple(site: int, value: Any, divisor: int) -> None:
    """Check a promise that every element is a multiple of a divisor."""
    wrong = _remainders(value, divisor) != 0
    if np.any(wrong):
        report_element(site, wrong, f"promises a multiple of {divisor}, and has {{}}", value)


def _remainders(value: Any, divisor: int) -> Any:
    """Return the remainders; the divisor, up to 2^62, need not fit the elements."""
    return np.asarray(value, np.int64) % divisor


def require_tensor_base(site: int, tensor: TensorView | NibbleTensor, divisor: int) -> None:
    """Check a promise that a tensor starts at a multiple of so many bytes."""
    origin = tuple(np.zeros(1, np.int64) for _ in tensor.shape)
    base = int(tensor.addresses(origin).reshape(-1)[0])
    if 0 not in tensor.shape and base % divisor:
        report(site, f"promises a tensor at a multiple of {divisor}, and it is at {base:#x}")


def require_counting(
    site: int, value: Any, divisor: int, every: int, along: int, step: int
) -> None:
    """Check a promise about groups: the first element is a multiple, the others increase by one."""
    if every == 0:
        return  # there is no group to check
    extent = value.shape[along]
    start = _group_starts(extent, every)
    firsts = np.take(value, start, along)
    shape = [extent if axis == along else 1 for axis in range(value.ndim)]
    steps = ((np.arange(extent) - start) * step).astype(value.dtype).reshape(shape)
    wrong = (_remainders(firsts, divisor) != 0) | (value != firsts + steps)
    if wrong.any():
        report_element(
            site,
            wrong,
            f"promises groups of {every} along axis {along} that count on from a multiple of "
            f"{divisor}, and has {{}}",
            value,
        )


def _group_starts(extent: int, group: int) -> Any:
    """Return, for each index along an axis, the first of its group; the last one may be partial."""
    size = max(min(group, extent), 1)
    return np.arange(extent) // size * size


def require_alike(site: int, value: Any, groups: tuple[int, ...]) -> None:
    """Check a promise that elements come in groups of equal ones."""
    firsts = value
    for axis, group in enumerate(groups):
        firsts = np.take(firsts, _group_starts(value.shape[axis], group), axis)
    wrong = firsts != value
    if wrong.any():
        what = f"promises groups of {groups} equal elements, and has {{}} beside {{}}"
        report_element(site, wrong, what, value, firsts)


def require_bounded(site: int, value: Any, lower: int | None, upper: int | None) -> None:
    """Check a promise that every element lies between inclusive bounds."""
    below = lower is not None and value < lower
    above = upper is not None and value > upper
    wrong = np.logical_or(below, above)
    if np.any(wrong):
        ends = ("" if end is None else str(end) for end in (lower, upper))
        report_element(site, wrong, f"promises [{', '.join(ends)}], and has {{}}", value)


def require_step(site: int, step: int, unsigned: bool) -> None:
    """Check that the step of a counted loop is positive."""
    if step == 0 or (step < 0 and not unsigned):
        report(site, f"has the step {step}, which is not positive")


def require_countable(
    site: int, bits: int, unsigned: bool, lower: int, upper: int, step: int
) -> None:
    """Check that the counter does not wrap when the step is added after the last iteration."""
    mask = (1 << bits) - 1
    if unsigned:
        lower, upper, step = lower & mask, upper & mask, step & mask
    limit = mask if unsigned else mask >> 1
    turns = range(lower, upper, step)
    if turns and turns[-1] + step > limit:
        report(site, f"counts by {step} past {limit}, the last number of its counter, and wraps")


def unsigned_range(bits: int, lower: int, upper: int, step: int) -> Iterator[int]:
    """Iterate over the counter's values, as scalars are held, with bounds read as unsigned."""
    mask, half = (1 << bits) - 1, 1 << bits - 1
    for number in range(lower & mask, upper & mask, step & mask):
        yield (number + half & mask) - half


def fail_assertion(site: int, message: str) -> NoReturn:
    """Stop a block whose assertion is false."""
    raise AssertionFault(site, message)
