"""Searches for a launch on which a kernel races, leaves its bounds or has undefined behaviour.

Every proposal runs on the CPU device with the race checker, so every reported failure has happened,
and is described with its block, index and line. A search without a result proves nothing. Where the
solver is installed (extra `verify`), its proposals are tried last: they reach rare failures.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, product
from typing import Any

from tilewright.dtypes import AnyDType, DType, f32
from tilewright.errors import KernelAssertionError, KernelFailure, LaunchError, OutOfBoundsError
from tilewright.frontend.signature.samples import sample_specialization
from tilewright.frontend.signature.signature import Signature
from tilewright.kernel import Kernel
from tilewright.witness.proposals import Proposal, proposals
from tilewright.witness.running import Chosen, LaunchOutcome, run
from tilewright.witness.solver import solved_proposals

__all__ = ["Suspects", "Witness", "find_witness"]

_SECONDS = 10.0  # after which no further launch is tried
_TILES = (8, 32, 128)  # extents of a tile; the first with which the kernel compiles is used


@dataclass(frozen=True)
class Suspects:
    """The failures to search for: those on some lines, or any failure without lines."""

    lines: frozenset[int] = frozenset()
    refused: bool = False  # the kernel is refused as it is: its checks are forced into it

    def has(self, failure: KernelFailure) -> bool:
        """Whether a failure is one of those searched for."""
        if isinstance(failure, KernelAssertionError):
            return False
        if not self.lines:
            return True
        return isinstance(failure, OutOfBoundsError) and failure.line in self.lines


@dataclass(frozen=True)
class Witness:
    """A launch that fails: its arguments as text, and its failure."""

    arguments: tuple[str, ...]
    failure: KernelFailure
    text: str  # the failure, in terms of the launch

    @property
    def kind(self) -> str:
        """The kind of failure, in a word or two."""
        if isinstance(self.failure, OutOfBoundsError):
            return "an index outside its axis"
        return "a race" if str(self.failure).startswith("race") else "undefined behaviour"

    def to_json(self) -> dict[str, Any]:
        """The witness as plain data."""
        found: dict[str, Any] = {
            "kind": self.kind,
            "arguments": list(self.arguments),
            "failure": self.text,
        }
        if isinstance(self.failure, OutOfBoundsError):
            for name in ("line", "axis", "index", "extent", "block"):
                found[name] = getattr(self.failure, name)
        return found


def find_witness(kernel: Kernel, settings: Mapping[str, Any], suspects: Suspects) -> Witness | None:
    """A launch with one of the suspected failures, or None if none was found in time.

    A race ranks above a pointer that leaves its tensor, which may be the fault of the launch.
    """
    until = time.monotonic() + _SECONDS
    ranks = (1, 2, 3) if not kernel.signature.cut_outputs else (1,)
    for tile, rank in product(_TILES, ranks):
        chosen = _chosen(kernel.signature, settings, tile)
        tried = chain(proposals(kernel.signature, tile, rank), _solved(kernel, chosen, rank))
        outcomes = _outcomes(kernel, chosen, tried, suspects)
        was_run, second = False, None
        for outcome in outcomes:
            was_run = True
            if outcome.failure is not None and suspects.has(outcome.failure):
                witness = Witness(outcome.arguments, outcome.failure, outcome.text)
                if witness.kind != "undefined behaviour":
                    return witness
                second = second or witness
            if time.monotonic() > until:
                break
        if was_run:  # the first tile and the lowest rank with which the kernel runs suffice
            return second
    return None


def _solved(kernel: Kernel, chosen: Chosen, rank: int) -> Iterator[Proposal]:
    """The solver's proposals for the usual specialisation with these tiles, if it is installed."""
    names = {**chosen.constants, **chosen.dtypes}
    try:
        usual = sample_specialization(kernel.signature, "cpu", names)
    except LaunchError:
        return
    if usual.grid_rank is not None:
        usual = replace(usual, grid_rank=rank)
    yield from solved_proposals(kernel, usual, (2,) * rank)


def _outcomes(
    kernel: Kernel, chosen: Chosen, tried: Iterable[Proposal], suspects: Suspects
) -> Iterator[LaunchOutcome]:
    """The outcomes of the launches that were not refused."""
    for proposal in tried:
        outcome = run(kernel, chosen, proposal, forced=suspects.refused)
        if outcome is not None:
            yield outcome


def _chosen(signature: Signature, settings: Mapping[str, Any], tile: int) -> Chosen:
    dims = (dim for output in signature.cut_outputs for dim in output.dims)
    constants = {dim: tile for dim in dims if isinstance(dim, str)}
    defaults = {constant.name: constant.default for constant in signature.constants}
    params: tuple[Any, ...] = (*signature.tensors, *signature.pointers, *signature.scalars)
    dtypes: dict[str, type[DType]] = {
        param.dtype.__name__: settings.get(param.dtype.__name__, f32)
        for param in params
        if issubclass(param.dtype, AnyDType)
    }
    return Chosen({**constants, **defaults, **settings}, dtypes)
