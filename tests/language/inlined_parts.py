"""Functions and constants that kernels of another module use."""

import tilewright as tw
from tilewright import f32

EPSILON = 1e-5
WEIGHTS = (0.5, 0.25, (2, 3))


def scaled(t, factor=2.0, *, shift=0.0):
    return t * factor + shift


def normalised(t, dtype=f32, axis=None):
    """A helper with a docstring, a default that is a dtype, and a helper of its own."""
    wide = t.astype(dtype)
    return scaled(wide - mean(wide, axis), shift=EPSILON)


def mean(t, axis):
    if axis is None:
        return tw.sum(t) / count(t.shape)
    return tw.sum(t, axis, keepdims=True) / t.shape[axis]


def count(shape):
    total = 1.0
    if len(shape) > 0:
        total = total * shape[0]
    if len(shape) > 1:
        total = total * shape[1]
    return total


def first_of(*tiles):
    return tiles[0] + len(tiles)


def load_and_add(xs, i, t: tw.Tile[f32]) -> tw.Tile[f32]:
    return xs[i] + t


def store_twice(z, t):
    z.store(t)
    z.store(t + 1)


def several(t):
    return t, t * 2, 3
