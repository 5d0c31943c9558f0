"""Starting points of searches: the configuration that the library launches without a record.

The configuration is asked for tensors without memory, so the library's heuristics exist in one
place. Search spaces are written for one GPU and start with the choice of its heuristic.
"""

from __future__ import annotations

from collections.abc import Callable

import tilewright as tw
from tilewright import bf16, f8e4m3fn, f16, f32
from tilewright.tune import Config, Key, forcing

__all__ = ["TARGET", "Rule", "dtype_of", "rule_by"]

# The GPU of the search spaces; another GPU of its kind works as well.
TARGET = "sm_90"
DTYPES: dict[str, type[tw.DType]] = {one.label: one for one in (f16, bf16, f32, f8e4m3fn)}

# The choice of a library function for a tensor.
Chooser = Callable[[str, tw.Tensor], Config]
# The untuned configuration of a key on a target.
Rule = Callable[[Key, str], Config]


def dtype_of(key: Key) -> type[tw.DType]:
    """The dtype that a key starts with."""
    return DTYPES[key.dtypes[0]]


def rule_by(
    name: str, choose: Chooser, shape: Callable[[Key], tuple[int, ...]] = lambda key: key.shape
) -> Rule:
    """The heuristic of a function that chooses by one tensor of this shape."""

    def rule(key: Key, target: str) -> Config:
        tensor = tw.meta(shape(key), dtype_of(key), target=target)
        with forcing(name, None):
            return choose(name, tensor)

    return rule
