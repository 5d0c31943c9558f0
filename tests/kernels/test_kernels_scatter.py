"""Rows put where numbers say, beside NumPy, under the watch for races."""

import numpy as np
import pytest

import tilewright as tw
from tilewright import f32, i32, i64, kernels
from tilewright.kernels.reference import memory_bound as reference


@pytest.mark.parametrize("kind", [np.float16, np.int64, bool, np.uint8])
@pytest.mark.parametrize(
    ("rows", "into", "behind"),
    [(50, 20, ()), (50, 200, (3,)), (1500, 900, (5, 2)), (7, 3, (2000,))],
)
def test_rows_go_where_numbers_say(rows, into, behind, kind):
    generator = np.random.default_rng(rows)
    x = generator.integers(0, 2 if kind is bool else 100, (rows, *behind)).astype(kind)
    index = generator.integers(-3, into + 3, rows).astype(np.int32 if rows < 100 else np.int64)
    out = generator.integers(0, 2, (into, *behind)).astype(kind)
    z = tw.from_numpy(out.copy())
    with tw.race_check():
        found = kernels.scatter(tw.from_numpy(x), tw.from_numpy(index), out=z).sync()
    np.testing.assert_array_equal(found.numpy(), reference.scatter(x, index, out))


def test_nothing_to_put():
    out = tw.ones((3, 2), f32)
    for x, index in ((tw.zeros((0, 2), f32), tw.zeros(0, i32)),):
        assert (kernels.scatter(x, index, out=out).sync().numpy() == 1).all()
    empty = tw.zeros((0, 2), f32)
    assert kernels.scatter(tw.ones((3, 2), f32), tw.zeros(3, i64), out=empty).sync().shape == (0, 2)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (((3, 2), (4,), (5, 2)), "`index` has a number for each row, not shape"),
        (((3, 2), (3,), (5, 3)), "and the axes behind are the same"),
        (((), (), (5,)), "scatter puts rows of `x`"),
    ],
)
def test_shapes_that_do_not_fit(shapes, message):
    x, index, out = (tw.zeros(s, kind) for s, kind in zip(shapes, (f32, i32, f32), strict=True))
    with pytest.raises(tw.LaunchError, match=message):
        kernels.scatter(x, index, out=out)
