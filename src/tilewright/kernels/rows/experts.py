"""Routing of a mixture of experts: the experts of each token, and tokens in the order of experts.

`route` gives every token its best experts with their shares, and lines up all choices by expert:
the rows of one expert are then one segment of a product, as `grouped_matmul` takes them. `combine`
adds the results of a token's experts, in a fixed order.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import tilewright as tw
from tilewright import All, Const, Cut, Mut, Ref, f32, i32
from tilewright.dims import BC, BM, BN, E, K, M, N, T
from tilewright.kernels.arguments import (
    FLOATS,
    check_extents,
    check_one_device,
    check_tensor,
    given_outputs,
    giving,
    output,
    whole_number,
)
from tilewright.kernels.cutting import power_of_two
from tilewright.kernels.large_tiles import tile_for

__all__ = [
    "Routes",
    "choose_experts",
    "combine",
    "combine_rows",
    "order_tokens",
    "rank_choices",
    "route",
]

TILE = 4096  # elements
PART = 128  # choices that each is compared with at a time
LONGEST = 1 << 24  # choices; each is compared with all others


class CHOICES(tw.Dim):
    """Tokens times experts for each."""


class RANKS(tw.Dim):
    """The number of choices, of experts, and one."""


class Routes(NamedTuple):
    """Experts of M tokens, K for each, and all M K choices in the order of experts."""

    experts: tw.Tensor  # i32 [M, K], by descending share
    shares: tw.Tensor  # f32 [M, K]
    ranks: tw.Tensor  # i32 [M K + E + 1]: `slots`, then `offsets`
    tokens: tw.Tensor  # i32 [M K]: the token at each place

    @property
    def slots(self) -> tw.Tensor:
        """The place of each choice in the order of experts, i32 [M, K]."""
        return self.ranks[: self.tokens.shape[0]].reshape(self.experts.shape)

    @property
    def offsets(self) -> tw.Tensor:
        """The first place of each expert, and the number of choices, i32 [E + 1]."""
        return self.ranks[self.tokens.shape[0] :]


@tw.kernel(deny_checks=True)
def choose_experts(
    experts: Mut[i32, Cut[M, BM], Cut[K, All]], shares: Mut[f32, Cut[M, BM], Cut[K, All]],
    logits: Ref[T, M, E], *, BE: Const[int] = 128, NORMALISED: Const[bool] = True,
) -> None:  # fmt: skip
    """The experts with the highest logits, and their shares of the softmax; BE holds E.

    NORMALISED: the shares of a token's experts sum to 1.
    """
    tw.require(E <= BE)
    i = experts.index[0]
    names, parts = experts.partition(BM, 1), shares.partition(BM, 1)
    rows = logits.partition(BM, BE, padding=-math.inf)[i, 0].astype(f32)
    highest = tw.max(rows, axis=1, keepdims=True)
    powers = tw.where(tw.arange(BE) < E, tw.exp(rows - highest), 0.0)
    total = tw.sum(powers, axis=1, keepdims=True)
    if NORMALISED:
        chosen, total = powers, tw.zeros((BM, 1), f32)
        for _ in range(names.num_tiles(1)):
            best = tw.argmax(chosen, axis=1).reshape(BM, 1)
            total += tw.max(chosen, axis=1, keepdims=True)
            chosen = tw.where(tw.arange(BE) == best, -1.0, chosen)
    left = powers
    for k in range(names.num_tiles(1)):
        best = tw.argmax(left, axis=1).reshape(BM, 1)
        names.store(best.astype(i32), 0, k)
        parts.store(tw.max(left, axis=1, keepdims=True) / total, 0, k)
        left = tw.where(tw.arange(BE) == best, -1.0, left)


@tw.kernel(deny_checks=True)
def rank_choices(
    ranks: Mut[i32, Cut[RANKS, BC]], experts: Ref[i32, M, K],
    *, COUNT: Const[int], USED: Const[int], PART: Const[int] = 128,
) -> None:  # fmt: skip
    """The place of each choice in the order of experts, and behind them that of each expert.

    A choice comes behind the choices of lower experts and the earlier ones of its own, so its place
    is the number of those; the first place of an expert is the number of choices of lower ones.
    COUNT is the number of experts, USED is K.
    """
    tw.require(K == USED and RANKS == M * K + COUNT + 1)
    choices = M * USED
    number = ranks.index[0] * BC + tw.arange(BC)
    is_choice = number < choices
    expert = experts.gather(number // USED, number % USED)
    expert = tw.where(is_choice, expert, number - choices)[:, None]
    number = tw.where(is_choice, number, 0)[:, None]
    before = tw.zeros((BC, PART), i32)
    for part in range(tw.cdiv(choices, PART)):
        others = part * PART + tw.arange(PART)
        other = tw.where(others < choices, experts.gather(others // USED, others % USED), COUNT + 1)
        before += ((other < expert) | ((other == expert) & (others < number))).astype(i32)
    ranks.store(tw.sum(before, axis=1))


@tw.kernel(deny_checks=True)
def order_tokens(
    tokens: Mut[i32, Cut[CHOICES, BC]], slots: Ref[i32, M, K],
    *, USED: Const[int], PART: Const[int] = 128,
) -> None:  # fmt: skip
    """The token of the choice at each place; USED is K."""
    tw.require(K == USED and CHOICES == M * K)
    places = (tokens.index[0] * BC + tw.arange(BC))[:, None]
    found = tw.zeros((BC, PART), i32)
    for part in range(tw.cdiv(CHOICES, PART)):
        number = part * PART + tw.arange(PART)
        slot = slots.gather(number // USED, number % USED)
        slot = tw.where(number < CHOICES, slot, -1)
        found += tw.where(slot == places, number // USED, 0)
    tokens.store(tw.sum(found, axis=1))


@tw.kernel(deny_checks=True)
def combine_rows(
    z: Mut[T, Cut[M, BM], Cut[N, BN]], residual: Ref[T, M, N], rows: Ref[T, CHOICES, N],
    slots: Ref[i32, M, K], shares: Ref[f32, M, K],
) -> None:  # fmt: skip
    """`z[t] = residual[t] + sum(shares[t, k] * rows[slots[t, k]])`."""
    i, n = z.index
    columns = (n * BN + tw.arange(BN)).reshape(1, BN)
    places, parts = slots.partition(BM, 1), shares.partition(BM, 1)
    acc = tw.zeros((BM, BN), f32)
    for k in range(places.num_tiles(1)):
        acc += parts[i, k] * rows.gather(places[i, k], columns).astype(f32)
    z.store((residual.load_like(z).astype(f32) + acc).astype(z.dtype))


# --- functions of tensors -------------------------------------------------------------------------


@tw.function
def route(
    logits: tw.Tensor, k: int, *, normalised: bool = True,
    out: tuple[tw.Tensor, tw.Tensor, tw.Tensor, tw.Tensor] | None = None,
) -> tw.DeviceOp[Routes]:  # fmt: skip
    """The k experts with the highest logits [M, E] of each token, and all choices by expert.

    Shares are those of the softmax of all logits, in f32; if `normalised`, those of a token's
    experts are divided by their sum. Of equal logits the first counts as higher. The result of the
    operation is a `Routes`, of the tensors in `out` or of new ones.
    """
    check_tensor("route", "logits", logits, FLOATS[:3])
    if logits.ndim != 2:
        raise tw.LaunchError(f"`logits` of route is [tokens, experts], not shape {logits.shape}")
    (rows, count), k = logits.shape, whole_number("route", "k", k)
    if not 1 <= k <= count:
        raise tw.LaunchError(f"route chooses 1 to {count} of {count} experts, not {k}")
    if rows * k > LONGEST:
        raise tw.LaunchError(f"route orders up to {LONGEST} choices, not {rows} times {k}")
    shapes = ((rows, k), (rows, k), (rows * k + count + 1,), (rows * k,))
    dtypes = (i32, f32, i32, i32)
    given = given_outputs("route", out, len(shapes))
    made = (
        output("route", one, shape, dtype, logits)
        for one, shape, dtype in zip(given, shapes, dtypes, strict=True)
    )
    routes = Routes(*made)
    if not rows:
        return giving(tw.fill(routes.ranks, 0), routes)
    across = power_of_two(count)
    tile = max(1, min(power_of_two(rows), tile_for(logits, TILE) // across))
    cuts = (one.partition(tile, None) for one in (routes.experts, routes.shares))
    chosen = choose_experts(*cuts, logits, BE=across, NORMALISED=bool(normalised))
    return giving(chosen.then(lambda _: _ordered(routes)), routes)


def _ordered(routes: Routes) -> tw.DeviceOp[Any]:
    """The launches that line up the choices by expert."""
    (choices,), used = routes.tokens.shape, routes.experts.shape[1]
    count = routes.ranks.shape[0] - choices - 1
    part = min(PART, power_of_two(choices))
    tile = max(1, tile_for(routes.ranks, TILE) // part)

    def cut(line: tw.Tensor) -> Any:
        return line.partition(min(tile, power_of_two(line.shape[0])))

    ranked = rank_choices(cut(routes.ranks), routes.experts, COUNT=count, USED=used, PART=part)
    return ranked.then(
        lambda _: order_tokens(cut(routes.tokens), routes.slots, USED=used, PART=part)
    )


@tw.function
def combine(
    residual: tw.Tensor, rows: tw.Tensor, slots: tw.Tensor, shares: tw.Tensor, *,
    out: tw.Tensor | None = None,
) -> tw.DeviceOp[tw.Tensor]:  # fmt: skip
    """`residual[t] + sum over k of shares[t, k] * rows[slots[t, k]]`, in f32, rounded once.

    `residual` is [M, N], `rows` are the results of all choices [M K, N], and `slots` and `shares`
    come from `route`.
    """
    caller = "combine"
    check_tensor(caller, "residual", residual, FLOATS[:3])
    check_tensor(caller, "rows", rows, (residual.dtype,))
    check_tensor(caller, "slots", slots, (i32,))
    check_tensor(caller, "shares", shares, (f32,))
    if residual.ndim != 2 or slots.ndim != 2:
        raise tw.LaunchError(
            f"`residual` and `slots` of {caller} are matrices, not of shapes {residual.shape} and"
            f" {slots.shape}"
        )
    check_extents(caller, "slots", slots, (residual.shape[0], slots.shape[1]))
    check_extents(caller, "shares", shares, slots.shape)
    check_extents(caller, "rows", rows, (slots.size, residual.shape[1]))
    check_one_device(caller, residual=residual, rows=rows, slots=slots, shares=shares)
    z = output(caller, out, residual.shape, residual.dtype, residual)
    if not z.size:
        return tw.value(z, device=z.device)
    across = min(power_of_two(z.shape[1]), 1024)
    tile = max(1, min(power_of_two(z.shape[0]), tile_for(z, TILE) // across))
    return giving(combine_rows(z.partition(tile, across), residual, rows, slots, shares), z)
