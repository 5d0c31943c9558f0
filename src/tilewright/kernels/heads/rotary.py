"""Rotary position embedding: pairs of channels rotated by an angle proportional to the position.

A block takes BS positions of BH heads, which share their angles. A start known to the host selects
rows of the tables there; a start known to the device only makes the kernel gather rows. Where the
number of channels is no power of two, the two channels of a pair are an axis of their own, and
tiles are wider than the pairs. `rope` at the end chooses and launches.
"""

from __future__ import annotations

from typing import Any, Literal

import tilewright as tw
from tilewright import Const, Cut, Mut, Ref, Tile, bf16, f16, f32, i32
from tilewright.dims import BH, BS, B, D, H, P, S, T
from tilewright.kernels.arguments import (
    check_extents,
    check_one_device,
    check_tensor,
    giving,
    output,
    whole_number,
)
from tilewright.kernels.cutting import power_of_two
from tilewright.kernels.large_tiles import tile_for
from tilewright.tune import Config

__all__ = [
    "BP",
    "HALF",
    "rope",
    "rope_at_starts",
    "rope_in_step",
    "rope_pairs_at_starts",
    "rope_pairs_in_step",
]

DTYPES = (f16, bf16, f32)
TILE = 2048  # elements
TOGETHER = 2  # least heads of a block, which share one load of the angles
HINTS = Config.of(num_worker_warps=4, allow_tma=False)


class HALF(tw.Dim):
    """Half of D: the number of pairs, and of angles."""


class BP(tw.Dim):
    """Tile extent of `HALF`: all pairs of a position."""


def _turn(
    z: Mut[Any, Cut[B, Literal[1]], Cut[H, BH], Cut[S, BS], Cut[D, D]], x: Ref[Any, B, H, S, D],
    cos: Tile[f32], sin: Tile[f32], INTERLEAVED: bool, EXACT: bool,
) -> None:  # fmt: skip
    """The piece of `z` from that of `x` and the angles of its positions, [BS, D / 2]."""
    b, h, i, _ = z.index
    _, BH, BS, D = z.tile
    half = D // 2
    if INTERLEAVED:
        whole, target = (
            x.partition(1, BH, BS, D, exact=EXACT),
            z.partition(1, BH, BS, D, exact=EXACT),
        )
        pairs = whole[b, h, i, 0].astype(f32).reshape(BH, BS, half, 2)
        one = tw.extract(pairs, (0, 0, 0, 0), (BH, BS, half, 1)).reshape(BH, BS, half)
        two = tw.extract(pairs, (0, 0, 0, 1), (BH, BS, half, 1)).reshape(BH, BS, half)
        turned = ((one * cos - two * sin)[:, :, :, None], (two * cos + one * sin)[:, :, :, None])
        target.store(tw.cat(turned, axis=3).reshape(1, BH, BS, D).astype(z.dtype), 0, 0, 0, 0)
    else:
        halves = x.partition(1, BH, BS, half, exact=EXACT)
        parts = z.partition(1, BH, BS, half, exact=EXACT)
        one, two = halves[b, h, i, 0].astype(f32), halves[b, h, i, 1].astype(f32)
        parts.store((one * cos - two * sin).astype(z.dtype), 0, 0, 0, 0)
        parts.store((two * cos + one * sin).astype(z.dtype), 0, 0, 0, 1)


