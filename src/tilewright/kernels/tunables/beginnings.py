"""Where searches begin: with what the library would launch if nothing had been measured.

It is asked for tensors that have no memory, so the rules of the library stand in one place. Spaces
are written for one GPU, and begin with what its rule chooses.
"""

from __future__ import annotations

from collections.abc import Callable

import tilewright as tw
from tilewright import bf16, f8e4m3fn, f16, f32
from tilewright.tune import Config, Key, forcing

__all__ = ["TARGET", "Rule", "dtype_of", "rule_by"]

# The GPU that spaces are written for; another one of its kind will do as well.
TARGET = "sm_90"
DTYPES: dict[str, type[tw.DType]] = {one.label: one for one in (f16, bf16, f32, f8e4m3fn)}

# How a library function chooses for a tensor.
Chooser = Callable[[str, tw.Tensor], Config]
# What runs without a record: of a key, on a target.
Rule = Callable[[Key, str], Config]


def dtype_of(key: Key) -> type[tw.DType]:
    """The dtype that comes first in a key."""
    return DTYPES[key.dtypes[0]]


def rule_by(
    name: str, choose: Chooser, shape: Callable[[Key], tuple[int, ...]] = lambda key: key.shape
) -> Rule:
    """The rule of a function that chooses by one tensor, which has this shape."""

    def rule(key: Key, target: str) -> Config:
        tensor = tw.meta(shape(key), dtype_of(key), target=target)
        with forcing(name, None):
            return choose(name, tensor)

    return rule
