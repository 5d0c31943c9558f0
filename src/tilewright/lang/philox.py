"""Philox 4x32-10, the counter-based generator behind `tw.rand`, over any 32-bit words.

One definition serves the host, where words are NumPy arrays, and kernels, where they are tiles, so
both give the same numbers. Element `n` uses the counter `offset + n` alone, which is why numbers do
not depend on how a tensor is cut into tiles.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from tilewright.dtypes import DType, bf16, f16, f32, f64, numpy_dtype

__all__ = ["PRECISIONS", "Words", "philox", "uniform_numbers"]

# Bits of a fraction in [0, 1) that each dtype holds exactly.
PRECISIONS: dict[type[DType], int] = {f16: 11, bf16: 8, f32: 24, f64: 53}

_FACTORS = (0xD2511F53, 0xCD9E8D57)  # the constants of Philox
_STEPS = (0x9E3779B9, 0xBB67AE85)  # what the key grows by in each round
_ROUNDS = 10
_CHUNK = 1 << 20  # elements that the host makes at a time

W = TypeVar("W")


class Words(Protocol[W]):
    """What the generator computes with: 32-bit words that wrap."""

    def product(self, word: W, factor: int) -> tuple[W, W]:
        """The high and the low half."""

    def exclusive_or(self, *words: W) -> W:
        """Bits set in an odd number of them."""

    def sum(self, word: W, step: int) -> W:
        """A word and a constant."""


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


class _Arrays:
    """Words as NumPy arrays, in 64 bits so that a product fits."""

    def product(self, word: Any, factor: int) -> tuple[Any, Any]:
        whole = word * np.uint64(factor)
        return whole >> np.uint64(32), _low(whole)

    def exclusive_or(self, *words: Any) -> Any:
        return np.bitwise_xor(np.bitwise_xor(words[0], words[1]), words[2])

    def sum(self, word: Any, step: int) -> Any:
        return _low(word + np.uint64(step))


def _low(number: Any) -> Any:
    return number & np.uint64(0xFFFFFFFF)


def uniform_numbers(count: int, dtype: type[DType], seed: int, offset: int) -> Any:
    """`count` numbers of [0, 1) in a NumPy array, from `offset` on in the sequence of a seed."""
    found = np.empty(count, numpy_dtype(dtype))
    mask = (1 << 64) - 1
    key = [np.uint64(half) for half in _halves(seed & mask)]
    fraction: Callable[..., Any] = _double_fraction if dtype is f64 else _fraction
    for start in range(0, count, _CHUNK):
        stop = min(start + _CHUNK, count)
        places = np.arange(start, stop, dtype=np.uint64) + np.uint64(offset & mask)
        zero = np.zeros(stop - start, np.uint64)
        counter = (_low(places), places >> np.uint64(32), zero, zero)
        words = philox(_Arrays(), counter, key)
        found[start:stop] = fraction(words, PRECISIONS[dtype]).astype(found.dtype)
    return found


def _halves(number: int) -> tuple[int, int]:
    return number & 0xFFFFFFFF, number >> 32


def _fraction(words: Sequence[Any], bits: int) -> Any:
    return (words[0] >> np.uint64(32 - bits)).astype(np.float64) * 2.0**-bits


def _double_fraction(words: Sequence[Any], bits: int) -> Any:
    whole = words[0] << np.uint64(bits - 32) | words[1] >> np.uint64(64 - bits)
    return whole.astype(np.float64) * 2.0**-bits
