"""Sequences: launches known beforehand, in order on one stream, as the work of one operation.

A sequence replaces a chain and holds the same tensors until it is submitted: those of its first
step. It is submitted in one critical section, in which it holds all of its tensors, and ends and
fails as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from typing import Any, NamedTuple

from tilewright.runtime.devices.stream import Stream
from tilewright.runtime.ops.work import NodeWork, SharedWork
from tilewright.runtime.order.access import Handle, Mode
from tilewright.runtime.order.borrow import Role

__all__ = ["SequencePart", "SequenceWork"]


class SequencePart(NamedTuple):
    """One launch of a sequence, for some of the tensors of the sequence."""

    work: NodeWork
    first: int
    end: int


class SequenceWork(SharedWork):
    """Several launches; no two operations differ in it but in their tensors."""

    __slots__ = ("parts",)

    def __init__(self, works: tuple[NodeWork, ...], again: Iterable[tuple[int, int]]) -> None:
        """Make the work of some launches.

        `again` has pairs of tensors, by their numbers, of which the second is the first one, or a
        part of it, in a later launch.
        """
        super().__init__()
        parts: list[SequencePart] = []
        for work in works:
            first = parts[-1].end if parts else 0
            parts.append(SequencePart(work, first, first + len(work.roles)))
        self.parts = tuple(parts)
        self.label, self.device = works[0].label, works[0].device
        self.foreign = tuple([part.first + n for part in parts for n in part.work.foreign])
        self.written = tuple([part.first + n for part in parts for n in part.work.written])
        roles = [role for work in works for role in work.roles]
        for before, after in again:
            if roles[before].mode is Mode.WRITE:
                roles[after] = _after_write(roles[after])
        self.roles = tuple(roles)

    def launch(self, stream: Stream, tensors: tuple[Handle, ...], /) -> None:
        """Put all launches on a stream."""
        for work, first, end in self.parts:
            work.launch(stream, tensors[first:end])

    def nodes(
        self, tensors: tuple[Handle, ...], /
    ) -> Iterator[tuple[NodeWork, tuple[Handle, ...]]]:
        """Each launch, with its tensors."""
        for work, first, end in self.parts:
            yield work, tensors[first:end]

    @property
    def programs(self) -> tuple[Future[Any], ...]:
        """The programs that its launches run."""
        return tuple([program for part in self.parts for program in part.work.programs])


def _after_write(role: Role) -> Role:
    """The role of a tensor whose old contents are overwritten before they are read."""
    return role._replace(mode=Mode.WRITE if role.mode.writes else Mode.REREAD)
