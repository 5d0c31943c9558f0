"""Exceptions from failure records."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.errors import KernelAssertionError, KernelFailure, OutOfBoundsError
from tilewright.ir.check_sites import AssertSite, CheckSite, Site
from tilewright.runtime.order.failure import FailureRecord

__all__ = ["FailureReader"]


@dataclass(slots=True, eq=False)
class FailureReader:
    """Reads the failure record of one launch after its fence has passed."""

    kernel: str
    grid: tuple[int, ...]
    descending: tuple[int, ...]
    sites: tuple[Site, ...]
    record: FailureRecord

    def with_record(self, record: FailureRecord) -> FailureReader:
        """A reader for another launch of the same kernel on the same grid."""
        return FailureReader(self.kernel, self.grid, self.descending, self.sites, record)

    def __call__(self) -> BaseException | None:
        """The exception of a failed launch, else None; without a failure this is a single load."""
        words = self.record.read()
        if not words[0]:
            return None
        (location, check), index, extent = self.sites[words[1] - 1], words[2], words[3]
        place = "" if location is None else f"{location}: "
        block = self._coordinates(words[4])
        where = f"block {block} of kernel `{self.kernel}`"
        line = None if location is None else location.span.line
        if isinstance(check, AssertSite):
            text = f"{place}{check.message}, in {where}"
            return KernelAssertionError(text, message=check.message, line=line, block=block)
        if not isinstance(check, CheckSite):
            return KernelFailure(
                f"{place}division by zero in {where}; it divided by 1 instead. If that is meant, "
                "say so: `tw.where(d == 0, 1, d)`, or `tw.maximum(d, 1)`"
            )
        return OutOfBoundsError(
            f"{place}{_out_of_bounds(check, index, extent)}, in {where}",
            line=line,
            axis=check.axis,
            index=index,
            extent=extent,
            block=block,
        )

    def _coordinates(self, block: int) -> tuple[int, ...]:
        """The coordinates of a block in the logical grid, whose last axis varies fastest."""
        found = []
        for axis, extent in reversed(tuple(enumerate(self.grid))):
            block, place = divmod(block, extent)
            found.append(extent - 1 - place if axis in self.descending else place)
        return tuple(reversed(found))


def _out_of_bounds(check: CheckSite, index: int, extent: int) -> str:
    if check.of_clip:
        return (
            f"axis {check.axis} of {check.place} has {check.counted(extent)}, so no index can be "
            "clipped to it; the kernel took 0 instead"
        )
    write = "skipped the insertion" if check.of_tile else "skipped the write"
    read = "read the nearest one instead" if extent > 0 else "took zeros instead"
    access = write if check.is_store else read
    return (
        f"index {index} is outside axis {check.axis} of {check.place}, which has "
        f"{check.counted(extent)}; the kernel {access}"
    )
