"""Hints: advice to the assembler on a whole kernel, for every target and for single ones.

A hint changes how fast a kernel runs and never what it computes. Tile IR silently drops an unknown
value, so every hint is checked when it is set.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from tilewright.errors import CompileError
from tilewright.given import plain_number, shown
from tilewright.ir.architectures import FIRST_WITH_CLUSTERS, has_clusters
from tilewright.ir.function import ENTRY_HINTS, EntryHints

__all__ = ["HINTS", "Hints", "KernelHints", "starts_kernels_early"]

_OPT_LEVELS = range(4)
_TRUTHS = ("allow_tma", "starts_early")


@dataclass(frozen=True)
class Hints(EntryHints):
    """Hints on a kernel; None leaves the choice to the assembler.

    `num_ctas` work together on one block (sm_90 and newer), `occupancy` blocks share a
    multiprocessor, `num_worker_warps` compute in each, and `opt_level` (0 to 3) is the assembler's.
    `allow_tma` is whether the tensor memory accelerator may serve loads and stores: False is better
    where a block has few of them, because the accelerator takes warps of its own. With
    `starts_early` (sm_90 and newer) blocks start on the GPU while the kernel before is still
    ending, and wait there; None means yes for kernels without matrix products.
    """

    opt_level: int | None = None
    allow_tma: bool | None = None
    starts_early: bool | None = None

    def __post_init__(self) -> None:
        rows = [(name, row.wanted, row.allowed) for name, row in ENTRY_HINTS.items()]
        for name, wanted, allowed in (*rows, ("opt_level", "0 to 3", _OPT_LEVELS)):
            number = plain_number(getattr(self, name))
            _check(name, number, wanted, allowed)
            object.__setattr__(self, name, number)
        for name in _TRUTHS:
            if not isinstance(value := getattr(self, name), bool | None):
                raise CompileError(f"the hint `{name}` is True or False, not {shown(value)}")

    def given(self) -> dict[str, Any]:
        """The hints that are not None."""
        values = {of.name: getattr(self, of.name) for of in fields(self)}
        return {name: value for name, value in values.items() if value is not None}


HINTS = tuple(hint.name for hint in fields(Hints))  # their names, in the order of the fields


def _check(name: str, value: Any, wanted: str, allowed: Any) -> None:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    if value is not None and not (is_number and value in allowed):
        raise CompileError(f"the hint `{name}` is {wanted}, not {shown(value)}")


@dataclass(frozen=True)
class KernelHints:
    """The hints of one kernel. Those for a target override those for all."""

    general: Hints = field(default_factory=Hints)
    targets: tuple[tuple[str, Hints], ...] = ()

    def updated(self, general: Hints, by_target: Any = None) -> KernelHints:
        """With some hints replaced. A hint for all targets replaces those of single ones."""
        unset: dict[str, Any] = dict.fromkeys(general.given())
        merged = {target: replace(old, **unset) for target, old in self.targets}
        for target, new in _by_target(by_target).items():
            merged[target] = replace(merged.get(target, Hints()), **new.given())
        whole = replace(self.general, **general.given())
        return KernelHints(whole, tuple(merged.items()))

    def of(self, target: str) -> Hints:
        """The hints for one target."""
        found = replace(self.general, **dict(self.targets).get(target, Hints()).given())
        return found if has_clusters(target) else replace(found, num_ctas=None, starts_early=None)


def _by_target(hints: Any) -> dict[str, Hints]:
    if hints is None:
        return {}
    if not isinstance(hints, Mapping):
        raise CompileError(
            "`hints` gives advice by target, `hints={'sm_90': tw.Hints(num_ctas=2)}`; advice "
            "for all targets is given by itself: `num_ctas=2`"
        )
    for target, advice in hints.items():
        if not isinstance(target, str) or not re.fullmatch(r"sm_\d{2,3}", target):
            raise CompileError(f"hints are for a target such as 'sm_90', not for {shown(target)}")
        if not isinstance(advice, Hints):
            raise CompileError(f"the hints for {target} are a tw.Hints, not {shown(advice)}")
        if (advice.num_ctas or 1) > 1 and not has_clusters(target):
            raise CompileError(
                f"the hint `num_ctas` is {advice.num_ctas} for {target}, which has no clusters; "
                f"they came with sm_{FIRST_WITH_CLUSTERS}"
            )
    return dict(hints)


def starts_kernels_early(target: str) -> bool:
    """Whether a target is a GPU on which a kernel may itself wait for the one before it."""
    return target.startswith("sm_") and has_clusters(target)
