"""Which refused programs a test is the accepted neighbour of, and a short way to run one.

Each case of `tests/errors` stands next to something that is allowed; `neighbour_of` says which, and
`test_accept_coverage` asserts that none has been forgotten.
"""

from collections.abc import Callable

import numpy as np

import tilewright as tw
from tilewright import f32

CLAIMED: dict[str, list[str]] = {}  # case -> tests

X = np.arange(256, dtype=np.float32) / 8 - 16


def neighbour_of(*cases: str) -> Callable[[Callable], Callable]:
    """Say that a test is the accepted neighbour of these cases, as `family/name`."""

    def claim(test: Callable) -> Callable:
        for case in cases:
            CLAIMED.setdefault(case, []).append(test.__name__)
        return test

    return claim


def launched(kernel, *inputs, shape=(256,), tile=(128,), dtype=f32, walked=False, **constants):
    """What a kernel with one output writes; arrays become tensors."""
    z = tw.full(shape, 99, dtype)
    pieces = z.partition(*tile)
    tensors = [tw.from_numpy(a) if isinstance(a, np.ndarray) else a for a in inputs]
    kernel(pieces.persistent(blocks=2) if walked else pieces, *tensors, **constants).sync()
    return z.numpy()
