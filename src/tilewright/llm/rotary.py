"""Tables of rotary position embedding: cosines and sines of every position and pair of channels.

Frequencies and angles are computed in f32, as models are trained with them, and scaled as
`rope_type` says.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.llm.config import RopeConfig

__all__ = ["frequencies", "rotary_tables"]

Array = npt.NDArray[Any]


def rotary_tables(rope: RopeConfig, channels: int, length: int) -> tuple[Array, Array]:
    """Cosines and sines, f32 [length, channels / 2]."""
    angles = np.outer(np.arange(length, dtype=np.float32), frequencies(rope, channels))
    return np.cos(angles), np.sin(angles)


def frequencies(rope: RopeConfig, channels: int) -> Array:
    """The angle between neighbouring positions for each pair of channels, f32."""
    exponents = np.arange(0, channels, 2, dtype=np.float32) / np.float32(channels)
    plain = (1.0 / np.float32(rope.theta) ** exponents).astype(np.float32)
    if rope.type == "linear":
        return (plain / np.float32(rope.factor)).astype(np.float32)
    return _by_wavelength(plain, rope) if rope.type == "llama3" else plain


def _by_wavelength(plain: Array, rope: RopeConfig) -> Array:
    """Slow angles divided by the factor, fast ones unchanged, and a smooth passage between."""
    waves = 2 * math.pi / plain
    turns = rope.original_length / waves  # of each pair over the original length
    share = (turns - rope.low_frequency) / (rope.high_frequency - rope.low_frequency)
    kept = np.clip(share, 0.0, 1.0)
    return ((1 - kept) * plain / rope.factor + kept * plain).astype(np.float32)
