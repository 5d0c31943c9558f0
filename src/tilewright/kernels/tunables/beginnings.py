"""Where searches begin: with what the library would launch if nothing had been measured.

It is asked for tensors that have no memory, of the GPU that the spaces are written for, so the
rules of the library stand in one place. Its neighbours are tried, one axis at a time.
"""

from __future__ import annotations

from collections.abc import Callable

import tilewright as tw
from tilewright import bf16, f8e4m3fn, f16, f32
from tilewright.tune import Config, Key, Space, forcing

__all__ = ["TARGET", "around_rule", "dtype_of"]

# The GPU that spaces are written for; another one of its kind will do as well.
TARGET = "sm_90"
DTYPES: dict[str, type[tw.DType]] = {one.label: one for one in (f16, bf16, f32, f8e4m3fn)}

# How a library function chooses for a tensor.
Chooser = Callable[[str, tw.Tensor], Config]


def dtype_of(key: Key) -> type[tw.DType]:
    """The dtype that comes first in a key."""
    return DTYPES[key.dtypes[0]]


def around_rule(
    name: str, choose: Chooser, key: Key, shape: tuple[int, ...], **axes: tuple[object, ...]
) -> Space:
    """What is chosen without a record for a tensor of this shape, and what is next to it."""
    tensor = tw.meta(shape, dtype_of(key), target=TARGET)
    with forcing(name, None):
        rule = choose(name, tensor)
    return Space.around(rule, **axes)
