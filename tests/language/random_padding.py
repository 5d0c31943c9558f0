"""Random kernels that reduce padded tiles, with their meaning on the elements that there are.

A kernel loads one tile for each block, in one of many ways, maps its elements, and reduces them.
`Load.places` gives the indices of the elements of a block's tile: those inside the tensor, and not
behind a mask, are elements, all others padding. So the meaning of the kernel without padding is the
same map and the same reduction over the elements alone, in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

__all__ = ["HEAD", "PaddedKernel", "drawn"]

HEAD = """import math

import tilewright as tw
from tilewright import Mut, Ref, f32, i32
from tilewright.dims import B, M, N
"""
TILE = 8


@dataclass(frozen=True)
class Load:
    """A load: statements before it, its text, and what it reads in block `b` of `n` elements."""

    text: str
    places: Callable[[int, int], np.ndarray]  # of block b, for an extent of n
    before: tuple[str, ...] = ()
    mask: Callable[[np.ndarray, int], np.ndarray] = lambda places, n: np.full(places.shape, True)
    inside: str = ""  # the mask of the elements there are, as text
    least: int = 0  # elements without which the launch is refused
    blocks: Callable[[int], int] = lambda n: -(-n // TILE)  # most blocks


LANES = np.arange(TILE)


def _cut(random: Random) -> Load:
    del random
    inside = f"b * {TILE} + tw.arange({TILE}) < N"
    return Load(f"x.partition({TILE})[b]", lambda b, n: b * TILE + LANES, inside=inside)


def _constant(random: Random) -> Load:
    k = random.choice((0, 1, 2))
    inside = f"{k * TILE} + tw.arange({TILE}) < N"
    return Load(
        f"x.partition({TILE})[{k}]", lambda b, n: k * TILE + LANES, inside=inside,
        least=k * TILE + 1, blocks=lambda n: 2,
    )  # fmt: skip


def _windows(random: Random) -> Load:
    step, start = random.choice((2, 3, 8, 11)), random.choice((0, 0, -1, -3, -7, 2, 5))
    at = f"b * {step} + {start} + tw.arange({TILE})"
    return Load(
        f"x.windows({TILE}, step={step}, start={start})[b]",
        lambda b, n: b * step + start + LANES, inside=f"({at} >= 0) & ({at} < N)",
        blocks=lambda n: -(-n // step),
    )  # fmt: skip


def _one_window(random: Random) -> Load:
    step, start, k = random.choice((2, 8)), random.choice((0, -2, 3)), random.choice((0, 1, 2))
    at = f"{k * step + start} + tw.arange({TILE})"
    return Load(
        f"x.windows({TILE}, step={step}, start={start})[{k}]",
        lambda b, n: k * step + start + LANES, inside=f"({at} >= 0) & ({at} < N)",
        least=k * step + 1, blocks=lambda n: 2,
    )  # fmt: skip


def _gather(random: Random) -> Load:
    shift, by = random.choice((0, 0, -3, 4)), random.choice((1, 1, 2))
    at = f"b * {TILE} + {shift} + tw.arange({TILE}) * {by}"
    return Load(
        "x.gather(at)", lambda b, n: b * TILE + shift + LANES * by, (f"at = {at}",),
        inside="(at >= 0) & (at < N)", blocks=lambda n: 3,
    )  # fmt: skip


def _masked(random: Random) -> Load:
    text, mask = random.choice((
        ("at < N", lambda at, n: at < n),
        ("at < 11", lambda at, n: at < 11),
        ("(at < N) & (tw.arange(8) != 3)", lambda at, n: (at < n) & (LANES != 3)),
        ("tw.arange(8) % 2 == 0", lambda at, n: LANES % 2 == 0),
        ("x.gather(at) > 0", lambda at, n: at < n),  # refined by the data
    ))  # fmt: skip
    return Load(
        f"x.gather(at, mask={text})", lambda b, n: b * TILE + LANES,
        (f"at = b * {TILE} + tw.arange({TILE})",), mask,
        inside=f"(at < N) & ({text})", blocks=lambda n: 3,
    )  # fmt: skip


def _reshaped(random: Random) -> Load:
    del random
    inside = f"(b * {TILE} + tw.arange({TILE})).reshape(2, {TILE // 2}) < N"
    text = f"x.partition({TILE})[b].reshape(2, {TILE // 2})"
    return Load(text, lambda b, n: b * TILE + LANES, inside=inside)


def _like(random: Random) -> Load:
    del random
    return Load("y.partition(8)[b]", lambda b, n: b * TILE + LANES,
                inside=f"b * {TILE} + tw.arange({TILE}) < N")  # fmt: skip


LOADS = (_cut, _constant, _windows, _windows, _one_window, _gather, _masked, _reshaped, _like)

MAPS: tuple[tuple[str, Callable[[np.ndarray], np.ndarray]], ...] = (
    ("{t}", lambda t: t),
    ("tw.exp({t})", np.exp),
    ("({t} + 1.5)", lambda t: t + 1.5),
    ("({t} * {t})", lambda t: t * t),
    ("(({t} - 0.25) ** 2)", lambda t: (t - 0.25) ** 2),
    ("tw.abs({t})", np.abs),
    ("(-{t})", np.negative),
    ("tw.maximum({t}, -0.5)", lambda t: np.maximum(t, -0.5)),
    ("tw.where({t} > 0.2, {t}, 0.3)", lambda t: np.where(t > 0.2, t, 0.3)),
    ("tw.cos({t})", np.cos),
    ("({t} * 0.5)", lambda t: t * 0.5),
    ("({t} - tw.sum({t}) * 0.125)", lambda t: t - t.sum() * 0.125),
    ("tw.where({t} > tw.sum({t}), {t}, 0.0)", lambda t: np.where(t > t.sum(), t, 0)),
    ("tw.sigmoid({t})", lambda t: 1 / (1 + np.exp(-t))),
    ("({t} / 3.0)", lambda t: t / 3),
)
FLAT: tuple[tuple[str, Callable[[np.ndarray], Any]], ...] = (
    ("tw.sum({t})", np.sum),
    ("tw.sum({t})", np.sum),
    ("tw.max({t})", np.max),
    ("tw.min({t})", np.min),
    ("tw.prod({t})", np.prod),
    ("tw.mean({t})", np.mean),
    ("tw.reduce({t}, lambda a, b: a + b, 0)", np.sum),
)
LINES: tuple[tuple[str, Callable[[np.ndarray], Any]], ...] = (
    ("tw.sum(tw.cumsum({t}, reverse=True))", lambda t: np.cumsum(t[::-1]).sum()),
    ("tw.max(tw.top_k({t}, 2)[0])", np.max),
    ("tw.sum(tw.mma({t}[None, :], {t}[:, None], tw.zeros((1, 1), f32)))", lambda t: (t * t).sum()),
    ("tw.sum({t}[:, None] + {t}[None, :])", lambda t: (t[:, None] + t).sum()),
    ("tw.sum({t}[:, None] * {t}[None, :])", lambda t: (t[:, None] * t).sum()),
    ("tw.sum({t}.reshape(4, 2))", np.sum),
)


@dataclass(frozen=True)
class PaddedKernel:
    """One random kernel."""

    name: str
    load: Load
    maps: tuple[int, ...]
    is_masked: bool  # rightly, by `tw.where`, in front of the reduction
    reduction: tuple[str, Callable[[np.ndarray], Any]]
    padding: str

    @property
    def text(self) -> str:
        """The kernel in Python."""
        loaded = self.load.text
        if self.padding and loaded.endswith(")") and "gather" in loaded:
            loaded = f"{loaded[:-1]}, padding={self.padding})"
        lines = ["b = z.index[0]", *self.load.before, f"t = {loaded}"]
        lines += [f"t = {MAPS[number][0].format(t='t')}" for number in self.maps]
        if self.is_masked:
            lines.append(f"t = tw.where({self.load.inside}, t, {self._neutral})")
        lines.append(f"z.store(tw.full((B,), {self.reduction[0].format(t='t')}, f32))")
        body = "\n".join(f"    {line}" for line in lines)
        head = f"def {self.name}(z: Mut[f32, B], x: Ref[f32, N], y: Ref[f32, N]) -> None:"
        return f"\n\n@tw.kernel\n{head}\n{body}\n"

    @property
    def _neutral(self) -> str:
        text = self.reduction[0]
        if "tw.max" in text:
            return "-math.inf"
        return "math.inf" if "tw.min" in text else "1.0" if "tw.prod" in text else "0.0"

    def elements(self, x: np.ndarray, block: int) -> tuple[np.ndarray, bool]:
        """The elements of a block's tile, and whether it has padding, too."""
        n = len(x)
        places = self.load.places(block, n)
        inside = (places >= 0) & (places < n) & self.load.mask(places, n)
        if "gather(at) > 0" in self.load.text:
            inside &= np.where(inside, x[np.clip(places, 0, n - 1)], 0) > 0
        return x[places[inside]].astype(np.float64), not inside.all()

    def wanted(self, elements: np.ndarray) -> float | None:
        """The result without padding; None if it has no meaning."""
        for number in self.maps:
            elements = MAPS[number][1](elements)
        if not len(elements):
            return None
        return float(self.reduction[1](elements))


def drawn(random: Random, name: str) -> PaddedKernel:
    """A random kernel."""
    load = random.choice(LOADS)(random)
    maps = tuple(random.randrange(len(MAPS)) for _ in range(random.choice((0, 1, 1, 2))))
    is_flat = "reshape" in load.text
    reduction = random.choice(FLAT if is_flat else FLAT + LINES)
    may_mask = not any(word in reduction[0] for word in ("tw.mean", "[:", "cumsum"))
    is_masked = may_mask and random.random() < 0.3
    padding = random.choice(("", "", "", "-math.inf", "2.0"))
    return PaddedKernel(name, load, maps, is_masked, reduction, padding)
