"""Philox 4x32-10, the counter-based generator behind `tw.rand`, over any 32-bit words.

Words are tiles in kernels, and any numbers on the host. Element `n` uses the counter `offset + n`
alone, so the numbers do not depend on the partition of a tensor into tiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from tilewright.dtypes import DType, bf16, f16, f32, f64

__all__ = ["PRECISIONS", "Words", "philox"]

# Bits of a fraction in [0, 1) that each dtype holds exactly.
PRECISIONS: dict[type[DType], int] = {f16: 11, bf16: 8, f32: 24, f64: 53}

_FACTORS = (0xD2511F53, 0xCD9E8D57)  # the constants of Philox
_STEPS = (0x9E3779B9, 0xBB67AE85)  # increments of the key in each round
_ROUNDS = 10

W = TypeVar("W")


class Words(Protocol[W]):
    """Arithmetic of the generator: 32-bit words that wrap."""

    def product(self, word: W, factor: int) -> tuple[W, W]:
        """The high and the low half of a product."""

    def exclusive_or(self, *words: W) -> W:
        """The exclusive or of words."""

    def sum(self, word: W, step: int) -> W:
        """The sum of a word and a constant."""


def philox(words: Words[W], counter: Sequence[W], key: Sequence[W]) -> tuple[W, W, W, W]:
    """Four random words from four words of counter and two of key."""
    a, b, c, d = counter
    left, right = key
    for turn in range(_ROUNDS):
        if turn:
            left, right = words.sum(left, _STEPS[0]), words.sum(right, _STEPS[1])
        (high_a, low_a), (high_c, low_c) = (
            words.product(word, factor) for word, factor in zip((a, c), _FACTORS, strict=True)
        )
        a, b, c, d = (
            words.exclusive_or(high_c, b, left), low_c,
            words.exclusive_or(high_a, d, right), low_a,
        )  # fmt: skip
    return a, b, c, d
