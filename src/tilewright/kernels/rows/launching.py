"""Launches of kernels on rows: matrices, or rows with three axes that have a stride each.

Tiles that exceed the number of rows would need a mask for every element, so the rows that tiles
cover exactly are one launch, and the few that remain another; neither waits for the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tilewright as tw
from tilewright.kernels.cutting import in_parts, row_spans
from tilewright.tune import Config

__all__ = ["launch_rows", "side_by_side"]


def launch_rows(
    kernels: tuple[tw.Kernel, tw.Kernel],
    config: Config,
    outs: Sequence[tw.Tensor],
    ins: Sequence[tw.Tensor],
    *rest: Any,
    more: Callable[[Config, tw.Tensor], dict[str, int]] | None = None,
) -> tw.DeviceOp[Any]:
    """Launch the first kernel on matrices, the second on rows with three axes.

    `rest` are arguments that all rows share; `more` gives further constants.
    """
    kernel, units = kernels[ins[0].ndim > 2], (1,) * (ins[0].ndim - 2)
    launches = []
    for by, own in row_spans(config, *ins, *outs):
        sources, targets = own[: len(ins)], own[len(ins) :]
        pieces = [target.partition(*units, by["BM"], None) for target in targets]
        how = in_parts(by, sources[0]) | ({} if more is None else more(by, sources[0]))
        launches.append(by.applied_to(kernel)(*pieces, *sources, *rest, **how))
    return side_by_side(launches)


def side_by_side(launches: Sequence[tw.DeviceOp[Any]]) -> tw.DeviceOp[Any]:
    """Several launches as one operation."""
    return launches[0] if len(launches) == 1 else tw.zip(*launches)
