"""Extents of outputs and places of leading axes, which checkers must pass without a word.

Never run: `test_typing_checkers.py` hands this file to the checkers.
"""

# pyright: strict

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeVar

from tilewright.dims import BM, BN, B, H, M, N, T
from tilewright.dtypes import f32, i32
from tilewright.lang import functions as tw
from tilewright.lang.annotations import Const, Mapped, Mut, Ref
from tilewright.lang.dimensions import All, Cut

F = TypeVar("F", bound=Callable[..., None])


def kernel(function: F) -> F:
    return function


@kernel
def with_extents(
    z: Mapped[T, Cut[M, BM], Cut[N, BN]],
    rows: Mut[f32, Cut[M, BM], Cut[N, All]],
    flags: Mut[i32, Cut[Literal[128], B], Cut[H, Literal[1]], BN],
    x: Ref[T, M, N],
    *,
    N: Const[int],
) -> None:
    tiles = x.partition(BM, BN)
    for at in z.indices():
        i, j = at
        z.piece(at).store(tiles[i, j])
    wide: int = M + H
    tw.require(rows.shape[0] == M and wide > N)
    flags.store(tw.zeros((B, 1, BN), i32))


@kernel
def at_places(
    z: Mut[f32, Cut[H, Literal[1]], Cut[M, BM]], x: Ref[f32, H, M], at: Ref[i32, H]
) -> None:
    h, i = z.index
    row = x[h]
    z[h].store(row.partition(BM)[i] + x[h, 0].item())
    z[h].store(x[int(at[h].item())].load_like(z[h]))
