"""What built operations hold on a storage, and who they are to others."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from tilewright.runtime.memory.regions import Region
from tilewright.runtime.ops.call_site import Site

__all__ = ["Borrow", "Borrows", "Holder"]


class Holder(Protocol):
    """A built operation as others see it: it may be dropped, so this does not refer to it."""

    @property
    def label(self) -> str:
        """What it does."""

    @property
    def site(self) -> Site:
        """Where it was built."""

    @property
    def state(self) -> str:
        """Why it still holds what it holds, and the way out."""


class Borrow(NamedTuple):
    """A right that a built operation holds on a region."""

    region: Region
    writes: bool
    name: str
    holder: Holder


# The rights of each holder.
Borrows = dict[Holder, list[Borrow]]
