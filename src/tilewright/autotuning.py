"""`@tw.autotune`, which loads the tuner when a kernel is first decorated with it.

A program that tunes nothing imports nothing of `tilewright.tune`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tilewright.runtime.loading import load_module

if TYPE_CHECKING:
    from tilewright.kernel import Kernel
    from tilewright.tune.autotune import Autotuned
    from tilewright.tune.config import Config
    from tilewright.tune.keys import Key
    from tilewright.tune.space import Space

__all__ = ["autotune"]


def autotune(
    space: Space,
    *,
    key: Sequence[str] | Callable[..., Key] | None = None,
    reference: Callable[..., Any] | None = None,
    limit: float | None = None,
    default: Config | None = None,
) -> Callable[[Kernel], Autotuned]:
    """Let a kernel find its own configuration: `@tw.autotune(space)` above `@tw.kernel`.

    `key` says for what one is searched anew: names of dims, `("M", "N")`, a function of the
    arguments that gives a `tilewright.tune.Key`, or, left out, every extent. `reference` gets the
    arguments and gives the right contents of the outputs; left out, what the default computes is
    right. A candidate that is further from it than `limit`, relative to its norm, never wins.
    `default` is what runs where nothing can be measured: the first of the space, if left out.
    """
    tuner: Any = load_module("tilewright.tune.autotune")
    given = {"key": key, "reference": reference, "limit": limit, "default": default}
    made: Callable[[Kernel], Autotuned] = tuner.decorator(space, **given)
    return made
