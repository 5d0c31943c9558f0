"""Random arrays of every float dtype, and how far a result may be from float64.

A kernel computes in f32 (f64 of f64) and rounds its result once, so a result may be off by one
rounding of its dtype, relative to the largest number that it was made of, and by what the f32
arithmetic adds up to.
"""

import ml_dtypes
import numpy as np

import tilewright as tw

FLOATS = (np.float16, ml_dtypes.bfloat16, np.float32, np.float64)
EPSILON = {np.float16: 2**-11, ml_dtypes.bfloat16: 2**-8, np.float32: 2**-24, np.float64: 2**-53}

# Ragged, prime, a single element, no rows, several axes, and rows longer than one tile.
ROWS = ((3, 7), (5, 1), (0, 8), (2, 3, 257), (1, 1024), (3, 9001))
# Every shape in f32; the other dtypes on one short and one long row.
ROWS_AND_DTYPES = [
    *((shape, np.float32) for shape in ROWS),
    *((shape, dtype) for dtype in FLOATS if dtype is not np.float32 for shape in ROWS[3::2]),
]


def name_of(dtype):
    return np.dtype(dtype).name


def normal(shape, dtype, seed=0, scale=1.0, shift=0.0):
    generator = np.random.default_rng(seed)
    return (generator.standard_normal(shape) * scale + shift).astype(dtype)


def check(found, expected, dtype, *, terms=1, scale=None):
    """Equal up to one rounding of the dtype and `terms` of what is computed in."""
    array = found.numpy() if isinstance(found, tw.Tensor) else found
    assert array.dtype == np.dtype(dtype)
    assert array.shape == expected.shape
    if not array.size:
        return
    wide = np.float64 if np.dtype(dtype) == np.float64 else np.float32
    size = np.abs(expected).max() if scale is None else scale
    bound = EPSILON[dtype] * np.abs(expected) + 4 * terms * EPSILON[wide] * size + 1e-30
    if np.dtype(dtype) == np.float16:
        bound = bound + 2**-24  # half a step of its subnormal numbers, with the rounding before
    wrong = np.abs(array.astype(np.float64) - expected) - bound
    assert np.all(wrong <= 0), f"off by {wrong.max():.3g} more than {np.max(bound):.3g}"