def _turn_pairs(
    z: Mut[
        Any, Cut[B, Literal[1]], Cut[H, BH], Cut[S, BS], Cut[Literal[2], Literal[2]], Cut[HALF, BP]
    ],
    x: Ref[Any, B, H, S, Literal[2], HALF], cos: Tile[f32], sin: Tile[f32],
) -> None:  # fmt: skip
    """`_turned` with angles in tiles [BS, BP], which may be wider than the number of pairs."""
    b, h, i, _, _ = z.index
    _, BH, BS, _, BP = z.tile
    pairs, parts = x.partition(1, BH, BS, 1, BP), z.partition(1, BH, BS, 1, BP)
    one = pairs[b, h, i, 0, 0].astype(f32).reshape(BH, BS, BP)
    two = pairs[b, h, i, 1, 0].astype(f32).reshape(BH, BS, BP)
    first, second = one * cos - two * sin, two * cos + one * sin
    parts.store(first.astype(z.dtype).reshape(1, BH, BS, 1, BP), 0, 0, 0, 0, 0)
    parts.store(second.astype(z.dtype).reshape(1, BH, BS, 1, BP), 0, 0, 0, 1, 0)


@tw.kernel(deny_checks=True)
def rope_in_step(
    z: Mut[T, Cut[B, Literal[1]], Cut[H, BH], Cut[S, BS], Cut[D, D]], x: Ref[T, B, H, S, D],
    cosines: Ref[f32, S, HALF], sines: Ref[f32, S, HALF],
    *, INTERLEAVED: Const[bool] = False, EXACT: Const[bool] = False,
) -> None:  # fmt: skip
    """Position s rotated by row s of the tables. EXACT: tiles cover `x` exactly."""
    tw.require(D == 2 * HALF)
    i = z.index[2]
    cos = cosines.partition(BS, D // 2, exact=EXACT)[i, 0]
    sin = sines.partition(BS, D // 2, exact=EXACT)[i, 0]
    _turn(z, x, cos, sin, INTERLEAVED, EXACT)


@tw.kernel(deny_checks=True)
def rope_at_starts(
    z: Mut[T, Cut[B, Literal[1]], Cut[H, BH], Cut[S, BS], Cut[D, D]], x: Ref[T, B, H, S, D],
    cosines: Ref[f32, P, HALF], sines: Ref[f32, P, HALF], starts: Ref[i32, B],
    *, INTERLEAVED: Const[bool] = False, EXACT: Const[bool] = False,
) -> None:  # fmt: skip
    """Position s of sequence b rotated by row `starts[b] + s` of the tables."""
    tw.require(D == 2 * HALF)
    b, _, i, _ = z.index
    places = (starts.partition(1)[b].item() + i * BS + tw.arange(BS))[:, None]
    channels = tw.arange(D // 2)
    cos, sin = cosines.gather(places, channels), sines.gather(places, channels)
    _turn(z, x, cos, sin, INTERLEAVED, EXACT)


@tw.kernel(deny_checks=True)
def rope_pairs_in_step(
    z: Mut[
        T, Cut[B, Literal[1]], Cut[H, BH], Cut[S, BS], Cut[Literal[2], Literal[2]], Cut[HALF, BP]
    ],
    x: Ref[T, B, H, S, Literal[2], HALF],
    cosines: Ref[f32, S, HALF], sines: Ref[f32, S, HALF],
) -> None:  # fmt: skip
    """Position s rotated by row s of the tables; the two channels of a pair have an axis."""
    tw.require(HALF <= BP)
    i = z.index[2]
    _turn_pairs(z, x, cosines.partition(BS, BP)[i, 0], sines.partition(BS, BP)[i, 0])


@tw.kernel(deny_checks=True)
def rope_pairs_at_starts(
    z: Mut[
        T, Cut[B, Literal[1]], Cut[H, BH], Cut[S, BS], Cut[Literal[2], Literal[2]], Cut[HALF, BP]
    ],
    x: Ref[T, B, H, S, Literal[2], HALF],
    cosines: Ref[f32, P, HALF], sines: Ref[f32, P, HALF], starts: Ref[i32, B],
) -> None:  # fmt: skip
    """Position s of sequence b rotated by row `starts[b] + s`; channel pairs have an axis."""
    tw.require(HALF <= BP)
    b, _, i, _, _ = z.index
    places = (starts.partition(1)[b].item() + i * BS + tw.arange(BS))[:, None]
    channels = tw.arange(BP)
    _turn_pairs(z, x, cosines.gather(places, channels), sines.gather(places, channels))


# --- the launch -----------------------------------------------------------------------------------


@tw.function
def rope(
    x: tw.Tensor, cosines: tw.Tensor, sines: tw.Tensor, *, starts: tw.Tensor | int = 0,
    interleaved: bool = False, out: tw.Tensor | None = None,
) -> tw.DeviceOp[tw.Tensor]:  # fmt: skip
    """Queries or keys (B, H, S, D) with each pair of channels (u, v) rotated by an angle t.

    `u cos t - v sin t` and `v cos t + u sin t` replace the pair. Pair c has the channels c and `c +
    D/2`, or 2c and `2c + 1` if `interleaved`. The angle of pair c at position p has its cosine in
    `cosines[p, c]` and its sine in `sines[p, c]`: f32 (P, D/2). Token s of sequence b has position
    `starts[b] + s`, where `starts` is a number, or i32 (B) and read on the device; a position
    without a row in the tables gives zeros.

    The result of the operation is `out`, or a new tensor.
    """
    check_tensor("rope", "x", x, DTYPES)
    if x.ndim != 4 or x.shape[3] < 2 or x.shape[3] % 2:
        raise tw.LaunchError(
            "`x` of rope has the axes (sequence, head, place, channel), the channels an even"
            f" number, not shape {x.shape}"
        )
    batch, heads, places, channels = x.shape
    rows = cosines.shape[0] if isinstance(cosines, tw.Tensor) and cosines.ndim else 0
    for name, table in (("cosines", cosines), ("sines", sines)):
        check_tensor("rope", name, table, (f32,))
        check_extents("rope", name, table, (rows, channels // 2))
    check_one_device("rope", x=x, cosines=cosines, sines=sines)
    z = output("rope", out, x.shape, x.dtype, x)
    if isinstance(starts, tw.Tensor):
        check_tensor("rope", "starts", starts, (i32,))
        check_extents("rope", "starts", starts, (batch,))
        check_one_device("rope", x=x, starts=starts)
        angles: tuple[tw.Tensor, ...] = (cosines, sines, starts)
    else:
        starts = whole_number("rope", "starts", starts)
        if not 0 <= starts <= rows - places:
            raise tw.LaunchError(
                f"`starts` of rope is {starts}, and the {places} places from there on do not lie in"
                f" tables of {rows}"
            )
        angles = (cosines[starts : starts + places], sines[starts : starts + places])
    tile = _tile(heads, places, max(tile_for(z, TILE) // power_of_two(channels), 1))
    if channels == power_of_two(channels):
        exact = heads % tile[0] == 0 and places % tile[1] == 0
        kernel = HINTS.applied_to(rope_at_starts if len(angles) > 2 else rope_in_step)
        how = {"INTERLEAVED": bool(interleaved), "EXACT": exact}
        return giving(kernel(z.partition(1, *tile, channels), x, *angles, **how), z)
    kernel = HINTS.applied_to(rope_pairs_at_starts if len(angles) > 2 else rope_pairs_in_step)
    target, source = (_pairs(one, bool(interleaved)) for one in (z, x))
    cut = target.partition(1, *tile, 2, power_of_two(channels // 2))
    return giving(kernel(cut, source, *angles), z)


def _pairs(x: tw.Tensor, interleaved: bool) -> tw.Tensor:
    """A view with an axis for the two channels of a pair, in front of the axis of pairs."""
    *outer, channels = x.shape
    if interleaved:
        return x.reshape(*outer, channels // 2, 2).permute(0, 1, 2, 4, 3)
    return x.reshape(*outer, 2, channels // 2)


def _tile(heads: int, places: int, most: int) -> tuple[int, int]:
    """Heads and positions of a block."""
    together = min(power_of_two(heads), max(most // power_of_two(places), TOGETHER))
    return together, min(power_of_two(places), max(most // together, 1))
