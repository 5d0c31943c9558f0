"""Conversion of tiles to bytes and back, in the order of memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.backends.cpu import nibbles
from tilewright.dtypes import Element

__all__ = ["packed", "unpacked"]

Array = np.ndarray[Any, Any]


def packed(tile: Array, element: Element) -> Array:
    """Return a rank-1 tile as bytes; elements smaller than a byte fill it from the lowest bit."""
    if element is Element.I1:
        return np.packbits(tile, bitorder="little").view(np.int8)
    whole = np.ascontiguousarray(tile)
    if element.bits == 4:
        return nibbles.join(whole.view(np.uint8)).view(np.int8)
    return whole.view(np.int8)


def unpacked(tile: Array, element: Element) -> Array:
    """Return bytes as a rank-1 tile; the inverse of `packed`."""
    whole = np.ascontiguousarray(tile)
    if element is Element.I1:
        return np.unpackbits(whole.view(np.uint8), bitorder="little").view(np.bool_)
    if element.bits == 4:
        return nibbles.split(whole.view(np.uint8)).view(element.numpy)
    return whole.view(element.numpy)
