"""Functions of elements on large arrays, a piece at a time: the same as all at once."""

import numpy as np
import pytest

from tilewright.backends.cpu.pieces import in_pieces

LARGE = 1 << 15


def spread(*arrays):
    """Sizes that a function was given, and what it gives."""
    sizes = []

    def product(*operands):
        sizes.append(max(operand.size for operand in operands))
        return operands[0] * operands[1] + operands[2]

    return sizes, in_pieces(product)(*arrays)


@pytest.mark.parametrize(
    "shapes",
    [
        [(LARGE,), (LARGE,), (LARGE,)],
        [(LARGE,), (), ()],
        [(), (4, LARGE), (4, 1)],
        [(1, 64, 1024), (1, 64, 1), (1, 1, 1024)],
        [(3, 1, LARGE), (1, 2, 1), (3, 2, LARGE)],
        [(1, 1, LARGE), (1, 8, 1), (1, 1, 1)],
        [(LARGE + 1, 1), (1, 1), (LARGE + 1, 1)],
    ],
    ids=str,
)
def test_broadcast_operands(shapes):
    rng = np.random.default_rng(0)
    x, y, z = (rng.standard_normal(shape, np.float32) + np.float32(0) for shape in shapes)
    sizes, found = spread(x, y, z)
    np.testing.assert_array_equal(found, x * y + z)
    assert found.dtype == np.float32
    assert len(sizes) > 1, "it was cut"


def test_a_small_array_is_not_cut():
    x = np.ones((4, 64), np.float32)
    sizes, _ = spread(x, x, np.float32(1))
    assert sizes == [x.size]


def test_a_result_has_the_dtype_that_the_function_gives():
    found = in_pieces(lambda x: x > 0)(np.arange(LARGE))
    assert found.dtype == np.bool_
    assert found.sum() == LARGE - 1
