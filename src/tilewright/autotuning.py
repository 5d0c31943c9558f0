"""`@tw.autotune`, which loads the tuner when it first decorates a kernel.

A program that tunes no kernel imports nothing of `tilewright.tune`.
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

    `key` names the part of the arguments that selects a configuration: names of dims, `("M", "N")`,
    a function of the arguments that returns a `tilewright.tune.Key`, or, by default, every extent.
    `reference` takes the arguments and returns the expected contents of the outputs; by default
    they are those of the default configuration. A candidate whose relative error exceeds `limit`
    never wins. `default` is the configuration where timing is impossible: by default the first of
    the space.
    """
    tuner: Any = load_module("tilewright.tune.autotune")
    given = {"key": key, "reference": reference, "limit": limit, "default": default}
    made: Callable[[Kernel], Autotuned] = tuner.decorator(space, **given)
    return made
