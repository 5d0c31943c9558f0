"""Search spaces: named axes of values, and a constraint on their combinations.

    Space(
        BM=(64, 128, 256), BN=(128, 256), BK=(32, 64), num_ctas=(1, 2), num_worker_warps=(4, 8),
        where=lambda c: c["BM"] * c["BN"] <= 256 * c["num_worker_warps"] * 32,
    )

An axis is a constant of the kernel or a setting of the launch (`tune.config.SETTINGS`).
Combinations come in the order of the axes, the last one fastest, so the author's first values come
first. `Space.around(config, BK=(32, 128))` contains a configuration that is known to be good, and
its neighbours. Two spaces joined with `|` are searched one after the other: a kernel may have
several families of configurations whose axes differ.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, product
from math import prod
from typing import Any

from tilewright.errors import TuneError
from tilewright.tune.config import Config

__all__ = ["Space"]

Constraint = Callable[[Config], bool]
Axis = tuple[str, tuple[Any, ...]]


@dataclass(frozen=True)
class AxisCombinations:
    """The combinations of some axes that satisfy a constraint."""

    axes: tuple[Axis, ...]
    where: Constraint | None

    @property
    def size(self) -> int:
        """Number of combinations, before the constraint."""
        return prod(len(values) for _, values in self.axes)

    def __iter__(self) -> Iterator[Config]:
        names = [name for name, _ in self.axes]
        for values in product(*(values for _, values in self.axes)):
            config = Config.from_values(dict(zip(names, values, strict=True)))
            if self.where is None or self.where(config):
                yield config

    def __repr__(self) -> str:
        return f"Space({', '.join(f'{name}={values}' for name, values in self.axes)})"


@dataclass(frozen=True)
class Neighbourhood:
    """A configuration, and those that differ from it in the value of one axis."""

    center: Config
    axes: tuple[Axis, ...]

    @property
    def size(self) -> int:
        """Number of configurations."""
        return 1 + sum(len(values) for _, values in self.axes)

    def __iter__(self) -> Iterator[Config]:
        yield self.center
        for name, values in self.axes:
            yield from (self.center.updated(**{name: value}) for value in values)

    def __repr__(self) -> str:
        axes = "".join(f", {name}={values}" for name, values in self.axes)
        return f"Space.around({self.center}{axes})"


class Space:
    """Configurations to choose from. Iteration yields each one that satisfies the constraints."""

    def __init__(self, *, where: Constraint | None = None, **axes: Any) -> None:
        self._families: tuple[AxisCombinations | Neighbourhood, ...] = (
            AxisCombinations(_check_axes(axes), where),
        )

    @staticmethod
    def around(center: Config, **axes: Any) -> Space:
        """Return a configuration and those that differ from it in one value, axis by axis."""
        space = Space()
        space._families = (Neighbourhood(center, _check_axes(axes)),)
        return space

    def __or__(self, other: Space) -> Space:
        """Return the union of both spaces, this one first."""
        joined = Space()
        joined._families = (*self._families, *other._families)
        return joined

    @property
    def size(self) -> int:
        """Number of combinations, before the constraints."""
        return sum(family.size for family in self._families)

    @cached_property
    def _configs(self) -> tuple[Config, ...]:
        return tuple(dict.fromkeys(config for family in self._families for config in family))

    def __iter__(self) -> Iterator[Config]:
        return iter(self._configs)

    def __len__(self) -> int:
        return len(self._configs)

    def __contains__(self, config: object) -> bool:
        return config in self._configs

    def first(self) -> Config:
        """Return the first configuration of the author's: the default without a measurement."""
        for config in islice(self, 1):
            return config
        raise TuneError(
            "no combination of the axes passes where=, so there is nothing to choose from: "
            f"{self!r}"
        )

    def sample(self, count: int, *, seed: int = 0) -> tuple[Config, ...]:
        """Return some of the configurations, spread over the space, in order, with the first one.

        The sample depends on the seed alone, so that a restarted search continues.
        """
        if count < 1:
            raise TuneError(f"a sample has at least one configuration, not {count}")
        if count >= len(self):
            return self._configs
        drawn = random.Random(seed).sample(range(1, len(self)), count - 1)
        return tuple(self._configs[number] for number in (0, *sorted(drawn)))

    def __repr__(self) -> str:
        return " | ".join(map(repr, self._families))


def _check_axes(axes: dict[str, Any]) -> tuple[Axis, ...]:
    return tuple((name, _check_axis(name, values)) for name, values in axes.items())


def _check_axis(name: str, values: Any) -> tuple[Any, ...]:
    """Return the values of an axis, each checked by itself, before any combination."""
    if isinstance(values, str | bytes) or not hasattr(values, "__iter__"):
        raise TuneError(
            f"the axis `{name}` is a tuple of the values to try, not {values!r}: for one value "
            f"write `{name}=({values!r},)`"
        )
    found = tuple(values)
    if not found:
        raise TuneError(f"the axis `{name}` has no values")
    if len(set(found)) != len(found):
        raise TuneError(f"the axis `{name}` has a value twice: {found}")
    for value in found:
        Config.from_values({name: value})
    return found
